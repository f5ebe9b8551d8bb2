//! Rows of the cache with many vectors: rows are widened once, some at a time, and then multiplied with all of them.

use alloc::vec::Vec;
use core::arch::x86_64::*;
use core::slice::{ChunksExact, ChunksExactMut};

use super::strip::{Column, LANES, ROWS, WIDE, put_columns};
use super::{add_f16, dot_f16, load, store, widen};
use crate::kernel::Parts;
use crate::kernel::packed::{FEW, MOST, packed};

/// Vectors that rows are multiplied with at once: this many times [`WIDE`] sums are in registers.
const TOGETHER: usize = 4;

/// Vectors from which on widening rows costs little compared with their use.
pub const TOGETHER_BEST: usize = 6 * TOGETHER;

/// Registers of each vector that rows are added to at once.
const ADDED: usize = 4;

/// Vectors that rows are added to at once: this many times [`ADDED`] sums are in registers.
const PAIR: usize = 2;

/// Rows that are added before sums are stored.
const BLOCK: usize = 32;

/// For each vector the sums of its products with each of some rows.
#[target_feature(enable = "avx2,fma,f16c")]
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
    let mut columns = alloc::vec![Columns([[[0.0; LANES]; WIDE]; LANES]); size / LANES];
    let mut rows = rows.iter();
    let mut first = 0;
    while let Some(row) = rows.next() {
        fill(&mut columns, core::iter::once(row).chain(rows.by_ref().take(ROWS - 1)));
        for (packed, out) in packed.chunks_exact(size).zip(out.chunks_mut(TOGETHER)) {
            let mut sums = [[_mm256_setzero_ps(); WIDE]; TOGETHER];
            for ([low, high], numbers) in columns.iter().flat_map(|columns| &columns.0).zip(packed) {
                let (low, high) = (load(low), load(high));
                for ([one, other], number) in sums.iter_mut().zip(numbers) {
                    let number = _mm256_set1_ps(*number);
                    *one = _mm256_fmadd_ps(number, low, *one);
                    *other = _mm256_fmadd_ps(number, high, *other);
                }
            }
            for (out, sums) in out.iter_mut().zip(sums) {
                let Some(out) = out.get_mut(first..) else { continue };
                let mut all: Column = [[0.0; LANES]; WIDE];
                for (to, sum) in all.iter_mut().zip(sums) {
                    store(to, sum);
                }
                out.iter_mut().zip(all.as_flattened()).for_each(|(out, sum)| *out = *sum);
            }
        }
        first += ROWS;
    }
}

/// Eight numbers of each of sixteen rows, as columns.
#[derive(Clone)]
#[repr(C, align(32))]
struct Columns([Column; LANES]);

/// Widens up to sixteen rows. The values of absent rows mean nothing.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn fill<'a>(columns: &mut [Columns], rows: impl Iterator<Item = &'a [u16]>) {
    let mut all: [&[[u16; LANES]]; ROWS] = [&[]; ROWS];
    for (to, row) in all.iter_mut().zip(rows) {
        *to = row.as_chunks().0;
    }
    for (half, rows) in all.as_chunks::<LANES>().0.iter().enumerate() {
        for (piece, columns) in columns.iter_mut().enumerate() {
            let mut lanes = [_mm256_setzero_si256(); LANES];
            for (to, row) in lanes.iter_mut().zip(rows) {
                if let Some(part) = row.get(piece) {
                    *to = _mm256_castps_si256(widen(part));
                }
            }
            put_columns(lanes, half, &mut columns.0);
        }
    }
}

/// A piece of a row or of a sum.
type Piece = [[f32; LANES]; ADDED];

/// The same piece of some rows.
#[derive(Clone)]
#[repr(C, align(32))]
struct Pieces([Piece; BLOCK]);

/// For each vector of weights adds rows, each multiplied with its weight.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn adds_f16(weights: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
    let size = rows.iter().next().map_or(0, <[u16]>::len);
    if weights.len() < FEW || size > MOST || !size.is_multiple_of(ADDED * LANES) {
        for (weights, out) in weights.zip(out) {
            add_f16(weights, rows, out);
        }
        return;
    }
    let weights: Vec<&[f32]> = weights.collect();
    let mut out: Vec<&mut [f32]> = out.collect();
    // Of some rows the first pieces, then the second ones, and so on.
    let mut wide = alloc::vec![Pieces([[[0.0; LANES]; ADDED]; BLOCK]); size / (ADDED * LANES)];
    let mut rows = rows.iter();
    let mut first = 0;
    while let Some(row) = rows.next() {
        let mut count = 0;
        for (place, row) in core::iter::once(row).chain(rows.by_ref().take(BLOCK - 1)).enumerate() {
            for (wide, row) in wide.iter_mut().zip(row.as_chunks::<{ ADDED * LANES }>().0) {
                let Some(wide) = wide.0.get_mut(place) else { continue };
                for (wide, part) in wide.iter_mut().zip(row.as_chunks().0) {
                    store(wide, widen(part));
                }
            }
            count += 1;
        }
        for (weights, out) in weights.chunks(PAIR).zip(out.chunks_mut(PAIR)) {
            // Copied, so that the compiler knows their ends.
            let mut near = [[0.0; PAIR]; BLOCK];
            for (index, weights) in weights.iter().enumerate() {
                for (near, weight) in near.iter_mut().zip(weights.iter().skip(first)) {
                    if let Some(near) = near.get_mut(index) {
                        *near = *weight;
                    }
                }
            }
            for (piece, wide) in wide.iter().enumerate() {
                add_piece(&near, wide.0.get(..count).unwrap_or_default(), piece, out);
            }
        }
        first += BLOCK;
    }
}

/// Adds a piece of each of some rows to that of up to [`PAIR`] sums.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn add_piece(weights: &[[f32; PAIR]; BLOCK], rows: &[Piece], piece: usize, out: &mut [&mut [f32]]) {
    let mut totals = [[_mm256_setzero_ps(); ADDED]; PAIR];
    for (totals, out) in totals.iter_mut().zip(&*out) {
        let Some(out) = out.as_chunks::<{ ADDED * LANES }>().0.get(piece) else { continue };
        for (total, out) in totals.iter_mut().zip(out.as_chunks().0) {
            *total = load(out);
        }
    }
    for (row, weights) in rows.iter().zip(weights) {
        let mut parts = [_mm256_setzero_ps(); ADDED];
        for (part, row) in parts.iter_mut().zip(row) {
            *part = load(row);
        }
        for (totals, weight) in totals.iter_mut().zip(weights) {
            let weight = _mm256_set1_ps(*weight);
            for (total, part) in totals.iter_mut().zip(parts) {
                *total = _mm256_fmadd_ps(weight, part, *total);
            }
        }
    }
    for (totals, out) in totals.iter().zip(out) {
        let Some(out) = out.as_chunks_mut::<{ ADDED * LANES }>().0.get_mut(piece) else { continue };
        for (out, total) in out.as_chunks_mut().0.iter_mut().zip(totals) {
            store(out, *total);
        }
    }
}
