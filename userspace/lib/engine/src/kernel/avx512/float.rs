//! Weights that are floating point numbers, and rows of the cache, which have 16 bits each.

use core::arch::x86_64::*;

use super::load_numbers;
use crate::activations::Activations;
use crate::block::{Float, blocks};
use crate::tensor::Tensor;

/// Multiplies a matrix with all rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn products<F: Widen>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    for (index, out) in out.iter_mut().enumerate() {
        let values = activations.row(index).values;
        for (out, bytes) in out.iter_mut().zip(matrix.bytes().chunks_exact(matrix.row_bytes().max(1))) {
            *out = dot::<F>(blocks::<F>(bytes), values);
        }
    }
}

/// A floating point type of which 16 numbers can be widened at once.
pub trait Widen: Float {
    /// The 16 numbers.
    ///
    /// # Safety
    /// The processor has AVX-512F.
    unsafe fn widen(numbers: &[Self; 16]) -> __m512;
}

impl Widen for crate::block::Float32 {
    #[inline(always)]
    unsafe fn widen(numbers: &[Self; 16]) -> __m512 {
        // SAFETY: the caller has AVX-512F; there are 64 bytes to be read.
        unsafe { _mm512_loadu_ps(numbers.as_ptr().cast()) }
    }
}

impl Widen for crate::block::Float16 {
    #[inline(always)]
    unsafe fn widen(numbers: &[Self; 16]) -> __m512 {
        // SAFETY: the caller has AVX-512F; there are 32 bytes to be read.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(numbers.as_ptr().cast())) }
    }
}

impl Widen for crate::block::BFloat16 {
    #[inline(always)]
    unsafe fn widen(numbers: &[Self; 16]) -> __m512 {
        // SAFETY: the caller has AVX-512F; there are 32 bytes to be read.
        unsafe {
            let numbers = _mm512_cvtepu16_epi32(_mm256_loadu_si256(numbers.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(numbers))
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn dot<F: Widen>(weights: &[F], values: &[f32]) -> f32 {
    let mut sums = [_mm512_setzero_ps(); 4];
    let (weights, last_weights) = weights.as_chunks::<16>();
    let (values, last_values) = values.as_chunks::<16>();
    let (fours, rest) = weights.as_chunks::<4>();
    let (value_fours, value_rest) = values.as_chunks::<4>();
    for (weights, values) in fours.iter().zip(value_fours) {
        for (sum, (weights, values)) in sums.iter_mut().zip(weights.iter().zip(values)) {
            // SAFETY: this function has AVX-512F.
            *sum = _mm512_fmadd_ps(unsafe { F::widen(weights) }, load_numbers(values), *sum);
        }
    }
    for (sum, (weights, values)) in sums.iter_mut().zip(rest.iter().zip(value_rest)) {
        // SAFETY: this function has AVX-512F.
        *sum = _mm512_fmadd_ps(unsafe { F::widen(weights) }, load_numbers(values), *sum);
    }
    let [a, b, c, d] = sums;
    let sum = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)));
    last_weights.iter().zip(last_values).fold(sum, |sum, (weight, value)| sum + weight.to_f32() * value)
}

/// The sum of products.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn dot_f16(one: &[f32], other: &[u16]) -> f32 {
    dot::<crate::block::Float16>(bytemuck::try_cast_slice(other).unwrap_or(&[]), one)
}

/// Adds a row, multiplied with `weight`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn add_f16(out: &mut [f32], row: &[u16], weight: f32) {
    let (parts, rest) = row.as_chunks::<16>();
    let (outs, out_rest) = out.as_chunks_mut::<16>();
    let weights = _mm512_set1_ps(weight);
    for (out, row) in outs.iter_mut().zip(parts) {
        // SAFETY: there are 32 bytes to be read.
        let row = unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(row.as_ptr().cast())) };
        super::store_numbers(out, _mm512_fmadd_ps(weights, row, load_numbers(out)));
    }
    crate::kernel::portable::add_f16(out_rest, rest, weight);
}

/// Makes 16 bits of each number.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn narrow(values: &[f32], out: &mut [u16]) {
    let (parts, rest) = values.as_chunks::<16>();
    let (outs, out_rest) = out.as_chunks_mut::<16>();
    for (out, values) in outs.iter_mut().zip(parts) {
        let narrow = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(load_numbers(values));
        // SAFETY: there is room for 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), narrow) };
    }
    crate::kernel::portable::narrow(rest, out_rest);
}
