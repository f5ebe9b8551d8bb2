//! Products with many rows of activations: 16 rows of weights are unpacked and laid out so that each
//! is a lane, and then multiplied with all of them, eight at a time.

use alloc::vec::Vec;
use core::arch::x86_64::*;

use super::registers::Load;
use super::transpose::transpose;
use super::{load_numbers, store_numbers};
use crate::activations::{Activations, CHUNK, GROUP, TILE_ROWS, Tile};
use crate::block::blocks;
use crate::kernel::chunk::{GROUPS, blocks_of};
use crate::kernel::prefetch::prefetch_ahead;
use crate::tensor::Tensor;

/// Rows of weights that are lanes of a register.
const LANES: usize = 16;

/// Products of 16 rows of weights with eight of activations.
type Sums = [[f32; LANES]; TILE_ROWS];

/// A group of each of 16 rows.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Group {
    scales: [f32; LANES],
    minima: [f32; LANES],
    /// The contribution of the 128 in each quant of the activations to the products, negated.
    excess: [i32; LANES],
}

/// A chunk of each of 16 rows.
#[repr(C, align(64))]
struct Panel {
    /// Four quants of each row, for every four columns, with the type's offset taken off.
    quants: [[i8; 4 * LANES]; CHUNK / 4],
    groups: [Group; GROUPS],
    /// Number of groups.
    count: usize,
}

impl Panel {
    const EMPTY: Self = Self {
        quants: [[0; 4 * LANES]; CHUNK / 4],
        groups: [Group { scales: [0.0; LANES], minima: [0.0; LANES], excess: [0; LANES] }; GROUPS],
        count: 0,
    };
}

/// Multiplies a matrix with all rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn products<B: Load>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let mut sums: Vec<Sums> = alloc::vec![[[0.0; LANES]; TILE_ROWS]; out.len().div_ceil(TILE_ROWS)];
    let mut panel = Panel::EMPTY;
    let chunk_bytes = blocks_of::<B>() * size_of::<B>();
    let row_bytes = matrix.row_bytes().max(1);
    for (strip, rows) in matrix.bytes().chunks(LANES * row_bytes).enumerate() {
        for chunk in 0..matrix.columns().div_ceil(CHUNK) {
            let range = chunk * chunk_bytes..((chunk + 1) * chunk_bytes).min(row_bytes);
            let mut lanes: [&[B]; LANES] = [&[]; LANES];
            for (lane, row) in lanes.iter_mut().zip(rows.chunks_exact(row_bytes)) {
                *lane = blocks::<B>(row.get(range.clone()).unwrap_or(&[]));
            }
            // The same chunk of the next strip: processors do not prefetch that far.
            lanes.iter().for_each(|blocks| prefetch_ahead(blocks, LANES * row_bytes));
            fill::<B>(&mut panel, &lanes);
            for (tiles, sums) in activations.eights().zip(&mut sums) {
                let Some(tile) = tiles.get(chunk) else { continue };
                match (B::GROUP, B::MINIMA) {
                    (GROUP, false) => multiply::<8, 1, false>(&panel, tile, &tile.sums, chunk == 0, sums),
                    (GROUP, true) => multiply::<8, 1, true>(&panel, tile, &tile.sums, chunk == 0, sums),
                    (_, false) => multiply::<4, 2, false>(&panel, tile, &tile.half_sums, chunk == 0, sums),
                    (_, true) => multiply::<4, 2, true>(&panel, tile, &tile.half_sums, chunk == 0, sums),
                }
            }
        }
        write(strip, sums.as_flattened(), out);
    }
}

