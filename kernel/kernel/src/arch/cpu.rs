//! What the processor can do, and turning on what protects the kernel.

use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

use capos_machine::vector_state;
use spin::Once;

use super::msr;

pub const EFER_SYSTEM_CALL: u64 = 1;
const EFER_NO_EXECUTE: u64 = 1 << 11;

/// Instructions that programs are compiled with, x86-64-v2, as bits of ECX of CPUID's leaf 1: SSE3, SSSE3, CMPXCHG16B, SSE4.1,
/// SSE4.2 and POPCNT.
const LEAST_INSTRUCTIONS: u32 = 1 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23;

/// What CPUID announces, as far as the kernel asks.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// Maker and model, for the log.
    pub vendor: [u8; 12],
    pub no_execute: bool,
    pub apic: bool,
    pub x2apic: bool,
    pub tsc_deadline: bool,
    pub invariant_tsc: bool,
    pub hypervisor: bool,
    pub huge_pages: bool,
    pub smep: bool,
    pub smap: bool,
    pub umip: bool,
    pub rdrand: bool,
    pub rdseed: bool,
    pub xsave: bool,
    pub xsaveopt: bool,
    /// Register sets that XSAVE keeps (XCR0).
    pub state_mask: u64,
    /// Bytes of a thread's save area.
    pub save_area: usize,
}

static FEATURES: Once<Features> = Once::new();

/// What this machine's processors can do. Nothing before [`initialize`].
pub fn features() -> &'static Features {
    static NOTHING: Features = Features {
        vendor: [0; 12],
        no_execute: false,
        apic: false,
        x2apic: false,
        tsc_deadline: false,
        invariant_tsc: false,
        hypervisor: false,
        huge_pages: false,
        smep: false,
        smap: false,
        umip: false,
        rdrand: false,
        rdseed: false,
        xsave: false,
        xsaveopt: false,
        state_mask: 0,
        save_area: 0,
    };
    FEATURES.get().unwrap_or(&NOTHING)
}

/// The number of this processor's local APIC, from the processor itself.
pub fn apic_number() -> u32 {
    let topology = cpuid(0xb, 0);
    if topology.ebx == 0 { cpuid(1, 0).ebx >> 24 } else { topology.edx }
}

/// The answer of CPUID, zeros where the processor does not know the leaf.
pub fn cpuid(leaf: u32, sub: u32) -> CpuidResult {
    let highest = __cpuid(leaf & 0xf000_0000).eax;
    if leaf > highest {
        return CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };
    }
    __cpuid_count(leaf, sub)
}

/// Finds out what the processor can do. Errors as text where the kernel cannot run on it.
///
/// # Errors
/// The sentence to print.
pub fn detect() -> Result<(), &'static str> {
    let bit = |word: u32, bit: u32| word >> bit & 1 == 1;
    let vendor = __cpuid(0);
    let basic = cpuid(1, 0);
    let seven = cpuid(7, 0);
    let state = cpuid(0xd, 0);
    let extended = cpuid(0x8000_0001, 0);
    let power = cpuid(0x8000_0007, 0);
    let mut name = [0; 12];
    let words = [vendor.ebx, vendor.edx, vendor.ecx];
    for (slot, byte) in name.iter_mut().zip(words.iter().flat_map(|w| w.to_le_bytes())) {
        *slot = byte;
    }
    let xsave = bit(basic.ecx, 26);
    let supported = u64::from(state.eax) | u64::from(state.edx) << 32;
    let state_mask = if xsave { vector_state::enabled(supported) } else { 0 };
    let features = Features {
        vendor: name,
        no_execute: bit(extended.edx, 20),
        apic: bit(basic.edx, 9),
        x2apic: bit(basic.ecx, 21),
        tsc_deadline: bit(basic.ecx, 24),
        invariant_tsc: bit(power.edx, 8),
        hypervisor: bit(basic.ecx, 31),
        huge_pages: bit(extended.edx, 26),
        smep: bit(seven.ebx, 7),
        smap: bit(seven.ebx, 20),
        umip: bit(seven.ecx, 2),
        rdrand: bit(basic.ecx, 30),
        rdseed: bit(seven.ebx, 18),
        xsave,
        xsaveopt: xsave && bit(cpuid(0xd, 1).eax, 0),
        state_mask,
        save_area: vector_state::OLD_AREA,
    };
    if !features.no_execute {
        return Err("this processor cannot forbid execution of data pages (NX); capOS needs that");
    }
    if !features.apic {
        return Err("this processor has no local APIC; capOS needs one");
    }
    if !bit(basic.edx, 4) {
        return Err("this processor has no time-stamp counter; capOS needs one");
    }
    // The last bit is LAHF, which x86-64-v2 has as well.
    if basic.ecx & LEAST_INSTRUCTIONS != LEAST_INSTRUCTIONS || !bit(extended.ecx, 0) {
        return Err(
            "this processor lacks instructions of x86-64-v2, such as SSSE3, SSE4.2 and POPCNT; capOS needs them. \
                    If it is emulated, choose another one, with QEMU `-cpu max`",
        );
    }
    initialize(&features);
    let part = |set| {
        let part = cpuid(0xd, set);
        (part.eax, part.ebx)
    };
    // What the processor says of the whole area depends on the sets that are enabled.
    let save_area = match xsave {
        true => vector_state::area(state_mask, part).max(cpuid(0xd, 0).ebx as usize),
        false => vector_state::OLD_AREA,
    };
    FEATURES.call_once(|| Features { save_area, ..features });
    Ok(())
}

/// Turns on, on a further processor, what [`detect`] did on the first.
pub fn join() {
    initialize(features());
}

/// Turns the protections and register sets on, on the processor that runs this.
fn initialize(features: &Features) {
    msr::write(msr::EFER, msr::read(msr::EFER) | EFER_NO_EXECUTE);
    // Write protection also for the kernel, native x87 errors, no emulation, caches on.
    let (set, clear) = (1 << 16 | 1 << 5 | 1 << 1, 1 << 2 | 1 << 3 | 1 << 18 | 1 << 29 | 1 << 30);
    // SAFETY: each bit of CR0 and CR4 changed here restricts the kernel or enables registers that
    // only threads use; bits of features that CPUID does not announce are not set. XCR0 names sets
    // that CPUID announced.
    unsafe {
        let mut cr0: u64;
        core::arch::asm!("mov {}, cr0", out(reg) cr0, options(nostack, nomem, preserves_flags));
        cr0 = cr0 & !clear | set;
        core::arch::asm!("mov cr0, {}", in(reg) cr0, options(nostack, preserves_flags));
        let mut cr4: u64;
        core::arch::asm!("mov {}, cr4", out(reg) cr4, options(nostack, nomem, preserves_flags));
        // Off: time-stamp counter restriction, performance counters for threads, FS and GS base
        // instructions (threads get their FS base from the kernel).
        cr4 &= !(1 << 2 | 1 << 8 | 1 << 16);
        // On: global pages, FXSAVE and SSE exceptions.
        cr4 |= 1 << 7 | 1 << 9 | 1 << 10;
        for (there, bit) in [(features.umip, 11), (features.xsave, 18), (features.smep, 20), (features.smap, 21)] {
            if there {
                cr4 |= 1 << bit;
            }
        }
        core::arch::asm!("mov cr4, {}", in(reg) cr4, options(nostack, preserves_flags));
        if features.xsave {
            let (low, high) = (features.state_mask as u32, (features.state_mask >> 32) as u32);
            core::arch::asm!("xsetbv", in("ecx") 0, in("eax") low, in("edx") high, options(nostack, preserves_flags));
        }
    }
}
