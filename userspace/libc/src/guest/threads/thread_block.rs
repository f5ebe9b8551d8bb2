//! A thread's own data: the block that the FS base points to.

use core::arch::asm;
use core::cell::Cell;

use capos_ring::{Ring, ThreadCache};

/// Values of a thread's keys. `std` uses one or two.
pub const KEYS: usize = 64;

/// A thread's own block. Its first words are where compiled code expects them.
#[repr(C, align(64))]
pub struct ThreadBlock {
    /// Its own address, by which code finds it.
    pub own: Cell<*const ThreadBlock>,
    reserved: [u64; 4],
    /// Where compiled code looks for a stack canary.
    canary: u64,
    /// Where the kernel has mapped the thread's ring.
    pub ring: Cell<u64>,
    pub errno: Cell<i32>,
    /// Lowest address of its stack, and the stack's bytes.
    pub stack: Cell<(u64, u64)>,
    pub values: [Cell<*mut core::ffi::c_void>; KEYS],
    /// Free blocks of memory; none if all is zero.
    pub cache: ThreadCache,
    /// The thread's record for others; null for the first one.
    pub thread: Cell<*const crate::guest::threads::thread::Thread>,
}

const _: () = assert!(size_of::<ThreadBlock>() as u64 <= capos_abi::bootstrap::THREAD_BLOCK_BYTES);

/// The calling thread's block.
pub fn current() -> &'static ThreadBlock {
    let block: *const ThreadBlock;
    // SAFETY: the FS base of every thread points to its block, whose first word is its own address; the block lives
    // as long as the thread runs.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) block, options(nostack, readonly, preserves_flags));
        &*block
    }
}

/// The address of the calling thread's ring.
pub fn here() -> u64 {
    current().ring.get()
}

/// The calling thread's ring.
pub fn ring() -> Ring {
    // SAFETY: `here` reads the value that the thread's start has written.
    match unsafe { Ring::at(here()) } {
        Ok(ring) => ring,
        // Every thread starts with a ring.
        Err(_) => crate::guest::process::end(crate::guest::process::BROKEN),
    }
}
