//! The model worker: it serves `LanguageModel` (0) and, if the engine runs the model, `TextEmbedder` (1).
//!
//! It holds its weights, memory, its endpoint, a clock, entropy and, if there are any, a prompt cache and, for the scripted
//! backend, a script: nothing else. Its first arguments are the model's id, and the lengths of the weights and the script in bytes. Then
//! come the most tokens of one call, the number of threads, 1 if the model summarises conversations, and the bytes of the prompt cache.
//! The tokens of the longest conversation follow if they differ from the file's number. The model's file selects the backend.

mod chunk;
mod inference;
mod misbehave;
mod stage;
mod stream;
mod weights;
mod written;

use capos_model::Backend;
use capos_rt::memory::FileMapping;
use capos_rt::{CancelToken, Context, Env, Error, ServeOptions};
use capos_schema::cap::{CallContext, CallError, Export};
use capos_schema::kernel::{CapabilityTableClient, MemoryObjectClient, ResourceAccountClient};
use capos_schema::models::{
    ChatMessage, FinishReason, InferenceRequest, InferenceResponse, LanguageModelServer, LanguageModelService,
    ModelInfo, Role, TextEmbedderService, TokenStreamClient, ToolCall,
};
use capos_schema::reflection;
use capos_script::{Collected, Event, Player, Script};
use inference::{Embeddings, Inference, Ready};
use stage::Stage;
use std::cell::RefCell;
use std::rc::Rc;
use stream::Stream;
use weights::Weights;
use written::Written;

/// Most bytes of a message: a request holds a whole conversation.
const MESSAGE_BYTES: u32 = 1 << 20;
/// Bytes of a frame.
const FRAME: u64 = 4096;
const OPTIONS: ServeOptions = ServeOptions { buffers: 2, message_bytes: MESSAGE_BYTES, concurrent: 16 };

/// The budget of one call, enforced here: a larger request is cut to it.
fn within_budget(mut request: InferenceRequest, max_tokens: u32) -> InferenceRequest {
    if request.max_tokens == 0 || request.max_tokens > max_tokens {
        request.max_tokens = max_tokens;
    }
    request
}

/// The backends whose answers are written down.
struct Worker {
    info: ModelInfo,
    written: Written,
    stage: Rc<Stage>,
    exporter: Rc<dyn Export>,
    max_tokens: u32,
}

impl LanguageModelServer for Worker {
    async fn info(&self, _cx: &CallContext) -> Result<ModelInfo, CallError> {
        Ok(self.info.clone())
    }

    async fn complete(&self, _cx: &CallContext, req: InferenceRequest) -> Result<InferenceResponse, CallError> {
        let response = self.written.respond(&within_budget(req, self.max_tokens))?;
        // A caller that cancels a call that is not streamed drops it, even halfway.
        let never = CancelToken::new();
        let mut collected = Collected::default();
        for event in response {
            if let Some(said) = self.stage.play(event, &never).await? {
                collected.add(said);
            }
        }
        let (finish_reason, usage) = match collected.end {
            Some(Event::Finish { reason, usage }) => (chunk::reason(reason), chunk::usage(usage)),
            _ => (None, capos_schema::models::TokenUsage::default()),
        };
        let tool_calls: Vec<ToolCall> = collected
            .calls
            .into_iter()
            .map(|call| ToolCall { id: call.id, name: call.name, arguments: call.arguments, handle: call.handle })
            .collect();
        Ok(InferenceResponse {
            message: ChatMessage {
                role: Role::Assistant,
                content: String::from_utf8_lossy(&collected.text).into_owned(),
                tool_calls,
                ..ChatMessage::default()
            },
            usage,
            finish_reason: finish_reason.unwrap_or(FinishReason::Error),
        })
    }

    async fn stream(&self, _cx: &CallContext, req: InferenceRequest) -> Result<TokenStreamClient, CallError> {
        let response = self.written.respond(&within_budget(req, self.max_tokens))?;
        let cap = self.exporter.export(Stream::serve(response, self.stage.clone()))?;
        Ok(capos_schema::cap::Client::from_cap(cap))
    }
}

