//! AVX-512 with VNNI: four products of bytes are added in each of 16 lanes at once.

mod attention;
mod dot;
mod float;
mod registers;
mod tile;
mod transpose;

use core::arch::x86_64::*;
use core::slice::{ChunksExact, ChunksExactMut};

use super::{Kernels, Layout, Parts, portable};
use crate::activations::{Activations, RowMut};
use crate::architecture::Activation;
use crate::block::{BFloat16, Float16, Float32, Kind, Q8_0, with_block};
use crate::tensor::Tensor;

pub use float::Widen;
pub use registers::Load;
pub use transpose::transpose;

/// Rows of activations from which on weights are unpacked into tiles. That costs as much as some two rows, each of which
/// unpacks all weights otherwise.
const TILED: usize = 3;

/// Kernels for processors with AVX-512.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(pub(super) ());

impl Avx512 {
    /// The kernels, where the processor can run them.
    pub fn get() -> Option<&'static Self> {
        super::detect::features().avx512.then_some(&Self(()))
    }
}

impl Kernels for Avx512 {
    fn name(&self) -> &'static str {
        "avx512"
    }

    fn quantise(&self, row: RowMut<'_>) {
        // SAFETY: `get` has found all that is needed.
        unsafe { quantise(row) }
    }

    fn layout(&self, kind: Kind, rows: usize) -> Option<Layout> {
        (rows >= TILED && !kind.is_float()).then_some(Layout::Eight)
    }

    fn product(&self, matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { product(matrix, activations, out) }
    }

    fn dot_f16(&self, vector: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { float::dot_f16(vector, rows, out) }
    }

    fn add_f16(&self, weights: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { float::add_f16(weights, rows, out) }
    }

    fn vectors_together(&self) -> usize {
        attention::TOGETHER_BEST
    }

    fn dots_f16(&self, vectors: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
        // SAFETY: `get` has found all that is needed.
        unsafe { attention::dots_f16(vectors, rows, out) }
    }

    fn adds_f16(&self, weights: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
        // SAFETY: `get` has found all that is needed.
        unsafe { attention::adds_f16(weights, rows, out) }
    }

    fn narrow(&self, values: &[f32], out: &mut [u16]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { float::narrow(values, out) }
    }

    fn dot_q8_0(&self, vectors: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
        // SAFETY: `get` has found all that is needed.
        unsafe { dot_q8_0(vectors, rows, out) }
    }

    fn add_q8_0(&self, weights: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
        // SAFETY: `get` has found all that is needed.
        unsafe { add_q8_0(weights, rows, out) }
    }

    fn quantise_q8_0(&self, values: &[f32], out: &mut [Q8_0]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { quantise_q8_0(values, out) }
    }

    fn softmax(&self, scores: &mut [f32]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { softmax(scores) }
    }

    fn gate(&self, activation: Activation, gates: &mut [f32], ups: &[f32]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { gate(activation, gates, ups) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn quantise(row: RowMut<'_>) {
    portable::quantise(row);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn dot_q8_0(vectors: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
    portable::dot_q8_0(vectors, rows, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn add_q8_0(weights: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
    portable::add_q8_0(weights, rows, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn quantise_q8_0(values: &[f32], out: &mut [Q8_0]) {
    portable::quantise_q8_0(values, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn softmax(scores: &mut [f32]) {
    portable::softmax(scores);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn gate(activation: Activation, gates: &mut [f32], ups: &[f32]) {
    portable::gate(activation, gates, ups);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn product(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    if out.len() < TILED {
        with_block!(matrix.kind(), B => dot::products::<B>(matrix, activations, out), else match matrix.kind() {
            Kind::F16 => float::products::<Float16>(matrix, activations, out),
            Kind::BF16 => float::products::<BFloat16>(matrix, activations, out),
            _ => float::products::<Float32>(matrix, activations, out),
        });
    } else {
        with_block!(matrix.kind(), B => tile::products::<B>(matrix, activations, out), else match matrix.kind() {
            Kind::F16 => tile::float_products::<Float16>(matrix, activations, out),
            Kind::BF16 => tile::float_products::<BFloat16>(matrix, activations, out),
            _ => tile::float_products::<Float32>(matrix, activations, out),
        });
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn load_signed(bytes: &[i8; 64]) -> __m512i {
    // SAFETY: there are 64 bytes to be read.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn load_numbers(numbers: &[f32; 16]) -> __m512 {
    // SAFETY: there are 16 numbers to be read.
    unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn load_eight(numbers: &[f32; 8]) -> __m512 {
    // SAFETY: there are 8 numbers to be read.
    unsafe { _mm512_zextps256_ps512(_mm256_loadu_ps(numbers.as_ptr())) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn store_numbers(numbers: &mut [f32; 16], values: __m512) {
    // SAFETY: there is room for 16 numbers.
    unsafe { _mm512_storeu_ps(numbers.as_mut_ptr(), values) }
}
