//! Weights, made BF16 and laid out as tiles.

use alloc::vec::Vec;
use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::ROWS;
use super::narrow::{Numbers, narrow, rest};
use crate::activations::{CHUNK, TILE_COLUMNS};
use crate::block::blocks;
use crate::kernel::avx512::{Load, Widen, load_numbers, store_numbers};
use crate::kernel::chunk::{GROUPS, blocks_of};

/// Tiles of a chunk.
pub const ACROSS: usize = CHUNK / TILE_COLUMNS;

/// Strips of 16 rows of weights that are multiplied with activations while these are near.
pub const STRIPS: usize = 8;

/// Columns of 16 rows of weights.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct WeightTile(pub [[u16; TILE_COLUMNS]; ROWS]);

/// A chunk of 16 rows of weights.
pub type Strip = [WeightTile; ACROSS];

/// A chunk of some strips of weights.
pub struct Panel {
    /// The nearest numbers.
    pub nearest: Vec<Strip>,
    /// The remainders; absent if they do not count.
    pub rests: Vec<Strip>,
}

impl Panel {
    /// A panel for such weights, of this many rows and an even number of strips.
    pub fn new<W: Weights>(rows: usize) -> Self {
        let empty = [WeightTile([[0; TILE_COLUMNS]; ROWS]); ACROSS];
        let strips = rows.div_ceil(ROWS).min(STRIPS).next_multiple_of(2);
        let rests = if W::RESTS { strips } else { 0 };
        Self { nearest: alloc::vec![empty; strips], rests: alloc::vec![empty; rests] }
    }
}

/// Weights that products are made of.
pub trait Weights {
    /// Whether what BF16 leaves of the weights counts.
    const RESTS: bool;
    /// Whether what BF16 leaves of the activations counts.
    const VALUE_RESTS: bool;
    /// Bytes of a whole chunk of a row.
    const CHUNK_BYTES: usize;
    /// A row's chunk, or values computed from it.
    type Chunk<'a>;

    /// A row's chunk.
    ///
    /// # Safety
    /// The processor has the instructions that the kernels of `avx512` use.
    unsafe fn chunk(bytes: &[u8]) -> Self::Chunk<'_>;

    /// A tile's part of it, with zeros after the numbers.
    ///
    /// # Safety
    /// The same.
    unsafe fn numbers(chunk: &Self::Chunk<'_>, tile: usize) -> Numbers;
}

/// Weights of a quantised type.
pub struct Quantised<B>(PhantomData<B>);

/// A chunk of such weights.
#[repr(C, align(64))]
pub struct Quants {
    quants: [[[u8; 16]; 2]; ACROSS],
    scales: [f32; GROUPS],
    minima: [f32; GROUPS],
}

impl<B: Load> Weights for Quantised<B> {
    const RESTS: bool = false;
    const VALUE_RESTS: bool = false;
    const CHUNK_BYTES: usize = blocks_of::<B>() * size_of::<B>();
    type Chunk<'a> = Quants;

    #[inline(always)]
    unsafe fn chunk(bytes: &[u8]) -> Quants {
        // SAFETY: the caller guarantees these instructions.
        unsafe {
            let registers = B::load(blocks::<B>(bytes));
            let mut chunk = Quants { quants: [[[0; 16]; 2]; ACROSS], scales: [0.0; GROUPS], minima: [0.0; GROUPS] };
            for (to, quants) in chunk.quants.as_chunks_mut::<2>().0.iter_mut().zip(registers.quants) {
                _mm512_storeu_si512(to.as_mut_ptr().cast(), quants);
            }
            store_numbers(&mut chunk.scales, registers.scales);
            store_numbers(&mut chunk.minima, registers.minima);
            chunk
        }
    }

