//! Weights that are floating point numbers, and rows of the cache, which have 16 bits each.

use core::arch::x86_64::*;

use super::{load_numbers, store_numbers};
use crate::activations::{Activations, parts};
use crate::block::{Float, Float16, blocks};
use crate::kernel::Parts;
use crate::kernel::prefetch::{prefetch_floats, prefetch_floats_ahead};
use crate::tensor::Tensor;

/// Numbers of a register.
const LANES: usize = 16;

/// Multiplies a matrix with all rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn products<F: Widen>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    if let [out] = out {
        let values = activations.row(0).values;
        for (out, bytes) in out.iter_mut().zip(matrix.bytes().chunks_exact(matrix.row_bytes().max(1))) {
            *out = dot::<F>(blocks::<F>(bytes), values);
        }
        return;
    }
    let count = out.len();
    let strip_bytes = matrix.row_bytes().max(1).saturating_mul(STRIP);
    // The rows of activations fetch a piece of the next strip each, so that all of it has arrived when it is needed.
    let piece = matrix.row_bytes().max(1).saturating_mul(HIGH).div_ceil(count.div_ceil(TOGETHER).max(1));
    for (strip, bytes) in matrix.bytes().chunks(strip_bytes).enumerate() {
        for (turn, rows) in parts(count, TOGETHER).enumerate() {
            let next = (turn, piece);
            let row = |place: usize| activations.row(rows.start.saturating_add(place)).values;
            let first = strip.saturating_mul(STRIP);
            let Some(out) = out.get_mut(rows.clone()) else { continue };
            match out.len() {
                1 => strip_products::<F, 1>(matrix, bytes, [row(0)], first, next, out),
                2 => strip_products::<F, 2>(matrix, bytes, [row(0), row(1)], first, next, out),
                3 => strip_products::<F, 3>(matrix, bytes, [row(0), row(1), row(2)], first, next, out),
                4 => strip_products::<F, 4>(matrix, bytes, [row(0), row(1), row(2), row(3)], first, next, out),
                5 => strip_products::<F, 5>(matrix, bytes, [row(0), row(1), row(2), row(3), row(4)], first, next, out),
                _ => {
                    let all = [row(0), row(1), row(2), row(3), row(4), row(5)];
                    strip_products::<F, TOGETHER>(matrix, bytes, all, first, next, out);
                }
            }
        }
    }
}

/// Rows of weights that are multiplied with the same rows of activations while these are near.
const STRIP: usize = 32;

/// Rows of weights, and most rows of activations, in one step: each is loaded once for all of the others. Their sums
/// are in registers, enough of them to hide the latency of each.
const HIGH: usize = 4;
const TOGETHER: usize = 6;

/// Multiplies a strip of rows with some rows of activations. `first` is the place of its products. Of every
/// [`HIGH`] rows of the next strip, the piece of this turn, of `piece` bytes, is fetched.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn strip_products<F: Widen, const N: usize>(
    matrix: &Tensor<'_>,
    strip: &[u8],
    values: [&[f32]; N],
    first: usize,
    (turn, piece): (usize, usize),
    out: &mut [&mut [f32]],
) {
    let row_bytes = matrix.row_bytes().max(1);
    for (index, bytes) in strip.chunks(row_bytes.saturating_mul(HIGH)).enumerate() {
        prefetch_floats_ahead(bytes.chunks(piece).nth(turn).unwrap_or(&[]), row_bytes.saturating_mul(STRIP));
        // If there are fewer rows, the last is multiplied again, and that result is never read.
        let mut rows: [&[F]; HIGH] = [&[]; HIGH];
        let mut last: &[F] = &[];
        let mut left = bytes.chunks_exact(row_bytes);
        for row in &mut rows {
            last = left.next().map_or(last, blocks::<F>);
            *row = last;
        }
        let products = block::<F, N>(rows, values);
        for (out, products) in out.iter_mut().zip(products) {
            let Some(out) = out.get_mut(first.saturating_add(index.saturating_mul(HIGH))..) else { continue };
            match out.first_chunk_mut() {
                Some(out) => *out = products,
                None => out.iter_mut().zip(products).for_each(|(out, product)| *out = product),
            }
        }
    }
}

