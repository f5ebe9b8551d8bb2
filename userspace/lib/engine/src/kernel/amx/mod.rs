//! AMX: products of whole tiles, of 16 rows of weights with 16 of activations, whose numbers are BF16. For few rows,
//! and for everything that is not a product, these are the kernels of AVX-512.
//!
//! A number of BF16 has eight bits, so a weight and a value are off by at most a 256th of their size. On the whole that
//! is less than the error of quantised activations. If weights have 16 bits, the remainders that BF16 leaves of values
//! and of weights are multiplied too. The product of both remainders is left out: it would be a 65536th.

mod narrow;
mod products;
mod tiles;
mod weights;

use core::slice::{ChunksExact, ChunksExactMut};

use super::{Avx512, Kernels, Layout, MANY_FROM, Parts, USUAL_MANY};
use crate::activations::{Activations, FLOAT_ROWS, FloatTile, RowMut};
use crate::architecture::Activation;
use crate::block::{BFloat16, Float16, Kind, Q8_0, with_block};
use crate::tensor::Tensor;

use products::products;
use weights::{Floats, Quantised};

/// Rows of weights, and of activations, of a tile.
const ROWS: usize = FLOAT_ROWS;

/// Kernels for processors with AMX.
#[derive(Clone, Copy, Debug)]
pub struct Amx(Avx512);

/// One set for each number of rows that are many for AVX-512.
static SETS: [Amx; MANY_FROM.len()] = {
    let [a, b, c, d, e] = MANY_FROM;
    [Amx::new(a), Amx::new(b), Amx::new(c), Amx::new(d), Amx::new(e)]
};

impl Amx {
    const fn new(many: usize) -> Self {
        Self(Avx512::new(many))
    }

    /// The kernels, if the processor can run them and the program may ([`super::permit_tiles`]).
    pub fn get() -> Option<&'static Self> {
        let set = SETS.iter().find(|set| set.0.many() == USUAL_MANY);
        set.filter(|_| super::detect::features().amx)
    }
}

impl Kernels for Amx {
    fn name(&self) -> &'static str {
        "amx"
    }

    fn quantise(&self, row: RowMut<'_>) {
        self.0.quantise(row);
    }

    fn layout(&self, kind: Kind, rows: usize) -> Option<Layout> {
        match rows >= ROWS && kind != Kind::F32 {
            true => Some(Layout::Sixteen),
            false => self.0.layout(kind, rows),
        }
    }

    fn many_from(&self, rows: usize) -> Option<&'static dyn Kernels> {
        SETS.iter().find(|set| set.0.many() == rows).map(|set| set as &dyn Kernels)
    }

    fn lay_out(&self, rows: ChunksExact<'_, f32>, tiles: &mut [FloatTile], rests: &mut [FloatTile]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { narrow::lay_out(rows, tiles, rests) }
    }

    fn product(&self, matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
        if self.layout(matrix.kind(), out.len()) != Some(Layout::Sixteen) || matrix.columns() == 0 {
            return self.0.product(matrix, activations, out);
        }
        // SAFETY: `get` has found all that is needed.
        unsafe {
            with_block!(matrix.kind(), B => products::<Quantised<B>>(matrix, activations, out), else match matrix.kind() {
                Kind::BF16 => products::<Floats<BFloat16, false>>(matrix, activations, out),
                _ => products::<Floats<Float16, true>>(matrix, activations, out),
            });
        }
    }

    fn dot_f16(&self, vector: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
        self.0.dot_f16(vector, rows, out);
    }

    fn add_f16(&self, weights: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
        self.0.add_f16(weights, rows, out);
    }

    fn vectors_together(&self) -> usize {
        self.0.vectors_together()
    }

    fn dots_f16(&self, vectors: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
        self.0.dots_f16(vectors, rows, out);
    }

    fn adds_f16(&self, weights: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
        self.0.adds_f16(weights, rows, out);
    }

    fn narrow(&self, values: &[f32], out: &mut [u16]) {
        self.0.narrow(values, out);
    }

    fn dot_q8_0(&self, vectors: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
        self.0.dot_q8_0(vectors, rows, out);
    }

    fn add_q8_0(&self, weights: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
        self.0.add_q8_0(weights, rows, out);
    }

    fn quantise_q8_0(&self, values: &[f32], out: &mut [Q8_0]) {
        self.0.quantise_q8_0(values, out);
    }

    fn softmax(&self, scores: &mut [f32]) {
        self.0.softmax(scores);
    }

    fn gate(&self, activation: Activation, gates: &mut [f32], ups: &[f32]) {
        self.0.gate(activation, gates, ups);
    }
}
