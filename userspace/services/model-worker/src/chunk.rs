//! An event's form for a caller.

use capos_schema::cap::{CallError, Message};
use capos_schema::models::{
    FinishReason, StreamChunk, StreamChunkFinish, StreamChunkLoose, TokenStreamNextResults, TokenUsage, ToolCallDelta,
};
use capos_schema::models_capnp::token_stream::next_results;
use capos_schema::wire;
use capos_script::{CallDelta, Event, Finish, Usage};
use std::string::ToString;

/// A finish reason; `None` for a number that the schema does not know, which only a hostile model sends.
pub fn reason(finish: Finish) -> Option<FinishReason> {
    Some(match finish {
        Finish::Stop => FinishReason::Stop,
        Finish::ToolCalls => FinishReason::ToolCalls,
        Finish::Length => FinishReason::Length,
        Finish::Cancelled => FinishReason::Cancelled,
        Finish::ContentFilter => FinishReason::ContentFilter,
        Finish::Error => FinishReason::Error,
        Finish::Repetition => FinishReason::Repetition,
        Finish::Other(_) => return None,
    })
}

/// Usage as the contract counts it.
pub fn usage(usage: Usage) -> TokenUsage {
    let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
    TokenUsage { prompt_tokens: count(usage.prompt_tokens), completion_tokens: count(usage.completion_tokens) }
}

/// A piece of a call as a chunk.
fn call(delta: CallDelta) -> StreamChunk {
    StreamChunk::ToolCallDelta(ToolCallDelta {
        index: delta.index,
        id: delta.id.unwrap_or_default(),
        name: delta.name.unwrap_or_default(),
        handle: delta.handle.unwrap_or_default(),
        arguments: delta.arguments,
    })
}

/// One event's form for a caller.
pub enum Said {
    /// A chunk.
    Chunk(StreamChunk),
    /// Bytes of text that are not UTF-8.
    Bytes(Vec<u8>),
    /// A finish reason outside the schema, with the usage.
    Finish(u16, TokenUsage),
}

/// The form of an event with output for a caller; others, which [`crate::stage::Stage::play`] has carried out, are
/// silence.
pub fn of(event: Event) -> Said {
    match event {
        Event::Text(text) => Said::Chunk(StreamChunk::TextDelta(text)),
        Event::TextBytes(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => Said::Chunk(StreamChunk::TextDelta(text.to_string())),
            Err(_) => Said::Bytes(bytes),
        },
        Event::Call(delta) => Said::Chunk(call(delta)),
        Event::Loose { tool, why } => Said::Chunk(StreamChunk::Loose(StreamChunkLoose { tool, why })),
        Event::Finish { reason: Finish::Other(number), usage: counted } => Said::Finish(number, usage(counted)),
        Event::Finish { reason: known, usage: counted } => {
            let reason = reason(known).unwrap_or(FinishReason::Error);
            Said::Chunk(StreamChunk::Finish(StreamChunkFinish { usage: usage(counted), reason }))
        }
        _ => Said::Chunk(StreamChunk::TextDelta(Default::default())),
    }
}

/// A text chunk of any bytes.
pub fn raw_text(bytes: &[u8]) -> Result<Message, CallError> {
    let words = bytes.len().div_ceil(8).saturating_add(16);
    Ok(wire::encode::<next_results::Owned>(words, |builder, _| {
        builder.init_chunk().set_text_delta(capnp::text::Reader(bytes));
        Ok(())
    })?)
}

/// A finish chunk whose reason is any number: encoded as a known one, then changed in place.
pub fn raw_finish(number: u16, usage: &TokenUsage) -> Result<Message, CallError> {
    let make = |reason| {
        let chunk = StreamChunk::Finish(StreamChunkFinish { usage: usage.clone(), reason });
        wire::encode_value(&TokenStreamNextResults { chunk, done: true })
    };
    // The reason is the one byte in which two encodings with the reasons 0 and 1 differ.
    let mut message = make(FinishReason::Stop)?;
    let other = make(FinishReason::ToolCalls)?;
    let at: Vec<usize> =
        message.bytes().iter().zip(other.bytes()).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at).collect();
    if let [at] = at.as_slice() {
        let bytes = capnp::Word::words_to_bytes_mut(&mut message.words);
        for (place, value) in bytes.iter_mut().skip(*at).zip(number.to_le_bytes()) {
            *place = value;
        }
    }
    Ok(message)
}