/// Unpacks a chunk of each row and lays it out.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn fill<B: Load>(panel: &mut Panel, lanes: &[&[B]; LANES]) {
    let zero = _mm512_setzero_si512();
    let mut quants = [[zero; LANES]; CHUNK / 64];
    let (mut scales, mut minima) = ([zero; LANES], [zero; LANES]);
    let [all, second, third, last] = &mut quants;
    let registers = all.iter_mut().zip(second).zip(third.iter_mut().zip(last));
    let numbers = scales.iter_mut().zip(&mut minima);
    let offset = _mm512_set1_epi8(B::OFFSET.cast_signed());
    let mut count = 0;
    for ((((a, b), (c, d)), (scales, minima)), blocks) in registers.zip(numbers).zip(lanes) {
        if blocks.is_empty() {
            continue;
        }
        // SAFETY: this function has the instructions of these kernels.
        let row = unsafe { B::load(blocks) };
        for (to, quants) in [a, b, c, d].into_iter().zip(row.quants) {
            *to = _mm512_sub_epi8(quants, offset);
        }
        *scales = _mm512_castps_si512(row.scales);
        *minima = _mm512_castps_si512(row.minima);
        count = blocks.len() * B::VALUES;
    }
    panel.count = count / B::GROUP;
    let parts = panel.quants.as_chunks_mut::<LANES>().0.iter_mut().zip(&mut quants);
    for (to, rows) in parts.take(count.div_ceil(4 * LANES)) {
        transpose(rows);
        for (to, row) in to.iter_mut().zip(rows) {
            // SAFETY: there is room for 64 bytes.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), *row) };
        }
    }
    transpose(&mut scales);
    if B::MINIMA {
        transpose(&mut minima);
    }
    for (group, (scales, minima)) in panel.groups.iter_mut().zip(scales.iter().zip(&minima)) {
        store_numbers(&mut group.scales, _mm512_castsi512_ps(*scales));
        store_numbers(&mut group.minima, _mm512_castsi512_ps(*minima));
    }
    let fours = B::GROUP / 4;
    for (group, quants) in panel.groups.iter_mut().zip(panel.quants.chunks_exact(fours)) {
        let mut excess = zero;
        for quants in quants {
            excess = _mm512_dpbusd_epi32(excess, _mm512_set1_epi8(i8::MIN), load_signed(quants));
        }
        // SAFETY: there is room for 64 bytes.
        unsafe { _mm512_storeu_si512(group.excess.as_mut_ptr().cast(), _mm512_sub_epi32(zero, excess)) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn load_signed(bytes: &[i8; 4 * LANES]) -> __m512i {
    // SAFETY: there are 64 bytes to be read.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// The sums so far, none before the first columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn begin(first: bool, sums: &Sums) -> [__m512; TILE_ROWS] {
    let mut totals = [_mm512_setzero_ps(); TILE_ROWS];
    if !first {
        for (total, sums) in totals.iter_mut().zip(sums) {
            *total = load_numbers(sums);
        }
    }
    totals
}

/// Adds the panel's products with a tile. A group is `FOURS` times four columns, and `PER` of them have the same scale of
/// activations; `value_sums` are of such groups.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn multiply<const FOURS: usize, const PER: usize, const MINIMA: bool>(
    panel: &Panel,
    tile: &Tile,
    value_sums: &[[f32; TILE_ROWS]],
    first: bool,
    sums: &mut Sums,
) {
    let mut totals = begin(first, sums);
    let weights = panel.quants.as_chunks::<FOURS>().0.as_chunks::<PER>().0.iter();
    let weights = weights.zip(panel.groups.as_chunks::<PER>().0);
    let values = tile.quants.as_chunks::<FOURS>().0.as_chunks::<PER>().0.iter();
    let values = values.zip(&tile.scales).zip(value_sums.as_chunks::<PER>().0);
    for ((weights, groups), ((values, value_scales), value_sums)) in weights.zip(values).take(panel.count / PER) {
        let parts = weights.iter().zip(groups).zip(values.iter().zip(value_sums));
        for ((weights, group), (values, value_sums)) in parts {
            // SAFETY: there are 64 bytes to be read.
            let excess = unsafe { _mm512_loadu_si512(group.excess.as_ptr().cast()) };
            let mut products = [excess; TILE_ROWS];
            for (weights, values) in weights.iter().zip(values) {
                let weights = load_signed(weights);
                for (products, value) in products.iter_mut().zip(values) {
                    let value = _mm512_set1_epi32(i32::from_le_bytes(*value));
                    *products = _mm512_dpbusd_epi32(*products, value, weights);
                }
            }
            let (scales, minima) = (load_numbers(&group.scales), load_numbers(&group.minima));
            let numbers = value_scales.iter().zip(value_sums);
            for ((total, products), (scale, sum)) in totals.iter_mut().zip(products).zip(numbers) {
                let scales = _mm512_mul_ps(scales, _mm512_set1_ps(*scale));
                *total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scales, *total);
                if MINIMA {
                    *total = _mm512_fnmadd_ps(minima, _mm512_set1_ps(*sum), *total);
                }
            }
        }
    }
    for (sums, total) in sums.iter_mut().zip(totals) {
        store_numbers(sums, total);
    }
}

/// Writes the products of a strip of 16 rows.
fn write(strip: usize, sums: &[[f32; LANES]], out: &mut [&mut [f32]]) {
    for (out, sums) in out.iter_mut().zip(sums) {
        let Some(out) = out.get_mut(strip * LANES..) else { continue };
        match out.first_chunk_mut() {
            Some(out) => *out = *sums,
            None => out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum),
        }
    }
}
