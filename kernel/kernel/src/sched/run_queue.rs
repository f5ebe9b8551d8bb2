//! Threads that wait for a processor: by priority, and in turns within one.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::object::priority::{HIGHEST, LOWEST};
use crate::object::thread::{State, Thread};

const LEVELS: usize = 4;

/// Threads that a level has room for in any case.
const KEPT: usize = 64;

/// Threads that wait in any processor's queue: how many of each level, in this many bits each. There are not as many threads as
/// these can count.
static WAITING: AtomicU64 = AtomicU64::new(0);
const BITS: u32 = u64::BITS / LEVELS as u32;

/// How many threads wait in any processor's queue.
pub fn waiting() -> usize {
    let all = WAITING.load(Ordering::Relaxed);
    (0..LEVELS as u32).map(|level| (all >> level.wrapping_mul(BITS)) as usize & ((1 << BITS) - 1)).sum()
}

/// Whether somebody waits in a processor's queue.
#[inline(always)]
pub fn is_waited() -> bool {
    WAITING.load(Ordering::Relaxed) != 0
}

/// Whether somebody who waits in any processor's queue goes before a thread with this priority.
pub fn outranks(priority: i8) -> bool {
    let above = (index(priority) as u32).wrapping_add(1).wrapping_mul(BITS);
    WAITING.load(Ordering::Relaxed).checked_shr(above).is_some_and(|above| above != 0)
}

/// Threads that are taken out of the queue at once, since they died.
#[derive(Default)]
pub struct Dead {
    threads: [Option<Arc<Thread>>; 16],
    length: usize,
}

impl Dead {
    /// Adds one, where there is room: otherwise it is given back.
    pub fn push(&mut self, thread: Arc<Thread>) -> Option<Arc<Thread>> {
        let Some(place) = self.threads.get_mut(self.length) else { return Some(thread) };
        *place = Some(thread);
        self.length = self.length.saturating_add(1);
        None
    }

    /// Those that were taken out.
    #[cfg(feature = "tests")]
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Thread>> {
        self.threads.iter().flatten()
    }

    /// Whether there is room for no more.
    pub fn is_full(&self) -> bool {
        self.length == self.threads.len()
    }
}

/// Threads of one priority.
#[derive(Default)]
struct Level {
    threads: VecDeque<Arc<Thread>>,
    /// What is left of the slice of the first, where it was interrupted.
    front_slice: Option<u64>,
    /// How many of them are counted in the queue's length, and among all that wait.
    counted: usize,
}

/// A processor's queue.
#[derive(Default)]
pub struct RunQueue {
    levels: [Level; LEVELS],
    /// A bit for each level where somebody waits.
    occupied: u8,
    length: usize,
}

fn index(priority: i8) -> usize {
    usize::try_from(priority.clamp(LOWEST, HIGHEST).saturating_sub(LOWEST)).unwrap_or(0)
}

impl RunQueue {
    /// One with the room that there is in any case; `None` where there is no memory for that.
    pub fn new() -> Option<Self> {
        let mut queue = Self::default();
        queue.make_room(KEPT).then_some(queue)
    }

    fn level(&mut self, priority: i8) -> &mut Level {
        let index = index(priority);
        self.occupied |= 1 << index;
        let [lowest, rest @ ..] = &mut self.levels;
        match index {
            0 => lowest,
            level => rest.get_mut(level.wrapping_sub(1)).unwrap_or(lowest),
        }
    }

