//! Lines entered before.

use alloc::collections::VecDeque;
use alloc::string::String;

/// The lines entered in a session, bounded, and where in them the person is looking.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Oldest first.
    entries: VecDeque<String>,
    /// How many steps back from the line being edited; 0 is that line.
    back: usize,
    /// The line being edited while an older one is looked at.
    draft: String,
}

/// How many lines are kept.
const LIMIT: usize = 500;

impl History {
    /// Keeps a line. Empty lines and repetitions of the last one are not kept.
    pub fn add(&mut self, line: &str) {
        self.leave();
        if line.is_empty() || self.entries.back().is_some_and(|last| last == line) {
            return;
        }
        if self.entries.len() >= LIMIT {
            self.entries.pop_front();
        }
        self.entries.push_back(String::from(line));
    }

    /// The lines kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(String::as_str)
    }

    /// Back to the line being edited, for the next time.
    pub(crate) fn leave(&mut self) {
        self.back = 0;
        self.draft.clear();
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
