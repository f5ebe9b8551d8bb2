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

/// Rows and columns of the matrix that sets are tried with, and how often each is.
const ROWS: usize = 32;
const COLUMNS: usize = 512;
const TRIALS: usize = 3;

/// Rows of activations of the trials: a token that is made, and a piece of a prompt.
const COUNTS: [usize; 2] = [1, 16];

/// The set that is fastest here, found by a trial, for what the processor says it has may be slow: emulated wide
/// registers are. `now` tells a time in any unit.
pub fn fastest(now: &dyn Fn() -> u64) -> &'static dyn Kernels {
    // The bytes make blocks of small numbers, whose scales are numbers.
    let block_bytes = 34;
    let bytes = alloc::vec![0x11; ROWS * COLUMNS / 32 * block_bytes];
    let Some(matrix) = Tensor::new(Kind::Q8_0, ROWS, COLUMNS, &bytes) else { return &Scalar };
    let mut best: (&'static dyn Kernels, u64) = (&Scalar, u64::MAX);
    for kernels in available() {
        let mut sum = 0u64;
        for count in COUNTS {
            let mut activations = Activations::default();
            activations.resize(count, COLUMNS).fill(0.5);
            activations.prepare(Kind::Q8_0, kernels, &Single);
            let mut out = alloc::vec![0.0; ROWS.saturating_mul(count)];
            let mut rows: Vec<&mut [f32]> = out.chunks_exact_mut(ROWS).collect();
            // The first trial may take long for other reasons, such as memory that is touched first.
            let mut least = u64::MAX;
            for _ in 0..TRIALS {
                let began = now();
                kernels.product(&matrix, &activations, &mut rows);
                least = least.min(now().saturating_sub(began));
            }
            sum = sum.saturating_add(least);
        }
        // Of equals the widest.
        if sum <= best.1 {
            best = (kernels, sum);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    #[test]
    fn the_set_that_takes_least_time_is_chosen() {
        // Two looks at the time for each trial; the third set's trials take one unit, all others two.
        let looks = Cell::new(0);
        let time = Cell::new(0);
        let now = || {
            let set = looks.get() / (2 * TRIALS * COUNTS.len());
            if looks.get() % 2 == 1 {
                time.set(time.get() + if set == 2 { 1 } else { 2 });
            }
            looks.set(looks.get() + 1);
            time.get()
        };
        let expected = available()[2.min(available().len() - 1)].name();
        assert_eq!(fastest(&now).name(), expected);
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
