//! Products with few rows of activations: each row of weights is unpacked in registers and multiplied with up to eight of
//! them at once.

use core::arch::x86_64::*;

use super::registers::{Load, Registers};
use super::{load_numbers, transpose::transpose_four};
use crate::activations::{Activations, GROUP, LANE_ROWS, LANES, Lanes, lane};
use crate::block::blocks;
use crate::kernel::chunk::blocks_of;
use crate::kernel::prefetch::prefetch;
use crate::tensor::Tensor;

/// Multiplies a matrix with all rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn products<B: Load>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let row_bytes = matrix.row_bytes().max(1);
    for (index, strip) in matrix.bytes().chunks(STRIP.saturating_mul(row_bytes)).enumerate() {
        let strip = Strip { bytes: strip, row_bytes, first: index.saturating_mul(STRIP) };
        for (rows, lanes) in activations.lanes() {
            let Some(out) = out.get_mut(rows) else { continue };
            match out.len() {
                1 => products_with::<B, 1>(strip, lanes, out),
                2 => products_with::<B, 2>(strip, lanes, out),
                3 => products_with::<B, 3>(strip, lanes, out),
                4 => products_with::<B, 4>(strip, lanes, out),
                5 => products_with::<B, 5>(strip, lanes, out),
                6 => products_with::<B, 6>(strip, lanes, out),
                7 => products_with::<B, 7>(strip, lanes, out),
                _ => products_with::<B, LANE_ROWS>(strip, lanes, out),
            }
        }
    }
}

/// Rows of weights that are multiplied with all activations while they are near.
const STRIP: usize = 32;

/// Some rows of a matrix.
#[derive(Clone, Copy)]
struct Strip<'a> {
    bytes: &'a [u8],
    row_bytes: usize,
    /// The first row's place.
    first: usize,
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn products_with<B: Load, const N: usize>(strip: Strip<'_>, lanes: &[Lanes], out: &mut [&mut [f32]]) {
    let values = lanes.as_chunks::<N>().0;
    for (index, bytes) in (strip.first..).zip(strip.bytes.chunks_exact(strip.row_bytes)) {
        let products = dot::<B, N>(blocks::<B>(bytes), values);
        for (out, product) in out.iter_mut().zip(products) {
            if let Some(out) = out.get_mut(index) {
                *out = product;
            }
        }
    }
}

/// The sums of a row's products with each of some rows of activations. They are added up in the same order however many
/// rows there are.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn dot<B: Load, const N: usize>(row: &[B], values: &[[Lanes; N]]) -> [f32; N] {
    let mut totals = [_mm512_setzero_ps(); N];
    let mut all_minima = [_mm512_setzero_ps(); N];
    for (blocks, values) in row.chunks(blocks_of::<B>()).zip(values) {
        prefetch(blocks);
        // SAFETY: this function has the instructions of these kernels.
        let Registers { quants, scales, minima } = in_lanes::<B>(unsafe { B::load(blocks) });
        for ((total, all_minima), values) in totals.iter_mut().zip(&mut all_minima).zip(values) {
            let mut products = _mm512_setzero_si512();
            for (quants, values) in quants.iter().zip(&values.quants) {
                products = _mm512_dpbusd_epi32(products, *quants, load_quants(values));
            }
            let scales = _mm512_mul_ps(scales, load_numbers(&values.scales));
            *total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scales, *total);
            *all_minima = _mm512_fmadd_ps(minima, load_numbers(&values.sums), *all_minima);
        }
    }
    let mut products = [0.0; N];
    for (product, (total, minima)) in products.iter_mut().zip(totals.iter().zip(all_minima)) {
        *product = _mm512_reduce_add_ps(_mm512_sub_ps(*total, minima));
    }
    products
}

/// For each lane the half group that it is, and the group that this belongs to.
const HALF_GROUPS: [i32; LANES] = half_groups(1);
const WHOLE_GROUPS: [i32; LANES] = half_groups(2);

const fn half_groups(halves: usize) -> [i32; LANES] {
    let mut found = [0; LANES];
    let mut left: &mut [i32] = &mut found;
    let mut at = 0;
    while let [first, rest @ ..] = left {
        *first = (lane(at) / halves) as i32;
        at += 1;
        left = rest;
    }
    found
}

/// A chunk in lanes as those of the activations.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn in_lanes<B: Load>(chunk: Registers) -> Registers {
    let groups = const { if B::GROUP == GROUP { &WHOLE_GROUPS } else { &HALF_GROUPS } };
    // SAFETY: there are 64 bytes to be read.
    let groups = unsafe { _mm512_loadu_si512(groups.as_ptr().cast()) };
    Registers {
        quants: transpose_four(chunk.quants),
        scales: _mm512_permutexvar_ps(groups, chunk.scales),
        minima: _mm512_permutexvar_ps(groups, chunk.minima),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn load_quants(quants: &[[i8; 4]; LANES]) -> __m512i {
    // SAFETY: there are 64 bytes to be read.
    unsafe { _mm512_loadu_si512(quants.as_ptr().cast()) }
}
