//! The loops that nearly all time is spent in, one set for each kind of processor.
//!
//! Each set computes the same; [`Scalar`] is the reference that the others are tested against.
//! A set rounds sums in its own order, so results agree nearly and not to the last bit; of one
//! set they are always the same, whatever the number of threads.

#[cfg(all(target_arch = "x86_64", feature = "simd"))]
#[expect(unsafe_code, reason = "intrinsics")]
mod amx;
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
#[expect(unsafe_code, reason = "intrinsics")]
mod avx2;
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
#[expect(unsafe_code, reason = "intrinsics")]
mod avx512;
mod choice;
mod chunk;
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
#[expect(unsafe_code, reason = "intrinsics")]
mod detect;
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
mod packed;
mod portable;
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "intrinsics"))]
mod prefetch;
mod scalar;
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
#[expect(unsafe_code, reason = "intrinsics")]
mod sse41;
mod swar;

use core::slice::{ChunksExact, ChunksExactMut};

use crate::activations::{Activations, FloatTile, RowMut};
use crate::architecture::Activation;
use crate::block::{Kind, Q8_0};
use crate::cache::CacheType;
use crate::tensor::Tensor;

#[cfg(all(target_arch = "x86_64", feature = "simd"))]
pub use amx::Amx;
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
pub use avx2::Avx2;
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
pub use avx512::Avx512;
pub use choice::{NAMES, available, fastest, named};
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
pub use detect::permit_tiles;
pub use prefetch::prefetch;
pub use scalar::{Scalar, reference};
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
pub use sse41::Sse41;
pub use swar::Swar;

/// The same part of each of some rows that are one after another.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a, T> {
    rows: &'a [T],
    width: usize,
    start: usize,
    size: usize,
}

impl<'a, T> Parts<'a, T> {
    /// `size` elements of each row from its `start` on, of rows of `width`.
    pub fn new(rows: &'a [T], width: usize, start: usize, size: usize) -> Self {
        Self { rows, width: width.max(1), start, size }
    }

    /// The parts; a row that is too short has none.
    #[inline(always)]
    pub fn iter(self) -> impl Iterator<Item = &'a [T]> {
        let rows = self.rows.chunks_exact(self.width);
        rows.map(move |row| row.get(self.start..self.start.saturating_add(self.size)).unwrap_or(&[]))
    }
}

/// The sources of activation tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// [Quants](crate::activations::Tile) of eight rows, with 128 added to each.
    Eight,
    /// The same as they are.
    EightSigned,
    /// [Quants](crate::activations::Lanes) of few rows.
    Lanes,
    /// [Numbers](FloatTile) of sixteen rows.
    Sixteen,
}

/// From how many rows of activations on sets lay out weights for all of them.
pub const MANY_FROM: [usize; 5] = [2, 4, 8, 16, 33];

/// Which of these sets have that are not tried.
pub(crate) const USUAL_MANY: usize = 16;

/// Rows of activations that are few at most.
pub(crate) const FEW_ROWS: usize = 32;

/// A set of kernels. Operations without a better loop in a set use plain Rust.
pub trait Kernels: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Whether floating point is slow compared with integers, for instance because the processor is emulated. Then
    /// little of it is worth sharing with other threads.
    fn has_slow_floats(&self) -> bool {
        false
    }

    /// Quantises a row.
    fn quantise(&self, row: RowMut<'_>) {
        portable::quantise(row);
    }

    /// How this many rows are to be laid out as tiles as well, for matrices of this kind.
    fn layout(&self, _kind: Kind, _rows: usize) -> Option<Layout> {
        None
    }

    /// Lays out up to sixteen rows of numbers. All of each tile is written, with zeros if nothing is. `rests` are the
    /// remainders of the numbers, or absent.
    fn lay_out(&self, rows: ChunksExact<'_, f32>, tiles: &mut [FloatTile], rests: &mut [FloatTile]) {
        portable::lay_out(rows, tiles, rests);
    }

    /// The same set, except that it uses the code path for many rows from this number of rows of activations on, if
    /// there are two paths. The number is one of [`MANY_FROM`]; the trial finds the best.
    fn many_from(&self, _rows: usize) -> Option<&'static dyn Kernels> {
        None
    }

    /// Multiplies a matrix with all rows of activations. `out` has a slice for each of these, with
    /// a number for each row of the matrix.
    fn product(&self, matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]);

    /// How keys and values are kept so that it is soonest done with them, if the weights are quantised.
    fn cache(&self) -> CacheType {
        CacheType::F16
    }

    /// The sum of a vector's products with each of some rows.
    fn dot_f16(&self, vector: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
        for (out, row) in out.iter_mut().zip(rows.iter()) {
            *out = portable::dot_f16(vector, row);
        }
    }

    /// Adds rows, each multiplied with its weight.
    fn add_f16(&self, weights: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
        for (weight, row) in weights.iter().zip(rows.iter()) {
            portable::add_f16(out, row, *weight);
        }
    }

    /// Vectors that are best multiplied with rows of the cache at once, those of several tokens among them. The result
    /// of one token then depends on the other tokens of the pass, through the order of sums.
    fn vectors_together(&self) -> usize {
        1
    }

    /// For each vector the sums of its products with each of some rows.
    fn dots_f16(&self, vectors: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
        for (vector, out) in vectors.zip(out) {
            self.dot_f16(vector, rows, out);
        }
    }

    /// For each vector of weights adds rows, each multiplied with its weight.
    fn adds_f16(&self, weights: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
        for (weights, out) in weights.zip(out) {
            self.add_f16(weights, rows, out);
        }
    }

    /// Makes 16 bits of each number.
    fn narrow(&self, values: &[f32], out: &mut [u16]) {
        portable::narrow(values, out);
    }

    /// For each vector the sums of its products with each of some rows. The last block of a row may be longer than the
    /// rest of a vector.
    fn dot_q8_0(&self, vectors: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
        portable::dot_q8_0(vectors, rows, out);
    }

    /// For each vector of weights adds rows, each multiplied with its weight.
    fn add_q8_0(&self, weights: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
        portable::add_q8_0(weights, rows, out);
    }

    /// Makes blocks of numbers; the last is filled up with zeros.
    fn quantise_q8_0(&self, values: &[f32], out: &mut [Q8_0]) {
        portable::quantise_q8_0(values, out);
    }

    /// Turns scores into probabilities.
    fn softmax(&self, scores: &mut [f32]) {
        portable::softmax(scores);
    }

    /// Puts each gate through the activation and multiplies it with its partner.
    fn gate(&self, activation: Activation, gates: &mut [f32], ups: &[f32]) {
        portable::gate(activation, gates, ups);
    }
}
