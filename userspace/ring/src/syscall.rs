//! The system calls.

use core::arch::asm;

use capos_abi::syscall::{ENTER, EXIT, EXIT_PROCESS, EXIT_THREAD, INVOKE, INVOKE_DONE};

/// Gives the kernel up to `to_submit` entries of the ring and waits for `min_complete` unread
/// completions or the deadline (nanoseconds, [`capos_abi::syscall::NO_DEADLINE`] for none). Says
/// how many entries were taken.
///
/// Entries name buffers by address. The code that queued them exposed those addresses and keeps the
/// buffers until the entries complete, so the kernel's writes are those of the foreign side of an
/// exposed pointer.
#[inline]
pub fn enter(to_submit: u32, min_complete: u32, deadline: u64) -> u64 {
    let taken: u64;
    // SAFETY: the kernel writes only to the buffers that the entries of the ring name, and the code that
    // queued them vouched for those. Without `nomem` the compiler takes all exposed memory as changed.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ENTER => taken,
            in("rdi") u64::from(to_submit),
            in("rsi") u64::from(min_complete),
            in("rdx") deadline,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    taken
}

/// Calls a method that has no parameters and answers with one number, of an object of the kernel, without the ring.
/// `None` if nothing has happened: an entry of the ring is answered, or refused with the reason.
#[inline]
#[must_use]
pub fn invoke(cap: u64, interface: u64, method: u16) -> Option<u64> {
    let (outcome, number): (u64, u64);
    // SAFETY: INVOKE touches no memory of the process, and loses no registers but these. Without `nomem` the compiler
    // reads again, after it, what others wrote before they signalled a bit that it polls.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") INVOKE => outcome,
            inlateout("rdi") cap => _,
            inlateout("rsi") interface => _,
            inlateout("rdx") u64::from(method) => number,
            lateout("rcx") _,
            lateout("r8") _,
            lateout("r9") _,
            lateout("r10") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    (outcome == INVOKE_DONE).then_some(number)
}

/// Ends the process.
pub fn exit(code: i32) -> ! {
    leave(code, EXIT_PROCESS)
}

/// Ends the calling thread alone. The last thread's end is that of the process, with this code.
pub fn exit_thread(code: i32) -> ! {
    leave(code, EXIT_THREAD)
}

fn leave(code: i32, scope: u64) -> ! {
    // SAFETY: EXIT does not return and touches no memory of the process except the calling thread's
    // rings, which are no longer used.
    unsafe {
        asm!(
            "syscall",
            "ud2",
            in("rax") EXIT,
            in("rdi") i64::from(code),
            in("rsi") scope,
            options(noreturn, nostack),
        );
    }
}
