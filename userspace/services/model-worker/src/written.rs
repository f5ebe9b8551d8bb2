//! Answers that were written in advance: in a script, or in the handbook of the model's file.

use capos_retrieval::Handbook;
use capos_schema::cap::CallError;
use capos_schema::models::{ChatMessage, InferenceRequest, Role};
use capos_script::{MessageView, Player, RequestView, Response, ToolView};
use std::cell::RefCell;

/// Where they are written.
pub enum Written {
    /// Answers from a script, the same each time.
    Scripted(RefCell<Player>),
    /// Answers from the handbook in the model's file.
    Retrieval(Handbook),
}

impl Written {
    /// The answer to a request, token by token.
    pub fn respond(&self, request: &InferenceRequest) -> Result<Response, CallError> {
        let view = view(request);
        match self {
            Self::Scripted(player) => Ok(player.borrow_mut().respond(&view)),
            // Better no answer than one that does not conform to the request.
            Self::Retrieval(_) if !request.response_schema.is_empty() => {
                Err(CallError::unimplemented("a handbook answers in its own words and follows no response schema"))
            }
            Self::Retrieval(handbook) => Ok(handbook.respond(&view)),
        }
    }
}

/// The parts of a request that a backend reads.
fn view(request: &InferenceRequest) -> RequestView<'_> {
    RequestView {
        messages: request.messages.iter().map(message).collect(),
        tools: request.tools.iter().map(|tool| ToolView { name: &tool.name, handle: &tool.handle }).collect(),
        max_tokens: request.max_tokens,
        stop_sequences: request.stop_sequences.iter().map(String::as_str).collect(),
        temperature: request.temperature,
        response_schema: &request.response_schema,
        nonce: &request.nonce,
    }
}

fn message(message: &ChatMessage) -> MessageView<'_> {
    let role = match message.role {
        Role::System => capos_script::Role::System,
        Role::User => capos_script::Role::User,
        Role::Assistant => capos_script::Role::Assistant,
        Role::Tool => capos_script::Role::Tool,
    };
    MessageView { role, content: &message.content }
}