fn number(env: &Env, index: usize, what: &str) -> Result<u64, Error> {
    env.arguments()
        .get(index)
        .and_then(|text| text.parse().ok())
        .with_context(|| format!("argument {index} must be {what}"))
}

/// The capabilities of this process: those that it was given, by name, and how many its table holds.
async fn held(env: &Env) -> Result<String, Error> {
    let table = capos_rt::capabilities(&env.cap::<CapabilityTableClient>("table")?).await?;
    let mut given = Vec::new();
    for name in env.names() {
        let id = env.raw(name).map(|cap| cap.id());
        let found = table.iter().find(|entry| Some(entry.id) == id).map(|entry| entry.interface).unwrap_or_default();
        let interface = reflection::interface(found).map_or("an unknown interface", |interface| interface.name);
        given.push(format!("{name} {interface}"));
    }
    Ok(format!("[capabilities: {}; {} in the table]", given.join(", "), table.len()))
}

/// The prompt cache that this process was given.
fn prompt_cache(env: &Env, length: u64) -> Option<FileMapping> {
    // Without the cache the model reads what it could have known. This process cannot report anything.
    let memory = env.optional::<MemoryObjectClient>("prompts").ok().flatten().filter(|_| length > 0)?;
    FileMapping::new(&memory, length).ok()
}

/// The player of the script that this process was given.
fn player(env: &Env, length: u64) -> Result<Player, Error> {
    let script = if length == 0 {
        Vec::new()
    } else {
        let memory = env.cap::<MemoryObjectClient>("script")?;
        FileMapping::new(&memory, length).context("mapping the script")?.to_vec()
    };
    // If a script cannot be played, each caller of the model gets that error: this process has no other way to report
    // it.
    Ok(match Script::parse(&script) {
        Ok(script) => Player::new(script),
        Err(why) => Player::broken(format!("its script cannot be played: {why}")),
    })
}

async fn run() -> Result<(), Error> {
    let env = capos_rt::env()?;
    let id = env.arguments().first().cloned().context("argument 0 must be the model's id")?;
    let weights = Weights::map(&env, number(&env, 1, "the weights' length in bytes")?)?;
    let length = number(&env, 2, "the script's length in bytes")?;
    let max_tokens = u32::try_from(number(&env, 3, "the most tokens of one call")?).unwrap_or(u32::MAX);
    let threads = usize::try_from(number(&env, 4, "the number of threads")?).unwrap_or(usize::MAX);
    let summarises = number(&env, 5, "1 if the model summarises, and else 0")? == 1;
    let prompts = number(&env, 6, "the prompt cache's length in bytes")?;
    let context = match env.arguments().get(7) {
        Some(_) => u32::try_from(number(&env, 7, "the tokens of a conversation")?).ok(),
        None => None,
    };
    let (info, backend) = weights.info(&id, max_tokens, context)?;
    let info = ModelInfo { summarises, ..info };
    let server = env.server();
    let written = match backend {
        Backend::Engine | Backend::Embedder => {
            let granted = env.cap::<ResourceAccountClient>("account")?.usage().await?.limits.frames;
            let own = granted.saturating_mul(FRAME);
            let ready = Ready::open(weights, &backend, threads, context, own);
            let prompts = prompt_cache(&env, prompts);
            if let Some(inference) =
                Inference::new(&ready, info.clone(), max_tokens, prompts.as_deref(), server.clone())
            {
                server.serve(0, Rc::new(LanguageModelService(inference)));
            }
            // It has been read: what is kept of it is the engine's.
            drop(prompts);
            server.serve(1, Rc::new(TextEmbedderService(Embeddings::new(&ready, info))));
            return env.run_with(OPTIONS).await;
        }
        Backend::Scripted => Written::Scripted(RefCell::new(player(&env, length)?)),
        Backend::Retrieval(handbook) => Written::Retrieval(handbook),
    };
    let worker = Worker {
        info,
        written,
        stage: Rc::new(Stage { weights, table: env.cap::<CapabilityTableClient>("table")?, held: held(&env).await? }),
        exporter: server.clone(),
        max_tokens,
    };
    server.serve(0, Rc::new(LanguageModelService(Rc::new(worker))));
    env.run_with(OPTIONS).await
}

fn main() -> Result<(), Error> {
    capos_rt::block_on(run())
}
