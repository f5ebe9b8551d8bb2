//! The kernel's lock: one processor at a time works in the kernel.
//!
//! A processor takes it when it comes in from user mode or from idling, and gives it up as the last thing before
//! it goes back. Who waits for it is served in the order of arrival, and does meanwhile what the processor that
//! has it asks for ([`processors::answer`]).

use core::sync::atomic::{AtomicU32, Ordering};

use crate::processors;

/// The ticket that the next processor draws.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// The ticket whose turn it is.
static SERVED: AtomicU32 = AtomicU32::new(0);

/// Waits until this processor has the kernel to itself.
pub fn take() {
    let ticket = NEXT.fetch_add(1, Ordering::Relaxed);
    while SERVED.load(Ordering::Acquire) != ticket {
        processors::answer();
        core::hint::spin_loop();
    }
}

/// Lets the next processor in. This one must have taken the lock.
pub fn give() {
    SERVED.store(SERVED.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
}
