//! AMX: products of whole tiles, of 16 rows of weights with 16 of activations. Where there are few rows, where groups are
//! of 16, which would leave most of a tile empty, and for all that is no product, these are the kernels of AVX-512.

mod float;
mod quantised;
mod tiles;

use core::slice::{ChunksExact, ChunksExactMut};

use super::avx512::TILED;
use super::{Avx512, Kernels, Layout, Parts};
use crate::activations::{Activations, GROUP, RowMut};
use crate::architecture::Activation;
use crate::block::{BFloat16, Float16, Kind, Q8_0, with_block};
use crate::tensor::Tensor;

/// Rows of weights, and of activations, of a tile.
const ROWS: usize = 16;

/// Kernels for processors with AMX.
#[derive(Clone, Copy, Debug)]
pub struct Amx(Avx512);

impl Amx {
    /// The kernels, where the processor can run them and the program may ([`super::permit_tiles`]).
    pub fn get() -> Option<&'static Self> {
        super::detect::features().amx.then_some(&Self(Avx512(())))
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
        let tiles = match kind {
            Kind::F32 => false,
            Kind::F16 | Kind::BF16 => true,
            _ => kind.group() == GROUP,
        };
        match tiles {
            true => (rows >= TILED).then_some(Layout::Sixteen),
            false => self.0.layout(kind, rows),
        }
    }

    fn product(&self, matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
        if self.layout(matrix.kind(), out.len()) != Some(Layout::Sixteen) {
            return self.0.product(matrix, activations, out);
        }
        // SAFETY: `get` has found all that is needed.
        unsafe {
            with_block!(matrix.kind(), B => quantised::products::<B>(matrix, activations, out), else match matrix.kind() {
                Kind::BF16 => float::products::<BFloat16>(matrix, activations, out),
                _ => float::products::<Float16>(matrix, activations, out),
            });
        }
    }

    fn dot_f16(&self, vector: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
        self.0.dot_f16(vector, rows, out);
    }

    fn add_f16(&self, weights: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
        self.0.add_f16(weights, rows, out);
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
