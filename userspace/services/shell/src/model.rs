//! The model, as the loop uses it.

use alloc::string::{String, ToString};

use capos_agent::world::{Model, ModelStream, Unasked};
use capos_schema::cap::{CallError, ExceptionKind, Status};
use capos_schema::models::{InferenceRequest, ModelInfo, StreamChunk, TokenStreamClient};

use crate::session::Runner;

/// A response that is being made.
pub struct Stream {
    stream: TokenStreamClient,
}

impl Model for Runner {
    type Stream = Stream;

    fn info(&self) -> ModelInfo {
        self.model.borrow().as_ref().map(|(_, info)| info.clone()).unwrap_or_default()
    }

    async fn stream(&self, request: &InferenceRequest) -> Result<Stream, Unasked> {
        let model = self.model.borrow().as_ref().map(|(model, _)| model.clone());
        let Some(model) = model else {
            return Err(Unasked::Failed("this session has no model; /model tells which there are".to_string()));
        };
        match self.of_broker(model.stream(request).await) {
            Ok(stream) => Ok(Stream { stream }),
            Err(error) => Err(unasked(&error)),
        }
    }
}

/// Why a model could not be asked. All that was said goes with each question, so a conversation that is too long stays
/// so.
fn unasked(error: &CallError) -> Unasked {
    match error {
        CallError::Transport(Status::TooLarge) => Unasked::Failed(
            "this conversation is longer than what a model can be sent; /stop ends it, and the next line begins a new one"
                .to_string(),
        ),
        CallError::Exception(exception) if exception.kind == ExceptionKind::Overloaded => {
            Unasked::Limit(exception.reason.to_string())
        }
        CallError::Exception(exception) if exception.kind == ExceptionKind::InvalidArgument => {
            Unasked::Rejected(exception.reason.to_string())
        }
        other => Unasked::Failed(other.to_string()),
    }
}

impl ModelStream for Stream {
    async fn next(&mut self) -> Result<(StreamChunk, bool), String> {
        let piece = self.stream.next().await.map_err(|error| error.to_string())?;
        Ok((piece.chunk, piece.done))
    }

    fn cancel(self) {
        capos_rt::spawn(async move {
            let _ = self.stream.cancel().await;
        });
    }
}
