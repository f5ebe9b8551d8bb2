//! Counting, and what to make of many counts.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::arch::asm;

/// The time-stamp counter. On a machine that counts instructions it says how many were executed.
#[inline(always)]
pub fn count() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags)) };
    u64::from(high) << 32 | u64::from(low)
}

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

/// Many counts of the same thing.
#[derive(Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// Room for this many.
    pub fn with_room(samples: usize) -> Self {
        Self(Vec::with_capacity(samples))
    }

    /// Adds what lies between two counts, without the counting itself.
    pub fn add(&mut self, from: u64, to: u64, overhead: u64) {
        self.0.push(to.saturating_sub(from).saturating_sub(overhead));
    }

    /// The median where each sample is `per` of what is measured, and in words how often that was
    /// done and how much it differs.
    pub fn median(mut self, per: u64) -> (u64, String) {
        self.0.sort_unstable();
        let at = |place: usize| self.0.get(place).map_or(0, |sample| (sample + per / 2) / per);
        let last = self.0.len().saturating_sub(1);
        let words = format!("median of {}, {} to {}", self.0.len(), at(0), at(last));
        (at(last / 2), words)
    }
}

/// What counting itself costs.
pub fn overhead() -> u64 {
    (0..100).map(|_| (count(), count())).map(|(from, to)| to.saturating_sub(from)).min().unwrap_or(0)
}
