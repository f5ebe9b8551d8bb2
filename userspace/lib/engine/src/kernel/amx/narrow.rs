//! Numbers made BF16.

use core::arch::asm;
use core::arch::x86_64::*;
use core::slice::ChunksExact;

use super::ROWS;
use crate::activations::{FloatTile, TILE_COLUMNS};
use crate::kernel::avx512::{load_numbers, transpose};

/// 32 numbers.
pub type Numbers = [__m512; 2];

/// Makes numbers BF16, the second 16 after the first. The compiler's name for the instruction is newer than the oldest
/// compiler that this is built with.
///
/// # Safety
/// The processor has AVX-512 with BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub unsafe fn narrow([first, second]: Numbers) -> __m512i {
    let narrowed: __m512i;
    // SAFETY: the caller has the instruction, which changes nothing besides.
    unsafe {
        asm!(
            "vcvtne2ps2bf16 {narrowed}, {second}, {first}",
            narrowed = lateout(zmm_reg) narrowed, first = in(zmm_reg) first, second = in(zmm_reg) second,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    narrowed
}

/// The remainders of the numbers after BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn rest(narrowed: __m512i, [first, second]: Numbers) -> Numbers {
    [
        _mm512_sub_ps(first, widen(_mm512_castsi512_si256(narrowed))),
        _mm512_sub_ps(second, widen(_mm512_extracti64x4_epi64::<1>(narrowed))),
    ]
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn widen(numbers: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(numbers)))
}

/// Lays out up to 16 rows, as [`Kernels::lay_out`](crate::kernel::Kernels::lay_out) says.
///
/// # Safety
/// The processor has AVX-512 with BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub unsafe fn lay_out(rows: ChunksExact<'_, f32>, tiles: &mut [FloatTile], rests: &mut [FloatTile]) {
    let mut rests = rests.iter_mut();
    for (index, tile) in tiles.iter_mut().enumerate() {
        let (mut pairs, mut left) = ([_mm512_setzero_si512(); ROWS], [_mm512_setzero_si512(); ROWS]);
        let to_rest = rests.next();
        for ((pairs, left), row) in pairs.iter_mut().zip(&mut left).zip(rows.clone()) {
            let numbers = part(row.get(index * TILE_COLUMNS..).unwrap_or(&[]));
            // SAFETY: the caller has the instruction.
            unsafe {
                *pairs = narrow(numbers);
                if to_rest.is_some() {
                    *left = narrow(rest(*pairs, numbers));
                }
            }
        }
        put(pairs, tile);
        if let Some(to_rest) = to_rest {
            put(left, to_rest);
        }
    }
}

/// The first numbers of a row, and zeros if it has no more.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn part(row: &[f32]) -> Numbers {
    let mut last = [[0.0; 16]; 2];
    let [first, second] = match row.as_chunks::<16>().0 {
        [first, second, ..] => [first, second],
        _ => {
            last.as_flattened_mut().iter_mut().zip(row).for_each(|(to, from)| *to = *from);
            let [first, second] = &last;
            [first, second]
        }
    };
    [load_numbers(first), load_numbers(second)]
}

/// Writes the pairs of each row as the rows of each pair.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn put(mut pairs: [__m512i; ROWS], tile: &mut FloatTile) {
    transpose(&mut pairs);
    for (to, rows) in tile.0.iter_mut().zip(pairs) {
        // SAFETY: there is room for 64 bytes.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), rows) };
    }
}
