//! AVX-512 with VNNI: four products of bytes are added in each of 16 lanes at once.

mod attention;
mod dot;
mod float;
mod registers;
mod tile;
mod transpose;

use core::arch::x86_64::*;
use core::slice::{ChunksExact, ChunksExactMut};

use super::{Kernels, Layout, MANY_FROM, Parts, USUAL_MANY, portable};
use crate::activations::{Activations, RowMut};
use crate::architecture::Activation;
use crate::block::{BFloat16, Float16, Float32, Kind, Q8_0, with_block};
use crate::tensor::Tensor;

pub use float::Widen;
pub use registers::Load;
pub use transpose::transpose;

/// Kernels for processors with AVX-512.
#[derive(Clone, Copy, Debug)]
pub struct Avx512 {
    /// See [`Kernels::many_from`].
    many: usize,
}

/// One set for each number of rows.
static SETS: [Avx512; MANY_FROM.len()] = {
    let [a, b, c, d, e] = MANY_FROM;
    [Avx512::new(a), Avx512::new(b), Avx512::new(c), Avx512::new(d), Avx512::new(e)]
};

impl Avx512 {
    pub(super) const fn new(many: usize) -> Self {
        Self { many }
    }

    pub(super) const fn many(&self) -> usize {
        self.many
    }

    /// The kernels, if the processor can run them.
    pub fn get() -> Option<&'static Self> {
        let set = SETS.iter().find(|set| set.many == USUAL_MANY);
        set.filter(|_| super::detect::features().avx512)
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
        match kind.is_float() {
            true => None,
            false if rows < self.many => Some(Layout::Lanes),
            false => Some(Layout::Eight),
        }
    }

    fn many_from(&self, rows: usize) -> Option<&'static dyn Kernels> {
        SETS.iter().find(|set| set.many == rows).map(|set| set as &dyn Kernels)
    }

    fn product(&self, matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { product(matrix, activations, out, self.many) }
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
fn product(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]], many: usize) {
    let few = out.len() < many;
    with_block!(matrix.kind(), B => match few {
        true => dot::products::<B>(matrix, activations, out),
        false => tile::products::<B>(matrix, activations, out),
    }, else match matrix.kind() {
        Kind::F16 => float::products::<Float16>(matrix, activations, out),
        Kind::BF16 => float::products::<BFloat16>(matrix, activations, out),
        _ => float::products::<Float32>(matrix, activations, out),
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn load_numbers(numbers: &[f32; 16]) -> __m512 {
    // SAFETY: there are 16 numbers to be read.
    unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn store_numbers(numbers: &mut [f32; 16], values: __m512) {
    // SAFETY: there is room for 16 numbers.
    unsafe { _mm512_storeu_ps(numbers.as_mut_ptr(), values) }
}
