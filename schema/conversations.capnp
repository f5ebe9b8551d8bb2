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

struct RunPoint {
  # Where a run is: what is new of it. A run is what one request of the person begins, and is named by its conversation and turn.
  turn @0 :UInt32;           # 0: there is no run, and nothing else here counts.
  step @1 :UInt32;           # The last step whose results are all saved.
  open @2 :Bool;             # The run can be continued.
  head @3 :Text;             # What does not change, as the runner reads it: at most 24 KiB. Empty: it is there already.
  json @4 :Text;             # Where the run is, as the runner reads it: one line of at most 4 KiB.
  used @5 :Text;             # What the step used, as the runner reads it. It is kept once for each step.
}

struct RunInfo {
  # A run, as it was left.
  conversation @0 :Text;
  title @1 :Text;            # Of the conversation.
  turn @2 :UInt32;           # 0: there is no run.
  open @3 :Bool;             # It can be continued.
  changed @4 :UInt64;        # Milliseconds since 1970.
  aside @5 :Text;            # Why it was set aside; empty if it was not.
  head @6 :Text;             # Empty if it cannot be continued.
  json @7 :Text;
}

struct RunStep {
  number @0 :UInt32;
  used @1 :Text;
}

struct Attachment {
  # A text that is kept beside the messages of a conversation. The runner makes and reads it.
  name @0 :Text;             # At most 80 letters, digits, `-` and `.`.
  about @1 :Text;            # What the runner says of it: at most 1 KiB.
  parts @2 :UInt32;          # Parts so far.
  bytes @3 :UInt64;          # Of all parts: at most 1 MiB.
}

interface ConversationStore {
  # The conversations of one principal.

  list @0 (from :Text, most :UInt32) -> (conversations :List(ConversationInfo), next :Text) $A.results(270336);
  # The last changed come first. `next` is the next page's `from`, or empty at the end.
  create @1 (id :Text, title :Text) -> (info :ConversationInfo);
  # Makes it, if it is not there. The caller chooses the id at random.
  info @2 (id :Text) -> (info :ConversationInfo);
  # The id may be cut to its first four digits or more if only one conversation's begins so.
  append @3 (id :Text, part :MessagePart, model :Text, point :RunPoint) -> (messages :UInt32);
  # Adds a part of the message whose number is the number of messages so far. With its last part the message is in the
  # conversation, and on the medium, and so is the point of its run, in one transaction. A part that is there already is accepted if it is the same.
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
  checkpoint @10 (id :Text, point :RunPoint) -> ();
  # Keeps a point of a run without a message. The last point of a run that is not open removes its head.
  run @11 (id :Text) -> (run :RunInfo);
  # The last run of a conversation.
  runs @12 (from :Text, most :UInt32) -> (runs :List(RunInfo), next :Text) $A.results(270336);
  # All runs, those of the last changed conversation first. A call looks at a bounded number of conversations, so a page may be
  # empty while there is a next one.
  steps @13 (id :Text, turn :UInt32, from :UInt32) -> (steps :List(RunStep)) $A.results(270336);
  # What the steps of a run used, from a step on: at most 100 of them.
  setAside @14 (id :Text, turn :UInt32, why :Text) -> ();
  # The run cannot be continued. What is kept of it stays as it is, with the reason.
  attach @15 (id :Text, name :Text, about :Text, part :UInt32, text :Text) -> ();
  # Adds a part, of at most 65,536 bytes, to an attachment, which its first part makes. A part that is there already is accepted
  # if it is the same. A conversation has at most 64 attachments, and they go with it. Forks have none of them.
  attachments @16 (id :Text) -> (attachments :List(Attachment)) $A.results(270336);
  # The attachments of a conversation, by their names.
  attachment @17 (id :Text, name :Text, from :UInt32) -> (texts :List(Text), more :Bool) $A.results(270336);
  # Parts of an attachment, from a part on.
}

interface ConversationAdmin {
  # All conversations. Held by the broker.

  of @0 (principal :Text) -> (store :ConversationStore);
  # Those of one principal.
  rename @1 (principal :Text, to :Text) -> ();
  # Gives all conversations of a principal to another one who has none.
}
