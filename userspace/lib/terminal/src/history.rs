//! Lines entered before.

use alloc::collections::VecDeque;
use alloc::string::String;

use crate::buffer::LINE_LIMIT;

/// The lines entered in a session, bounded, and where in them the person is looking.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Oldest first.
    entries: VecDeque<String>,
    /// How many steps back from the line being edited; 0 is that line.
    back: usize,
    /// The line being edited while an older one is looked at.
    draft: String,
    /// Bytes of all entries.
    bytes: usize,
}

/// How many lines are kept, and how many bytes of them.
const LIMIT: usize = 500;
const BYTES: usize = 128 * 1024;

impl History {
    /// Keeps a line. Empty lines, repetitions of the last one, and lines that could not be entered are not kept.
    pub fn add(&mut self, line: &str) {
        self.leave();
        if line.is_empty() || line.len() > LINE_LIMIT || self.entries.back().is_some_and(|last| last == line) {
            return;
        }
        self.bytes = self.bytes.saturating_add(line.len());
        self.entries.push_back(String::from(line));
        while self.entries.len() > LIMIT || self.bytes > BYTES {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(oldest.len());
        }
    }

    /// The lines kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(String::as_str)
    }

    /// Back to the line being edited, for the next time.
    pub(crate) fn leave(&mut self) {
        self.back = 0;
        self.draft = String::new();
    }

    /// One line back; `current` is kept as the draft when the journey begins.
    pub(crate) fn older(&mut self, current: &str) -> Option<&str> {
        let entry = self.entries.len().checked_sub(self.back.saturating_add(1))?;
        if self.back == 0 {
            self.draft = String::from(current);
        }
        self.back = self.back.saturating_add(1);
        self.entries.get(entry).map(String::as_str)
    }

    /// One line forward, ending at the draft.
    pub(crate) fn newer(&mut self) -> Option<&str> {
        self.back = self.back.checked_sub(1)?;
        if self.back == 0 {
            return Some(&self.draft);
        }
        let entry = self.entries.len().checked_sub(self.back)?;
        self.entries.get(entry).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_memory_is_bounded() {
        let mut history = History::default();
        for number in 0..1000 {
            history.add(&format!("{number:060000}"));
        }
        assert_eq!(history.entries.len(), 2);
        assert_eq!(history.bytes, 120_000);
        for number in 0..1000 {
            history.add(&number.to_string());
        }
        assert_eq!(history.entries.len(), LIMIT);
        assert_eq!(history.iter().next(), Some("500"));
        history.add(&"x".repeat(LINE_LIMIT + 1));
        assert_eq!(history.iter().last(), Some("999"));
    }
}
