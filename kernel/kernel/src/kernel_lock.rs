//! The kernel's lock: one processor at a time works in the kernel.
//!
//! A processor takes it when it comes in from user mode or from idling, and gives it up as the last thing before
//! it goes back. Who waits for it is served in the order of arrival, and does meanwhile what the processor that
//! has it asks for ([`processors::answer`]).

use capos_sync::TicketLock;

use crate::processors;

static LOCK: TicketLock = TicketLock::new(0);

/// Waits until this processor has the kernel to itself.
pub fn take() {
    LOCK.take(|| {
        processors::answer();
        core::hint::spin_loop();
    });
}

/// Lets the next processor in. This one must have taken the lock.
pub fn give() {
    LOCK.give();
}
