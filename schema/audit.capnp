@0xd3f1a0c5b2e94707;
# The audit log: written before an effect with the decision, and after it with the outcome.

using A = import "annotations.capnp";
using Authority = import "authority.capnp";
using Models = import "models.capnp";
using Storage = import "storage.capnp";

enum Phase {
  before @0;   # The decision, written before the effect begins.
  after @1;    # The outcome of the effect that the record `before` announced. If that record was lost with an earlier
               # chain, only this record reports the effect.
  refused @2;  # A call that had no effect: it never ran.
}

struct ToolEvent {
  phase @0 :Phase;
  session @1 :Text;
  principal @2 :Text;
  conversation @3 :Text;
  turn @4 :UInt32;
  callId @5 :Text;
  modelId @6 :Text;                # Empty, like backend and nonce, if the person made the call and not a model.
  backend @7 :Text;
  nonce @8 :Data;
  runner @9 :Text;                 # The runner: `capos-side`, that of this system, is the only one so far.
  gatewaySession @10 :Text;        # Empty: there is no gateway yet.
  descriptor @11 :Models.ToolDescriptor;
  arguments @12 :Text;
  # Of a call that ran, exact and complete. Of one that did not, at most the first 2,048 bytes, because a model can
  # propose any amount. `argumentsBytes` and `argumentsHash` then stand for the rest.
  decision @13 :Authority.Decision;
  outcome @14 :Models.Outcome;     # Meaningful in phases after and refused.
  resultHash @15 :Data;            # SHA-256 of the result as it was fed back.
  error @16 :Text;
  label @17 :Authority.Label;
  before @18 :UInt64;              # In phase after: sequence of the record before. In a late record of an effect that
                                   # began in an earlier chain, the log accepts 0 instead.
  decided @19 :Bool = true;        # False if the call was rejected before any decision.
  reason @20 :Text;                # The reason of the decision, as a sentence.
  advertised @21 :List(Text);      # Names of all tools that the model saw when it made the call.
  late @22 :Bool;                  # The log accepted no records when this happened. The record was kept and is written
                                   # now.
  argumentsBytes @23 :UInt64;      # If `arguments` is truncated: the length of the whole.
  argumentsHash @24 :Data;         # SHA-256 of the whole; empty if `arguments` is not truncated.
}

struct GeneralEvent {
  kind @0 :Text;
  # Of the log: log.start, log.space, log.archive. Of the broker: session.start, session.end, broker.decision, policy.check,
  # budget.begin, budget.warning, budget.exceeded, budget.extension, budget.end. Of the shell: session.opened,
  # session.closed, message, tool.late, records.lost. Of the model loader: model.loaded, model.refused, model.unloaded,
  # model.policy, worker.start, worker.end, worker.failed. Others are allowed, except `tool`, which would look like a
  # tool call.
  session @1 :Text;
  principal @2 :Text;
  fields @3 :List(Field);
  struct Field {
    name @0 :Text;
    value @1 :Text;
  }
}

interface AuditWriter {
  # Appends. Held by the runner, the broker and the loader, never by a model. A session's writer accepts only records
  # that name its session. A service's writer accepts no tool events, and adds the service's name as the field `source`.
  # For each call, a session has one decision of the broker and one `before` or `refused`, in this order. A decision on
  # a call that is already recorded is rejected. A call recorded as undecided gets the decision that the broker had
  # recorded.
  tool @0 (event :ToolEvent) -> (sequence :UInt64, hash :Data);
  general @1 (event :GeneralEvent) -> (sequence :UInt64, hash :Data);
}

struct Query {
  # Conditions that must all hold; a field at its default is no condition. Texts are compared as a whole.
  session @0 :Text;
  turn @1 :Int64 = -1;
  tool @2 :Text;
  decision @3 :Text;
  outcome @4 :Text;
  kind @5 :Text;            # `tool`, or a general kind. A text that ends in a dot matches all kinds that begin with it.
  sinceNanoseconds @6 :UInt64;  # Since 1970.
  max @7 :UInt32 = 200;     # Fewer come if they would not fit into one answer.
  from @8 :UInt64;          # First sequence.
}

interface AuditReader {
  query @0 (query :Query) -> (records :List(Text), next :UInt64);
  # Canonical JSON, one record each. `next` is the sequence to continue from, 0 at the end.
  verify @1 () -> (ok :Bool, records :UInt64, head :Data, reason :Text, archived :UInt64) $A.abortable;
  # Checks the whole chain. `reason` says what is wrong and where; empty if nothing is. `archived` is how many records are in
  # archives; the first one here follows them.
  damage @2 () -> (damages :List(Text));
  # What the disk has lost of the records here, and where the log was begun anew for it: a sentence each.
  verifying @3 () -> (done :UInt64, total :UInt64);
  # How far the check is that this reader began last, in records; both are 0 if none is in progress.
}

struct AuditFile {
  # A file with records of the log, one a line.
  name @0 :Text;      # In its folder.
  first @1 :UInt64;   # Sequence of its first record.
  records @2 :UInt64;
  bytes @3 :UInt64;
  head @4 :Data;      # Hash of its last record.
}

interface AuditLog {
  # Makes writers and readers. Held by the broker.
  writer @0 (source :Text) -> (writer :AuditWriter);
  # Only for the session with this id.
  reader @1 () -> (reader :AuditReader);
  exportTo @2 (folder :Storage.Directory, name :Text) -> (written :AuditFile) $A.abortable;
  # Writes all records to a new file of a folder. It is whole and on the medium when this returns, and has another name before.
  archive @3 (folder :Storage.Directory, name :Text) -> (written :AuditFile);
  # Writes all records to a new file of a folder, reads it back and checks it. Then it removes them from the log, whose first
  # record names the file and its last record from then on. If it fails at any point, no record is removed.
}
