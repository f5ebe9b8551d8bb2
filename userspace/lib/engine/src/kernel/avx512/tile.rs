//! Products with many rows of activations: 16 rows of weights are unpacked and laid out so that each
//! is a lane, and then multiplied with all of them.

use alloc::vec::Vec;
use core::arch::x86_64::*;

use super::float::Widen;
use super::registers::Load;
use super::{load_bytes, load_numbers, store_numbers};
use crate::activations::{Activations, CHUNK, GROUP};
use crate::block::blocks;
use crate::kernel::chunk::{Chunk, GROUPS, Values, blocks_of, chunks};
use crate::tensor::Tensor;

/// Rows of weights that are lanes of a register.
const LANES: usize = 16;

/// Rows of activations that weights are loaded once for.
const TOGETHER: usize = 8;

/// A chunk of each of 16 rows.
#[repr(C, align(64))]
struct Panel {
    /// Four quants of each row, for every four columns.
    quants: [[u8; 4 * LANES]; CHUNK / 4],
    /// A scale of each row, for every group.
    scales: [[f32; LANES]; GROUPS],
    /// A minimum of each row, for every group.
    minima: [[f32; LANES]; GROUPS],
    groups: usize,
}

impl Panel {
    const EMPTY: Self = Self {
        quants: [[0; 4 * LANES]; CHUNK / 4],
        scales: [[0.0; LANES]; GROUPS],
        minima: [[0.0; LANES]; GROUPS],
        groups: 0,
    };
}

/// Multiplies a matrix with all rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn products<B: Load>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let values: Vec<Vec<Values<'_>>> = (0..out.len()).map(|row| chunks(activations.row(row)).collect()).collect();
    let mut sums = alloc::vec![[0.0f32; LANES]; out.len()];
    let mut unpacked = [Chunk::EMPTY; LANES];
    let mut panel = Panel::EMPTY;
    let chunk_bytes = blocks_of::<B>() * size_of::<B>();
    let row_bytes = matrix.row_bytes().max(1);
    for (strip, rows) in matrix.bytes().chunks(LANES * row_bytes).enumerate() {
        sums.fill([0.0; LANES]);
        for chunk in 0..matrix.columns().div_ceil(CHUNK) {
            let range = chunk * chunk_bytes..((chunk + 1) * chunk_bytes).min(row_bytes);
            let rows = rows.chunks_exact(row_bytes).map(|row| row.get(range.clone()).unwrap_or(&[]));
            fill::<B>(&mut panel, &mut unpacked, rows);
            let parts = values.chunks(TOGETHER).zip(sums.chunks_mut(TOGETHER));
            for (values, sums) in parts {
                let mut together = [None; TOGETHER];
                for (to, values) in together.iter_mut().zip(values) {
                    *to = values.get(chunk).copied();
                }
                match B::GROUP {
                    GROUP => multiply::<8>(&panel, &together, sums),
                    _ => multiply::<4>(&panel, &together, sums),
                }
            }
        }
        write(strip, &sums, out);
    }
}

/// Unpacks a chunk of each row and lays it out.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn fill<'r, B: Load>(panel: &mut Panel, unpacked: &mut [Chunk; LANES], rows: impl Iterator<Item = &'r [u8]>) {
    let mut count = 0;
    let mut lanes = unpacked.iter_mut();
    for (bytes, chunk) in rows.zip(&mut lanes) {
        let blocks = blocks::<B>(bytes);
        // SAFETY: this function has what these kernels need.
        let registers = unsafe { B::load(blocks) };
        for (to, quants) in chunk.quants.as_chunks_mut::<64>().0.iter_mut().zip(registers.quants) {
            // SAFETY: there is room for 64 bytes.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), quants) };
        }
        store_numbers(&mut chunk.scales, registers.scales);
        store_numbers(&mut chunk.minima, registers.minima);
        count = blocks.len() * B::VALUES;
    }
    panel.groups = count / B::GROUP;
    for (part, to) in panel.quants.chunks_exact_mut(LANES).enumerate().take(count.div_ceil(4 * LANES)) {
        let mut rows = [_mm512_setzero_si512(); LANES];
        for (row, chunk) in rows.iter_mut().zip(unpacked.iter()) {
            if let Some(quants) = chunk.quants.as_chunks::<64>().0.get(part) {
                *row = load_bytes(quants);
            }
        }
        for (to, row) in to.iter_mut().zip(transpose(rows)) {
            // SAFETY: there is room for 64 bytes.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), row) };
        }
    }
    let mut scales = [_mm512_setzero_si512(); LANES];
    let mut minima = scales;
    for ((scales, minima), chunk) in scales.iter_mut().zip(&mut minima).zip(unpacked.iter()) {
        *scales = _mm512_castps_si512(load_numbers(&chunk.scales));
        *minima = _mm512_castps_si512(load_numbers(&chunk.minima));
    }
    for (to, scales) in panel.scales.iter_mut().zip(transpose(scales)) {
        store_numbers(to, _mm512_castsi512_ps(scales));
    }
    for (to, minima) in panel.minima.iter_mut().zip(transpose(minima)) {
        store_numbers(to, _mm512_castsi512_ps(minima));
    }
}

