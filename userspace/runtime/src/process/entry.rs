//! Work for the processor's instructions only: the first one of a process, and recognising the first thread.

use core::arch::{asm, naked_asm};

use capos_abi::bootstrap::{FIRST_STACK_BYTES, FIRST_STACK_TOP};

/// Where the kernel starts the first thread: `rdi` = launch record, `rsi` = its length, `rdx` =
/// ring, stack aligned to 16 bytes.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!(
        // The end of the chain of frames.
        "xor ebp, ebp",
        "call {start}",
        "ud2",
        start = sym super::start,
    )
}

/// Whether this is the process's first thread, which alone runs on the first stack.
#[inline]
pub(super) fn is_first_thread() -> bool {
    let stack: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) stack, options(nomem, nostack, preserves_flags)) };
    FIRST_STACK_TOP.wrapping_sub(stack) <= FIRST_STACK_BYTES
}
