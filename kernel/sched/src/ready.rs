//! What a processor runs next, and what it leaves to others.

use alloc::sync::Arc;

use crate::{Dead, Processors, RunQueue, Schedulable};

/// The threads of a processor that can run.
#[derive(Debug)]
pub struct Ready<T> {
    /// The processor's number.
    own: u32,
    /// Those that wait for their turn.
    pub queue: RunQueue<T>,
    /// Made ready while the current thread ran, and next before the queue. With one processor and an empty queue it stays
    /// here while the current thread runs on.
    pub handoff: Option<Arc<T>>,
}

/// How long a thread runs that has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// For the rest of the slice of the thread that handed over to it.
    Shared,
    /// For a slice of its own.
    Whole,
    /// For what an interruption left of its slice, nanoseconds.
    Rest(u64),
}

impl<T: Schedulable> Ready<T> {
    /// None, on the processor with this number.
    pub fn new(own: u32, queue: RunQueue<T>) -> Self {
        Self { own, queue, handoff: None }
    }

    /// The processor's number.
    #[inline(always)]
    pub fn own(&self) -> u32 {
        self.own
    }

    /// A thread can run: the next one, unless an earlier one that was made ready goes before it.
    pub fn make_ready<P: Processors<T>>(&mut self, thread: Arc<T>, processors: &P) {
        if !thread.may_run_on(self.own) {
            return self.place(thread, processors);
        }
        let later = match self.handoff.take() {
            Some(earlier) if earlier.priority() > thread.priority() => {
                self.handoff = Some(earlier);
                Some(thread)
            }
            earlier => {
                self.handoff = Some(thread);
                earlier
            }
        };
        if let Some(later) = later {
            self.queue.push(later);
        }
    }

    /// A thread that must wait goes to the queue where fewest do, of those processors that it may run on.
    pub fn place<P: Processors<T>>(&mut self, thread: Arc<T>, processors: &P) {
        let own = thread.may_run_on(self.own).then(|| self.queue.len());
        let length = |other: P::Processor| processors.with_queue(other, |queue| queue.len());
        let other = processors
            .others()
            .filter(|other| thread.may_run_on(processors.index(*other)))
            // Of equal ones the next by number: if it were always the same, the thread on another would never wait.
            .min_by_key(|other| (length(*other), processors.index(*other).wrapping_sub(self.own)));
        match other {
            Some(other) if own.is_none_or(|own| length(other) < own) => {
                processors.with_queue(other, |queue| queue.push(thread));
                processors.call(other);
            }
            _ => self.queue.push(thread),
        }
    }

    /// A thread that was interrupted waits: before all others of its priority if it keeps what is `left` of its slice,
    /// nanoseconds.
    pub fn put_back<P: Processors<T>>(&mut self, thread: Arc<T>, left: Option<u64>, processors: &P) {
        match left {
            Some(left) if thread.may_run_on(self.own) => self.queue.push_front(thread, left),
            _ => self.place(thread, processors),
        }
    }

    /// The next thread that can run, which runs from then on. Threads that hand over to each other share one slice, so that
    /// those in the queue have their turn. `had_current` says that a thread ran before, and not nothing.
    pub fn next<P: Processors<T>>(&mut self, had_current: bool, processors: &P) -> Option<(Arc<T>, Turn)> {
        if let Some(thread) = self.handoff.take() {
            if self.queue.highest().is_some_and(|highest| highest > thread.priority()) {
                self.queue.push(thread);
            } else if thread.begin() {
                let alone = self.queue.is_free_for(thread.priority()) || !had_current;
                return Some((thread, if alone { Turn::Whole } else { Turn::Shared }));
            }
        }
        loop {
            let (thread, slice) = self.pop(processors)?;
            if thread.begin() {
                return Some((thread, slice.map_or(Turn::Whole, Turn::Rest)));
            }
        }
    }

    /// The first thread of this processor's queue, or of another's if that is more urgent.
    fn pop<P: Processors<T>>(&mut self, processors: &P) -> Option<(Arc<T>, Option<u64>)> {
        if self.queue.waits_elsewhere() {
            let own = self.queue.highest_for(self.own);
            let highest = |other: &P::Processor| processors.with_queue(*other, |queue| queue.highest_for(self.own));
            if let Some(other) = processors.others().max_by_key(highest).filter(|other| highest(other) > own) {
                return processors.with_queue(other, |queue| queue.pop(self.own));
            }
        }
        self.queue.pop(self.own)
    }

