//! What only the processor's instructions can do: system calls, the entry, memory functions.

#[cfg(all(capos_guest, feature = "program"))]
mod entry;
#[cfg(any(all(capos_guest, not(feature = "std")), test))]
mod memory_functions;
#[cfg(capos_guest)]
mod syscall;

#[cfg(all(capos_guest, feature = "program"))]
pub(crate) use syscall::is_first_thread;
#[cfg(capos_guest)]
pub(crate) use syscall::{enter, exit, exit_thread};

#[cfg(not(capos_guest))]
pub(crate) use crate::simulated::enter;
