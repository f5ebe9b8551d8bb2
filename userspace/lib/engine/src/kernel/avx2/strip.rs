//! Strips of sixteen rows of weights that are laid out so that each is a lane, and their products.

use core::arch::x86_64::*;

use super::store;

/// Rows of weights that are lanes of a register.
pub const LANES: usize = 8;

/// Registers that are multiplied with the same activations, which are read once for them.
pub const WIDE: usize = 2;

/// Rows of weights that are laid out at once.
pub const ROWS: usize = WIDE * LANES;

/// A number of each of sixteen rows: weights of a column, or products with one row of activations.
pub type Column = [[f32; LANES]; WIDE];

/// Writes eight numbers of each of eight rows into as many columns, whose first or second half these rows are.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn put_columns(mut rows: [__m256i; LANES], half: usize, out: &mut [Column; LANES]) {
    transpose(&mut rows);
    for (column, numbers) in out.iter_mut().zip(rows) {
        if let Some(to) = column.get_mut(half) {
            store(to, _mm256_castsi256_ps(numbers));
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

/// Writes the products of a strip of sixteen rows.
pub fn write(strip: usize, sums: &[Column], out: &mut [&mut [f32]]) {
    for (out, sums) in out.iter_mut().zip(sums) {
        let Some(out) = out.get_mut(strip * ROWS..) else { continue };
        match out.as_chunks_mut().0.first_chunk_mut() {
            Some(out) => *out = *sums,
            None => out.iter_mut().zip(sums.as_flattened()).for_each(|(out, sum)| *out = *sum),
        }
    }
}
