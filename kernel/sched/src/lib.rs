//! Which thread runs next: preemptive, by priority and round robin within one, with one queue per processor.
//!
//! A thread that can run waits in the [`RunQueue`] of one processor. A processor that has nothing to do, or something less
//! urgent than what waits at another, takes the first thread that waits there. At the end of its slice a thread goes to the
//! queue of the processor where fewest wait. Thus threads of one priority have about the same share, however many there
//! are for each processor.
//!
//! If a thread makes another one ready and then waits, the other one runs next, without going through the queue. Only a
//! thread with a higher priority goes before it. See [`Ready`].
//!
//! This crate decides and switches nothing. What it knows of threads and of other processors it has from
//! [`Schedulable`] and [`Processors`], so its tests run it for machines that they make up.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod ready;
mod run_queue;

pub use ready::{Ready, Turn};
pub use run_queue::{Dead, RunQueue, Waiting};

/// The lowest priority.
pub const LOWEST: i8 = -1;
/// The highest priority.
pub const HIGHEST: i8 = 2;
/// What a processor runs that has nothing to do is less urgent than any thread.
pub const IDLE: i8 = i8::MIN;

/// A thread, as far as scheduling is concerned.
pub trait Schedulable {
    /// From [`LOWEST`] to [`HIGHEST`]; others count as the nearest of these.
    fn priority(&self) -> i8;

    /// Whether it may run on the processor with this number.
    fn may_run_on(&self, processor: u32) -> bool;

    /// Whether it has ended, so that it never runs again.
    fn is_dead(&self) -> bool;

    /// A thread that was ready runs from now on. False if it was not ready, so that it must not run.
    fn begin(&self) -> bool;
}

/// The processors of the machine, as one of them sees the others.
pub trait Processors<T> {
    /// Names one.
    type Processor: Copy;

    /// All others that run.
    fn others(&self) -> impl Iterator<Item = Self::Processor>;

    /// The number of one.
    fn index(&self, processor: Self::Processor) -> u32;

    /// Does something with the queue of one.
    fn with_queue<R>(&self, processor: Self::Processor, act: impl FnOnce(&mut RunQueue<T>) -> R) -> R;

    /// The priority of the thread that one runs, or [`IDLE`].
    fn running(&self, processor: Self::Processor) -> i8;

    /// Whether one was asked to decide again, and has not done so yet.
    fn is_called(&self, processor: Self::Processor) -> bool;

    /// Asks one to decide again.
    fn call(&self, processor: Self::Processor);

    /// How many processors run, with the one that asks.
    fn count(&self) -> usize;
}
