//! SSE4.1, in integers as far as possible: one multiplication of floating point numbers for each group. That is what
//! runs best if a processor is emulated, for which wide floating point instructions are slow.

use core::arch::x86_64::*;

use super::chunk::{Chunk, Values, blocks_of, chunks};
use super::{Kernels, portable};
use crate::activations::{Activations, CHUNK, GROUP, HALF_GROUP, Row, RowMut};
use crate::architecture::Activation;
use crate::block::{BFloat16, Block, Float16, Float32, blocks, with_block};
use crate::tensor::Tensor;

/// Kernels for processors with SSE4.1.
#[derive(Clone, Copy, Debug)]
pub struct Sse41(());

impl Sse41 {
    /// The kernels, if the processor can run them.
    pub fn get() -> Option<&'static Self> {
        super::detect::features().sse41.then_some(&Self(()))
    }
}

impl Kernels for Sse41 {
    fn name(&self) -> &'static str {
        "sse41"
    }

    fn quantise(&self, row: RowMut<'_>) {
        // SAFETY: `get` has found SSE4.1.
        unsafe { quantise(row) }
    }

    fn product(&self, matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
        // SAFETY: `get` has found SSE4.1.
        unsafe { product(matrix, activations, out) }
    }

    fn softmax(&self, scores: &mut [f32]) {
        // SAFETY: `get` has found SSE4.1.
        unsafe { softmax(scores) }
    }

    fn gate(&self, activation: Activation, gates: &mut [f32], ups: &[f32]) {
        // SAFETY: `get` has found SSE4.1.
        unsafe { gate(activation, gates, ups) }
    }
}

#[target_feature(enable = "sse4.1")]
fn quantise(row: RowMut<'_>) {
    portable::quantise(row);
}

#[target_feature(enable = "sse4.1")]
fn softmax(scores: &mut [f32]) {
    portable::softmax(scores);
}

#[target_feature(enable = "sse4.1")]
fn gate(activation: Activation, gates: &mut [f32], ups: &[f32]) {
    portable::gate(activation, gates, ups);
}

#[target_feature(enable = "sse4.1")]
fn product(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    with_block!(matrix.kind(), B => quantised::<B>(matrix, activations, out), else match matrix.kind() {
        Kind::F16 => portable::product::<Float16>(matrix, activations, out),
        Kind::BF16 => portable::product::<BFloat16>(matrix, activations, out),
        _ => portable::product::<Float32>(matrix, activations, out),
    });
}

/// Unpacks each row once and multiplies it with all activations.
#[target_feature(enable = "sse4.1")]
fn quantised<B: Block>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let mut unpacked = alloc::vec![Chunk::EMPTY; matrix.columns().div_ceil(CHUNK)];
    for (index, bytes) in matrix.bytes().chunks_exact(matrix.row_bytes().max(1)).enumerate() {
        for (chunk, blocks) in unpacked.iter_mut().zip(blocks::<B>(bytes).chunks(blocks_of::<B>())) {
            chunk.unpack(blocks);
        }
        for (row, out) in out.iter_mut().enumerate() {
            if let Some(out) = out.get_mut(index) {
                *out = dot::<B>(&unpacked, matrix.columns(), activations.row(row));
            }
        }
    }
}

#[target_feature(enable = "sse4.1")]
fn dot<B: Block>(unpacked: &[Chunk], mut columns: usize, row: Row<'_>) -> f32 {
    let mut total = 0.0;
    for (chunk, values) in unpacked.iter().zip(chunks(row)) {
        let count = columns.min(CHUNK);
        columns -= count;
        total += match B::GROUP {
            GROUP => dot_chunk::<B, GROUP, 1>(chunk, values, count),
            _ => dot_chunk::<B, HALF_GROUP, 2>(chunk, values, count),
        };
    }
    total
}

/// The sum of a chunk's first products; `PER` groups of `SIZE` have the same activation scale.
#[target_feature(enable = "sse4.1")]
fn dot_chunk<B: Block, const SIZE: usize, const PER: usize>(chunk: &Chunk, values: Values<'_>, count: usize) -> f32 {
    let quants = chunk.quants.as_chunks::<SIZE>().0.as_chunks::<PER>().0.iter();
    let groups = quants.zip(values.quants.as_chunks::<SIZE>().0.as_chunks::<PER>().0);
    let scales = chunk.scales.as_chunks::<PER>().0.iter().zip(values.scales);
    let offset = _mm_set1_epi16(i16::from(B::OFFSET));
    let mut total = 0.0;
    for ((quants, values), (scales, value_scale)) in groups.zip(scales).take(count / GROUP) {
        for ((quants, values), scale) in quants.iter().zip(values).zip(scales) {
            let mut products = _mm_setzero_si128();
            for (quants, values) in quants.as_chunks::<8>().0.iter().zip(values.as_chunks::<8>().0) {
                let quants = _mm_cvtepu8_epi16(_mm_cvtsi64_si128(i64::from_le_bytes(*quants)));
                let values = values.map(i8::cast_unsigned);
                let values = _mm_cvtepi8_epi16(_mm_cvtsi64_si128(i64::from_le_bytes(values)));
                // The offset is taken off here, which costs less than numbers that are not whole.
                let quants = if B::OFFSET == 0 { quants } else { _mm_sub_epi16(quants, offset) };
                products = _mm_add_epi32(products, _mm_madd_epi16(quants, values));
            }
            total += scale * value_scale * sum_of(products) as f32;
        }
    }
    if B::MINIMA {
        let sums = if PER == 1 { &values.sums[..] } else { &values.half_sums[..] };
        for (minimum, sum) in chunk.minima.iter().zip(sums) {
            total -= minimum * sum;
        }
    }
    total
}

/// The sum of four numbers.
#[target_feature(enable = "sse4.1")]
fn sum_of(numbers: __m128i) -> i32 {
    let halves = _mm_add_epi32(numbers, _mm_shuffle_epi32::<0b_01_00_11_10>(numbers));
    _mm_cvtsi128_si32(_mm_add_epi32(halves, _mm_shuffle_epi32::<0b_10_11_00_01>(halves)))
}
