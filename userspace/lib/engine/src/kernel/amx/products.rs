//! Products of tiles: of 32 rows of weights with 32 of activations at a time; each tile is loaded for two products.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::ROWS;
use super::tiles::Tiles;
use super::weights::{ACROSS, Panel, STRIPS, Strip, WeightTile, Weights};
use crate::activations::{Activations, CHUNK, FloatTile};
use crate::kernel::avx512::{load_numbers, store_numbers, transpose};
use crate::tensor::Tensor;

/// For each of 16 rows of weights the products with 16 of activations.
type Sums = [[f32; ROWS]; ROWS];

/// Strips, and tiles of activations, that are multiplied together.
const PAIR: usize = 2;

/// Bytes of a tile's row.
const LINE: usize = 64;

/// Multiplies a matrix with all rows of activations.
///
/// # Safety
/// The processor has AMX, and the program may use it.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub unsafe fn products<W: Weights>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    // SAFETY: the caller has AMX, and nothing that this is called from has tiles.
    let tiles = unsafe { Tiles::set_up([(ROWS as u8, LINE as u16); 8]) };
    let values: Vec<&[FloatTile]> = activations.floats().collect();
    let rests: Vec<&[FloatTile]> = activations.rests().collect();
    // Pairs are whole; the products of a last pair's missing second tile are never read.
    let mut sums: Box<[MaybeUninit<[Sums; STRIPS]>]> = Box::new_uninit_slice(values.len().next_multiple_of(PAIR));
    let mut panel = Panel::new::<W>(matrix.rows());
    let row_bytes = matrix.row_bytes().max(1);
    for (band, rows) in matrix.bytes().chunks(STRIPS * ROWS * row_bytes).enumerate() {
        let strips = rows.len().div_ceil(ROWS * row_bytes);
        let chunks = matrix.columns().div_ceil(CHUNK);
        for chunk in 0..chunks {
            let range = chunk * W::CHUNK_BYTES..((chunk + 1) * W::CHUNK_BYTES).min(row_bytes);
            // SAFETY: the caller guarantees these instructions.
            unsafe {
                panel.fill::<W>(rows.chunks_exact(row_bytes).map(|row| row.get(range.clone()).unwrap_or(&[])));
            }
            for (index, sums) in sums.as_chunks_mut::<PAIR>().0.iter_mut().enumerate() {
                let Some(values) = pair(&values, index, chunk) else { continue };
                let rests = match W::VALUE_RESTS {
                    true => pair(&rests, index, chunk),
                    false => None,
                };
                let sums = sums.each_mut().map(|sums| sums.as_mut_ptr().cast::<Sums>());
                let nearest = panel.nearest.as_chunks::<PAIR>().0;
                let left = panel.rests.as_chunks::<PAIR>().0;
                for (place, nearest) in nearest.iter().enumerate().take(strips.div_ceil(PAIR)) {
                    let sums = sums.map(|sums| sums.wrapping_add(place * PAIR));
                    // SAFETY: there is room for the sums of a pair of strips, which this function's first turn has
                    // written.
                    let block = unsafe { Block::load(&tiles, sums, chunk > 0) };
                    block.add(nearest, values);
                    if let Some(rests) = rests {
                        block.add(nearest, rests);
                    }
                    if let Some(left) = left.get(place) {
                        block.add(left, values);
                    }
                    block.store();
                    if chunk + 1 < chunks {
                        continue;
                    }
                    let rows = out.chunks_mut(ROWS).skip(index * PAIR);
                    for (rows, sums) in rows.zip(sums) {
                        // SAFETY: the sums of a pair of strips have just been written.
                        let sums = unsafe { &*sums.cast::<[Sums; PAIR]>() };
                        for (strip, sums) in sums.iter().enumerate() {
                            write(sums, (band * STRIPS + place * PAIR + strip) * ROWS, rows);
                        }
                    }
                }
            }
        }
    }
}

/// A chunk of a pair of tiles' rows: of the last pair's second, if that is not there, the first's.
#[inline(always)]
fn pair<'a>(all: &[&'a [FloatTile]], index: usize, chunk: usize) -> Option<[&'a [FloatTile]; PAIR]> {
    let of = |place: usize| {
        let tiles = all.get(index * PAIR + place)?.get(chunk * ACROSS..)?;
        Some(tiles.get(..ACROSS).unwrap_or(tiles))
    };
    let first = of(0)?;
    Some([first, of(1).unwrap_or(first)])
}

