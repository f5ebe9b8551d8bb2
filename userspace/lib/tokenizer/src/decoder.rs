//! Tokens to text, one at a time.

use alloc::string::String;
use alloc::vec::Vec;

use crate::Tokenizer;

/// Turns tokens into text as they arrive. A character whose bytes come with several tokens appears with the last of
/// them.
pub struct Decoder<'a> {
    tokenizer: &'a Tokenizer,
    marks: bool,
    /// Bytes that begin a character.
    bytes: Vec<u8>,
    /// Whether a space that was added before the text has still to be removed.
    at_start: bool,
}

impl<'a> Decoder<'a> {
    /// A decoder at the beginning of a text. Marks have no text.
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, marks: false, bytes: Vec::new(), at_start: tokenizer.begins_with_space() }
    }

    /// A decoder in the middle of a text: at the beginning of an answer.
    pub fn within(tokenizer: &'a Tokenizer) -> Self {
        Self { at_start: false, ..Self::new(tokenizer) }
    }

    /// Shows marks as they are written.
    pub fn with_marks(mut self) -> Self {
        self.marks = true;
        self
    }

    /// Takes a token and gives the text that is complete now. Bytes that are not UTF-8 become U+FFFD.
    pub fn push(&mut self, id: u32) -> String {
        self.take(id);
        let (mut text, mut read) = (String::new(), 0usize);
        for chunk in self.bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let end = read.saturating_add(chunk.valid().len()).saturating_add(invalid.len());
            if end == self.bytes.len() && may_go_on(invalid) {
                read = end.saturating_sub(invalid.len());
                break;
            }
            if !invalid.is_empty() {
                text.push('\u{fffd}');
            }
            read = end;
        }
        self.bytes.drain(..read.min(self.bytes.len()));
        text
    }

    /// Ends the text: returns the rest of it.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The bytes of all tokens of a text.
    pub fn bytes(mut self, ids: impl IntoIterator<Item = u32>) -> Vec<u8> {
        for id in ids {
            self.take(id);
        }
        self.bytes
    }

    fn take(&mut self, id: u32) {
        let before = self.bytes.len();
        self.tokenizer.append_bytes(id, self.marks, &mut self.bytes);
        // A mark without text is nothing that text begins with.
        if self.at_start && self.bytes.len() > before {
            self.at_start = false;
            if self.bytes.get(before) == Some(&b' ') {
                self.bytes.remove(before);
            }
        }
    }
}

/// Whether bytes that are not UTF-8 could be the beginning of a character.
fn may_go_on(bytes: &[u8]) -> bool {
    core::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
