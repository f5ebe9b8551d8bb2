//! The answer to one request.

use std::rc::Rc;

use capos_chat::Delta;
use capos_inference::{Event, Finish, Loose, Reason, RequestId};
use capos_schema::cap::CallError;
use capos_schema::models::{
    FinishReason, StreamChunk, StreamChunkFinish, StreamChunkLoose, StreamChunkProgress, TokenUsage, ToolCallDelta,
};

use super::requests::Requests;

/// An answer in progress. Dropping it ends the work on it.
pub struct Answer {
    requests: Rc<Requests>,
    id: RequestId,
}

impl Answer {
    /// The answer to this request.
    pub fn new(requests: Rc<Requests>, id: RequestId) -> Self {
        Self { requests, id }
    }

    /// The next piece. The engine works while this waits.
    ///
    /// # Errors
    /// Why the answer could not continue. Nothing follows.
    pub async fn next(&self) -> Result<StreamChunk, CallError> {
        loop {
            if let Some(event) = self.requests.take(self.id) {
                return chunk(event);
            }
            self.requests.step();
            // Others are served, and cancellations are heard.
            capos_rt::yield_now().await;
        }
    }

    /// Ends the work on it. Earlier output can be read on, up to the end.
    pub fn cancel(&self) {
        self.requests.cancel(self.id);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.requests.forget(self.id);
    }
}

/// An event's form for a caller.
fn chunk(event: Event) -> Result<StreamChunk, CallError> {
    Ok(match event {
        Event::Loose(Loose { tool, why }) => StreamChunk::Loose(StreamChunkLoose { tool, why }),
        Event::Removed(messages) => StreamChunk::Removed(tokens(messages)),
        Event::Progress { done, total } => {
            StreamChunk::Progress(StreamChunkProgress { done: tokens(done), total: tokens(total) })
        }
        Event::Delta(Delta::Text(text)) => StreamChunk::TextDelta(text),
        Event::Delta(Delta::Call { index, name, handle, arguments }) => {
            // The name comes with a call's first piece, and so does its id.
            let id = if name.is_empty() { String::new() } else { format!("call-{}", index.saturating_add(1)) };
            StreamChunk::ToolCallDelta(ToolCallDelta { index, id, name, handle, arguments })
        }
        Event::Finish(Finish { error: Some(error), .. }) => return Err(CallError::failed(error.to_string())),
        Event::Finish(Finish { reason, usage, .. }) => {
            let reason = match reason {
                Reason::Stop => FinishReason::Stop,
                Reason::ToolCalls => FinishReason::ToolCalls,
                Reason::Length => FinishReason::Length,
                Reason::Cancelled => FinishReason::Cancelled,
                Reason::Repetition => FinishReason::Repetition,
                Reason::Error => FinishReason::Error,
            };
            let usage = TokenUsage { prompt_tokens: tokens(usage.prompt), completion_tokens: tokens(usage.new) };
            StreamChunk::Finish(StreamChunkFinish { usage, reason })
        }
    })
}

fn tokens(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
