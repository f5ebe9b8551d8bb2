//! Products with many rows of activations: sixteen rows of weights are unpacked and laid out so that each is a lane, and
//! then multiplied with all of them, four at a time.

use alloc::vec::Vec;
use core::arch::x86_64::*;

use super::strip::{Column, LANES, ROWS, WIDE, put_columns, transpose, write};
use super::unpack::Unpack;
use super::{Weights, has_minima, load, load_bytes, small, store, store_bytes, sum_pairs};
use crate::activations::{Activations, CHUNK, GROUP, TILE_ROWS, Tile};
use crate::block::blocks;
use crate::kernel::chunk::{Chunk, GROUPS, blocks_of};
use crate::kernel::prefetch::prefetch_ahead;
use crate::tensor::Tensor;

/// Rows of activations that are multiplied together.
const TOGETHER: usize = 4;

/// A chunk of each of sixteen rows.
#[repr(C, align(32))]
struct Panel {
    /// The chunks from which the rest is computed.
    rows: [Chunk; ROWS],
    /// Four quants of each row, for every four columns.
    quants: [[[u8; 4 * LANES]; WIDE]; CHUNK / 4],
    scales: [Column; GROUPS],
    /// With the type's offset, if that is multiplied.
    minima: [Column; GROUPS],
    /// Number of groups.
    count: usize,
    /// How many times four columns a group has. The compiler does not know it, and leaves a loop over them one: if it
    /// makes none of it, it needs more registers than there are.
    fours: usize,
}

impl Panel {
    const EMPTY: Self = Self {
        rows: [Chunk::EMPTY; ROWS],
        quants: [[[0; 4 * LANES]; WIDE]; CHUNK / 4],
        scales: [[[0.0; LANES]; WIDE]; GROUPS],
        minima: [[[0.0; LANES]; WIDE]; GROUPS],
        count: 0,
        fours: 0,
    };
}

const NOTHING: [Column; TILE_ROWS] = [[[0.0; LANES]; WIDE]; TILE_ROWS];

/// Multiplies a matrix with all rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn products<B: Unpack>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let mut sums: Vec<[Column; TILE_ROWS]> = alloc::vec![NOTHING; out.len().div_ceil(TILE_ROWS)];
    let mut panel = Panel { fours: core::hint::black_box(B::GROUP / 4), ..Panel::EMPTY };
    let chunk_bytes = blocks_of::<B>() * size_of::<B>();
    let row_bytes = matrix.row_bytes().max(1);
    for (strip, rows) in matrix.bytes().chunks(ROWS * row_bytes).enumerate() {
        sums.fill(NOTHING);
        for chunk in 0..matrix.columns().div_ceil(CHUNK) {
            let range = chunk * chunk_bytes..((chunk + 1) * chunk_bytes).min(row_bytes);
            let parts = rows.chunks_exact(row_bytes).map(|row| row.get(range.clone()).unwrap_or(&[]));
            // The same chunk of the next strip: processors do not prefetch that far.
            parts.clone().for_each(|part| prefetch_ahead(part, ROWS * row_bytes));
            fill::<B>(&mut panel, parts);
            let mut left = out.len();
            for (tiles, sums) in activations.eights().zip(&mut sums) {
                let Some(tile) = tiles.get(chunk) else { continue };
                let (first, last) = sums.split_at_mut(TOGETHER);
                // The sums of absent rows are never read.
                match left {
                    0 => {}
                    1 => multiply::<B, 1, 0>(&panel, tile, first),
                    2 => multiply::<B, 2, 0>(&panel, tile, first),
                    _ => multiply::<B, TOGETHER, 0>(&panel, tile, first),
                }
                match left.saturating_sub(TOGETHER) {
                    0 => {}
                    1 => multiply::<B, 1, TOGETHER>(&panel, tile, last),
                    2 => multiply::<B, 2, TOGETHER>(&panel, tile, last),
                    _ => multiply::<B, TOGETHER, TOGETHER>(&panel, tile, last),
                }
                left = left.saturating_sub(TILE_ROWS);
            }
        }
        write(strip, sums.as_flattened(), out);
    }
}

/// Unpacks a chunk of each row and lays it out. Absent rows keep their earlier content; their products are never read.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn fill<'a, B: Unpack>(panel: &mut Panel, rows: impl Iterator<Item = &'a [u8]>) {
    for (chunk, bytes) in panel.rows.iter_mut().zip(rows) {
        let blocks = blocks::<B>(bytes);
        // SAFETY: this function has the instructions of these kernels.
        unsafe { B::unpack_chunk(blocks, chunk) };
        panel.count = blocks.len() * B::VALUES / B::GROUP;
    }
    let columns = panel.count * B::GROUP;
    for (half, rows) in panel.rows.as_chunks::<LANES>().0.iter().enumerate() {
        let parts = panel.quants.as_chunks_mut::<LANES>().0.iter_mut().take(columns.div_ceil(GROUP));
        for (index, to) in parts.enumerate() {
            let mut lanes = [_mm256_setzero_si256(); LANES];
            for (lane, row) in lanes.iter_mut().zip(rows) {
                let Some(quants) = row.quants.as_chunks().0.get(index) else { continue };
                *lane = load_bytes(quants);
            }
            transpose(&mut lanes);
            for (to, lane) in to.iter_mut().zip(lanes) {
                if let Some(to) = to.get_mut(half) {
                    store_bytes(to, lane);
                }
            }
        }
        let mut numbers = [&[0.0; GROUPS]; LANES];
        for (numbers, row) in numbers.iter_mut().zip(rows) {
            *numbers = &row.scales;
        }
        lay_out(numbers, panel.count, half, &mut panel.scales);
        if has_minima::<B>() {
            for (numbers, row) in numbers.iter_mut().zip(rows) {
                *numbers = &row.minima;
            }
            lay_out(numbers, panel.count, half, &mut panel.minima);
        }
    }
}

