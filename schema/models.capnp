@0xd3f1a0c5b2e94705;
# Language models and embedders. Inputs and outputs are data and carry no authority.

using A = import "annotations.capnp";
using Kernel = import "kernel.capnp";
using Storage = import "storage.capnp";
using Authority = import "authority.capnp";

enum Role {
  system @0;
  user @1;
  assistant @2;
  tool @3;
}

struct ToolCall {
  # A proposal by the model. Only the runner may act on it.
  id @0 :Text;         # Unique within the conversation.
  name @1 :Text;
  arguments @2 :Text;  # JSON.
  handle @3 :Text;     # Handle of the advertised tool, /object/<26 characters>.
}

struct ChatMessage {
  role @0 :Role;
  content @1 :Text;
  toolCallId @2 :Text;             # For role tool: the call that this answers.
  toolCalls @3 :List(ToolCall);    # For role assistant: the calls that it proposed.
  provenance @4 :Authority.Provenance;
  label @5 :Authority.Label;
}

enum PermissionMode {
  auto @0;       # Runs without asking.
  consent @1;    # The person is asked first.
  stepUp @2;     # The person authenticates again first.
  forbidden @3;  # Shown for explanation, never runs.
}

struct ToolDescriptor {
  name @0 :Text;
  description @1 :Text;
  interfaceId @2 :UInt64;
  methodName @3 :Text;
  paramSchema @4 :Text;            # JSON Schema of the argument object.
  permission @5 :PermissionMode;
  category @6 :Text;
  handle @7 :Text;                 # Names this entry for this session.
  abortable @8 :Bool;
  timeoutMs @9 :UInt32;
}

enum Outcome {
  ok @0;
  refusedByPolicy @1;
  deniedByUser @2;
  stepUpFailed @3;
  executionError @4;
  timedOut @5;
  cancelled @6;
  invalidArguments @7;
  unknownTool @8;
}

struct ToolResult {
  callId @0 :Text;
  outcome @1 :Outcome;
  content @2 :Text;
  error @3 :Text;
  label @4 :Authority.Label;
  provenance @5 :Authority.Provenance;
}

struct InferenceRequest {
  messages @0 :List(ChatMessage);
  tools @1 :List(ToolDescriptor);
  maxTokens @2 :UInt32;             # 0: the model's own limit.
  temperature @3 :Float32;
  stopSequences @4 :List(Text);
  responseSchema @5 :Text;          # JSON Schema of the final answer; empty: none.
  nonce @6 :Data;                   # Correlates with the audit log.
  endRepetition @7 :Bool;           # An answer whose text repeats itself without end is ended, as `repetition`.
}

struct TokenUsage {
  promptTokens @0 :UInt32;
  completionTokens @1 :UInt32;
}

enum FinishReason {
  stop @0;
  toolCalls @1;
  length @2;
  cancelled @3;
  contentFilter @4;
  error @5;
  repetition @6;                    # Its text said the same over and over, and `endRepetition` was asked for.
}

struct InferenceResponse {
  message @0 :ChatMessage;
  usage @1 :TokenUsage;
  finishReason @2 :FinishReason;
}

struct ToolCallDelta {
  # A piece of a call. Pieces with the same index belong together; a field that is not empty is appended.
  index @0 :UInt32;
  id @1 :Text;
  name @2 :Text;
  handle @3 :Text;
  arguments @4 :Text;
}

struct StreamChunk {
  union {
    textDelta @0 :Text;
    toolCallDelta @1 :ToolCallDelta;
    finish @2 :Finish;     # The last chunk.
    progress @3 :Progress; # Prefill.
    loose @4 :Loose;       # Before the answer's first piece, once for each such tool of the request.
  }
  struct Finish {
    usage @0 :TokenUsage;
    reason @1 :FinishReason;
  }
  struct Progress {
    done @0 :UInt32;
    total @1 :UInt32;
  }
  struct Loose {
    # The grammar does not hold calls of this tool to all of its schema. The runner checks arguments in any case.
    tool @0 :Text;
    why @1 :Text;       # What calls are not held to.
  }
}

