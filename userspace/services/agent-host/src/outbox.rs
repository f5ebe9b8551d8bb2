//! Lines that wait for the client to read.

use alloc::collections::VecDeque;
use alloc::string::String;

/// Bytes that wait beyond which pieces of the model's text are dropped.
const TEXT: usize = 128 << 10;
/// Bytes that wait beyond which the client is taken for lost.
const ALL: usize = 1 << 20;

/// What waits.
#[derive(Debug, Default)]
pub struct Outbox {
    lines: VecDeque<String>,
    bytes: usize,
    /// Bytes of text that were dropped since the last piece that was not.
    dropped: u64,
    is_lost: bool,
}

impl Outbox {
    /// Bytes of text that were dropped, if a piece of it has room now; the piece is to say so.
    pub fn room_for_text(&mut self, bytes: usize) -> Option<u64> {
        if self.bytes > TEXT || self.is_lost {
            self.dropped = self.dropped.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
            return None;
        }
        Some(core::mem::take(&mut self.dropped))
    }

    /// Adds a line.
    pub fn push(&mut self, line: String) {
        let bytes = self.bytes.saturating_add(line.len());
        if bytes > ALL {
            self.is_lost = true;
            self.lines = VecDeque::new();
            self.bytes = 0;
        }
        if !self.is_lost {
            self.bytes = bytes;
            self.lines.push_back(line);
        }
    }

    /// The next line.
    pub fn pop(&mut self) -> Option<String> {
        let line = self.lines.pop_front()?;
        self.bytes = self.bytes.saturating_sub(line.len());
        Some(line)
    }

    /// Whether the client reads nothing.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c17_a_stalled_client_loses_text_first_and_is_then_lost() {
        let mut outbox = Outbox::default();
        let line = "x".repeat(1024);
        let mut sent = 0_u64;
        for _ in 0..10_000 {
            if outbox.room_for_text(100) == Some(0) {
                outbox.push(line.clone());
                sent += 1;
            }
        }
        assert_eq!(sent, 129);
        assert!(!outbox.is_lost() && outbox.bytes <= TEXT + 1024, "text alone loses no client");
        // What it must not miss has room still.
        outbox.push(line.clone());
        assert_eq!(outbox.lines.len(), 130);
        // Once it reads again, it learns how much it missed.
        while outbox.pop().is_some() {}
        assert_eq!(outbox.room_for_text(5), Some((10_000 - sent) * 100));
        assert_eq!(outbox.room_for_text(5), Some(0));
        for _ in 0..2000 {
            outbox.push(line.clone());
        }
        assert!(outbox.is_lost() && outbox.is_empty() && outbox.bytes == 0);
        outbox.push(line);
        assert!(outbox.is_empty(), "nothing is kept for a client that is lost");
    }
}
