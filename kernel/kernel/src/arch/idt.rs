//! The interrupt descriptor table: a stub for each of the 256 vectors.

use core::sync::atomic::{AtomicU64, Ordering};

use super::{entry, gdt};

/// Two words per vector.
struct Table([[AtomicU64; 2]; 256]);

static TABLE: Table = Table([const { [AtomicU64::new(0), AtomicU64::new(0)] }; 256]);

/// What `lidt` takes.
#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

/// Present, interrupt gate (the processor turns interrupts off on entry).
const GATE: u64 = 0x8e00 << 32;
/// User mode may raise the vector with an instruction.
const USER: u64 = 3 << 45;
const BREAKPOINT: u8 = 3;

/// Fills the table; once, before [`load`].
pub fn initialize() {
    for (vector, slot) in (0..=255u8).zip(&TABLE.0) {
        let stack = match vector {
            2 => gdt::NMI_STACK,
            8 => gdt::DOUBLE_FAULT_STACK,
            18 => gdt::MACHINE_CHECK_STACK,
            _ => 0,
        };
        let address = entry::stub(vector);
        let user = if vector == BREAKPOINT { USER } else { 0 };
        let low = (address & 0xffff)
            | (u64::from(gdt::KERNEL_CODE) << 16)
            | (u64::from(stack) << 32)
            | GATE
            | user
            | ((address >> 16 & 0xffff) << 48);
        let [first, second] = slot;
        first.store(low, Ordering::Relaxed);
        second.store(address >> 32, Ordering::Relaxed);
    }
}

/// Makes the table this processor's.
pub fn load() {
    let pointer = Pointer { limit: const { (size_of::<Table>() - 1) as u16 }, base: &raw const TABLE as u64 };
    // SAFETY: the table is static, filled, and its stubs handle every vector.
    unsafe { core::arch::asm!("lidt [{}]", in(reg) &raw const pointer, options(nostack, readonly, preserves_flags)) };
}
