//! Weights that are numbers of 16 bits. Each number of the weights is the sum of two that tiles can be of, or is one, and
//! each of the activations is nearly such a sum. All products of these are made: without the smallest a result would be
//! a 2^15th of its size away.

use alloc::vec::Vec;
use core::arch::asm;
use core::arch::x86_64::*;

use super::ROWS;
use super::quantised::write;
use super::tiles::Tiles;
use crate::activations::{Activations, FloatTile, TILE_COLUMNS};
use crate::block::{BFloat16, Float16, blocks};
use crate::kernel::avx512::{Widen, load_numbers, store_numbers};
use crate::tensor::Tensor;

/// Columns that are laid out at once, in tiles.
const ACROSS: usize = 8;
const COLUMNS: usize = ACROSS * TILE_COLUMNS;

/// Rows of weights that are multiplied together, in tiles.
const DOWN: usize = 2;

/// The columns of 32 rows of weights.
#[repr(C, align(64))]
struct Panel {
    high: [[u16; COLUMNS]; DOWN * ROWS],
    /// What `high` leaves of the numbers.
    low: [[u16; COLUMNS]; DOWN * ROWS],
}

/// The products of 32 rows of weights with 16 of activations, in two sums so that none waits for another: of larger
/// with larger parts and smaller with smaller ones, and the others.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Sums {
    large: [[[f32; ROWS]; ROWS]; DOWN],
    small: [[[f32; ROWS]; ROWS]; DOWN],
}

/// A type of numbers that are sums of two that tiles can be of.
pub trait Split: Widen {
    /// Whether the second of them is ever anything.
    const LOW: bool;
}

impl Split for Float16 {
    const LOW: bool = true;
}

impl Split for BFloat16 {
    const LOW: bool = false;
}

/// Multiplies a matrix with all rows of activations.
///
/// # Safety
/// The processor has AMX, and the program may use it.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub unsafe fn products<F: Split>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    // SAFETY: the caller has AMX, and nothing that this is called from has tiles.
    let tiles = unsafe { Tiles::set_up([(16, 64); 8]) };
    let empty = Sums { large: [[[0.0; ROWS]; ROWS]; DOWN], small: [[[0.0; ROWS]; ROWS]; DOWN] };
    let mut sums = alloc::vec![empty; out.len().div_ceil(ROWS)];
    let mut totals: Vec<[[[f32; ROWS]; ROWS]; DOWN]> = alloc::vec![[[[0.0; ROWS]; ROWS]; DOWN]; sums.len()];
    let mut panel = Panel { high: [[0; COLUMNS]; DOWN * ROWS], low: [[0; COLUMNS]; DOWN * ROWS] };
    let row_bytes = matrix.row_bytes().max(1);
    for (band, rows) in matrix.bytes().chunks(DOWN * ROWS * row_bytes).enumerate() {
        sums.fill(empty);
        for start in (0..matrix.columns()).step_by(COLUMNS) {
            let columns = start..(start + COLUMNS).min(matrix.columns());
            let rows = rows.chunks_exact(row_bytes).map(|row| blocks::<F>(row).get(columns.clone()).unwrap_or(&[]));
            fill::<F>(&mut panel, rows);
            let first = start / TILE_COLUMNS;
            let across = columns.len().div_ceil(TILE_COLUMNS);
            for (values, sums) in activations.floats().zip(&mut sums) {
                let Some(values) = values.get(first..first + across) else { continue };
                multiply::<F>(&tiles, &panel, values, sums);
            }
        }
        for (total, sums) in totals.iter_mut().zip(&sums) {
            let parts = sums.large.as_flattened().iter().zip(sums.small.as_flattened());
            for (to, (large, small)) in total.as_flattened_mut().iter_mut().zip(parts) {
                store_numbers(to, _mm512_add_ps(load_numbers(large), load_numbers(small)));
            }
        }
        write(band, &totals, out);
    }
}

/// Lays out columns of each row, with zeros behind them to the end of a tile. Rows that are not there keep what was there
/// before; nobody asks for their products.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn fill<'a, F: Split + 'a>(panel: &mut Panel, rows: impl Iterator<Item = &'a [F]>) {
    for ((high, low), row) in panel.high.iter_mut().zip(&mut panel.low).zip(rows) {
        let (parts, rest) = row.as_chunks::<16>();
        let mut last = [0.0; 16];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = from.to_f32());
        // Up to two parts behind the whole ones: what is left, and nothing.
        let to = high.as_chunks_mut::<16>().0.iter_mut().zip(low.as_chunks_mut::<16>().0);
        let whole = row.len().next_multiple_of(TILE_COLUMNS) / 16;
        for (index, (high, low)) in to.enumerate().take(whole) {
            let numbers = match (parts.get(index), index == parts.len()) {
                // SAFETY: this function has AVX-512F.
                (Some(part), _) => unsafe { F::widen(part) },
                (None, true) => load_numbers(&last),
                (None, false) => _mm512_setzero_ps(),
            };
            let upper = _mm512_and_si512(_mm512_castps_si512(numbers), _mm512_set1_epi32(-0x1_0000));
            store_upper(high, upper);
            if F::LOW {
                let rest = _mm512_sub_ps(numbers, _mm512_castsi512_ps(upper));
                store_upper(low, _mm512_castps_si512(rest));
            }
        }
    }
}

