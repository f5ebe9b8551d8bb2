//! Rows of the cache with many vectors: rows are widened once, some at a time, and then multiplied with all of them.

use alloc::vec::Vec;
use core::arch::x86_64::*;
use core::slice::{ChunksExact, ChunksExactMut};

use super::float::{add_f16, dot_f16, load_halves};
use super::{load_numbers, store_numbers, transpose};
use crate::kernel::Parts;
use crate::kernel::packed::{FEW, MOST, packed};

/// Numbers of a register.
const LANES: usize = 16;

/// Vectors that rows are multiplied with at once.
const TOGETHER: usize = 8;

/// Vectors from which on widening rows costs little compared with their use.
pub const TOGETHER_BEST: usize = 3 * TOGETHER;

/// Rows that are added at once.
const ROWS: usize = 32;

/// For each vector the sums of its products with each of some rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn dots_f16(vectors: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
    let size = vectors.clone().next().map_or(0, <[f32]>::len);
    if vectors.len() < FEW || size > MOST || !size.is_multiple_of(LANES) {
        for (vector, out) in vectors.zip(out) {
            dot_f16(vector, rows, out);
        }
        return;
    }
    let packed = packed::<TOGETHER>(vectors, size);
    let mut out: Vec<&mut [f32]> = out.collect();
    let mut columns = Columns([[0.0; LANES]; MOST]);
    let mut rows = rows.iter();
    let mut first = 0;
    while let Some(row) = rows.next() {
        let block = core::iter::once(row).chain(rows.by_ref().take(LANES - 1));
        columns.fill(block);
        for (packed, out) in packed.chunks_exact(size).zip(out.chunks_mut(TOGETHER)) {
            let mut sums = [_mm512_setzero_ps(); TOGETHER];
            for (column, numbers) in columns.0.iter().zip(packed) {
                let column = load_numbers(column);
                for (sum, number) in sums.iter_mut().zip(numbers) {
                    *sum = _mm512_fmadd_ps(_mm512_set1_ps(*number), column, *sum);
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                let Some(out) = out.get_mut(first..) else { continue };
                match out.first_chunk_mut() {
                    Some(out) => store_numbers(out, sum),
                    None => {
                        let mut all = [0.0; LANES];
                        store_numbers(&mut all, sum);
                        out.iter_mut().zip(all).for_each(|(out, sum)| *out = sum);
                    }
                }
            }
        }
        first += LANES;
    }
}

/// Sixteen rows, as the columns that they have.
#[repr(C, align(64))]
struct Columns([[f32; LANES]; MOST]);

impl Columns {
    /// Widens up to sixteen rows. The values of absent rows mean nothing.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    fn fill<'a>(&mut self, rows: impl Iterator<Item = &'a [u16]>) {
        let mut all: [&[[u16; LANES]]; LANES] = [&[]; LANES];
        for (to, row) in all.iter_mut().zip(rows) {
            *to = row.as_chunks().0;
        }
        let [first, ..] = all;
        for (piece, columns) in self.0.as_chunks_mut::<LANES>().0.iter_mut().enumerate().take(first.len()) {
            let mut lanes = [_mm512_setzero_si512(); LANES];
            for (to, row) in lanes.iter_mut().zip(all) {
                if let Some(part) = row.get(piece) {
                    *to = _mm512_castps_si512(load_halves(part));
                }
            }
            transpose(&mut lanes);
            for (to, column) in columns.iter_mut().zip(lanes) {
                store_numbers(to, _mm512_castsi512_ps(column));
            }
        }
    }
}

/// For each vector of weights adds rows, each multiplied with its weight.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn adds_f16(weights: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
    let size = rows.iter().next().map_or(0, <[u16]>::len);
    if weights.len() >= FEW {
        match size {
            32 if weights.len().is_multiple_of(8) => return add_together::<2, 8>(weights, rows, out),
            32 => return add_together::<2, 4>(weights, rows, out),
            64 => return add_together::<4, 4>(weights, rows, out),
            96 => return add_together::<6, 2>(weights, rows, out),
            128 => return add_together::<8, 2>(weights, rows, out),
            _ => {}
        }
    }
    for (weights, out) in weights.zip(out) {
        add_f16(weights, rows, out);
    }
}

/// The same for sums that `N` registers hold, of `Q` vectors at once.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn add_together<const N: usize, const Q: usize>(
    weights: ChunksExact<'_, f32>,
    rows: Parts<'_, u16>,
    out: ChunksExactMut<'_, f32>,
) {
    let weights: Vec<&[f32]> = weights.collect();
    let mut out: Vec<&mut [f32]> = out.collect();
    let mut wide = [[[0.0; LANES]; N]; ROWS];
    let mut rows = rows.iter();
    let mut first = 0;
    while let Some(row) = rows.next() {
        let mut count = 0;
        for (wide, row) in wide.iter_mut().zip(core::iter::once(row).chain(rows.by_ref().take(ROWS - 1))) {
            for (wide, part) in wide.iter_mut().zip(row.as_chunks().0) {
                store_numbers(wide, load_halves(part));
            }
            count += 1;
        }
        for (weights, out) in weights.chunks(Q).zip(out.chunks_mut(Q)) {
            // Copied, so that the compiler knows their ends. As many as there can be are multiplied.
            let mut near = [[0.0; ROWS]; Q];
            for (near, weights) in near.iter_mut().zip(weights) {
                let weights = weights.get(first..).unwrap_or_default();
                match weights.first_chunk() {
                    Some(weights) => *near = *weights,
                    None => near.iter_mut().zip(weights).for_each(|(near, weight)| *near = *weight),
                }
            }
            let mut totals = [[_mm512_setzero_ps(); N]; Q];
            for (totals, out) in totals.iter_mut().zip(&*out) {
                for (total, out) in totals.iter_mut().zip(out.as_chunks().0) {
                    *total = load_numbers(out);
                }
            }
            for (place, wide) in wide.iter().enumerate().take(count) {
                let mut parts = [_mm512_setzero_ps(); N];
                for (part, wide) in parts.iter_mut().zip(wide) {
                    *part = load_numbers(wide);
                }
                for (totals, weights) in totals.iter_mut().zip(&near) {
                    let weight = _mm512_set1_ps(weights.get(place).copied().unwrap_or(0.0));
                    for (total, part) in totals.iter_mut().zip(parts) {
                        *total = _mm512_fmadd_ps(weight, part, *total);
                    }
                }
            }
            for (totals, out) in totals.iter().zip(out) {
                for (out, total) in out.as_chunks_mut().0.iter_mut().zip(totals) {
                    store_numbers(out, *total);
                }
            }
        }
        first += ROWS;
    }
}
