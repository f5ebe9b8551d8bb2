//! The first instruction of a process.

use core::arch::naked_asm;

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
        start = sym start,
    )
}

extern "C" fn start(record: u64, length: u64, ring: u64) -> ! {
    crate::program::enter_process(record, length, ring)
}
