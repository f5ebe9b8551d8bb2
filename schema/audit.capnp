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
  modelId @6 :Text;
  backend @7 :Text;
  nonce @8 :Data;
  runner @9 :Text;                 # `capos-side` or `browser-agent-ui`.
  gatewaySession @10 :Text;
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
  kind @0 :Text;      # session.start, session.end, broker.decision, model.loaded, model.refused, message, service, ...
  session @1 :Text;
  principal @2 :Text;
  fields @3 :List(Field);
  struct Field {
    name @0 :Text;
    value @1 :Text;
  }
}

interface AuditWriter {
  # Appends. Held by the runner, the broker and the loader, never by a model. Of each call a session has one decision
  # of the broker and one `before` or `refused`, and the decision comes first: a decision on a call that was told of is
  # refused, and a call told of as undecided takes the decision that the broker had recorded.
  tool @0 (event :ToolEvent) -> (sequence :UInt64, hash :Data);
  general @1 (event :GeneralEvent) -> (sequence :UInt64, hash :Data);
}

struct Query {
  session @0 :Text;
  turn @1 :Int64 = -1;
  tool @2 :Text;
  decision @3 :Text;
  outcome @4 :Text;
  kind @5 :Text;
  sinceNanoseconds @6 :UInt64;
  max @7 :UInt32 = 200;
  from @8 :UInt64;          # First sequence.
}

interface AuditReader {
  query @0 (query :Query) -> (records :List(Text), next :UInt64);
  # Canonical JSON, one record each; `next` is the sequence to go on from, 0 at the end.
  verify @1 () -> (ok :Bool, records :UInt64, head :Data, reason :Text);
  # Walks the whole chain.
}

interface AuditLog {
  writer @0 (source :Text) -> (writer :AuditWriter);
  reader @1 () -> (reader :AuditReader);
}
