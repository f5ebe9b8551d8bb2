@0xd3f1a0c5b2e94707;
# The audit log: written before an effect with the decision, and after it with the outcome.

using Authority = import "authority.capnp";
using Models = import "models.capnp";

enum Phase {
  before @0;   # The decision, written before the effect begins.
  after @1;    # The outcome of the effect that the record `before` announced, or, where that record was lost with an
               # earlier chain, of an effect that only this record tells of.
  refused @2;  # A call that had no effect: it never ran.
}

struct ToolEvent {
  phase @0 :Phase;
  session @1 :Text;
  principal @2 :Text;
  conversation @3 :Text;
  turn @4 :UInt32;
  callId @5 :Text;
  modelId @6 :Text;                # Empty, as backend and nonce are, where the person made the call and no model did.
  backend @7 :Text;
  nonce @8 :Data;
  runner @9 :Text;                 # Who ran the loop: `capos-side`, the shell of this system, is the only one so far.
  gatewaySession @10 :Text;        # Empty: there is no gateway yet.
  descriptor @11 :Models.ToolDescriptor;
  arguments @12 :Text;
  # Of a call that ran, exact and whole. Of one that did not, at most its first 2,048 bytes: a model can propose as much
  # as it likes. `argumentsBytes` and `argumentsHash` then stand for the rest.
  decision @13 :Authority.Decision;
  outcome @14 :Models.Outcome;     # Meaningful in phases after and refused.
  resultHash @15 :Data;            # SHA-256 of the result as it was fed back.
  error @16 :Text;
  label @17 :Authority.Label;
  before @18 :UInt64;              # In phase after: sequence of the record before. In a late record of an effect that
                                   # began in an earlier chain the log takes 0 in its place.
  decided @19 :Bool = true;        # False where the call was turned away before anybody decided on it.
  reason @20 :Text;                # Why it was decided so, in words.
  advertised @21 :List(Text);      # Names of all tools that the model saw when it made the call.
  late @22 :Bool;                  # The log took no records when this happened; it was kept and is written now.
  argumentsBytes @23 :UInt64;      # Where `arguments` is a beginning: how long the whole was.
  argumentsHash @24 :Data;         # SHA-256 of the whole then; empty where `arguments` is the whole.
}

struct GeneralEvent {
  kind @0 :Text;
  # Of the log: log.start. Of the broker: session.start, session.end, broker.decision. Of the shell: session.opened,
  # session.closed, message, tool.late, records.lost. Of the model loader: model.loaded, model.refused, model.unloaded,
  # model.policy, worker.start, worker.end, worker.failed. Others are allowed, but for `tool`, which would pass for a tool call.
  session @1 :Text;
  principal @2 :Text;
  fields @3 :List(Field);
  struct Field {
    name @0 :Text;
    value @1 :Text;
  }
}

interface AuditWriter {
  # Appends. Held by the runner, the broker and the loader, never by a model. A session's writer takes only what names
  # its session; a service's takes no tool events, and adds its own name as the field `source`. Of each call a session has one decision
  # of the broker and one `before` or `refused`, and the decision comes first: a decision on a call that was told of is
  # refused, and a call told of as undecided takes the decision that the broker had recorded.
  tool @0 (event :ToolEvent) -> (sequence :UInt64, hash :Data);
  general @1 (event :GeneralEvent) -> (sequence :UInt64, hash :Data);
}

struct Query {
  # Conditions that must all hold; what is left at its default asks nothing. Texts are compared whole.
  session @0 :Text;
  turn @1 :Int64 = -1;
  tool @2 :Text;
  decision @3 :Text;
  outcome @4 :Text;
  kind @5 :Text;            # `tool`, or a general kind; one that ends in a dot stands for all that begin with it.
  sinceNanoseconds @6 :UInt64;  # Since 1970.
  max @7 :UInt32 = 200;     # Fewer come where they would not fit into one answer.
  from @8 :UInt64;          # First sequence.
}

interface AuditReader {
  query @0 (query :Query) -> (records :List(Text), next :UInt64);
  # Canonical JSON, one record each; `next` is the sequence to go on from, 0 at the end.
  verify @1 () -> (ok :Bool, records :UInt64, head :Data, reason :Text);
  # Walks the whole chain. `reason` says what is wrong and where, in words; empty where nothing is.
}

interface AuditLog {
  # Makes writers and readers. Held by the broker.
  writer @0 (source :Text) -> (writer :AuditWriter);
  # For the session with this id, and no other.
  reader @1 () -> (reader :AuditReader);
}
