//! The newest lines, within a budget.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use capos_schema::system::{LogEntry, LogLevel};

/// Bytes that are kept; the oldest lines go first.
const BUDGET: usize = 512 * 1024;
/// What a line costs besides its text, in bytes.
const OVERHEAD: usize = 96;

/// The lines.
#[derive(Default)]
pub struct Store {
    entries: VecDeque<LogEntry>,
    bytes: usize,
    next: u64,
}

fn cost(entry: &LogEntry) -> usize {
    entry.text.len().saturating_add(entry.service.len()).saturating_add(OVERHEAD)
}

fn severity(level: LogLevel) -> u8 {
    match level {
        LogLevel::Debug => 0,
        LogLevel::Info => 1,
        LogLevel::Warning => 2,
        LogLevel::Error => 3,
    }
}

impl Store {
    /// Adds a line.
    pub fn add(&mut self, nanoseconds: u64, level: LogLevel, service: &str, text: String) {
        let entry = LogEntry { sequence: self.next, nanoseconds, level, service: service.into(), text };
        self.next = self.next.saturating_add(1);
        self.bytes = self.bytes.saturating_add(cost(&entry));
        self.entries.push_back(entry);
        while self.bytes > BUDGET {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(cost(&oldest));
        }
    }

    /// The newest lines that match, oldest first: of one service or (empty) of all, at a level or above, not
    /// older than a time, at most `max` and at most 48 KiB.
    pub fn newest(&self, service: &str, minimum: LogLevel, since: u64, max: u32) -> Vec<LogEntry> {
        let mut left = 48 * 1024_usize;
        let matching = self
            .entries
            .iter()
            .rev()
            .take_while(|entry| entry.nanoseconds >= since)
            .filter(|entry| {
                (service.is_empty() || entry.service == service) && severity(entry.level) >= severity(minimum)
            })
            .take(usize::try_from(max).unwrap_or(usize::MAX))
            .take_while(|entry| {
                let fits = left >= cost(entry);
                left = left.saturating_sub(cost(entry));
                fits
            });
        let mut found: Vec<LogEntry> = matching.cloned().collect();
        found.reverse();
        found
    }
}