    /// Notes at which levels somebody waits, after threads were taken out.
    fn settle(&mut self) {
        let bits = self.levels.iter().enumerate().map(|(at, level)| u8::from(!level.threads.is_empty()) << at);
        self.occupied = bits.fold(0, |all, bit| all | bit);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Those that wait, the most urgent first.
    pub fn waiting(&self) -> impl Iterator<Item = &Arc<Thread>> {
        self.levels.iter().rev().flat_map(|level| &level.threads)
    }

    /// Counts the threads of a level, after some came or went.
    fn count(&mut self, at: usize) {
        let Some(level) = self.levels.get_mut(at) else { return };
        let more = level.threads.len().wrapping_sub(core::mem::replace(&mut level.counted, level.threads.len()));
        self.length = self.length.wrapping_add(more);
        WAITING.fetch_add((more as u64) << (at as u32).wrapping_mul(BITS), Ordering::Relaxed);
    }

    /// The highest priority of those that wait and may run on a processor.
    pub fn highest_for(&self, processor: u32) -> Option<i8> {
        if self.length == 0 {
            return None;
        }
        let may = |level: &Level| level.threads.iter().any(|thread| thread.handle.may_run_on(processor));
        (LOWEST..=HIGHEST).zip(&self.levels).rev().find(|(_, level)| may(level)).map(|(found, _)| found)
    }

    /// The highest priority of those that wait.
    #[inline]
    pub fn highest(&self) -> Option<i8> {
        let level = self.occupied.checked_ilog2()?;
        i8::try_from(level).ok().map(|level| LOWEST.wrapping_add(level))
    }

    /// Whether no thread waits with this priority or a higher one.
    pub fn is_free_for(&self, priority: i8) -> bool {
        self.highest().is_none_or(|highest| highest < priority)
    }

    /// A thread waits behind all others of its priority.
    pub fn push(&mut self, thread: Arc<Thread>) {
        let at = index(thread.priority());
        self.level(thread.priority()).threads.push_back(thread);
        self.count(at);
    }

    /// A thread waits before all others of its priority, for what is left of its slice.
    pub fn push_front(&mut self, thread: Arc<Thread>, slice: u64) {
        let at = index(thread.priority());
        let level = self.level(thread.priority());
        level.threads.push_front(thread);
        level.front_slice = Some(slice);
        self.count(at);
    }

    /// The thread whose turn it is on a processor, and what is left of its slice where it was interrupted.
    pub fn pop(&mut self, processor: u32) -> Option<(Arc<Thread>, Option<u64>)> {
        let top = self.occupied.checked_ilog2()?;
        let level = self.levels.get_mut(top as usize)?;
        // Most threads may run everywhere.
        if level.threads.front().is_some_and(|first| first.handle.may_run_on(processor)) {
            let next = (level.threads.pop_front()?, level.front_slice.take());
            if level.threads.is_empty() {
                self.occupied &= !(1 << top);
            }
            self.count(top as usize);
            return Some(next);
        }
        self.pop_from_behind(processor)
    }

    /// The same, where the first of all may not run there.
    #[cold]
    fn pop_from_behind(&mut self, processor: u32) -> Option<(Arc<Thread>, Option<u64>)> {
        let highest = self.highest_for(processor)?;
        let level = self.level(highest);
        let place = level.threads.iter().position(|thread| thread.handle.may_run_on(processor))?;
        let thread = level.threads.remove(place)?;
        let slice = if place == 0 { level.front_slice.take() } else { None };
        self.settle();
        self.count(index(highest));
        Some((thread, slice))
    }

    /// Takes a thread out, where it waits here.
    pub fn remove(&mut self, thread: &Arc<Thread>) -> Option<Arc<Thread>> {
        for (at, level) in self.levels.iter_mut().enumerate() {
            if let Some(place) = level.threads.iter().position(|other| Arc::ptr_eq(other, thread)) {
                if place == 0 {
                    level.front_slice = None;
                }
                let found = level.threads.remove(place);
                self.settle();
                self.count(at);
                return found;
            }
        }
        None
    }

    /// Makes room for this many threads, whatever their priorities come to be: adding one of them takes no memory
    /// then. False where there is none.
    pub fn make_room(&mut self, threads: usize) -> bool {
        self.levels.iter_mut().all(|level| {
            let missing = threads.saturating_sub(level.threads.len());
            level.threads.try_reserve(missing).is_ok()
        })
    }

    /// Takes out dead threads, as many as there is room for.
    pub fn take_dead(&mut self, dead: &mut Dead) {
        for level in &mut self.levels {
            if level.threads.front().is_some_and(|first| first.state() == State::Dead) {
                level.front_slice = None;
            }
            for _ in 0..level.threads.len() {
                let thread = level.threads.pop_front();
                let kept = match thread {
                    Some(thread) if thread.state() == State::Dead => dead.push(thread),
                    other => other,
                };
                if let Some(thread) = kept {
                    level.threads.push_back(thread);
                }
            }
        }
        self.settle();
        (0..LEVELS).for_each(|at| self.count(at));
    }

    /// Gives back the memory of queues that were long; room for this many threads stays. Where there is no memory
    /// to move into, everything stays.
    pub fn shrink(&mut self, threads: usize) {
        for level in &mut self.levels {
            let enough = level.threads.len().max(threads).next_power_of_two().max(KEPT);
            let mut small = VecDeque::new();
            if level.threads.capacity() > enough && small.try_reserve_exact(enough).is_ok() {
                small.append(&mut level.threads);
                level.threads = small;
            }
        }
    }
}
