@0xd3f1a0c5b2e94711;
# Clients: programs outside the machine that use its agent over a serial line. What they send is read by the client port
# alone, and reaches the agent host as these types.

using A = import "annotations.capnp";

struct ClientId {
  # The id of a request, as the client chose it. Its answer has the same.
  union {
    none @0 :Void;     # The client wants no answer.
    number @1 :Int64;
    text @2 :Text;     # At most 128 bytes.
  }
}

struct ClientRequest {
  # A request of the client. Its texts are at most as long as the client protocol permits; nothing else is checked.
  union {
    createSession @0 :NewSession;
    startTask @1 :Text;                # The prompt.
    cancelTask @2 :Text;               # The task; empty: the one that runs.
    resumeSession @3 :Text;            # The conversation.
    getMessages @4 :UInt32;            # From this message of the conversation.
    getSessionState @5 :Void;
    getPatchPreview @6 :Text;          # The question about the call.
    approveAction @7 :ClientAnswer;
    listSessions @8 :Page;
    shutdown @9 :Void;
    continueTask @10 :Void;            # The last task of the conversation, if it was cut off or is paused.
  }
  struct NewSession {
    version @0 :UInt32;                # Of the protocol.
    client @1 :Text;                   # The program's name and version.
    user @2 :Text;                     # Empty if the machine knows no users.
    passphrase @3 :Text;
  }
  struct Page {
    most @0 :UInt32;
    after @1 :Text;                    # The conversation before the first; empty: from the latest on.
  }
}

enum ClientReach {
  once @0;
  turn @1;
  session @2;
}

struct ClientAnswer {
  question @0 :Text;
  approved @1 :Bool;
  reach @2 :ClientReach;
}

interface ClientPort {
  # The line to the client. Held by the agent host, which has one call of each method open at a time.

  next @0 () -> (id :ClientId, request :ClientRequest)
      $A.abortable;
  # The next request, as soon as there is one.
  send @1 (line :Text) -> ();
  # Sends an answer or an event. Waits while earlier lines are on their way.
}
