//! Weights that are floating point numbers. With few rows of activations each row of weights is widened in registers and
//! used at once. With many, sixteen rows are widened and laid out so that each is a lane, and then multiplied with all
//! activations, six at a time. That many sums in flight hide the latency of each.

use alloc::vec::Vec;
use core::arch::x86_64::*;

use super::strip::{Column, LANES, ROWS, WIDE, put_columns, write};
use super::{load, store, sum_of};
use crate::activations::{Activations, parts};
use crate::block::{BFloat16, Float, Float16, Float32, blocks};
use crate::kernel::prefetch::prefetch_floats;
use crate::tensor::Tensor;

/// A floating point type with eight numbers that can be widened at once.
pub trait Widen: Float {
    /// The eight numbers.
    ///
    /// # Safety
    /// The processor has the instructions that the kernels of this folder use.
    unsafe fn widen(numbers: &[Self; LANES]) -> __m256;
}

impl Widen for Float32 {
    #[inline(always)]
    unsafe fn widen(numbers: &[Self; LANES]) -> __m256 {
        // SAFETY: the caller has AVX2; there are 32 bytes to be read.
        unsafe { _mm256_loadu_ps(numbers.as_ptr().cast()) }
    }
}

impl Widen for Float16 {
    #[inline(always)]
    unsafe fn widen(numbers: &[Self; LANES]) -> __m256 {
        // SAFETY: the caller has F16C; there are 16 bytes to be read.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(numbers.as_ptr().cast())) }
    }
}

impl Widen for BFloat16 {
    #[inline(always)]
    unsafe fn widen(numbers: &[Self; LANES]) -> __m256 {
        // SAFETY: the caller has AVX2; there are 16 bytes to be read.
        unsafe {
            let numbers = _mm256_cvtepu16_epi32(_mm_loadu_si128(numbers.as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(numbers))
        }
    }
}

/// Multiplies a matrix with few rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn products<F: Widen>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    for rows in parts(out.len(), FEW) {
        let row = |place: usize| activations.row(rows.start.saturating_add(place)).values;
        let Some(out) = out.get_mut(rows.clone()) else { continue };
        match out.len() {
            1 => products_with::<F, 1>(matrix, [row(0)], out),
            2 => products_with::<F, 2>(matrix, [row(0), row(1)], out),
            _ => products_with::<F, FEW>(matrix, [row(0), row(1), row(2)], out),
        }
    }
}

/// Rows of activations that a row of weights is multiplied with at once.
const FEW: usize = 3;

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn products_with<F: Widen, const N: usize>(matrix: &Tensor<'_>, values: [&[f32]; N], out: &mut [&mut [f32]]) {
    for (index, bytes) in matrix.bytes().chunks_exact(matrix.row_bytes().max(1)).enumerate() {
        let products = dot::<F, N>(blocks::<F>(bytes), values);
        for (out, product) in out.iter_mut().zip(products) {
            if let Some(out) = out.get_mut(index) {
                *out = product;
            }
        }
    }
}

/// Registers that are multiplied without waiting for each other's sums.
const APART: usize = 4;

/// The sums of a row's products with some rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn dot<F: Widen, const N: usize>(weights: &[F], values: [&[f32]; N]) -> [f32; N] {
    let mut sums = [[_mm256_setzero_ps(); APART]; N];
    let (eights, last) = weights.as_chunks::<LANES>();
    let (parts, rest) = eights.as_chunks::<APART>();
    for (index, weights) in parts.iter().enumerate() {
        prefetch_floats(weights);
        let mut wide = [_mm256_setzero_ps(); APART];
        for (wide, weights) in wide.iter_mut().zip(weights) {
            // SAFETY: this function has these instructions.
            *wide = unsafe { F::widen(weights) };
        }
        for (sums, values) in sums.iter_mut().zip(values) {
            let Some(values) = values.as_chunks::<LANES>().0.as_chunks::<APART>().0.get(index) else { continue };
            for (sum, (wide, values)) in sums.iter_mut().zip(wide.iter().zip(values)) {
                *sum = _mm256_fmadd_ps(*wide, load(values), *sum);
            }
        }
    }
    let mut products = [0.0; N];
    for (product, (sums, values)) in products.iter_mut().zip(sums.iter_mut().zip(values)) {
        let (values, last_values) = values.as_chunks::<LANES>();
        for (sum, (weights, values)) in sums.iter_mut().zip(rest.iter().zip(values.iter().skip(parts.len() * APART))) {
            // SAFETY: this function has these instructions.
            *sum = _mm256_fmadd_ps(unsafe { F::widen(weights) }, load(values), *sum);
        }
        let [a, b, c, d] = *sums;
        let sum = sum_of(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)));
        *product = last.iter().zip(last_values).fold(sum, |sum, (weight, value)| sum + weight.to_f32() * value);
    }
    products
}

/// Columns of weights that are laid out at once.
const COLUMNS: usize = 128;

/// Rows of activations that are multiplied together.
const TOGETHER: usize = 6;

/// Panels that are multiplied with the same rows of activations while these are near.
const PANELS: usize = 4;

