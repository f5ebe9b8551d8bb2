//! A thread's x87, SSE, AVX and AVX-512 registers while another thread's are loaded.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::NonNull;

use super::cpu;

/// The save area of one thread: XSAVE format where the processor has it, FXSAVE otherwise.
#[derive(Debug)]
pub struct Fpu {
    area: NonNull<u8>,
    layout: Layout,
    /// The sets of registers that are in it: the lower and the upper half of their bits.
    mask: [u32; 2],
    method: Method,
}

/// How the registers are stored. Each area knows it, so that a switch of threads looks at nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    Optimized,
    Whole,
    Old,
}

// SAFETY: the area belongs to this value alone and is plain memory.
unsafe impl Send for Fpu {}
// SAFETY: shared use only reads the area.
unsafe impl Sync for Fpu {}

/// Control words of a fresh thread: all exceptions masked, extended precision, round to nearest.
const CONTROL: u16 = 0x37f;
const MXCSR: u32 = 0x1f80;

impl Fpu {
    /// The state of a thread that has not used it: all registers zero, exceptions masked. `None`
    /// where the kernel heap is exhausted.
    pub fn new() -> Option<Self> {
        let features = cpu::features();
        let size = features.save_area.max(512);
        let layout = Layout::from_size_align(size, 64).ok()?;
        // SAFETY: the layout has a size above zero.
        let area = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: both fields lie in the first 512 bytes of the area, aligned as their types.
        unsafe {
            area.cast::<u16>().write(CONTROL);
            area.add(24).cast::<u32>().write(MXCSR);
        }
        let method = match (features.xsaveopt, features.xsave) {
            (true, _) => Method::Optimized,
            (_, true) => Method::Whole,
            _ => Method::Old,
        };
        Some(Self { area, layout, mask: [features.state_mask as u32, (features.state_mask >> 32) as u32], method })
    }

    /// Stores the processor's registers here.
    pub fn save(&mut self) {
        let [low, high] = self.mask;
        // SAFETY: the area is aligned to 64 bytes and as large as CPUID says for the enabled
        // state; the instructions used are those that CPUID announced.
        unsafe {
            match self.method {
                Method::Optimized => {
                    core::arch::asm!("xsaveopt64 [{}]", in(reg) self.area.as_ptr(), in("eax") low, in("edx") high, options(nostack, preserves_flags))
                }
                Method::Whole => {
                    core::arch::asm!("xsave64 [{}]", in(reg) self.area.as_ptr(), in("eax") low, in("edx") high, options(nostack, preserves_flags))
                }
                Method::Old => {
                    core::arch::asm!("fxsave64 [{}]", in(reg) self.area.as_ptr(), options(nostack, preserves_flags))
                }
            }
        }
    }

    /// Loads the registers from here.
    pub fn restore(&self) {
        let [low, high] = self.mask;
        // SAFETY: the area was made by `new` and written by `save` only, so it is well formed.
        unsafe {
            if self.method != Method::Old {
                core::arch::asm!("xrstor64 [{}]", in(reg) self.area.as_ptr(), in("eax") low, in("edx") high, options(nostack, preserves_flags, readonly));
            } else {
                core::arch::asm!("fxrstor64 [{}]", in(reg) self.area.as_ptr(), options(nostack, preserves_flags, readonly));
            }
        }
    }
}

impl Drop for Fpu {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and not freed before.
        unsafe { dealloc(self.area.as_ptr(), self.layout) };
    }
}