    /// The highest priority of the threads that wait for this processor, or for any.
    fn highest<P: Processors<T>>(&self, processors: &P) -> Option<i8> {
        let own = self.queue.highest();
        if !self.queue.waits_elsewhere() {
            return own;
        }
        let highest = |other| processors.with_queue(other, |queue| queue.highest_for(self.own));
        processors.others().map(highest).fold(own, Option::max)
    }

    /// Whether a thread that can run goes before one with this priority.
    #[inline]
    pub fn is_outranked<P: Processors<T>>(&self, priority: i8, processors: &P) -> bool {
        self.highest(processors).is_some_and(|highest| highest > priority)
            || self.handoff.as_ref().is_some_and(|ready| ready.priority() > priority)
    }

    /// Whether no thread waits here with this priority or a higher one.
    #[inline]
    pub fn is_free_for(&self, priority: i8) -> bool {
        self.queue.is_free_for(priority) && self.handoff.as_ref().is_none_or(|ready| ready.priority() < priority)
    }

    /// Puts the thread that was kept next to the current one into the queue: what is next to it from then on was made ready
    /// since.
    #[inline]
    pub fn queue_kept(&mut self) {
        if let Some(kept) = self.handoff.take() {
            self.queue.push(kept);
        }
    }

    /// Lets other processors have what waits here: each that has less to do one thread. If none has, and the first
    /// that waits is less urgent than what runs here (`current`, [`crate::IDLE`] if that is nothing), it takes turns with what runs
    /// elsewhere.
    pub fn share<P: Processors<T>>(&mut self, current: i8, processors: &P) {
        let mut offered: usize = 0;
        for thread in self.queue.iter() {
            if offer(&**thread, processors) {
                offered = offered.saturating_add(1);
            } else if !processors.others().any(|other| takes(other, thread.priority(), processors)) {
                // Those behind it are no more urgent. If one takes threads but may not run this, they may still run there.
                break;
            }
            if offered >= processors.count() {
                break;
            }
        }
        let first = self.queue.iter().next().filter(|first| offered == 0 && first.priority() < current).cloned();
        let Some(first) = first else { return };
        let other = processors
            .others()
            .filter(|other| first.may_run_on(processors.index(*other)))
            .filter(|other| processors.running(*other) <= first.priority())
            .min_by_key(|other| processors.with_queue(*other, |queue| queue.len()));
        if let Some(other) = other
            && let Some(first) = self.queue.remove(&first)
        {
            processors.with_queue(other, |queue| queue.push(first));
            processors.call(other);
        }
    }

    /// Takes out dead threads, so that their memory can go back: as many as there is room for.
    pub fn take_dead(&mut self) -> Dead<T> {
        let mut dead = Dead::default();
        if let Some(thread) = self.handoff.take_if(|thread| thread.is_dead()) {
            // The first of them has room.
            drop(dead.push(thread));
        }
        self.queue.take_dead(&mut dead);
        dead
    }

    /// Takes a thread out that waits here.
    pub fn remove(&mut self, thread: &Arc<T>) -> Option<Arc<T>> {
        self.handoff.take_if(|ready| Arc::ptr_eq(ready, thread)).or_else(|| self.queue.remove(thread))
    }
}

/// Whether a processor would take a thread of this priority: it idles, or runs something less urgent, and was not asked yet.
fn takes<T, P: Processors<T>>(other: P::Processor, priority: i8, processors: &P) -> bool {
    !processors.is_called(other) && processors.running(other) < priority
}

/// A thread waits in a queue: lets another processor that takes it have a look. False if there is none.
fn offer<T: Schedulable, P: Processors<T>>(thread: &T, processors: &P) -> bool {
    let may = |other: &P::Processor| {
        takes(*other, thread.priority(), processors) && thread.may_run_on(processors.index(*other))
    };
    let least = processors.others().filter(may).min_by_key(|other| processors.running(*other));
    least.map(|other| processors.call(other)).is_some()
}
