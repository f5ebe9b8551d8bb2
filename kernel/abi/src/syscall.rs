//! The two system calls.
//!
//! Both use the `syscall` instruction: number in `rax`, arguments in `rdi`, `rsi`, `rdx`; the
//! result comes back in `rax`; `rcx` and `r11` are lost, every other register is preserved.
//! Any other number in `rax` kills the process with a report.

/// `ENTER(to_submit: u32, min_complete: u32, deadline: u64) -> u64`.
///
/// Takes up to `to_submit` entries from the thread's submission ring, then waits until at least
/// `min_complete` completions lie unread in its completion ring or `deadline` has passed
/// (nanoseconds of monotonic time; [`NO_DEADLINE`] waits for ever, 0 never waits). `min_complete`
/// beyond the ring's size counts as its size.
///
/// Returns the number of entries taken. Fewer than asked for means that the completion ring has
/// no room for their answers: read completions and enter again; nothing is lost.
pub const ENTER: u64 = 0;

/// `EXIT(code: i32, scope: u64) -> !`. Ends the calling process, or only the calling thread, with an
/// exit code: [`EXIT_PROCESS`] or [`EXIT_THREAD`]. Any other scope kills the process with a report.
///
/// A thread that ends drops what it has in flight and gives back its rings. The end of a process's
/// last thread ends the process with that thread's code.
pub const EXIT: u64 = 1;

/// `EXIT`'s scope: every thread of the process.
pub const EXIT_PROCESS: u64 = 0;
/// `EXIT`'s scope: the calling thread alone.
pub const EXIT_THREAD: u64 = 1;

/// `ENTER`'s deadline that never comes.
pub const NO_DEADLINE: u64 = u64::MAX;
