//! Model-specific registers.

pub const APIC_BASE: u32 = 0x1b;
pub const TSC_DEADLINE: u32 = 0x6e0;
pub const EFER: u32 = 0xc000_0080;
pub const STAR: u32 = 0xc000_0081;
pub const LSTAR: u32 = 0xc000_0082;
pub const FMASK: u32 = 0xc000_0084;
pub const FS_BASE: u32 = 0xc000_0100;
pub const GS_BASE: u32 = 0xc000_0101;
pub const KERNEL_GS_BASE: u32 = 0xc000_0102;

/// Reads a register that the processor has; reading another is a general protection fault.
pub fn read(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reading an MSR has no effect on memory; the callers name registers that exist on
    // every x86-64 processor or that CPUID announced.
    unsafe {
        core::arch::asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nostack, nomem, preserves_flags));
    }
    (u64::from(high) << 32) | u64::from(low)
}

/// Writes a register that the processor has.
pub fn write(register: u32, value: u64) {
    // SAFETY: the callers, all in this crate, write registers named above with values whose
    // meaning is explained where they do it.
    unsafe {
        core::arch::asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32, options(nostack, preserves_flags));
    }
}
