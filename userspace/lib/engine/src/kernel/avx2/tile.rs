//! Products with many rows of activations: eight rows of weights are unpacked and laid out so that each is a lane, and
//! then multiplied with all of them, four at a time.

use alloc::vec::Vec;
use core::arch::x86_64::*;

use super::unpack::Unpack;
use super::{Weights, has_minima, load, load_bytes, small, store, store_bytes, sum_pairs};
use crate::activations::{Activations, CHUNK, GROUP};
use crate::block::{Block, blocks};
use crate::kernel::chunk::{Chunk, GROUPS, Values, blocks_of, chunks};
use crate::tensor::Tensor;

/// Rows of weights that are lanes of a register.
const LANES: usize = 8;

/// Rows of activations that are multiplied together.
const TOGETHER: usize = 4;

/// Products of eight rows of weights with one of activations.
type Sums = [f32; LANES];

/// A chunk of each of eight rows.
#[repr(C, align(32))]
struct Panel {
    /// The chunks, of which the rest is made.
    rows: [Chunk; LANES],
    /// Four quants of each row, for every four columns.
    quants: [[u8; 4 * LANES]; CHUNK / 4],
    scales: [[f32; LANES]; GROUPS],
    /// With what the type's offset comes to, where that is multiplied.
    minima: [[f32; LANES]; GROUPS],
    /// Groups that there are.
    count: usize,
}

impl Panel {
    const EMPTY: Self = Self {
        rows: [Chunk::EMPTY; LANES],
        quants: [[0; 4 * LANES]; CHUNK / 4],
        scales: [[0.0; LANES]; GROUPS],
        minima: [[0.0; LANES]; GROUPS],
        count: 0,
    };
}

/// Multiplies a matrix with all rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn products<B: Unpack>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    // For each chunk those of all rows.
    let mut values: Vec<Vec<Values<'_>>> = alloc::vec![Vec::new(); matrix.columns().div_ceil(CHUNK)];
    for row in 0..out.len() {
        values.iter_mut().zip(chunks(activations.row(row))).for_each(|(values, chunk)| values.push(chunk));
    }
    let mut sums: Vec<[Sums; TOGETHER]> = alloc::vec![[[0.0; LANES]; TOGETHER]; out.len().div_ceil(TOGETHER)];
    let mut panel = Panel::EMPTY;
    let chunk_bytes = blocks_of::<B>() * size_of::<B>();
    let row_bytes = matrix.row_bytes().max(1);
    for (strip, rows) in matrix.bytes().chunks(LANES * row_bytes).enumerate() {
        sums.fill([[0.0; LANES]; TOGETHER]);
        for (chunk, values) in values.iter().enumerate() {
            let range = chunk * chunk_bytes..((chunk + 1) * chunk_bytes).min(row_bytes);
            fill::<B>(&mut panel, rows.chunks_exact(row_bytes).map(|row| row.get(range.clone()).unwrap_or(&[])));
            for (values, sums) in values.chunks(TOGETHER).zip(&mut sums) {
                match values {
                    [a, b, c, d] => multiply::<B, TOGETHER>(&panel, [a, b, c, d], sums),
                    // Nobody asks for the sums of the one that is not there.
                    [a, b, c] => multiply::<B, TOGETHER>(&panel, [a, b, c, a], sums),
                    [a, b] => multiply::<B, 2>(&panel, [a, b], sums),
                    [a] => multiply::<B, 1>(&panel, [a], sums),
                    _ => {}
                }
            }
        }
        write(strip, sums.as_flattened(), out);
    }
}

/// Unpacks a chunk of each row and lays it out. Rows that are not there keep what was there before; nobody asks for their
/// products.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn fill<'a, B: Unpack>(panel: &mut Panel, rows: impl Iterator<Item = &'a [u8]>) {
    for (chunk, bytes) in panel.rows.iter_mut().zip(rows) {
        let blocks = blocks::<B>(bytes);
        // SAFETY: this function has what these kernels need.
        unsafe { B::unpack_chunk(blocks, chunk) };
        panel.count = blocks.len() * B::VALUES / B::GROUP;
    }
    let columns = panel.count * B::GROUP;
    for (index, to) in panel.quants.as_chunks_mut::<LANES>().0.iter_mut().enumerate().take(columns.div_ceil(GROUP)) {
        let mut lanes = [_mm256_setzero_si256(); LANES];
        for (lane, row) in lanes.iter_mut().zip(&panel.rows) {
            let Some(quants) = row.quants.as_chunks().0.get(index) else { continue };
            *lane = load_bytes(quants);
        }
        transpose(&mut lanes);
        for (to, lane) in to.iter_mut().zip(lanes) {
            store_bytes(to, lane);
        }
    }
    let mut rows = [&[0.0; GROUPS]; LANES];
    for (numbers, row) in rows.iter_mut().zip(&panel.rows) {
        *numbers = &row.scales;
    }
    lay_out(rows, panel.count, &mut panel.scales);
    if has_minima::<B>() {
        for (numbers, row) in rows.iter_mut().zip(&panel.rows) {
            *numbers = &row.minima;
        }
        lay_out(rows, panel.count, &mut panel.minima);
    }
}

