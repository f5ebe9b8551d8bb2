//! Under which name and how often something is measured.

use alloc::format;
use alloc::string::String;

use capos_abi::RawEntry;
use capos_abi::syscall::NO_DEADLINE;
use capos_measure::{Samples, count, overhead};
use capos_rt::{Error, log, raw};

use crate::entries;

/// Figures that are measured in one state of the machine.
pub struct Series {
    /// What follows each figure's name: nothing, or `@AXIS=POINT`, which makes it a point of a curve.
    suffix: String,
    /// How often each thing is measured.
    pub rounds: usize,
}

impl Series {
    /// The figures themselves.
    pub fn new(rounds: usize) -> Self {
        Self { suffix: String::new(), rounds }
    }

    /// A point of their curves.
    pub fn at(axis: &str, point: u64, rounds: usize) -> Self {
        Self { suffix: format!("@{axis}={point}"), rounds }
    }

    /// A figure is measured from here on: `capos profile` waits for it.
    pub fn begin(&self, name: &str) -> Samples {
        log::info!("measures {name}{}.", self.suffix);
        Samples::with_room(self.rounds)
    }

    /// Logs a figure, where each sample is `per` operations.
    pub fn tell(&self, name: &str, samples: Samples, per: u64, how: &str) {
        let (value, words) = samples.median(per);
        log::info!("bench {name}{} {value} instructions: {how}; {words}", self.suffix);
    }

    /// The cost of one ENTER per entry, from its first instruction to its return, with `times` entries like this one
    /// that all complete before it returns.
    pub fn enter(&self, name: &str, (entry, times): (&RawEntry, u32), how: &str) -> Result<(), Error> {
        self.enter_in_turns(name, (&[*entry], times), how)
    }

    /// The same, with the next of several entries each time.
    pub fn enter_in_turns(&self, name: &str, (all, times): (&[RawEntry], u32), how: &str) -> Result<(), Error> {
        let overhead = overhead();
        let mut samples = self.begin(name);
        for entry in all.iter().cycle().take(self.rounds) {
            (0..times).for_each(|_| entries::push(entry));
            let from = count();
            raw::enter(times, times, NO_DEADLINE);
            samples.add(from, count(), overhead);
            let status = entries::drain();
            if status != 0 {
                return Err(Error::new(format!("measuring {name}: status {status}")));
            }
        }
        self.tell(name, samples, u64::from(times), how);
        Ok(())
    }
}
