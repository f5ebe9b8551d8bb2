//! The engine as a backend: answers that are computed from the weights.

mod answer;
mod conversation;
mod embeddings;
mod ready;
mod requests;
mod stream;

use std::rc::Rc;

use capos_schema::cap::{CallContext, CallError, Client, Export};
use capos_schema::models::{
    ChatMessage, InferenceRequest, InferenceResponse, LanguageModelServer, ModelInfo, Role, StreamChunk,
    StreamChunkFinish, TokenStreamClient, ToolCall, ToolCallDelta,
};

use crate::within_budget;
pub use embeddings::Embeddings;
pub use ready::Ready;
use requests::Requests;
use stream::Stream;

/// The model that the engine runs.
pub struct Inference {
    info: ModelInfo,
    max_tokens: u32,
    requests: Rc<Requests>,
    exporter: Rc<dyn Export>,
}

impl Inference {
    /// For a prepared file; `None` if it writes nothing. If the engine rejects the file, each caller gets that error:
    /// this process has no other way to report it.
    pub fn new(
        ready: &Result<Ready, String>,
        info: ModelInfo,
        max_tokens: u32,
        prompts: Option<&[u8]>,
        exporter: Rc<dyn Export>,
    ) -> Option<Rc<Self>> {
        let mut assistant = match ready {
            Ok(ready) => Ok(ready.assistant()?),
            Err(why) => Err(why.clone()),
        };
        if let (Ok(assistant), Some(prompts)) = (&mut assistant, prompts) {
            drop(assistant.preload(&info.id, prompts));
        }
        Some(Rc::new(Self { info, max_tokens, requests: Requests::new(assistant), exporter }))
    }
}

/// The error for a file that the engine rejects.
fn cannot_be_run(why: &str) -> CallError {
    CallError::failed(format!("this model cannot be run: {why}"))
}

impl LanguageModelServer for Inference {
    async fn info(&self, _cx: &CallContext) -> Result<ModelInfo, CallError> {
        Ok(self.info.clone())
    }

    async fn complete(&self, _cx: &CallContext, req: InferenceRequest) -> Result<InferenceResponse, CallError> {
        // Cancelling the call drops the answer and ends the work on it.
        let answer = self.requests.submit(&within_budget(req, self.max_tokens))?;
        let mut whole = Whole::default();
        loop {
            if let Some(end) = whole.push(answer.next().await?) {
                return Ok(InferenceResponse { message: whole.message(), usage: end.usage, finish_reason: end.reason });
            }
        }
    }

    async fn stream(&self, _cx: &CallContext, req: InferenceRequest) -> Result<TokenStreamClient, CallError> {
        let answer = self.requests.submit(&within_budget(req, self.max_tokens))?;
        let cap = self.exporter.export(Stream::serve(answer))?;
        Ok(Client::from_cap(cap))
    }
}

/// The pieces of an answer, joined.
#[derive(Default)]
struct Whole {
    text: String,
    calls: Vec<ToolCall>,
}

impl Whole {
    /// Adds a piece; returns the last one.
    fn push(&mut self, chunk: StreamChunk) -> Option<StreamChunkFinish> {
        match chunk {
            StreamChunk::TextDelta(text) => self.text.push_str(&text),
            StreamChunk::ToolCallDelta(delta) => self.call(delta),
            StreamChunk::Progress(_) | StreamChunk::Loose(_) | StreamChunk::Removed(_) => {}
            StreamChunk::Finish(finish) => return Some(finish),
        }
        None
    }

    fn call(&mut self, ToolCallDelta { index, id, name, handle, arguments }: ToolCallDelta) {
        // Calls come one after another, each under the next index.
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        if at >= self.calls.len() {
            self.calls.push(ToolCall::default());
        }
        if let Some(call) = self.calls.last_mut() {
            let pieces = [
                (&mut call.id, id),
                (&mut call.name, name),
                (&mut call.handle, handle),
                (&mut call.arguments, arguments),
            ];
            pieces.into_iter().for_each(|(whole, piece)| whole.push_str(&piece));
        }
    }

    fn message(self) -> ChatMessage {
        ChatMessage { role: Role::Assistant, content: self.text, tool_calls: self.calls, ..ChatMessage::default() }
    }
}