/// Writes the upper half of each number.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn store_upper(to: &mut [u16; 16], numbers: __m512i) {
    // SAFETY: there is room for 32 bytes.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(numbers))) };
}

/// Adds the panel's products with tiles of activations.
#[inline(always)]
fn multiply<F: Split>(_tiles: &Tiles, panel: &Panel, values: &[FloatTile], sums: &mut Sums) {
    let Sums { large: [large, next_large], small: [small, next_small] } = sums;
    let sums = [large.as_mut_ptr(), next_large.as_mut_ptr(), small.as_mut_ptr(), next_small.as_mut_ptr()];
    // SAFETY: tiles are set up, as `_tiles` shows, with 16 rows of 64 bytes each, which is what there is of all sums.
    unsafe {
        asm!(
            "tileloadd tmm0, [{0} + {line}]",
            "tileloadd tmm1, [{1} + {line}]",
            "tileloadd tmm2, [{2} + {line}]",
            "tileloadd tmm3, [{3} + {line}]",
            in(reg) sums[0], in(reg) sums[1], in(reg) sums[2], in(reg) sums[3], line = in(reg) 4 * ROWS,
            options(nostack, readonly, preserves_flags),
        );
    }
    for (index, values) in values.iter().enumerate().take(ACROSS) {
        let column = index * TILE_COLUMNS;
        let high = panel.high.as_flattened().as_ptr().wrapping_add(column);
        let low = panel.low.as_flattened().as_ptr().wrapping_add(column);
        let row = 2 * COLUMNS;
        let below = ROWS * row;
        // SAFETY: the same. The columns are within the panel's, of whose 32 rows 16 are loaded each time, and activations
        // have 16 rows of 64 bytes twice.
        unsafe {
            match F::LOW {
                true => asm!(
                    "tileloadd tmm6, [{value} + {line}]",
                    "tileloadd tmm7, [{rest} + {line}]",
                    "tileloadd tmm4, [{high} + {row}]",
                    "tileloadd tmm5, [{low} + {row}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm2, tmm4, tmm7",
                    "tileloadd tmm4, [{next_high} + {row}]",
                    "tdpbf16ps tmm0, tmm5, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tileloadd tmm5, [{next_low} + {row}]",
                    "tdpbf16ps tmm1, tmm4, tmm6",
                    "tdpbf16ps tmm3, tmm4, tmm7",
                    "tdpbf16ps tmm1, tmm5, tmm7",
                    "tdpbf16ps tmm3, tmm5, tmm6",
                    value = in(reg) values.high.as_ptr(), rest = in(reg) values.low.as_ptr(),
                    high = in(reg) high, next_high = in(reg) high.cast::<u8>().wrapping_add(below),
                    low = in(reg) low, next_low = in(reg) low.cast::<u8>().wrapping_add(below),
                    row = in(reg) row, line = in(reg) 4 * ROWS,
                    options(nostack, readonly, preserves_flags),
                ),
                false => asm!(
                    "tileloadd tmm6, [{value} + {line}]",
                    "tileloadd tmm7, [{rest} + {line}]",
                    "tileloadd tmm4, [{high} + {row}]",
                    "tileloadd tmm5, [{next_high} + {row}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm2, tmm4, tmm7",
                    "tdpbf16ps tmm1, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    value = in(reg) values.high.as_ptr(), rest = in(reg) values.low.as_ptr(),
                    high = in(reg) high, next_high = in(reg) high.cast::<u8>().wrapping_add(below),
                    row = in(reg) row, line = in(reg) 4 * ROWS,
                    options(nostack, readonly, preserves_flags),
                ),
            }
        }
    }
    // SAFETY: as above.
    unsafe {
        asm!(
            "tilestored [{0} + {line}], tmm0",
            "tilestored [{1} + {line}], tmm1",
            "tilestored [{2} + {line}], tmm2",
            "tilestored [{3} + {line}], tmm3",
            in(reg) sums[0], in(reg) sums[1], in(reg) sums[2], in(reg) sums[3], line = in(reg) 4 * ROWS,
            options(nostack, preserves_flags),
        );
    }
}
