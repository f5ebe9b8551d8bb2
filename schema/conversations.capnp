@0xd3f1a0c5b2e9470c;
# Conversations that last.

using A = import "annotations.capnp";

struct ConversationInfo {
  id @0 :Text;               # 32 hexadecimal digits.
  title @1 :Text;            # At most 200 bytes; until somebody names it, the beginning of its first message.
  created @2 :UInt64;        # Milliseconds since 1970.
  changed @3 :UInt64;
  messages @4 :UInt32;
  model @5 :Text;            # Id of the model that was used last.
  parent @6 :Text;           # The conversation that this one continues from, and how many of its messages; empty if none.
  parentMessages @7 :UInt32;
  expires @8 :UInt64;        # When it is deleted by itself; 0: never.
}

struct MessagePart {
  # A part of one message. A message is canonical JSON with its label, provenance, model and tool table, at most 2 MiB
  # long. The runner makes and reads it.
  index @0 :UInt32;          # The message, counted from 0.
  part @1 :UInt32;           # The part, counted from 0.
  last @2 :Bool;
  json @3 :Text;             # At most 65,536 bytes.
}

struct Found {
  id @0 :Text;               # The conversation.
  title @1 :Text;
  index @2 :UInt32;          # The message.
  text @3 :Text;             # The place in it, at most 200 bytes.
}

interface ConversationStore {
  # The conversations of one principal.

  list @0 (from :Text, most :UInt32) -> (conversations :List(ConversationInfo), next :Text) $A.results(270336);
  # The last changed come first. `next` is the next page's `from`, or empty at the end.
  create @1 (id :Text, title :Text) -> (info :ConversationInfo);
  # Makes it, if it is not there. The caller chooses the id at random.
  info @2 (id :Text) -> (info :ConversationInfo);
  # The id may be cut to its first four digits or more if only one conversation's begins so.
  append @3 (id :Text, part :MessagePart, model :Text) -> (messages :UInt32);
  # Adds a part of the message whose number is the number of messages so far. With its last part the message is in the
  # conversation, and on the medium. A part that is there already is accepted if it is the same.
  read @4 (id :Text, from :UInt32, part :UInt32, most :UInt32) -> (parts :List(MessagePart), more :Bool)
      $A.results(270336);
  # Parts of messages, from the given part of the message `from` on.
  fork @5 (id :Text, messages :UInt32, fork :Text, title :Text) -> (info :ConversationInfo);
  # A new conversation with the id `fork`, which begins with the first messages of another.
  rename @6 (id :Text, title :Text) -> ();
  remove @7 (id :Text) -> ();
  # Its messages go, and cannot be read afterwards. Forks keep theirs.
  search @8 (text :Text, from :Text, most :UInt32) -> (found :List(Found), next :Text) $A.results(270336);
  # Messages that contain the text, without regard to case, those of the last changed conversation first. A call looks at
  # a bounded number of messages, so a page may be empty while there is a next one.
  expire @9 (id :Text, afterSeconds :UInt64) -> (info :ConversationInfo);
  # Deletes it by itself so long after its last change; 0: never.
}

interface ConversationAdmin {
  # All conversations. Held by the broker.

  of @0 (principal :Text) -> (store :ConversationStore);
  # Those of one principal.
  rename @1 (principal :Text, to :Text) -> ();
  # Gives all conversations of a principal to another one who has none.
}