/// Writes the first numbers of each row beside each other.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn lay_out(rows: [&[f32; GROUPS]; LANES], count: usize, out: &mut [[f32; LANES]; GROUPS]) {
    for (index, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate().take(count.div_ceil(LANES)) {
        let mut lanes = [_mm256_setzero_si256(); LANES];
        for (lane, row) in lanes.iter_mut().zip(rows) {
            let Some(numbers) = row.as_chunks().0.get(index) else { continue };
            *lane = _mm256_castps_si256(load(numbers));
        }
        transpose(&mut lanes);
        for (out, lane) in out.iter_mut().zip(lanes) {
            store(out, _mm256_castsi256_ps(lane));
        }
    }
}

/// Makes columns of rows of 32-bit words.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn transpose(rows: &mut [__m256i; LANES]) {
    let [a, b, c, d, e, f, g, h] = *rows;
    let [a0, a1, a2, a3] = transpose_four([a, b, c, d]);
    let [e0, e1, e2, e3] = transpose_four([e, f, g, h]);
    *rows = [
        _mm256_permute2x128_si256::<0x20>(a0, e0),
        _mm256_permute2x128_si256::<0x20>(a1, e1),
        _mm256_permute2x128_si256::<0x20>(a2, e2),
        _mm256_permute2x128_si256::<0x20>(a3, e3),
        _mm256_permute2x128_si256::<0x31>(a0, e0),
        _mm256_permute2x128_si256::<0x31>(a1, e1),
        _mm256_permute2x128_si256::<0x31>(a2, e2),
        _mm256_permute2x128_si256::<0x31>(a3, e3),
    ];
}

/// Makes columns of four rows in each half of the registers.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn transpose_four([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab_low, cd_low),
        _mm256_unpackhi_epi64(ab_low, cd_low),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Adds the panel's products with a chunk of some rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn multiply<B: Block, const N: usize>(panel: &Panel, values: [&Values<'_>; N], sums: &mut [Sums; TOGETHER]) {
    match B::GROUP {
        GROUP => multiply_groups::<B, N, 4, 1>(panel, values, sums),
        _ => multiply_groups::<B, N, 2, 2>(panel, values, sums),
    }
}

/// The same, where a group is `PAIRS` times eight columns, and `PER` groups have the same scale of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn multiply_groups<B: Block, const N: usize, const PAIRS: usize, const PER: usize>(
    panel: &Panel,
    values: [&Values<'_>; N],
    sums: &mut [Sums; TOGETHER],
) {
    let mut totals = [_mm256_setzero_ps(); N];
    for (total, sums) in totals.iter_mut().zip(&*sums) {
        *total = load(sums);
    }
    let groups = panel.quants.as_chunks::<2>().0.as_chunks::<PAIRS>().0.iter();
    let groups = groups.zip(panel.scales.iter().zip(&panel.minima));
    for (group, (weights, (scales, minima))) in groups.enumerate().take(panel.count) {
        let (scales, minima) = (load(scales), load(minima));
        let mut products = [_mm256_setzero_si256(); N];
        for (index, [one, other]) in weights.iter().enumerate() {
            let one = Weights::of::<B>(load_bytes(one));
            let other = Weights::of::<B>(load_bytes(other));
            for (products, values) in products.iter_mut().zip(values) {
                let parts = values.quants.as_chunks::<4>().0.as_chunks::<2>().0.as_chunks::<PAIRS>().0;
                let Some([first, last]) = parts.get(group).and_then(|part| part.get(index)) else { continue };
                let (first, last) = (spread(first), spread(last));
                let found = match small::<B>() {
                    // Four products of six bits with a sign and seven are within 16.
                    true => sum_pairs(_mm256_add_epi16(one.pairs::<B>(first), other.pairs::<B>(last))),
                    false => _mm256_add_epi32(one.products::<B>(first), other.products::<B>(last)),
                };
                *products = _mm256_add_epi32(*products, found);
            }
        }
        for ((total, products), values) in totals.iter_mut().zip(products).zip(values) {
            let Some(value_scale) = values.scales.get(group / PER) else { continue };
            let scales = _mm256_mul_ps(scales, _mm256_set1_ps(*value_scale));
            *total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), scales, *total);
            if has_minima::<B>() {
                let sums = if PER == 1 { &values.sums[..] } else { &values.half_sums[..] };
                let sum = sums.get(group).copied().unwrap_or(0.0);
                *total = _mm256_fnmadd_ps(minima, _mm256_set1_ps(sum), *total);
            }
        }
    }
    for (sums, total) in sums.iter_mut().zip(totals) {
        store(sums, total);
    }
}

/// The same four bytes in all lanes.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn spread(quants: &[i8; 4]) -> __m256i {
    _mm256_set1_epi32(i32::from_le_bytes(quants.map(i8::cast_unsigned)))
}

/// Writes the products of a strip of eight rows.
fn write(strip: usize, sums: &[Sums], out: &mut [&mut [f32]]) {
    for (out, sums) in out.iter_mut().zip(sums) {
        let Some(out) = out.get_mut(strip * LANES..) else { continue };
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum);
    }
}
