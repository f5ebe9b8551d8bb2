//! Which kernels to use.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::{Kernels, MANY_FROM, Scalar, Swar};
use crate::EngineError;
use crate::activations::Activations;
use crate::block::Kind;
use crate::pool::Single;
use crate::tensor::Tensor;

/// Names of all sets; a processor may have only some.
pub const NAMES: [&str; 6] = ["scalar", "swar", "sse41", "avx2", "avx512", "amx"];

/// The sets that can run here, the plainest first.
pub fn available() -> Vec<&'static dyn Kernels> {
    let mut all: Vec<&'static dyn Kernels> = alloc::vec![&Scalar, &Swar];
    #[cfg(all(target_arch = "x86_64", feature = "simd"))]
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
/// [`EngineError::Kernels`] if there is none, or none that can run here.
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

/// How often each set is tried that may be the fastest. The sets take turns, so that a delay of the thread affects all
/// of them. Then workers that start under load choose the same set, if one is clearly the fastest.
const TRIALS: usize = 9;

/// After this many trials, a set that has always taken [`HOPELESS`] times as long as the fastest is dropped. A single
/// one says little: an emulator first translates new code.
const TRIALS_AT_LEAST: usize = 3;
const HOPELESS: u64 = 2;

/// Rows of activations of the trials: a token that is made, and a piece of a prompt.
const COUNTS: [usize; 2] = [1, 16];

/// A product that is tried.
struct Trial {
    /// Rows that a matrix is multiplied with.
    activations: Activations,
    /// Room for the products.
    out: Vec<f32>,
    /// The least time that it took.
    least: u64,
}

impl Trial {
    /// With this many rows of activations and weights of this kind.
    fn new(kernels: &dyn Kernels, kind: Kind, count: usize) -> Self {
        let mut activations = Activations::default();
        activations.resize(count, COLUMNS).fill(0.5);
        activations.prepare(kind, kernels, &Single);
        Self { activations, out: alloc::vec![0.0; ROWS.saturating_mul(count)], least: u64::MAX }
    }

    /// Has a set multiply again.
    fn try_again(&mut self, kernels: &dyn Kernels, matrix: &Tensor<'_>, now: &dyn Fn() -> u64) {
        let mut rows: Vec<&mut [f32]> = self.out.chunks_exact_mut(ROWS).collect();
        let began = now();
        kernels.product(matrix, &self.activations, &mut rows);
        // A clock that went back gives no time.
        if let Some(took) = now().checked_sub(began) {
            self.least = took.min(self.least);
        }
    }
}

/// A set that is tried, with as many rows of activations as [`COUNTS`] say.
struct Candidate {
    kernels: &'static dyn Kernels,
    trials: [Trial; COUNTS.len()],
}

impl Candidate {
    fn new(kernels: &'static dyn Kernels) -> Self {
        Self { kernels, trials: COUNTS.map(|count| Trial::new(kernels, Kind::Q8_0, count)) }
    }

    /// Has it multiply again.
    fn try_again(&mut self, matrix: &Tensor<'_>, now: &dyn Fn() -> u64) {
        self.trials.iter_mut().for_each(|trial| trial.try_again(self.kernels, matrix, now));
    }

    /// The least times that it took, together.
    fn took(&self) -> u64 {
        self.trials.iter().fold(0, |sum: u64, trial| sum.saturating_add(trial.least))
    }
}

/// The set with the faster code path for each number of rows of activations. It tries each number from which the path
/// for many rows may start, with weights of the most common type.
fn with_better_ways(kernels: &'static dyn Kernels, now: &dyn Fn() -> u64) -> &'static dyn Kernels {
    let bytes = alloc::vec![0x11; ROWS * COLUMNS / 256 * 144];
    let [always, .., seldom] = MANY_FROM;
    let ways = [kernels.many_from(seldom), kernels.many_from(always)];
    let ([Some(few), Some(many)], Some(matrix)) = (ways, Tensor::new(Kind::Q4K, ROWS, COLUMNS, &bytes)) else {
        return kernels;
    };
    let mut trials = MANY_FROM.map(|count| [few, many].map(|way| Trial::new(way, Kind::Q4K, count)));
    for _ in 0..TRIALS {
        for (few_trial, many_trial) in trials.iter_mut().map(|[few, many]| (few, many)) {
            few_trial.try_again(few, &matrix, now);
            many_trial.try_again(many, &matrix, now);
        }
    }
    // From the most rows down, as long as the path for many rows is the faster one.
    let found = MANY_FROM.iter().zip(&trials).rev().take_while(|(_, [few, many])| many.least < few.least).last();
    let from = found.map_or(seldom, |(count, _)| *count);
    kernels.many_from(from).unwrap_or(kernels)
}

/// The set that is fastest here, found by a trial, because features that the processor reports may be slow: emulated
/// wide registers are. `now` returns a time in any unit.
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
    // The widest of equals.
    let best = left.into_iter().reduce(|best, other| if other.took() <= best.took() { other } else { best });
    best.map_or(&Scalar, |best| with_better_ways(best.kernels, now))
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::super::USUAL_MANY;
    use super::*;

    /// Readings of the clock in a set's turn.
    const TURN: usize = 2 * COUNTS.len();

    /// The chosen set, and how often it read the clock, which advances by `step` at each reading.
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
        // The first set takes longer than all others, except in the trial in which the clock goes back.
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
        // The second set is the fastest, except in its first trial.
        let step = |look: usize| {
            let (set, round) = (look / TURN % sets, look / TURN / sets);
            if set == 1 && round > 0 || round >= TRIALS_AT_LEAST { 1 } else { 100 }
        };
        assert_eq!(chosen(step), (name(1), TURN * (sets * TRIALS_AT_LEAST + TRIALS - TRIALS_AT_LEAST)));
    }

    /// From how many rows on the chosen set takes the path for many rows, if that of its paths takes `cost` for some
    /// rows: of few or of many.
    fn chosen_way(cost: impl Fn(usize, bool) -> i64) -> Option<usize> {
        let sets = available();
        let widest = *sets.last().unwrap();
        widest.many_from(USUAL_MANY)?;
        // The widest of equals is chosen, and then each of its ways is tried with each number of rows in turn.
        let before = TURN * sets.len() * TRIALS;
        let (looks, time) = (Cell::new(0), Cell::new(1_000_u64));
        let now = || {
            let look = looks.replace(looks.get() + 1);
            if look >= before && look % 2 == 1 {
                let product = (look - before) / 2;
                let step = cost(MANY_FROM[product / 2 % MANY_FROM.len()], product % 2 == 1);
                time.set(time.get().strict_add_signed(step));
            }
            time.get()
        };
        let chosen = fastest(&now);
        assert_eq!(chosen.name(), widest.name());
        MANY_FROM.into_iter().find(|rows| widest.many_from(*rows).is_some_and(|set| core::ptr::addr_eq(set, chosen)))
    }

    #[test]
    fn the_way_for_many_rows_is_taken_from_where_it_is_faster() {
        let few = |rows: usize| 10 * rows as i64;
        for (cost_of_many, from) in [(1, 2), (35, 4), (75, 8), (155, 16), (325, 33), (1_000, 33)] {
            let found = chosen_way(|rows, many| if many { cost_of_many } else { few(rows) });
            assert!(found.is_none_or(|found| found == from), "{cost_of_many}: {found:?}");
        }
        // One number of rows with which the other path is faster changes nothing below it.
        let found = chosen_way(|rows, many| if many == (rows == 8) { 20 } else { 10 });
        assert!(found.is_none_or(|found| found == 16), "{found:?}");
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