/// Columns of sixteen rows.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Panel([Column; COLUMNS]);

/// Multiplies a matrix with many rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn tile_products<F: Widen>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let values: Vec<&[f32]> = (0..out.len()).map(|index| activations.row(index).values).collect();
    // A copy of the last columns if they are fewer, so that in the loop no place can be beyond the end.
    let mut copies = Vec::new();
    if !matrix.columns().is_multiple_of(COLUMNS) {
        for values in &values {
            let mut copy = [0.0; COLUMNS];
            copy.iter_mut().zip(values.as_chunks::<COLUMNS>().1).for_each(|(to, from)| *to = *from);
            copies.push(copy);
        }
    }
    let mut sums: [Vec<Column>; PANELS] = core::array::from_fn(|_| alloc::vec![[[0.0; LANES]; WIDE]; out.len()]);
    let mut panels: Vec<Panel> = alloc::vec![Panel([[[0.0; LANES]; WIDE]; COLUMNS]); PANELS];
    let row_bytes = matrix.row_bytes().max(1);
    for (strip, bytes) in matrix.bytes().chunks(PANELS * ROWS * row_bytes).enumerate() {
        let parts: Vec<&[u8]> = bytes.chunks(ROWS * row_bytes).collect();
        sums.iter_mut().for_each(|sums| sums.fill([[0.0; LANES]; WIDE]));
        for start in (0..matrix.columns()).step_by(COLUMNS) {
            let count = COLUMNS.min(matrix.columns() - start);
            for (panel, bytes) in panels.iter_mut().zip(&parts) {
                let mut rows: [&[F]; ROWS] = [&[]; ROWS];
                for (row, bytes) in rows.iter_mut().zip(bytes.chunks_exact(row_bytes)) {
                    *row = blocks::<F>(bytes).get(start..start + count).unwrap_or(&[]);
                }
                fill(panel, &rows);
            }
            for (index, values) in values.chunks(TOGETHER).enumerate() {
                let first = index * TOGETHER;
                let mut near = [&[0.0; COLUMNS]; TOGETHER];
                for (place, (near, values)) in near.iter_mut().zip(values).enumerate() {
                    let whole = values.get(start..).and_then(<[f32]>::first_chunk);
                    let Some(found) = whole.or_else(|| copies.get(first + place)) else { continue };
                    *near = found;
                }
                let [a, b, c, d, e, f] = near;
                for (panel, sums) in panels.iter().zip(&mut sums).take(parts.len()) {
                    let sums = sums.get_mut(first..).unwrap_or(&mut []);
                    match values.len() {
                        1 => multiply(panel, [a], sums),
                        2 => multiply(panel, [a, b], sums),
                        3 => multiply(panel, [a, b, c], sums),
                        4 => multiply(panel, [a, b, c, d], sums),
                        5 => multiply(panel, [a, b, c, d, e], sums),
                        _ => multiply(panel, [a, b, c, d, e, f], sums),
                    }
                }
            }
        }
        for (index, sums) in sums.iter().enumerate().take(parts.len()) {
            write(strip * PANELS + index, sums, out);
        }
    }
}

/// Widens columns of up to sixteen rows and lays them out; zeros if there are none.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn fill<F: Widen>(panel: &mut Panel, rows: &[&[F]; ROWS]) {
    let nothing = [F::zeroed(); LANES];
    for (index, part) in panel.0.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        for (half, rows) in rows.as_chunks::<LANES>().0.iter().enumerate() {
            let mut parts = [&nothing; LANES];
            let mut ends = [nothing; LANES];
            for ((part, end), row) in parts.iter_mut().zip(&mut ends).zip(rows) {
                let rest = row.get(index * LANES..).unwrap_or(&[]);
                *part = rest.first_chunk().unwrap_or_else(|| {
                    end.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                    end
                });
            }
            let mut lanes = [_mm256_setzero_si256(); LANES];
            for (lane, part) in lanes.iter_mut().zip(parts) {
                // SAFETY: this function has these instructions.
                *lane = _mm256_castps_si256(unsafe { F::widen(part) });
            }
            put_columns(lanes, half, part);
        }
    }
}

/// Adds the panel's products with as many columns of some rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn multiply<const N: usize>(panel: &Panel, values: [&[f32; COLUMNS]; N], sums: &mut [Column]) {
    let Some(sums) = sums.first_chunk_mut::<N>() else { return };
    let mut totals = [[_mm256_setzero_ps(); WIDE]; N];
    for (totals, sums) in totals.iter_mut().zip(&*sums) {
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total = load(sum);
        }
    }
    for (place, [one, other]) in panel.0.iter().enumerate() {
        let (one, other) = (load(one), load(other));
        for ([first, second], values) in totals.iter_mut().zip(values) {
            let value = _mm256_set1_ps(values.get(place).copied().unwrap_or(0.0));
            *first = _mm256_fmadd_ps(one, value, *first);
            *second = _mm256_fmadd_ps(other, value, *second);
        }
    }
    for (totals, sums) in totals.iter().zip(sums) {
        for (total, sum) in totals.iter().zip(sums) {
            store(sum, *total);
        }
    }
}
