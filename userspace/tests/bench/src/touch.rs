//! Touching memory that is mapped.

use core::arch::asm;

/// Reads a byte of mapped memory, by an instruction of its own.
#[inline(always)]
pub fn touch(address: u64) -> u8 {
    let value: u8;
    // SAFETY: callers pass addresses inside mappings that they hold.
    unsafe {
        asm!("mov {v}, byte ptr [{a}]", v = out(reg_byte) value, a = in(reg) address, options(nostack, readonly))
    };
    value
}
