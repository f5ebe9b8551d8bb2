//! The system calls.
//!
//! They use the `syscall` instruction: number in `rax`, arguments in `rdi`, `rsi`, `rdx`; the
//! result comes back in `rax`; `rcx` and `r11` are lost; all other registers are preserved, except
//! as [`INVOKE`] says. Any other number in `rax` kills the process with a report.

/// `ENTER(to_submit: u32, min_complete: u32, deadline: u64) -> u64`.
///
/// Takes up to `to_submit` entries from the thread's submission ring. Then it waits until at least
/// `min_complete` unread completions are in its completion ring, or `deadline` has passed
/// (nanoseconds of monotonic time; [`NO_DEADLINE`] waits for ever, 0 never waits). `min_complete`
/// beyond the ring's size counts as its size.
///
/// Returns the number of entries taken. Fewer than asked for means that the completion ring has
/// no room for their answers: read completions and enter again; nothing is lost.
pub const ENTER: u64 = 0;

/// `EXIT(code: i32, scope: u64) -> !`. Ends the calling process, or only the calling thread, with an
/// exit code: [`EXIT_PROCESS`] or [`EXIT_THREAD`]. Any other scope kills the process with a report.
///
/// A thread that ends drops its operations in flight and releases its rings. The end of a process's
/// last thread ends the process with that thread's code.
pub const EXIT: u64 = 1;

/// `EXIT`'s scope: every thread of the process.
pub const EXIT_PROCESS: u64 = 0;
/// `EXIT`'s scope: the calling thread alone.
pub const EXIT_THREAD: u64 = 1;

/// `ENTER`'s deadline that never comes.
pub const NO_DEADLINE: u64 = u64::MAX;

/// `INVOKE(cap: u64, interface: u64, method: u64) -> (outcome: u64, number: u64)`.
///
/// Calls a method of a kernel object that has no parameters and answers with one number of 64 bits; touches no ring.
/// `rax` holds the outcome. With [`INVOKE_DONE`], `rdx` holds the number. With [`INVOKE_NOT`] nothing has happened: the
/// capability is missing or lacks a right, its interface or method differs, the kernel is busy, or the thread is
/// traced. A call by an entry of the ring is then answered, or rejected with the reason.
///
/// `rdi`, `rsi`, `r8`, `r9` and `r10` are lost as well.
pub const INVOKE: u64 = 2;

/// `INVOKE`'s outcome if the method was called.
pub const INVOKE_DONE: u64 = 0;
/// `INVOKE`'s outcome if nothing has happened.
pub const INVOKE_NOT: u64 = 1;
