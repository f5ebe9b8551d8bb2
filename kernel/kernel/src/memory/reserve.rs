//! What keeps the kernel alive where memory is full.
//!
//! Most allocations of the kernel panic if there is no memory. To prevent that, the last [`FRAMES`] free frames are
//! reserved for the heap, in pieces of at most one frame. An operation that can enlarge the heap begins only while all of them
//! are free. Otherwise it is rejected with [`capos_abi::Status::OutOfMemory`] before any effect. An allocation of more than
//! one frame, or of a size that the caller chooses, uses a fallible interface (`try_reserve`, [`super::heap::secure`]).

use core::sync::atomic::{AtomicUsize, Ordering};

use super::frames;
use crate::arch::processors;

/// What one operation allocates at most: a frame for each size of small blocks (15), and 49 frames for what
/// is larger, such as messages. One such operation runs at a time, since the kernel is not preempted and one processor at a
/// time holds its lock exclusively.
pub const OPERATION: usize = 64;
/// What an entry on the fast path allocates at most, which each processor may at once: a frame each for the capability
/// tables of both sides, the list of receivers, a node of the derivation forest, a deadline and the tree's nodes above it.
/// What is longer than a frame does not come out of the reserve.
pub const SHORT: usize = 8;
/// What cannot be refused may take: the ends of all processes (1024, each with a report in a block of at most 800
/// bytes and 64 bytes for how it ended) and of all threads (4096, each with 64 bytes for how it ended, or 110 for
/// the deadline of its wait) need 391 frames.
const ENDS: usize = 448;
/// Frames that are the heap's alone.
pub const FRAMES: usize = OPERATION + ENDS;

/// [`FRAMES`] once processes run, and nothing before.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// [`KEPT`], and what entries on the fast path on all other processors may take of it.
static KEPT_BESIDE_OTHERS: AtomicUsize = AtomicUsize::new(0);

/// How many frames are kept for the heap now.
pub fn kept() -> usize {
    KEPT.load(Ordering::Relaxed)
}

/// How many are kept, and what entries on the fast path on all other processors may take of them.
#[inline(always)]
pub fn kept_beside_others() -> usize {
    KEPT_BESIDE_OTHERS.load(Ordering::Relaxed)
}

/// Keeps this many from now on; gives how many it were before. All processors have been added.
pub fn keep(frames: usize) -> usize {
    let others = processors::count().saturating_sub(1).saturating_mul(SHORT);
    KEPT_BESIDE_OTHERS.store(frames.saturating_add(others), Ordering::Relaxed);
    KEPT.swap(frames, Ordering::Relaxed)
}

/// Whether there is as much as what cannot be refused may take.
pub fn covers_ends() -> bool {
    frames::free_count() >= kept().saturating_sub(OPERATION)
}
