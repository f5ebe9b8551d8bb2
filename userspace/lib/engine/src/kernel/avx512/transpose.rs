//! Sixteen registers of sixteen lanes, rows made into columns.

use core::arch::x86_64::*;

/// Registers, and lanes of each.
const LANES: usize = 16;

/// Makes columns of rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn transpose(rows: &mut [__m512i; LANES]) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *rows;
    let [[a0, a1, a2, a3], [b0, b1, b2, b3], [c0, c1, c2, c3], [d0, d1, d2, d3]] = [
        transpose_four([a, b, c, d]),
        transpose_four([e, f, g, h]),
        transpose_four([i, j, k, l]),
        transpose_four([m, n, o, p]),
    ];
    let [a, e, i, m] = transpose_lanes([a0, b0, c0, d0]);
    let [b, f, j, n] = transpose_lanes([a1, b1, c1, d1]);
    let [c, g, k, o] = transpose_lanes([a2, b2, c2, d2]);
    let [d, h, l, p] = transpose_lanes([a3, b3, c3, d3]);
    *rows = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p];
}

/// Makes columns of four rows in each quarter of the registers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn transpose_four([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Makes columns of four rows of quarters.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn transpose_lanes([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
    let (cd_low, cd_high) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
        _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
    ]
}
