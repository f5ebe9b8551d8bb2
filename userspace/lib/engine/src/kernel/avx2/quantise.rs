//! Rows of activations as signed bytes.

use core::arch::x86_64::*;

use super::{load, sum_pairs};
use crate::activations::{GROUP, HALF_GROUP, RowMut};
use crate::kernel::portable::ROUNDING;

/// Quantises a row, each group by its largest value, to the same bits as the set that is the reference.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn quantise(row: RowMut<'_>) {
    let RowMut { values, quants, scales, sums, half_sums } = row;
    let to = quants.as_chunks_mut::<GROUP>().0.iter_mut().zip(scales);
    let to = to.zip(sums.iter_mut().zip(half_sums.as_chunks_mut::<{ GROUP / HALF_GROUP }>().0));
    for (values, ((quants, scale), (sum, half_sums))) in values.as_chunks::<GROUP>().0.iter().zip(to) {
        (*scale, *half_sums) = quantise_group(values, quants);
        let [first, last] = *half_sums;
        // Whole numbers, small enough to be exact.
        *sum = *scale * (first + last);
        *half_sums = [*scale * first, *scale * last];
    }
}

/// The quants of a group: their scale, and the sums of the two halves.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn quantise_group(values: &[f32; GROUP], quants: &mut [i8; GROUP]) -> (f32, [f32; 2]) {
    let mut parts = [_mm256_setzero_ps(); 4];
    let sign = _mm256_set1_ps(-0.0);
    let mut most = _mm256_setzero_ps();
    for (part, values) in parts.iter_mut().zip(values.as_chunks().0) {
        *part = load(values);
        // NaN is skipped: of two numbers, the second is then taken.
        most = _mm256_max_ps(_mm256_andnot_ps(sign, *part), most);
    }
    let most = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps::<1>(most));
    let most = _mm_max_ps(most, _mm_movehl_ps(most, most));
    let largest = _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
    let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    let mut whole = [_mm256_setzero_si256(); 4];
    for (whole, part) in whole.iter_mut().zip(parts) {
        let shifted = _mm256_add_ps(_mm256_mul_ps(part, _mm256_set1_ps(inverse)), _mm256_set1_ps(ROUNDING));
        // The lowest byte, with its sign.
        *whole = _mm256_srai_epi32::<24>(_mm256_slli_epi32::<24>(_mm256_castps_si256(shifted)));
    }
    let [a, b, c, d] = whole;
    let (first, last) = (_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    let sums = _mm256_hadd_epi32(sum_pairs(first), sum_pairs(last));
    let sums = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    // Of the first half two sums, and two of the last.
    let sums = _mm_cvtepi32_ps(_mm_add_epi32(sums, _mm_shuffle_epi32::<0b10_11_00_01>(sums)));
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, last), order);
    // SAFETY: there is room for 32 bytes.
    unsafe { _mm256_storeu_si256(quants.as_mut_ptr().cast(), bytes) };
    (largest / 127.0, [_mm_cvtss_f32(sums), _mm_cvtss_f32(_mm_movehl_ps(sums, sums))])
}
