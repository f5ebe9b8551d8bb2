//! Counting, and statistics of many counts: the same in programs on the runtime, on `std`, and on another system.
#![no_std]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::arch::asm;

/// The time-stamp counter. On a machine that counts instructions it says how many were executed.
#[inline(always)]
#[must_use]
pub fn count() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Many counts of the same thing.
#[derive(Debug, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// Room for this many.
    #[must_use]
    pub fn with_room(samples: usize) -> Self {
        Self(Vec::with_capacity(samples))
    }

    /// Adds what is between two counts, without the counting itself.
    pub fn add(&mut self, from: u64, to: u64, overhead: u64) {
        self.0.push(to.saturating_sub(from).saturating_sub(overhead));
    }

    /// The mean, and a text about the number of samples and their range. It includes what happens only now and then.
    #[must_use]
    pub fn mean(&self) -> (u64, String) {
        let count = self.0.len() as u64;
        let mean = self.0.iter().sum::<u64>().checked_div(count).unwrap_or(0);
        let [least, most] = [self.0.iter().min(), self.0.iter().max()].map(|sample| sample.copied().unwrap_or(0));
        (mean, format!("mean of {count}, {least} to {most}"))
    }

    /// The median, where each sample is `per` operations, and a text about the number of samples
    /// and their range.
    #[must_use]
    pub fn median(mut self, per: u64) -> (u64, String) {
        self.0.sort_unstable();
        let at = |place: usize| self.0.get(place).map_or(0, |sample| (sample + per / 2) / per);
        let last = self.0.len().saturating_sub(1);
        let words = format!("median of {}, {} to {}", self.0.len(), at(0), at(last));
        (at(last / 2), words)
    }
}

/// Arithmetic that keeps one processor busy and touches no memory: `steps` steps, where each depends on the one before.
/// The result is known only by doing them all.
#[inline(never)]
#[must_use]
pub fn compute(steps: u64) -> u64 {
    (0..steps).fold(0x9e37_79b9_7f4a_7c15, |state, _| {
        let state: u64 = state ^ (state << 13);
        let state = state ^ (state >> 7);
        state ^ (state << 17)
    })
}

/// The cost of counting itself.
#[must_use]
pub fn overhead() -> u64 {
    (0..100).map(|_| (count(), count())).map(|(from, to)| to.saturating_sub(from)).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_comes_to_what_each_step_made() {
        assert_eq!(compute(0), 0x9e37_79b9_7f4a_7c15);
        let results: alloc::collections::BTreeSet<u64> = (0..100).map(compute).collect();
        assert_eq!(results.len(), 100);
    }

    #[test]
    fn mean_and_median_are_of_what_a_sample_holds() {
        let mut samples = Samples::with_room(3);
        for (from, to) in [(0, 110), (50, 1060), (7, 37)] {
            samples.add(from, to, 10);
        }
        assert_eq!(samples.mean(), (373, "mean of 3, 20 to 1000".into()));
        assert_eq!(samples.median(10), (10, "median of 3, 2 to 100".into()));
        assert_eq!(Samples::default().mean(), (0, "mean of 0, 0 to 0".into()));
        assert_eq!(Samples::default().median(1), (0, "median of 0, 0 to 0".into()));
    }
}
