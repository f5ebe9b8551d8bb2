//! Products with few rows of activations: each row of weights is unpacked and used at once.

use core::arch::x86_64::*;

use super::registers::{Load, Registers};
use super::{load_eight, load_numbers, load_signed};
use crate::activations::{Activations, CHUNK, GROUP, Row};
use crate::block::blocks;
use crate::kernel::chunk::{Values, blocks_of, chunks};
use crate::kernel::prefetch::prefetch;
use crate::tensor::Tensor;

/// Multiplies a matrix with all rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn products<B: Load>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    for (index, out) in out.iter_mut().enumerate() {
        let row = activations.row(index);
        for (out, bytes) in out.iter_mut().zip(matrix.bytes().chunks_exact(matrix.row_bytes().max(1))) {
            *out = dot::<B>(blocks::<B>(bytes), row);
        }
    }
}

/// The sums of a row's products.
#[derive(Clone, Copy)]
struct Sums {
    products: [__m512; 2],
    minima: __m512,
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn dot<B: Load>(row: &[B], values: Row<'_>) -> f32 {
    let zero = _mm512_setzero_ps();
    let mut sums = Sums { products: [zero; 2], minima: zero };
    for (blocks, values) in row.chunks(blocks_of::<B>()).zip(chunks(values)) {
        prefetch(blocks);
        // SAFETY: this function has what these kernels need.
        let chunk = unsafe { B::load(blocks) };
        sums = match B::GROUP {
            GROUP => add_chunk::<true>(&chunk, values, blocks.len() * B::VALUES, sums),
            _ => add_chunk::<false>(&chunk, values, blocks.len() * B::VALUES, sums),
        };
    }
    let [one, other] = sums.products;
    _mm512_reduce_add_ps(_mm512_sub_ps(_mm512_add_ps(one, other), sums.minima))
}

/// Adds a chunk's products, whose groups are whole ones of the activations, or half ones.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn add_chunk<const WHOLE: bool>(chunk: &Registers, values: Values<'_>, count: usize, mut sums: Sums) -> Sums {
    let value_scales = load_eight(values.scales);
    let (value_scales, value_sums) = match WHOLE {
        true => (value_scales, load_eight(values.sums)),
        false => {
            let doubled = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
            (_mm512_permutexvar_ps(doubled, value_scales), load_numbers(values.half_sums))
        }
    };
    let scales = _mm512_mul_ps(chunk.scales, value_scales);
    sums.minima = _mm512_fmadd_ps(chunk.minima, value_sums, sums.minima);
    // Lanes of 64 values belong to two groups, or to four.
    let (mut lanes, step) = match WHOLE {
        true => (_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), 2),
        false => (_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3), 4),
    };
    let used = count.div_ceil(64).min(CHUNK / 64);
    let parts = chunk.quants.iter().zip(values.quants.as_chunks::<64>().0);
    for (quants, values) in parts.take(used) {
        let products = _mm512_dpbusd_epi32(_mm512_setzero_si512(), *quants, load_signed(values));
        let [one, other] = sums.products;
        let scale = _mm512_permutexvar_ps(lanes, scales);
        sums.products = [other, _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scale, one)];
        lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(step));
    }
    sums
}