/// Makes columns of rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn transpose(rows: [__m512i; LANES]) -> [__m512i; LANES] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = rows;
    let [[a0, a1, a2, a3], [b0, b1, b2, b3], [c0, c1, c2, c3], [d0, d1, d2, d3]] = [
        transpose_four([a, b, c, d]),
        transpose_four([e, f, g, h]),
        transpose_four([i, j, k, l]),
        transpose_four([m, n, o, p]),
    ];
    let [a, e, i, m] = transpose_lanes([a0, b0, c0, d0]);
    let [b, f, j, n] = transpose_lanes([a1, b1, c1, d1]);
    let [c, g, k, o] = transpose_lanes([a2, b2, c2, d2]);
    let [d, h, l, p] = transpose_lanes([a3, b3, c3, d3]);
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// Makes columns of four rows in each quarter of the registers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn transpose_four([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Makes columns of four rows of quarters.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn transpose_lanes([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
    let (cd_low, cd_high) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
        _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
    ]
}

/// Adds the panel's products with up to eight rows of activations. A group is `FOURS` times four columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn multiply<const FOURS: usize>(panel: &Panel, values: &[Option<Values<'_>>; TOGETHER], sums: &mut [[f32; LANES]]) {
    // All rows are computed, those that are not there with the values of the first.
    let [Some(first), ..] = values else { return };
    let values = values.map(|values| values.unwrap_or(*first));
    let mut totals = [_mm512_setzero_ps(); TOGETHER];
    for (total, sums) in totals.iter_mut().zip(sums.iter()) {
        *total = load_numbers(sums);
    }
    let quants = panel.quants.as_chunks::<FOURS>().0.iter();
    let weights = quants.zip(panel.scales.iter().zip(&panel.minima));
    for (group, (quants, (scales, minima))) in weights.enumerate().take(panel.groups) {
        let mut products = [_mm512_setzero_si512(); TOGETHER];
        let values_of = values.map(|values| values.quants.as_chunks::<4>().0.as_chunks::<FOURS>().0.get(group));
        for (four, quants) in quants.iter().enumerate() {
            let quants = load_bytes(quants);
            for (products, values) in products.iter_mut().zip(&values_of) {
                if let Some(value) = values.and_then(|values| values.get(four)) {
                    let value = _mm512_set1_epi32(i32::from_le_bytes(value.map(i8::cast_unsigned)));
                    *products = _mm512_dpbusd_epi32(*products, quants, value);
                }
            }
        }
        let (scales, minima) = (load_numbers(scales), load_numbers(minima));
        for ((total, products), values) in totals.iter_mut().zip(products).zip(&values) {
            let (scale, sum) = match FOURS {
                8 => (values.scales.get(group), values.sums.get(group)),
                _ => (values.scales.get(group / 2), values.half_sums.get(group)),
            };
            let (Some(scale), Some(sum)) = (scale, sum) else { continue };
            let scales = _mm512_mul_ps(scales, _mm512_set1_ps(*scale));
            *total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scales, *total);
            *total = _mm512_fnmadd_ps(minima, _mm512_set1_ps(*sum), *total);
        }
    }
    for (sums, total) in sums.iter_mut().zip(totals) {
        store_numbers(sums, total);
    }
}