/// The products of four rows of weights with some rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn block<F: Widen, const N: usize>(rows: [&[F]; HIGH], values: [&[f32]; N]) -> [[f32; HIGH]; N] {
    let mut sums = [[_mm512_setzero_ps(); HIGH]; N];
    let count = rows.iter().map(|row| row.len()).chain(values.iter().map(|row| row.len())).min().unwrap_or(0);
    for index in 0..count / LANES {
        let mut weights = [_mm512_setzero_ps(); HIGH];
        for (to, row) in weights.iter_mut().zip(rows) {
            // SAFETY: all rows have at least `count` numbers; this function has AVX-512F.
            *to = unsafe { F::widen(row.as_chunks().0.get_unchecked(index)) };
        }
        for (sums, row) in sums.iter_mut().zip(values) {
            // SAFETY: all rows have at least `count` numbers.
            let values = load_numbers(unsafe { row.as_chunks().0.get_unchecked(index) });
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = _mm512_fmadd_ps(weights, values, *sum);
            }
        }
    }
    // Sums are taken from their registers first: a loop over what is left would have them written to memory.
    let mut products = [[0.0; HIGH]; N];
    for (products, [a, b, c, d]) in products.iter_mut().zip(&sums) {
        let quarters = sums_of_four(*a, *b, *c, *d);
        let halves = _mm256_add_ps(_mm512_castps512_ps256(quarters), _mm512_extractf32x8_ps::<1>(quarters));
        let sums = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
        // SAFETY: there is room for four numbers.
        unsafe { _mm_storeu_ps(products.as_mut_ptr(), sums) };
    }
    let done = count - count % LANES;
    if done < count {
        for (products, values) in products.iter_mut().zip(values) {
            let values = values.get(done..).unwrap_or(&[]);
            for (product, row) in products.iter_mut().zip(rows) {
                let weights = row.get(done..).unwrap_or(&[]);
                *product =
                    weights.iter().zip(values).fold(*product, |sum, (weight, value)| sum + weight.to_f32() * value);
            }
        }
    }
    products
}

/// A floating point type with 16 numbers that can be widened at once.
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

impl Widen for Float16 {
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
        prefetch_floats(weights);
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

/// The sum of a vector's products with each of some rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn dot_f16(vector: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
    match vector.len() {
        32 => dots::<2>(vector, rows, out),
        64 => dots::<4>(vector, rows, out),
        96 => dots::<6>(vector, rows, out),
        128 => dots::<8>(vector, rows, out),
        _ => {
            for (out, row) in out.iter_mut().zip(rows.iter()) {
                *out = dot::<Float16>(bytemuck::try_cast_slice(row).unwrap_or(&[]), vector);
            }
        }
    }
}

/// The same for a vector that `N` registers hold, 16 rows at a time.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn dots<const N: usize>(vector: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
    let mut values = [_mm512_setzero_ps(); N];
    for (to, values) in values.iter_mut().zip(vector.as_chunks().0) {
        *to = load_numbers(values);
    }
    let mut rows = rows.iter();
    for out in out.chunks_mut(LANES) {
        let mut sums = [_mm512_setzero_ps(); LANES];
        for (sum, row) in sums.iter_mut().take(out.len()).zip(&mut rows) {
            for (values, row) in values.iter().zip(row.as_chunks().0) {
                *sum = _mm512_fmadd_ps(load_halves(row), *values, *sum);
            }
        }
        let mut all = [0.0; LANES];
        store_numbers(&mut all, sums_of(sums));
        for (out, sum) in out.iter_mut().zip(all) {
            *out = sum;
        }
    }
}

/// The sum of each register's numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn sums_of(all: [__m512; LANES]) -> __m512 {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = all;
    let first = join_quarters(sums_of_four(a, b, c, d), sums_of_four(e, f, g, h));
    let last = join_quarters(sums_of_four(i, j, k, l), sums_of_four(m, n, o, p));
    join_quarters(first, last)
}

/// In each quarter, the sums of the numbers that each of four registers has there.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn sums_of_four(a: __m512, b: __m512, c: __m512, d: __m512) -> __m512 {
    let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    let (low, high) = (_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd));
    _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high))
}

/// The sums of one's neighbouring quarters, then those of the other's.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn join_quarters(one: __m512, other: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(one, other), _mm512_shuffle_f32x4::<0xdd>(one, other))
}

/// Adds rows, each multiplied with its weight.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn add_f16(weights: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
    match out.len() {
        32 => add_rows::<2>(weights, rows, out),
        64 => add_rows::<4>(weights, rows, out),
        96 => add_rows::<6>(weights, rows, out),
        128 => add_rows::<8>(weights, rows, out),
        _ => {
            for (weight, row) in weights.iter().zip(rows.iter()) {
                add_row(out, row, *weight);
            }
        }
    }
}

/// The same for sums that `N` registers hold.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn add_rows<const N: usize>(weights: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
    let mut totals = [_mm512_setzero_ps(); N];
    for (to, out) in totals.iter_mut().zip(out.as_chunks().0) {
        *to = load_numbers(out);
    }
    for (weight, row) in weights.iter().zip(rows.iter()) {
        let weight = _mm512_set1_ps(*weight);
        for (total, row) in totals.iter_mut().zip(row.as_chunks().0) {
            *total = _mm512_fmadd_ps(weight, load_halves(row), *total);
        }
    }
    for (out, total) in out.as_chunks_mut().0.iter_mut().zip(totals) {
        store_numbers(out, total);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn add_row(out: &mut [f32], row: &[u16], weight: f32) {
    let (parts, rest) = row.as_chunks();
    let (outs, out_rest) = out.as_chunks_mut();
    let weights = _mm512_set1_ps(weight);
    for (out, row) in outs.iter_mut().zip(parts) {
        store_numbers(out, _mm512_fmadd_ps(weights, load_halves(row), load_numbers(out)));
    }
    crate::kernel::portable::add_f16(out_rest, rest, weight);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn load_halves(numbers: &[u16; LANES]) -> __m512 {
    // SAFETY: there are 32 bytes to be read.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(numbers.as_ptr().cast())) }
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
