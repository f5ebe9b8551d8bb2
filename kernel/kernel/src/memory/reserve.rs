//! What keeps the kernel alive where memory is full.
//!
//! Most of the kernel's allocations end the machine where they find no memory. They never find none: the last
//! [`FRAMES`] free frames are for the heap alone, in pieces of one frame at most, and an operation that can make
//! the heap larger begins only while all of them are free. Otherwise it is answered with
//! [`capos_abi::Status::OutOfMemory`] before it has had any effect. What takes more than a frame in one piece, or
//! as much as a caller says, asks in a way that can be refused (`try_reserve`, [`super::heap::secure`]).

use core::sync::atomic::{AtomicUsize, Ordering};

use capos_abi::CapId;
use capos_abi::entry::Operation;
use capos_schema::kernel_dispatch::{CAPABILITY_TABLE, CAPABILITY_TABLE_REVOKE, PROCESS, PROCESS_KILL};

use super::frames;
use crate::arch::processors;
use crate::cpu::kernel_lock;
use crate::object::capability::{Capability, Object};
use crate::object::memory::cache;
use crate::object::process::Process;

/// What one operation allocates at most: a frame for each size of small blocks (15), and 49 frames for what
/// is larger, such as messages. One such operation runs at a time, since the kernel is not preempted and one processor at a
/// time has its lock alone.
pub const OPERATION: usize = 64;
/// What an entry that goes the short way allocates at most, which each processor may at once: a frame each for the capability
/// tables of both sides, the list of receivers, a node of the derivation forest, a deadline and the tree's nodes above it.
/// What is longer than a frame does not come out of the reserve.
const SHORT: usize = 8;
/// What cannot be refused may take: the ends of all processes (1024, each with a report in a block of at most 800
/// bytes and 64 bytes for how it ended) and of all threads (4096, each with 64 bytes for how it ended, or 110 for
/// the deadline of its wait) need 391 frames.
const ENDS: usize = 448;
/// Frames that are the heap's alone.
pub const FRAMES: usize = OPERATION + ENDS;

/// The page cache gives way before entries could not go the short way for want of memory.
const _: () = assert!(FRAMES + (processors::MOST - 1) * SHORT <= cache::RESERVE);

/// [`FRAMES`] once processes run, and nothing before.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// [`KEPT`], and what entries that go the short way on all other processors may take of it.
static KEPT_BESIDE_OTHERS: AtomicUsize = AtomicUsize::new(0);

/// How many frames are kept for the heap now.
pub fn kept() -> usize {
    KEPT.load(Ordering::Relaxed)
}

/// Keeps so many from now on; gives how many it were before. All processors have been added.
pub fn keep(frames: usize) -> usize {
    let others = processors::count().saturating_sub(1).saturating_mul(SHORT);
    KEPT_BESIDE_OTHERS.store(frames.saturating_add(others), Ordering::Relaxed);
    KEPT.swap(frames, Ordering::Relaxed)
}

/// Whether an entry may go the short way: the reserve stays whole, whatever other processors take meanwhile the same way. Where
/// there is no more than for one of them, it goes the long way, alone.
#[inline(always)]
pub fn allows_short() -> bool {
    let free = frames::free_count();
    free >= KEPT_BESIDE_OTHERS.load(Ordering::Relaxed) || free >= kept() && !kernel_lock::is_shared()
}

/// Whether all of the reserve is free, where pages of the cache have given way. No lock may be held.
pub fn is_whole() -> bool {
    refill();
    frames::free_count() >= kept()
}

/// Whether there is as much as what cannot be refused may take.
pub fn covers_ends() -> bool {
    frames::free_count() >= kept().saturating_sub(OPERATION)
}

/// Gives pages of the cache up where the reserve is not whole. No lock may be held.
pub fn refill() {
    if frames::free_count() < kept() {
        cache::make_room(0);
    }
}

/// Whether an operation of a process has to be refused, for want of memory that it might need.
#[inline]
pub fn refuses(process: &Process, operation: &Operation) -> bool {
    frames::free_count() < kept() && {
        refill();
        frames::free_count() < needed(process, operation)
    }
}

/// Frames that must be free for an operation to begin.
#[cold]
fn needed(process: &Process, operation: &Operation) -> usize {
    match *operation {
        Operation::Call { cap, interface, method, .. } if gives_back(process, CapId(cap), interface, method) => 0,
        Operation::Call { .. } => kept(),
        Operation::Return { caps, .. } | Operation::ReturnRecv { caps, .. } if caps.sent > 0 => kept(),
        // A place in a queue, which may have to grow.
        Operation::Recv { .. } | Operation::ReturnRecv { .. } | Operation::Wait { .. } | Operation::WaitWord { .. } => {
            kept().saturating_sub(OPERATION)
        }
        // These give back, or take nothing.
        Operation::Nop
        | Operation::Return { .. }
        | Operation::Release { .. }
        | Operation::Cancel { .. }
        | Operation::Notify { .. }
        | Operation::WakeWord { .. }
        | Operation::ThreadPointer { .. } => 0,
    }
}

/// Whether a call is one of those that must be possible. The object counts, not what the entry calls it: a server's
/// client may bear any interface's number.
fn gives_back(process: &Process, cap: CapId, interface: u64, method: u16) -> bool {
    let is_one = |capability: &Capability| match capability.object {
        Object::Process(_) => (interface, method) == (PROCESS, PROCESS_KILL),
        Object::Table(_) => (interface, method) == (CAPABILITY_TABLE, CAPABILITY_TABLE_REVOKE),
        _ => false,
    };
    process.with(cap, is_one).unwrap_or(false)
}