/// Writes the products of a strip of 16 rows.
fn write(strip: usize, sums: &[[f32; LANES]], out: &mut [&mut [f32]]) {
    for (out, sums) in out.iter_mut().zip(sums) {
        if let Some(out) = out.chunks_mut(LANES).nth(strip) {
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = *sum;
            }
        }
    }
}

/// Columns of floating point weights that are laid out at once.
const FLOAT_COLUMNS: usize = 256;

/// Multiplies a matrix of floating point numbers with all rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn float_products<F: Widen>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let mut sums = alloc::vec![[0.0f32; LANES]; out.len()];
    let mut panel = [[0.0f32; LANES]; FLOAT_COLUMNS];
    let row_bytes = matrix.row_bytes().max(1);
    for (strip, rows) in matrix.bytes().chunks(LANES * row_bytes).enumerate() {
        sums.fill([0.0; LANES]);
        for start in (0..matrix.columns()).step_by(FLOAT_COLUMNS) {
            let columns = start..(start + FLOAT_COLUMNS).min(matrix.columns());
            let weights = rows.chunks_exact(row_bytes).map(|row| blocks::<F>(row).get(columns.clone()).unwrap_or(&[]));
            fill_floats::<F>(&mut panel, weights);
            for (part, sums) in sums.chunks_mut(TOGETHER).enumerate() {
                let row = |index: usize| {
                    let index = (part * TOGETHER + index).min(out.len() - 1);
                    activations.row(index).values.get(columns.clone()).unwrap_or(&[])
                };
                multiply_floats(&panel, core::array::from_fn(row), sums);
            }
        }
        write(strip, &sums, out);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn fill_floats<'r, F: Widen>(panel: &mut [[f32; LANES]; FLOAT_COLUMNS], rows: impl Iterator<Item = &'r [F]>) {
    let mut all: [&[F]; LANES] = [&[]; LANES];
    for (to, row) in all.iter_mut().zip(rows) {
        *to = row;
    }
    let columns = all.iter().map(|row| row.len()).max().unwrap_or(0);
    for (part, panel) in panel.chunks_exact_mut(LANES).enumerate().take(columns.div_ceil(LANES)) {
        let mut rows = [_mm512_setzero_si512(); LANES];
        for (to, row) in rows.iter_mut().zip(&all) {
            *to = match row.as_chunks::<16>().0.get(part) {
                // SAFETY: this function has AVX-512F.
                Some(row) => unsafe { _mm512_castps_si512(F::widen(row)) },
                None => {
                    let mut last = [0.0; LANES];
                    let rest = row.as_chunks::<16>().1;
                    last.iter_mut().zip(rest).for_each(|(to, from)| *to = from.to_f32());
                    _mm512_castps_si512(load_numbers(&last))
                }
            };
        }
        for (to, column) in panel.iter_mut().zip(transpose(rows)) {
            store_numbers(to, _mm512_castsi512_ps(column));
        }
    }
}

/// Adds the panel's products with up to eight rows of activations, all of one length.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn multiply_floats(panel: &[[f32; LANES]; FLOAT_COLUMNS], values: [&[f32]; TOGETHER], sums: &mut [[f32; LANES]]) {
    let mut totals = [_mm512_setzero_ps(); TOGETHER];
    for (total, sums) in totals.iter_mut().zip(sums.iter()) {
        *total = load_numbers(sums);
    }
    let [a, b, c, d, e, f, g, h] = values;
    let pairs = a.iter().zip(b).zip(c.iter().zip(d)).zip(e.iter().zip(f).zip(g.iter().zip(h)));
    for (weights, (((a, b), (c, d)), ((e, f), (g, h)))) in panel.iter().zip(pairs) {
        let weights = load_numbers(weights);
        for (total, value) in totals.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *total = _mm512_fmadd_ps(weights, _mm512_set1_ps(*value), *total);
        }
    }
    for (sums, total) in sums.iter_mut().zip(totals) {
        store_numbers(sums, total);
    }
}
