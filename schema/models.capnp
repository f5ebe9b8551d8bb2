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
  endRepetition @7 :Bool;           # Ends an answer whose text repeats itself without end, as `repetition`.
  goal @8 :UInt32;                  # The place in `messages` of the request that is worked on, which is never left out.
                                    # 0: the last message with the role user.
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
  repetition @6;                    # Its text repeated itself, and the request has `endRepetition`.
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
    removed @5 :UInt32;    # Before the answer's first piece: messages of the request that the model is not shown, since the
                           # conversation is too long.
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
  contextTokens @3 :UInt32;  # 0 if the file does not say.
  outputTokens @4 :UInt32;   # Maximum of one answer: the backend policy's maxTokensPerCall, and no more than the
                             # context. 0 if the model only embeds texts.
  backend @5 :Text;          # The backend that computes the answers; begins with `local-` if that is this machine.
  quantisation @6 :Text;
  supportsTools @7 :Bool;
  bytes @8 :UInt64;
  license @9 :Text;
  description @10 :Text;     # The file's description of the model, shortened to one line. It is not verified.
  summarises @11 :Bool;      # Whoever signed the model, or its script, says that it can summarise a conversation.
}

interface LanguageModel {
  info @0 () -> (info :ModelInfo);
  complete @1 (req :InferenceRequest) -> (resp :InferenceResponse) $A.abortable;
  stream @2 (req :InferenceRequest) -> (stream :TokenStream) $A.abortable;
}

interface TokenStream {
  # Lives as long as its response.
  next @0 () -> (chunk :StreamChunk, done :Bool) $A.abortable;
  # Cancelling the call stops the work on it. The response can still be read or cancelled.
  cancel @1 () -> ();
  # Ends the response; the read in progress answers with the end.
}

struct Vector {
  values @0 :List(Float32);
}

interface TextEmbedder {
  info @0 () -> (info :ModelInfo);
  embed @1 (texts :List(Text)) -> (vectors :List(Vector)) $A.abortable $A.results(1048576);
  # Returns a vector of length one for each text, in their order. A text that does not fit into the model is rejected,
  # as are more texts than fit into one answer. No text is cut. Cancelling the call stops the work on it.
}

struct BackendPolicy {
  # The models that may be opened on this machine, and the length of one answer, for every caller.
  allowLocal @0 :Bool = true;
  allowRemote @1 :Bool = false;        # Every backend that is not local. No worker of this system has one yet.
  maxTokensPerCall @2 :UInt32 = 4096;  # A call for more is cut to it and ends as `length`. At least 1.
}

interface ModelCatalog {
  # Administrative. Never granted to a session.
  list @0 () -> (models :List(ModelInfo));
  openLanguageModel @1 (id :Text) -> (model :LanguageModel);
  # Rejected if the model only embeds texts.
  openEmbedder @2 (id :Text) -> (embedder :TextEmbedder);
  # Every model that the engine runs; a language model embeds, too.
  replaceWorker @3 (id :Text, reason :Text) -> ();
  # Ends the model's worker, which did not answer, and starts another one. Its answers in progress end with it; waiting
  # requests go to the next.
}

interface ModelAdmin {
  # Administrative. Never granted to a session.

  loadWeights @0 (source :Storage.ReadOnlyFile, info :ModelInfo, name :Text, signature :Data,
                  tree :Storage.ReadOnlyFile) -> (id :Text);
  # Verifies and registers a model. `signature` is the whole signature file, `name` the name that the model was signed
  # under, and `tree` its Merkle tree. A block of `source` or `tree` is used only if it is what was signed. The fields
  # of `info` must match the file; empty fields are not compared.

  unload @1 (id :Text) -> ();
  # Ends the model's worker and forgets the model.

  setBackendPolicy @2 (policy :BackendPolicy) -> ();
  # Sets the policy for every model, from the answer on. Workers of backends that are no longer allowed end. Others are
  # started again if the limit of a call changed. Their answers in progress end with them.

  backendPolicy @3 () -> (policy :BackendPolicy);
  # The policy in force.

  weights @4 (id :Text) -> (memory :Kernel.MemoryObject, bytes :UInt64);
  # Returns the verified memory that workers of the model map, read-only, and the file's length. Its holder may inspect
  # its frames and evict its pages, which are verified again when they come in again.
}

struct InstalledModel {
  # A model in the folder of installed ones.
  name @0 :Text;      # The name of its file, which it was signed under.
  id @1 :Text;        # In the catalog; empty if it is not offered.
  bytes @2 :UInt64;   # Of the file as far as it is there.
  problem @3 :Text;   # Why it is not offered.
}

interface ModelStore {
  # The models that were installed on this machine, beside those of the boot medium. Operators hold it.

  installed @0 () -> (models :List(InstalledModel));
  # In the order of their names.

  install @1 (source :Storage.Directory $A.runner, path :Text) -> (model :InstalledModel)
      $A.tool("install_model") $A.category(mutating) $A.person $A.abortable;
  # Copies a model file with its signature and tree, `path.sig` and `path.verity`, to the data disk, and offers it. Each
  # block is checked before it is copied. A copy that was cut continues where it stopped. One is copied at a time.

  installing @2 () -> (name :Text, done :UInt64, total :UInt64) $A.abortable;
  # How far the copy in progress is, in bytes of the model file; `name` is empty if there is none.

  remove @3 (name :Text) -> () $A.tool("remove_model") $A.category(destructive) $A.person $A.done("The model {name} is removed.");
  # Ends the model's worker and deletes its files, or what there is of them.
}

interface ModelFolder {
  # Where installed models are. Held by the model loader.

  open @0 () -> (lasting :Bool, folder :Storage.Directory) $A.abortable;
  # The folder, as soon as the data disk is open. It is not `lasting` if there is no data disk: what is written goes when
  # the machine is turned off. The capability outlives the server.
}
