//! Which kernels to use.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::{Kernels, Scalar, Swar};
use crate::EngineError;
use crate::activations::Activations;
use crate::block::Kind;
use crate::pool::Single;
use crate::tensor::Tensor;

/// Names of all sets, of which a processor may have only some.
pub const NAMES: [&str; 6] = ["scalar", "swar", "sse41", "avx2", "avx512", "amx"];

/// The sets that can run here, the plainest first.
pub fn available() -> Vec<&'static dyn Kernels> {
    let mut all: Vec<&'static dyn Kernels> = alloc::vec![&Scalar, &Swar];
    #[cfg(target_arch = "x86_64")]
    {
        all.extend(super::Sse41::get().map(|kernels| kernels as &dyn Kernels));
        all.extend(super::Avx2::get().map(|kernels| kernels as &dyn Kernels));
        all.extend(super::Avx512::get().map(|kernels| kernels as &dyn Kernels));
        all.extend(super::Amx::get().map(|kernels| kernels as &dyn Kernels));
    }
    all
}

/// The set of this name.
///
/// # Errors
/// [`EngineError::Kernels`] where there is none, or none that can run here.
pub fn named(name: &str) -> Result<&'static dyn Kernels, EngineError> {
    let why = match NAMES.contains(&name) {
        true => "the processor, or the system, does not have the instructions",
        false => "there are none of this name, only scalar, swar, sse41, avx2, avx512 and amx",
    };
    let found = available().into_iter().find(|kernels| kernels.name() == name);
    found.ok_or_else(|| EngineError::Kernels { name: name.to_string(), why })
}

/// Rows and columns of the matrix that sets are tried with.
const ROWS: usize = 32;
const COLUMNS: usize = 512;

/// How often each set is tried that may be the fastest. The sets take turns: what holds the thread up for a while holds up all
/// of them, so that workers which are started beside other work choose the same set, where one is clearly the fastest.
const TRIALS: usize = 9;

/// After so many trials a set is tried no more that has always taken [`HOPELESS`] times as long as the fastest. One alone tells
/// little: code that is new to an emulator is translated first.
const TRIALS_AT_LEAST: usize = 3;
const HOPELESS: u64 = 2;

/// Rows of activations of the trials: a token that is made, and a piece of a prompt.
const COUNTS: [usize; 2] = [1, 16];

/// A set that is tried.
struct Candidate {
    kernels: &'static dyn Kernels,
    /// Rows that a matrix is multiplied with, as many as [`COUNTS`] say, room for the products, and the least time that it took.
    trials: [(Activations, Vec<f32>, u64); COUNTS.len()],
}

impl Candidate {
    fn new(kernels: &'static dyn Kernels) -> Self {
        let trials = COUNTS.map(|count| {
            let mut activations = Activations::default();
            activations.resize(count, COLUMNS).fill(0.5);
            activations.prepare(Kind::Q8_0, kernels, &Single);
            (activations, alloc::vec![0.0; ROWS.saturating_mul(count)], u64::MAX)
        });
        Self { kernels, trials }
    }

    /// Has it multiply once more.
    fn try_again(&mut self, matrix: &Tensor<'_>, now: &dyn Fn() -> u64) {
        for (activations, out, least) in &mut self.trials {
            let mut rows: Vec<&mut [f32]> = out.chunks_exact_mut(ROWS).collect();
            let began = now();
            self.kernels.product(matrix, activations, &mut rows);
            // A clock that went back tells nothing.
            if let Some(took) = now().checked_sub(began) {
                *least = took.min(*least);
            }
        }
    }

    /// The least times that it took, together.
    fn took(&self) -> u64 {
        self.trials.iter().fold(0, |sum: u64, (.., least)| sum.saturating_add(*least))
    }
}

/// The set that is fastest here, found by a trial, for what the processor says it has may be slow: emulated wide
/// registers are. `now` tells a time in any unit.
pub fn fastest(now: &dyn Fn() -> u64) -> &'static dyn Kernels {
    // The bytes make blocks of small numbers, whose scales are numbers.
    let block_bytes = 34;
    let bytes = alloc::vec![0x11; ROWS * COLUMNS / 32 * block_bytes];
    let Some(matrix) = Tensor::new(Kind::Q8_0, ROWS, COLUMNS, &bytes) else { return &Scalar };
    let mut left: Vec<Candidate> = available().into_iter().map(Candidate::new).collect();
    for trial in 1..=TRIALS {
        left.iter_mut().for_each(|candidate| candidate.try_again(&matrix, now));
        if trial >= TRIALS_AT_LEAST {
            let most = left.iter().map(Candidate::took).min().unwrap_or(u64::MAX).saturating_mul(HOPELESS);
            left.retain(|candidate| candidate.took() <= most);
        }
    }
    // Of equals the widest.
    let best = left.into_iter().reduce(|best, other| if other.took() <= best.took() { other } else { best });
    best.map_or(&Scalar, |best| best.kernels)
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// Looks at the clock in a set's turn.
    const TURN: usize = 2 * COUNTS.len();

    /// What is chosen, and after how many looks at a clock that goes on by `step` at each.
    fn chosen(step: impl Fn(usize) -> i64) -> (&'static str, usize) {
        let (looks, time) = (Cell::new(0), Cell::new(1_000_u64));
        let now = || {
            time.set(time.get().strict_add_signed(step(looks.replace(looks.get() + 1))));
            time.get()
        };
        (fastest(&now).name(), looks.get())
    }

    fn name(index: usize) -> &'static str {
        available()[index].name()
    }

    #[test]
    fn the_set_that_takes_least_time_is_chosen() {
        let sets = available().len();
        let third = 2.min(sets - 1);
        assert_eq!(chosen(|look| if look / TURN % sets == third { 10 } else { 15 }).0, name(third));
    }

    #[test]
    fn a_while_in_which_everything_is_slow_changes_nothing() {
        let sets = available().len();
        // The first set is the fastest. It is held up in all rounds but one, and the others are with it then or never.
        let step = |look: usize| match (look / TURN % sets, look / TURN / sets) {
            (0, 6) => 10,
            (0, _) => 19,
            (_, 6) => 18,
            _ => 15,
        };
        assert_eq!(chosen(step).0, name(0));
    }

    #[test]
    fn of_equals_the_widest_is_chosen() {
        assert_eq!(chosen(|_| 0).0, name(available().len() - 1));
    }

    #[test]
    fn a_clock_that_goes_back_once_changes_nothing() {
        let sets = available().len();
        // The first set takes longer than all others, but for the trial in which the clock goes back.
        let step = |look: usize| match look {
            1 => -1,
            _ if (look / TURN).is_multiple_of(sets) => 15,
            _ => 10,
        };
        assert_eq!(chosen(step).0, name(sets - 1));
    }

    #[test]
    fn a_set_that_takes_much_longer_is_soon_tried_no_more() {
        let sets = available().len();
        // The second set is the fastest, but for its first trial.
        let step = |look: usize| {
            let (set, round) = (look / TURN % sets, look / TURN / sets);
            if set == 1 && round > 0 || round >= TRIALS_AT_LEAST { 1 } else { 100 }
        };
        assert_eq!(chosen(step), (name(1), TURN * (sets * TRIALS_AT_LEAST + TRIALS - TRIALS_AT_LEAST)));
    }

    #[test]
    fn sets_are_found_by_their_names() {
        for kernels in available() {
            assert_eq!(named(kernels.name()).unwrap().name(), kernels.name());
            assert!(NAMES.contains(&kernels.name()));
        }
        assert!(named("abacus").is_err());
    }
}
