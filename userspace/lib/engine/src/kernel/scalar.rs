//! The reference: plain loops, nothing of any processor.

use super::Kernels;
use crate::activations::{Activations, GROUP, Row};
use crate::block::{BFloat16, Block, Float, Float16, Float32, Unpacked, blocks, with_block};
use crate::tensor::Tensor;

/// Kernels for any processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar;

/// The set [`Scalar`], compiled in this crate: where another crate names the type, the methods that the trait provides are
/// compiled there once more, in tests without optimisation.
#[inline(never)]
pub fn reference() -> &'static dyn Kernels {
    &Scalar
}

impl Kernels for Scalar {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn product(&self, matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
        for (index, out) in out.iter_mut().enumerate() {
            let row = activations.row(index);
            for (out, bytes) in out.iter_mut().zip(matrix.bytes().chunks_exact(matrix.row_bytes().max(1))) {
                *out = with_block!(matrix.kind(), B => dot::<B>(bytes, row), else match matrix.kind() {
                    Kind::F16 => dot_floats::<Float16>(bytes, row),
                    Kind::BF16 => dot_floats::<BFloat16>(bytes, row),
                    _ => dot_floats::<Float32>(bytes, row),
                });
            }
        }
    }
}

fn dot_floats<F: Float>(bytes: &[u8], row: Row<'_>) -> f32 {
    blocks::<F>(bytes).iter().zip(row.values).fold(0.0, |sum, (weight, value)| sum + weight.to_f32() * value)
}

fn dot<B: Block>(bytes: &[u8], row: Row<'_>) -> f32 {
    let mut unpacked = Unpacked::EMPTY;
    let (quants, scales, minima) = unpacked.parts::<B>();
    let groups = B::VALUES / B::GROUP;
    let sums = if B::GROUP == GROUP { row.sums } else { row.half_sums };
    // A group of weights has the same activation scale throughout.
    let per_scale = GROUP / B::GROUP;
    let values = row.quants.chunks_exact(B::VALUES).zip(sums.chunks_exact(groups));
    let activations = values.zip(row.scales.chunks_exact(groups / per_scale));
    let mut total = 0.0;
    for (block, ((values, sums), value_scales)) in blocks::<B>(bytes).iter().zip(activations) {
        block.unpack(quants, scales, minima);
        let value_scales = value_scales.iter().flat_map(|scale| core::iter::repeat_n(scale, per_scale));
        let weights = quants.chunks_exact(B::GROUP).zip(scales.iter());
        for (((quants, scale), values), value_scale) in weights.zip(values.chunks_exact(B::GROUP)).zip(value_scales) {
            let products = quants.iter().zip(values).map(|(quant, value)| {
                i32::from(*quant).wrapping_sub(i32::from(B::OFFSET)).wrapping_mul(i32::from(*value))
            });
            total += scale * value_scale * products.fold(0, i32::wrapping_add) as f32;
        }
        if B::MINIMA {
            total -= minima.iter().zip(sums).fold(0.0, |sum, (minimum, values)| sum + minimum * values);
        }
    }
    total
}
