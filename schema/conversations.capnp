@0xd3f1a0c5b2e9470c;
# Conversations that last.

struct ConversationInfo {
  id @0 :Text;               # 32 hexadecimal digits.
  title @1 :Text;            # At most 200 bytes; until somebody names it, the beginning of its first message.
  createdUnix @2 :Int64;     # Milliseconds since 1970.
  changedUnix @3 :Int64;
  messages @4 :UInt32;
  model @5 :Text;            # Id of the model that was used last.
  parent @6 :Text;           # The conversation that this one continues from, and how many of its messages; empty if none.
  parentMessages @7 :UInt32;
  expiresUnix @8 :Int64;     # When it is deleted by itself; 0: never.
}

struct SavedMessage {
  # One message, as canonical JSON with its label, provenance, model and tool table. The runner makes and reads it.
  index @0 :UInt32;
  json @1 :Text;             # At most 1 MiB, across calls of at most 200 KiB.
}

struct Found {
  conversation @0 :ConversationInfo;
  index @1 :UInt32;          # The message.
  text @2 :Text;             # The place in it, at most 200 bytes.
}

interface ConversationStore {
  # The conversations of one principal.

  list @0 (from :UInt32, most :UInt32) -> (conversations :List(ConversationInfo), more :Bool);
  # The last changed come first.
  create @1 (title :Text) -> (info :ConversationInfo);
  info @2 (id :Text) -> (info :ConversationInfo);
  append @3 (id :Text, index :UInt32, json :Text, model :Text) -> ();
  # Adds the message of this number; the number of messages so far is expected. It is on the medium when this answers.
  read @4 (id :Text, from :UInt32, most :UInt32) -> (messages :List(SavedMessage), more :Bool);
  fork @5 (id :Text, messages :UInt32, title :Text) -> (info :ConversationInfo);
  # A new conversation that begins with the first messages of another.
  rename @6 (id :Text, title :Text) -> ();
  remove @7 (id :Text) -> ();
  # Its messages go, and cannot be read afterwards. Forks keep theirs.
  search @8 (text :Text, from :UInt32, most :UInt32) -> (found :List(Found), more :Bool);
  # Messages that contain the text, without regard to case, the newest first.
  expire @9 (id :Text, afterSeconds :UInt64) -> ();
  # Deletes it by itself so long after its last change; 0: never.
}
