//! Threads that wait for a processor: by priority, and in turns within one.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::{HIGHEST, LOWEST, Schedulable};

const LEVELS: usize = 4;

/// Threads that a level has room for in any case.
const KEPT: usize = 64;

/// Bits of a level in [`Waiting`].
const BITS: u32 = u64::BITS / LEVELS as u32;

/// Threads that wait in any queue: how many of each level, in 16 bits each. There are not as many threads as these can
/// count. All queues of a machine share one.
#[derive(Debug, Default)]
pub struct Waiting(AtomicU64);

impl Waiting {
    /// None wait.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        let all = self.0.load(Ordering::Relaxed);
        (0..LEVELS as u32).map(|level| (all >> level.wrapping_mul(BITS)) as usize & ((1 << BITS) - 1)).sum()
    }

    /// Whether somebody waits.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether somebody who waits goes before a thread with this priority.
    #[inline]
    pub fn outranks(&self, priority: i8) -> bool {
        let above = (index(priority) as u32).wrapping_add(1).wrapping_mul(BITS);
        self.0.load(Ordering::Relaxed).checked_shr(above).is_some_and(|above| above != 0)
    }

    fn add(&self, level: usize, more: usize) {
        self.0.fetch_add((more as u64) << (level as u32).wrapping_mul(BITS), Ordering::Relaxed);
    }
}

/// Threads that are taken out of the queue at once, since they died.
#[derive(Debug)]
pub struct Dead<T> {
    threads: [Option<Arc<T>>; 16],
    length: usize,
}

impl<T> Default for Dead<T> {
    fn default() -> Self {
        Self { threads: Default::default(), length: 0 }
    }
}

impl<T> Dead<T> {
    /// Adds one, where there is room: otherwise it is given back.
    pub fn push(&mut self, thread: Arc<T>) -> Option<Arc<T>> {
        let Some(place) = self.threads.get_mut(self.length) else { return Some(thread) };
        *place = Some(thread);
        self.length = self.length.saturating_add(1);
        None
    }

    /// Those that were taken out.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.threads.iter().flatten()
    }

    /// Whether there is room for no more.
    pub fn is_full(&self) -> bool {
        self.length == self.threads.len()
    }
}

/// Threads of one priority.
#[derive(Debug)]
struct Level<T> {
    threads: VecDeque<Arc<T>>,
    /// What is left of the slice of the first, where it was interrupted.
    front_slice: Option<u64>,
    /// How many of them are counted in the queue's length, and among all that wait.
    counted: usize,
}

impl<T> Level<T> {
    const fn new() -> Self {
        Self { threads: VecDeque::new(), front_slice: None, counted: 0 }
    }
}

/// A processor's queue.
#[derive(Debug)]
pub struct RunQueue<T> {
    levels: [Level<T>; LEVELS],
    /// A bit for each level where somebody waits.
    occupied: u8,
    length: usize,
    waiting: &'static Waiting,
}

fn index(priority: i8) -> usize {
    usize::try_from(priority.clamp(LOWEST, HIGHEST).saturating_sub(LOWEST)).unwrap_or(0)
}

impl<T: Schedulable> RunQueue<T> {
    /// One with the room that there is in any case, whose threads count among `waiting`. `None` if there is no memory for it.
    pub fn new(waiting: &'static Waiting) -> Option<Self> {
        let levels = [const { Level::new() }; LEVELS];
        let mut queue = Self { levels, occupied: 0, length: 0, waiting };
        queue.make_room(KEPT).then_some(queue)
    }

    fn level(&mut self, priority: i8) -> &mut Level<T> {
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

    /// Whether somebody waits in another queue.
    #[inline]
    pub(crate) fn waits_elsewhere(&self) -> bool {
        self.waiting.is_any() && self.waiting.count() > self.length
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no thread waits.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Those that wait, the most urgent first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.levels.iter().rev().flat_map(|level| &level.threads)
    }

    /// Counts the threads of a level, after some came or went.
    fn count(&mut self, at: usize) {
        let Some(level) = self.levels.get_mut(at) else { return };
        let more = level.threads.len().wrapping_sub(core::mem::replace(&mut level.counted, level.threads.len()));
        self.length = self.length.wrapping_add(more);
        self.waiting.add(at, more);
    }

    /// The highest priority of those that wait and may run on a processor.
    pub fn highest_for(&self, processor: u32) -> Option<i8> {
        if self.length == 0 {
            return None;
        }
        let may = |level: &Level<T>| level.threads.iter().any(|thread| thread.may_run_on(processor));
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
    pub fn push(&mut self, thread: Arc<T>) {
        let at = index(thread.priority());
        self.level(thread.priority()).threads.push_back(thread);
        self.count(at);
    }

    /// A thread waits before all others of its priority, for what is left of its slice.
    pub fn push_front(&mut self, thread: Arc<T>, slice: u64) {
        let at = index(thread.priority());
        let level = self.level(thread.priority());
        level.threads.push_front(thread);
        level.front_slice = Some(slice);
        self.count(at);
    }

    /// The thread whose turn it is on a processor, and what is left of its slice where it was interrupted.
    pub fn pop(&mut self, processor: u32) -> Option<(Arc<T>, Option<u64>)> {
        let top = self.occupied.checked_ilog2()?;
        let level = self.levels.get_mut(top as usize)?;
        // Most threads may run everywhere.
        if level.threads.front().is_some_and(|first| first.may_run_on(processor)) {
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
    fn pop_from_behind(&mut self, processor: u32) -> Option<(Arc<T>, Option<u64>)> {
        let highest = self.highest_for(processor)?;
        let level = self.level(highest);
        let place = level.threads.iter().position(|thread| thread.may_run_on(processor))?;
        let thread = level.threads.remove(place)?;
        let slice = if place == 0 { level.front_slice.take() } else { None };
        self.settle();
        self.count(index(highest));
        Some((thread, slice))
    }

    /// Takes a thread out, where it waits here.
    pub fn remove(&mut self, thread: &Arc<T>) -> Option<Arc<T>> {
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
    pub fn take_dead(&mut self, dead: &mut Dead<T>) {
        for level in &mut self.levels {
            if level.threads.front().is_some_and(|first| first.is_dead()) {
                level.front_slice = None;
            }
            for _ in 0..level.threads.len() {
                let thread = level.threads.pop_front();
                let kept = match thread {
                    Some(thread) if thread.is_dead() => dead.push(thread),
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