/// The sums of a pair of strips with a pair of tiles, in the first four tiles of the processor.
struct Block<'a> {
    _tiles: &'a Tiles,
    /// For each tile of activations those of both strips, one after the other.
    sums: [*mut Sums; PAIR],
}

impl<'a> Block<'a> {
    /// Begins with existing sums, or with none.
    ///
    /// # Safety
    /// There is room for all sums, until this is gone; they are written where they have `begun`.
    #[inline(always)]
    unsafe fn load(tiles: &'a Tiles, sums: [*mut Sums; PAIR], begun: bool) -> Self {
        // SAFETY: tiles are set up, with 16 rows of 64 bytes each, as the caller guarantees for all sums.
        unsafe {
            match begun {
                true => asm!(
                    "tileloadd tmm0, [{0} + {line}]",
                    "tileloadd tmm1, [{0} + {line} + {size}]",
                    "tileloadd tmm2, [{1} + {line}]",
                    "tileloadd tmm3, [{1} + {line} + {size}]",
                    in(reg) sums[0], in(reg) sums[1], line = in(reg) LINE, size = const size_of::<Sums>(),
                    options(nostack, readonly, preserves_flags),
                ),
                false => asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    options(nostack, nomem, preserves_flags),
                ),
            }
        }
        Self { _tiles: tiles, sums }
    }

    /// Adds the products of a chunk.
    #[inline(always)]
    fn add(&self, [strip, next_strip]: &[Strip; PAIR], [values, next_values]: [&[FloatTile]; PAIR]) {
        let weights = strip.iter().zip(next_strip);
        for ((weights, next_weights), (values, next_values)) in weights.zip(values.iter().zip(next_values)) {
            let weights: [*const WeightTile; PAIR] = [weights, next_weights];
            let values: [*const FloatTile; PAIR] = [values, next_values];
            // SAFETY: tiles are set up, with 16 rows of 64 bytes each, and all four have as many.
            unsafe {
                asm!(
                    "tileloadd tmm4, [{0} + {line}]",
                    "tileloadd tmm6, [{2} + {line}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm5, [{1} + {line}]",
                    "tdpbf16ps tmm1, tmm5, tmm6",
                    "tileloadd tmm7, [{3} + {line}]",
                    "tdpbf16ps tmm2, tmm4, tmm7",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    in(reg) weights[0], in(reg) weights[1], in(reg) values[0], in(reg) values[1], line = in(reg) LINE,
                    options(nostack, readonly, preserves_flags),
                );
            }
        }
    }

    /// Writes the sums.
    #[inline(always)]
    fn store(self) {
        // SAFETY: as in `load`.
        unsafe {
            asm!(
                "tilestored [{0} + {line}], tmm0",
                "tilestored [{0} + {line} + {size}], tmm1",
                "tilestored [{1} + {line}], tmm2",
                "tilestored [{1} + {line} + {size}], tmm3",
                in(reg) self.sums[0], in(reg) self.sums[1], line = in(reg) LINE, size = const size_of::<Sums>(),
                options(nostack, preserves_flags),
            );
        }
    }
}

/// Writes the products of a strip, whose first row of weights is `start`, with a tile.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn write(sums: &Sums, start: usize, out: &mut [&mut [f32]]) {
    let mut lanes = [_mm512_setzero_si512(); ROWS];
    for (to, from) in lanes.iter_mut().zip(sums) {
        *to = _mm512_castps_si512(load_numbers(from));
    }
    transpose(&mut lanes);
    for (out, lanes) in out.iter_mut().zip(lanes) {
        write_row(lanes, start, out);
    }
}

/// Writes the products of a row of activations, as many as there is room for.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn write_row(lanes: __m512i, start: usize, out: &mut [f32]) {
    let lanes = _mm512_castsi512_ps(lanes);
    let Some(out) = out.get_mut(start..) else { return };
    match out.first_chunk_mut() {
        Some(out) => store_numbers(out, lanes),
        // SAFETY: the mask has as many lanes as `out` has room for.
        None => unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr(), (1_u16 << out.len()).wrapping_sub(1), lanes) },
    }
}
