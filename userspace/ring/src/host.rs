//! The system calls on the host, where a test replaces the kernel.

use core::cell::Cell;

/// The implementation of `ENTER`: see [`enter`] for its arguments.
pub type Enter = fn(u32, u32, u64) -> u64;

std::thread_local! {
    static ENTER: Cell<Option<Enter>> = const { Cell::new(None) };
}

/// Has this function answer the calling thread's `ENTER` from now on.
pub fn set_enter(enter: Enter) {
    ENTER.set(Some(enter));
}

/// Gives the kernel up to `to_submit` entries of the ring and waits for `min_complete` unread completions or the
/// deadline. Says how many entries were taken.
///
/// # Panics
/// If no kernel is in place.
#[expect(clippy::panic, reason = "a test that calls a kernel that it has not made fails")]
pub fn enter(to_submit: u32, min_complete: u32, deadline: u64) -> u64 {
    match ENTER.get() {
        Some(enter) => enter(to_submit, min_complete, deadline),
        None => panic!("there is no kernel on the host; a test puts one in place with `set_enter`"),
    }
}

/// There are no objects of a kernel here.
#[must_use]
pub fn invoke(_cap: u64, _interface: u64, _method: u16) -> Option<u64> {
    None
}

/// Ends the process.
pub fn exit(code: i32) -> ! {
    std::process::exit(code)
}

/// Ends the process: a thread of the host has no end of its own here.
pub fn exit_thread(code: i32) -> ! {
    std::process::exit(code)
}
