//! A model's answer while it arrives, within bounds.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::models::{FinishReason, StreamChunk, TokenUsage, ToolCallDelta};

use sha2::{Digest, Sha256};

use crate::evidence::Whole;
use crate::limits::Bounds;

/// A proposed call as it came, pieces joined.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Index within the response.
    pub index: u32,
    /// What the model calls this call.
    pub id: String,
    /// Name of a tool.
    pub name: String,
    /// Handle of a tool.
    pub handle: String,
    /// JSON, or what the model takes for it.
    pub arguments: String,
    /// Bytes of arguments, name, id and handle that were over the bounds and dropped.
    pub dropped: u64,
    /// How many bytes of that were arguments.
    cut: u64,
    /// Hash of all arguments that came, dropped or not.
    hash: Sha256,
}

impl Draft {
    /// Whether some of the arguments were dropped.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut > 0
    }

    /// What the arguments were in full, where they were longer than what is kept.
    pub(crate) fn whole(&self) -> Option<Whole> {
        let bytes = (self.arguments.len() as u64).saturating_add(self.cut);
        (self.cut > 0).then(|| Whole { bytes, hash: self.hash.clone().finalize().into() })
    }
}

/// A model's answer.
#[derive(Clone, Debug, Default)]
pub struct Response {
    bounds: Bounds,
    /// The text so far.
    pub text: String,
    /// The calls so far, in the order in which they began. One over the bound is kept: it is rejected, and tells how many followed.
    pub calls: Vec<Draft>,
    /// How many calls follow that one, of which nothing is kept. A call counts if its index is above those before it.
    pub surplus: u64,
    /// The highest index of a call over the bound.
    highest: Option<u32>,
    /// What the worker says it used.
    pub usage: TokenUsage,
    /// How it ended, where it said so.
    pub finish: Option<FinishReason>,
    /// Bytes of arguments that the calls may still bring.
    room: usize,
}

impl Response {
    /// An empty answer.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, room: bounds.all_arguments, ..Self::default() }
    }

    /// Takes the next piece in.
    ///
    /// # Errors
    /// The text is over its bound.
    pub fn push(&mut self, chunk: StreamChunk) -> Result<(), String> {
        match chunk {
            StreamChunk::TextDelta(text) => {
                self.text.push_str(&text);
                if self.text.len() > self.bounds.text {
                    return Err(format!("the model's answer is longer than {} bytes", self.bounds.text));
                }
            }
            StreamChunk::ToolCallDelta(delta) => self.call(&delta),
            StreamChunk::Finish(finish) => {
                self.usage = finish.usage;
                self.finish = Some(finish.reason);
            }
            StreamChunk::Progress(_) | StreamChunk::Loose(_) | StreamChunk::Removed(_) => {}
        }
        Ok(())
    }

    fn call(&mut self, delta: &ToolCallDelta) {
        let at = self.calls.iter().position(|call| call.index == delta.index);
        let at = at.unwrap_or_else(|| {
            if self.calls.len() <= self.bounds.calls {
                self.calls.push(Draft { index: delta.index, ..Draft::default() });
            }
            self.calls.len().saturating_sub(1)
        });
        let Some(call) = self.calls.get_mut(at).filter(|call| call.index == delta.index) else {
            if self.highest < Some(delta.index) {
                self.highest = Some(delta.index);
                self.surplus = self.surplus.saturating_add(1);
            }
            return;
        };
        let mut dropped = 0;
        dropped += append(&mut call.id, &delta.id, self.bounds.name);
        dropped += append(&mut call.name, &delta.name, self.bounds.name);
        dropped += append(&mut call.handle, &delta.handle, self.bounds.name);
        let most = self.bounds.arguments.min(call.arguments.len().saturating_add(self.room));
        let before = call.arguments.len();
        let cut = append(&mut call.arguments, &delta.arguments, most);
        self.room = self.room.saturating_sub(call.arguments.len().saturating_sub(before));
        call.hash.update(delta.arguments.as_bytes());
        call.cut = call.cut.saturating_add(cut);
        call.dropped = call.dropped.saturating_add(dropped).saturating_add(cut);
    }
}

/// Appends as much as fits between characters; what did not.
fn append(to: &mut String, text: &str, most: usize) -> u64 {
    let end = text.floor_char_boundary(most.saturating_sub(to.len()));
    to.push_str(text.get(..end).unwrap_or_default());
    text.len().saturating_sub(end) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(index: u32, name: &str, arguments: &str) -> StreamChunk {
        let (name, arguments) = (name.into(), arguments.into());
        StreamChunk::ToolCallDelta(ToolCallDelta { index, name, arguments, ..ToolCallDelta::default() })
    }

    #[test]
    fn pieces_are_joined_by_index() {
        let mut response = Response::new(Bounds::default());
        for chunk in [delta(7, "re", ""), delta(2, "b", "1"), delta(7, "ad", "{\"a\""), delta(7, "", ":1}")] {
            response.push(chunk).unwrap();
        }
        let calls: Vec<_> = response.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("read", "{\"a\":1}"), ("b", "1")]);
    }

    #[test]
    fn everything_is_bounded() {
        let bounds = Bounds { text: 10, calls: 2, arguments: 4, name: 3, ..Bounds::default() };
        let mut response = Response::new(bounds);
        for index in 0..1000 {
            response.push(delta(index, "ééé", "12345")).unwrap();
            response.push(delta(index, "", "")).unwrap();
        }
        assert_eq!((response.calls.len(), response.surplus), (3, 997));
        assert_eq!((response.calls[0].name.as_str(), response.calls[0].arguments.as_str()), ("é", "1234"));
        assert_eq!(response.calls[0].dropped, 5);
        let hash = Sha256::digest(b"12345").into();
        assert_eq!(response.calls[0].whole(), Some(Whole { bytes: 5, hash }));
        assert!(response.push(StreamChunk::TextDelta("0123456789".into())).is_ok());
        assert!(response.push(StreamChunk::TextDelta("0".into())).is_err());
    }

    #[test]
    fn the_arguments_of_all_calls_are_bounded_together() {
        let mut response = Response::new(Bounds { arguments: 4, all_arguments: 6, ..Bounds::default() });
        for chunk in [delta(0, "a", "123"), delta(1, "b", "1234"), delta(0, "", "4")] {
            response.push(chunk).unwrap();
        }
        let kept: Vec<_> = response.calls.iter().map(|call| (call.arguments.as_str(), call.cut)).collect();
        assert_eq!(kept, [("123", 1), ("123", 1)]);
    }
}
