//! The scripted backend: answers from a file, the same each time.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use capos_schema::models::{
    ChatMessage, FinishReason, InferenceRequest, Role, StreamChunk, StreamChunkFinish, TokenUsage, ToolCallDelta,
};
use capos_script::{CallDelta, Event, Finish, MessageView, Player, RequestView, Response, Usage};

/// What the player may look at in a request.
pub fn respond(player: &mut Player, request: &InferenceRequest) -> Response {
    let view = RequestView {
        messages: request.messages.iter().map(message).collect(),
        tools: request
            .tools
            .iter()
            .map(|tool| capos_script::ToolView { name: &tool.name, handle: &tool.handle })
            .collect(),
        max_tokens: request.max_tokens,
        stop_sequences: request.stop_sequences.iter().map(String::as_str).collect(),
    };
    player.respond(&view)
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

/// A finish reason; `None` for a number that the schema does not know, which only a hostile model says.
pub fn reason(finish: Finish) -> Option<FinishReason> {
    Some(match finish {
        Finish::Stop => FinishReason::Stop,
        Finish::ToolCalls => FinishReason::ToolCalls,
        Finish::Length => FinishReason::Length,
        Finish::Cancelled => FinishReason::Cancelled,
        Finish::ContentFilter => FinishReason::ContentFilter,
        Finish::Error => FinishReason::Error,
        Finish::Other(_) => return None,
    })
}

/// Usage as the contract counts it.
pub fn usage(usage: Usage) -> TokenUsage {
    let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
    TokenUsage { prompt_tokens: count(usage.prompt_tokens), completion_tokens: count(usage.completion_tokens) }
}

/// A piece of a call as a chunk.
pub fn call(delta: CallDelta) -> StreamChunk {
    StreamChunk::ToolCallDelta(ToolCallDelta {
        index: delta.index,
        id: delta.id.unwrap_or_default(),
        name: delta.name.unwrap_or_default(),
        handle: delta.handle.unwrap_or_default(),
        arguments: delta.arguments,
    })
}

/// The last chunk.
pub fn finish(reason: FinishReason, counted: Usage) -> StreamChunk {
    StreamChunk::Finish(StreamChunkFinish { usage: usage(counted), reason })
}

/// What one event is to a caller, where the schema has a form for it.
pub enum Said {
    /// A chunk.
    Chunk(StreamChunk),
    /// Bytes of text that are not UTF-8.
    Bytes(Vec<u8>),
    /// A finish reason outside the schema, with the usage.
    Finish(u16, TokenUsage),
    /// Something that the worker does instead of saying.
    Act(Event),
}

impl From<Event> for Said {
    fn from(event: Event) -> Self {
        match event {
            Event::Text(text) => Self::Chunk(StreamChunk::TextDelta(text)),
            Event::TextBytes(bytes) => match core::str::from_utf8(&bytes) {
                Ok(text) => Self::Chunk(StreamChunk::TextDelta(text.to_string())),
                Err(_) => Self::Bytes(bytes),
            },
            Event::Call(delta) => Self::Chunk(call(delta)),
            Event::Finish { reason: Finish::Other(number), usage: counted } => Self::Finish(number, usage(counted)),
            Event::Finish { reason: known, usage: counted } => {
                Self::Chunk(finish(reason(known).unwrap_or(FinishReason::Error), counted))
            }
            other => Self::Act(other),
        }
    }
}