    #[inline(always)]
    unsafe fn numbers(chunk: &Quants, tile: usize) -> Numbers {
        // SAFETY: the caller guarantees these instructions, and tiles are those of a chunk.
        unsafe {
            let mut numbers = [_mm512_setzero_ps(); 2];
            let place = tile * TILE_COLUMNS;
            let quants = chunk.quants.get(tile).unwrap_or(&[[0; 16]; 2]);
            for (half, (numbers, quants)) in numbers.iter_mut().zip(quants).enumerate() {
                let quants = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(quants.as_ptr().cast())));
                // A chunk has a group for each `B::GROUP` quants.
                let group = (place + half * 16) / B::GROUP % GROUPS;
                let of = |all: &[f32; GROUPS]| all.get(group).copied().unwrap_or(0.0);
                *numbers =
                    _mm512_fmsub_ps(quants, _mm512_set1_ps(of(&chunk.scales)), _mm512_set1_ps(of(&chunk.minima)));
            }
            numbers
        }
    }
}

/// 32 numbers of 16 bits.
#[inline(always)]
unsafe fn widened<F: Widen>(chunk: &[F], tile: usize) -> Numbers {
    // SAFETY: the caller guarantees these instructions.
    unsafe {
        let part = chunk.get(tile * TILE_COLUMNS..).unwrap_or(&[]);
        match part.as_chunks::<16>().0 {
            [first, second, ..] => [F::widen(first), F::widen(second)],
            _ => {
                let mut last = [[0.0; 16]; 2];
                last.as_flattened_mut().iter_mut().zip(part).for_each(|(to, from)| *to = from.to_f32());
                let [first, second] = &last;
                [load_numbers(first), load_numbers(second)]
            }
        }
    }
}

/// Weights of a type of numbers of 16 bits, each the sum of two of BF16 with `RESTS`, and of BF16 itself otherwise.
pub struct Floats<F, const RESTS: bool>(PhantomData<F>);

impl<F: Widen + 'static, const RESTS: bool> Weights for Floats<F, RESTS> {
    const RESTS: bool = RESTS;
    const VALUE_RESTS: bool = true;
    const CHUNK_BYTES: usize = CHUNK * size_of::<F>();
    type Chunk<'a> = &'a [F];

    #[inline(always)]
    unsafe fn chunk(bytes: &[u8]) -> &[F] {
        blocks::<F>(bytes)
    }

    #[inline(always)]
    unsafe fn numbers(chunk: &&[F], tile: usize) -> Numbers {
        // SAFETY: the caller guarantees these instructions.
        unsafe { widened(chunk, tile) }
    }
}

impl Panel {
    /// Lays out a chunk of each row. Absent rows keep their earlier content; their products are never read.
    ///
    /// # Safety
    /// The processor has AVX-512 with BF16.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    pub unsafe fn fill<'a, W: Weights>(&mut self, rows: impl Iterator<Item = &'a [u8]>) {
        let mut rests = self.rests.iter_mut();
        let mut rows = rows;
        for nearest in &mut self.nearest {
            let mut rests = rests.next();
            for place in 0..ROWS {
                let Some(bytes) = rows.next() else { return };
                // SAFETY: the caller guarantees these instructions.
                let chunk = unsafe { W::chunk(bytes) };
                for (index, tile) in nearest.iter_mut().enumerate() {
                    // SAFETY: the same.
                    let (numbers, narrowed) = unsafe {
                        let numbers = W::numbers(&chunk, index);
                        (numbers, narrow(numbers))
                    };
                    put(tile, place, narrowed);
                    if W::RESTS
                        && let Some(rests) = &mut rests
                        && let Some(tile) = rests.get_mut(index)
                    {
                        // SAFETY: the same.
                        put(tile, place, unsafe { narrow(rest(narrowed, numbers)) });
                    }
                }
            }
        }
    }
}

/// Writes a row of a tile.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn put(tile: &mut WeightTile, place: usize, numbers: __m512i) {
    if let Some(row) = tile.0.get_mut(place) {
        // SAFETY: there is room for 64 bytes.
        unsafe { _mm512_storeu_si512(row.as_mut_ptr().cast(), numbers) };
    }
}