struct ModelInfo {
  id @0 :Text;               # Content-addressed: fs-verity digest and architecture.
  displayName @1 :Text;
  arch @2 :Text;
  contextTokens @3 :UInt32;  # 0 where the file does not tell.
  outputTokens @4 :UInt32;   # The most of one answer: the backend policy's maxTokensPerCall, and no more than the context.
                             # 0 where the model embeds texts and writes none.
  backend @5 :Text;          # What computes the answers: begins with `local-` where that is this machine.
  quantisation @6 :Text;
  supportsTools @7 :Bool;
  bytes @8 :UInt64;
  license @9 :Text;
  description @10 :Text;     # What the file says of the model, on one line and cut short. Nobody has checked it.
}

interface LanguageModel {
  info @0 () -> (info :ModelInfo);
  complete @1 (req :InferenceRequest) -> (resp :InferenceResponse) $A.abortable;
  stream @2 (req :InferenceRequest) -> (stream :TokenStream) $A.abortable;
}

interface TokenStream {
  # Lives as long as its response.
  next @0 () -> (chunk :StreamChunk, done :Bool) $A.abortable;
  # Cancelling the call stops the work on it; the response can be read on, or cancelled.
  cancel @1 () -> ();
  # Ends the response; the read that is under way answers with the end.
}

struct Vector {
  values @0 :List(Float32);
}

interface TextEmbedder {
  info @0 () -> (info :ModelInfo);
  embed @1 (texts :List(Text)) -> (vectors :List(Vector)) $A.abortable $A.results(1048576);
  # A vector of length one for each text, in their order. A text that does not fit into the model is refused, and so are
  # more texts than one answer has room for; none is cut. Cancelling the call stops the work on it.
}

struct BackendPolicy {
  # Which models may be opened on this machine, and how much one call may make them say, whoever asks.
  allowLocal @0 :Bool = true;
  allowRemote @1 :Bool = false;        # Every backend that is not local. No worker of this system has one yet.
  maxTokensPerCall @2 :UInt32 = 4096;  # A call that asks for more is cut to it and ends as `length`. At least 1.
}

interface ModelCatalog {
  # Administrative. Never granted to a session.
  list @0 () -> (models :List(ModelInfo));
  openLanguageModel @1 (id :Text) -> (model :LanguageModel);
  # Refused where the model embeds texts and writes none.
  openEmbedder @2 (id :Text) -> (embedder :TextEmbedder);
  # Every model that the engine runs; a language model embeds, too.
  replaceWorker @3 (id :Text, reason :Text) -> ();
  # Ends the model's worker, which did not answer, and starts another one in its place. What it was saying ends with it;
  # what waited for it goes to the next.
}

interface ModelAdmin {
  # Administrative. Never granted to a session.

  loadWeights @0 (source :Storage.ReadOnlyFile, info :ModelInfo, name :Text, signature :Data,
                  tree :Storage.ReadOnlyFile) -> (id :Text);
  # Verifies and registers a model. `signature` is the whole signature file, `name` the name that the model was signed
  # under, `tree` its Merkle tree: no block of `source` or `tree` is believed that is not what was signed. What `info`
  # says has to be so; what it leaves empty is not asked.

  unload @1 (id :Text) -> ();
  # Ends the model's worker and forgets the model.

  setBackendPolicy @2 (policy :BackendPolicy) -> ();
  # In force for every model from the answer on: workers of backends that are not allowed any more end, and others are
  # started anew where the limit of a call changed. What they were saying ends with them.

  backendPolicy @3 () -> (policy :BackendPolicy);
  # The policy in force.

  weights @4 (id :Text) -> (memory :Kernel.MemoryObject, bytes :UInt64);
  # The verified memory that workers of the model map, read-only, and the file's length. Its holder may look at its
  # frames and evict its pages, which then come in again, checked again.
}
