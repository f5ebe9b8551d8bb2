//! Bytes that arrive, as lines.

use alloc::vec::Vec;
use core::mem;

use crate::limits;

/// What stood between two line ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line that is not empty, without its end.
    Whole(Vec<u8>),
    /// A line of more bytes than may be. It was skipped, except for its first [`BEGINNING`] bytes at most.
    TooLong(Vec<u8>),
}

/// Bytes that are kept of a line that is too long: enough to see which request it was.
pub const BEGINNING: usize = 1024;

/// Puts lines together from bytes that arrive in any pieces. Holds at most one line.
///
/// A line ends with `\n`, or `\r\n`. Empty lines are skipped, so that a client can end with `\n` what another left
/// unfinished.
#[derive(Debug)]
pub struct Lines {
    line: Vec<u8>,
    is_skipping: bool,
    most: usize,
}

impl Default for Lines {
    /// Lines of this protocol, of at most [`LINE`](limits::LINE) bytes.
    fn default() -> Self {
        Self::of_at_most(limits::LINE)
    }
}

impl Lines {
    /// Lines of at most that many bytes.
    #[must_use]
    pub fn of_at_most(most: usize) -> Self {
        Self { line: Vec::new(), is_skipping: false, most }
    }

    /// Takes bytes until a line ends: how many it took, and the line. Call again with the rest.
    pub fn take(&mut self, bytes: &[u8]) -> (usize, Option<Line>) {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = end.map_or(bytes, |end| bytes.get(..end).unwrap_or_default());
        let taken = end.map_or(bytes.len(), |end| end.saturating_add(1));
        // A byte more, for the end's `\r`.
        if self.line.len().saturating_add(part.len()) > self.most.saturating_add(1) {
            self.is_skipping = true;
        }
        if self.is_skipping {
            let room = BEGINNING.saturating_sub(self.line.len());
            self.line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
            self.line.truncate(BEGINNING);
            self.line.shrink_to_fit();
        } else {
            self.line.extend_from_slice(part);
        }
        (taken, end.and_then(|_| self.end()))
    }

    fn end(&mut self) -> Option<Line> {
        let mut line = mem::take(&mut self.line);
        if mem::take(&mut self.is_skipping) {
            return Some(Line::TooLong(line));
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        match line.len() {
            0 => None,
            length if length > self.most => {
                line.truncate(BEGINNING);
                Some(Line::TooLong(line))
            }
            _ => Some(Line::Whole(line)),
        }
    }

    /// Bytes of the unfinished line.
    #[must_use]
    pub fn held(&self) -> usize {
        self.line.capacity()
    }
}
