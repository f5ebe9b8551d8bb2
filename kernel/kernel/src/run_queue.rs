//! Threads that wait for a processor: by priority, and in turns within one.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::object::thread::{State, Thread};

/// The lowest priority.
pub const LOWEST: i8 = -1;
/// Where a thread begins.
pub const ORDINARY: i8 = 0;
/// The highest priority.
pub const HIGHEST: i8 = 2;
const LEVELS: usize = 4;

/// Threads that a level has room for in any case, so that using it for the first time takes no memory.
const KEPT: usize = 4;

/// Threads of one priority.
struct Level {
    threads: VecDeque<Arc<Thread>>,
    /// What is left of the slice of the first, where it was interrupted.
    front_slice: Option<u64>,
}

impl Default for Level {
    fn default() -> Self {
        Self { threads: VecDeque::with_capacity(KEPT), front_slice: None }
    }
}

/// A processor's queue.
#[derive(Default)]
pub struct RunQueue {
    levels: [Level; LEVELS],
    length: usize,
}

fn index(priority: i8) -> usize {
    usize::try_from(priority.clamp(LOWEST, HIGHEST) - LOWEST).unwrap_or(0)
}

impl RunQueue {
    fn level(&mut self, priority: i8) -> &mut Level {
        let [lowest, rest @ ..] = &mut self.levels;
        match index(priority) {
            0 => lowest,
            level => rest.get_mut(level - 1).unwrap_or(lowest),
        }
    }

    /// The highest priority of those that wait.
    pub fn highest(&self) -> Option<i8> {
        if self.length == 0 {
            return None;
        }
        (LOWEST..=HIGHEST).zip(&self.levels).rev().find(|(_, level)| !level.threads.is_empty()).map(|(found, _)| found)
    }

    /// Whether nobody waits with this priority or a higher one.
    pub fn is_free_for(&self, priority: i8) -> bool {
        self.highest().is_none_or(|highest| highest < priority)
    }

    /// A thread waits behind all others of its priority.
    pub fn push(&mut self, thread: Arc<Thread>) {
        self.length += 1;
        self.level(thread.priority()).threads.push_back(thread);
    }

    /// A thread waits before all others of its priority, for what is left of its slice.
    pub fn push_front(&mut self, thread: Arc<Thread>, slice: u64) {
        self.length += 1;
        let level = self.level(thread.priority());
        level.threads.push_front(thread);
        level.front_slice = Some(slice);
    }

    /// The thread whose turn it is, and what is left of its slice where it was interrupted.
    pub fn pop(&mut self) -> Option<(Arc<Thread>, Option<u64>)> {
        let level = self.level(self.highest()?);
        let thread = level.threads.pop_front()?;
        let slice = level.front_slice.take();
        self.length -= 1;
        Some((thread, slice))
    }

    /// Takes out dead threads.
    pub fn take_dead(&mut self, dead: &mut Vec<Arc<Thread>>) {
        for level in &mut self.levels {
            if level.threads.front().is_some_and(|first| first.state() == State::Dead) {
                level.front_slice = None;
            }
            for _ in 0..level.threads.len() {
                match level.threads.pop_front() {
                    Some(thread) if thread.state() == State::Dead => dead.push(thread),
                    Some(thread) => level.threads.push_back(thread),
                    None => {}
                }
            }
        }
        self.length = self.levels.iter().map(|level| level.threads.len()).sum();
    }

    /// Gives back the memory of queues that were long.
    pub fn shrink(&mut self) {
        for level in &mut self.levels {
            let enough = level.threads.len().next_power_of_two().max(KEPT);
            if level.threads.capacity() > enough {
                level.threads.shrink_to(enough);
            }
        }
    }
}