/// Writes the first numbers of the rows next to each other.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn lay_out(rows: [&[f32; GROUPS]; LANES], count: usize, half: usize, out: &mut [Column; GROUPS]) {
    for (index, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate().take(count.div_ceil(LANES)) {
        let mut lanes = [_mm256_setzero_si256(); LANES];
        for (lane, row) in lanes.iter_mut().zip(rows) {
            let Some(numbers) = row.as_chunks().0.get(index) else { continue };
            *lane = _mm256_castps_si256(load(numbers));
        }
        put_columns(lanes, half, out);
    }
}

/// `N` of eight, from the one in place `FIRST` on.
#[inline(always)]
fn some<T: Copy, const N: usize, const FIRST: usize>(eight: &[T; TILE_ROWS]) -> [T; N] {
    const { assert!(FIRST + N <= TILE_ROWS) }
    let [first, ..] = eight;
    // The compiler sees that they are there.
    core::array::from_fn(|index| *eight.get(FIRST + index).unwrap_or(first))
}

/// Adds the panel's products with a chunk of `N` rows of activations, from the one in place `FIRST` on.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn multiply<B: Unpack, const N: usize, const FIRST: usize>(panel: &Panel, tile: &Tile, sums: &mut [Column]) {
    let fours = panel.fours.max(1);
    let groups = panel.quants.chunks_exact(fours).zip(tile.quants.chunks_exact(fours));
    let numbers = panel.scales.iter().zip(&panel.minima);
    for (group, ((weights, quants), (scales, minima))) in groups.zip(numbers).enumerate().take(panel.count) {
        let Some(value_scales) = tile.scales.get(group * B::GROUP / GROUP) else { continue };
        let value_sums = if B::GROUP == GROUP { tile.sums.get(group) } else { tile.half_sums.get(group) };
        let Some(value_sums) = value_sums else { continue };
        let products = match B::BITS {
            0..=4 => sums_of_small::<B, N, FIRST>(weights, quants),
            _ => sums_of::<B, N, FIRST>(weights, quants),
        };
        let values = some::<_, N, FIRST>(value_scales).into_iter().zip(some::<_, N, FIRST>(value_sums));
        for ((sums, products), (value_scale, value_sum)) in sums.iter_mut().zip(products).zip(values) {
            let (value_scale, value_sum) = (_mm256_set1_ps(value_scale), _mm256_set1_ps(value_sum));
            let numbers = products.iter().zip(scales.iter().zip(minima));
            for (sum, (products, (scales, minima))) in sums.iter_mut().zip(numbers) {
                let scales = _mm256_mul_ps(load(scales), value_scale);
                let mut total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(*products), scales, load(sum));
                if has_minima::<B>() {
                    total = _mm256_fnmadd_ps(load(minima), value_sum, total);
                }
                store(sum, total);
            }
        }
    }
}

/// Four columns of sixteen rows of weights.
type Weight = [[u8; 4 * LANES]; WIDE];

/// Four columns of eight rows of activations.
type Quants = [[u8; 4]; TILE_ROWS];

/// The sums of a group's products if 16 bits have room for them: 16 products of four bits and seven with a sign.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sums_of_small<B: Unpack, const N: usize, const FIRST: usize>(
    weights: &[Weight],
    quants: &[Quants],
) -> [[__m256i; WIDE]; N] {
    let mut sums = [[_mm256_setzero_si256(); WIDE]; N];
    for ([one, other], quants) in weights.iter().zip(quants) {
        let (one, other) = (Weights::of::<B>(load_bytes(one)), Weights::of::<B>(load_bytes(other)));
        for ([first, second], quants) in sums.iter_mut().zip(some::<_, N, FIRST>(quants)) {
            let quants = spread(quants);
            *first = _mm256_add_epi16(*first, one.pairs::<B>(quants));
            *second = _mm256_add_epi16(*second, other.pairs::<B>(quants));
        }
    }
    for sum in sums.as_flattened_mut() {
        *sum = sum_pairs(*sum);
    }
    sums
}

/// The sums of a group's products.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sums_of<B: Unpack, const N: usize, const FIRST: usize>(
    weights: &[Weight],
    quants: &[Quants],
) -> [[__m256i; WIDE]; N] {
    let mut sums = [[_mm256_setzero_si256(); WIDE]; N];
    let quants = quants.as_chunks::<2>().0;
    for ([weights, next], [quants, last]) in weights.as_chunks::<2>().0.iter().zip(quants) {
        let (quants, last) = (some::<_, N, FIRST>(quants), some::<_, N, FIRST>(last));
        for (half, (one, other)) in weights.iter().zip(next).enumerate() {
            let (one, other) = (Weights::of::<B>(load_bytes(one)), Weights::of::<B>(load_bytes(other)));
            for (sums, (first, last)) in sums.iter_mut().zip(quants.iter().zip(last)) {
                let (first, last) = (spread(*first), spread(last));
                let found = match small::<B>() {
                    // Four products of six bits and seven with a sign are within 16.
                    true => sum_pairs(_mm256_add_epi16(one.pairs::<B>(first), other.pairs::<B>(last))),
                    false => _mm256_add_epi32(one.products::<B>(first), other.products::<B>(last)),
                };
                if let Some(sum) = sums.get_mut(half) {
                    *sum = _mm256_add_epi32(*sum, found);
                }
            }
        }
    }
    sums
}

/// The same four bytes in all lanes.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn spread(quants: [u8; 4]) -> __m256i {
    _mm256_set1_epi32(i32::from_le_bytes(quants))
}
