//! Products with many rows of activations: eight rows of weights are unpacked and laid out so that each is a lane, and
//! then multiplied with all of them, four at a time.

use alloc::vec::Vec;
use core::arch::x86_64::*;

use super::{load, store};
use crate::activations::{Activations, CHUNK, GROUP};
use crate::block::{Block, Float, blocks};
use crate::kernel::chunk::{Chunk, GROUPS, Values, blocks_of, chunks};
use crate::tensor::Tensor;

/// Rows of weights that are lanes of a register.
const LANES: usize = 8;

/// Rows of activations that are multiplied together.
const TOGETHER: usize = 4;

/// Products of eight rows of weights with one of activations.
type Sums = [f32; LANES];

/// A chunk of each of eight rows.
#[repr(C, align(32))]
struct Panel {
    /// Four quants of each row, for every four columns, where they are so small that two products fit into 16 bits.
    small: [[[u8; 4]; LANES]; CHUNK / 4],
    /// Two quants of each row, for every two columns, for all others.
    large: [[[i16; 2]; LANES]; CHUNK / 2],
    scales: [[f32; LANES]; GROUPS],
    /// With what the type's offset comes to.
    minima: [[f32; LANES]; GROUPS],
    /// Groups that there are.
    count: usize,
}

impl Panel {
    const EMPTY: Self = Self {
        small: [[[0; 4]; LANES]; CHUNK / 4],
        large: [[[0; 2]; LANES]; CHUNK / 2],
        scales: [[0.0; LANES]; GROUPS],
        minima: [[0.0; LANES]; GROUPS],
        count: 0,
    };
}

/// Whether four products of a type's quants with signed bytes fit into 16 bits: all but those of eight bits have up to
/// six.
const fn small<B: Block>() -> bool {
    B::OFFSET < 128
}

/// Multiplies a matrix with all rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn products<B: Block>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let values: Vec<Vec<Values<'_>>> = (0..out.len()).map(|row| chunks(activations.row(row)).collect()).collect();
    let mut sums: Vec<Sums> = alloc::vec![[0.0; LANES]; out.len()];
    let mut panel = Panel::EMPTY;
    let chunk_bytes = blocks_of::<B>() * size_of::<B>();
    let row_bytes = matrix.row_bytes().max(1);
    for (strip, rows) in matrix.bytes().chunks(LANES * row_bytes).enumerate() {
        sums.fill([0.0; LANES]);
        for chunk in 0..matrix.columns().div_ceil(CHUNK) {
            let range = chunk * chunk_bytes..((chunk + 1) * chunk_bytes).min(row_bytes);
            fill::<B>(&mut panel, rows.chunks_exact(row_bytes).map(|row| row.get(range.clone()).unwrap_or(&[])));
            for (values, sums) in values.chunks(TOGETHER).zip(sums.chunks_mut(TOGETHER)) {
                let Some(first) = values.first() else { continue };
                // Those that are not there are computed with the values of the first.
                let row = |index: usize| values.get(index).unwrap_or(first).get(chunk);
                let (Some(a), Some(b), Some(c), Some(d)) = (row(0), row(1), row(2), row(3)) else { continue };
                match B::GROUP {
                    GROUP => multiply::<B, 1>(&panel, [a, b, c, d], sums),
                    _ => multiply::<B, 2>(&panel, [a, b, c, d], sums),
                }
            }
        }
        write(strip, &sums, out);
    }
}

/// Unpacks a chunk of each row and lays it out. Rows that are not there keep what was there before; nobody asks for their
/// products.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn fill<'a, B: Block>(panel: &mut Panel, rows: impl Iterator<Item = &'a [u8]>) {
    let mut chunk = Chunk::EMPTY;
    for (lane, bytes) in rows.enumerate().take(LANES) {
        let blocks = blocks::<B>(bytes);
        chunk.unpack(blocks);
        if small::<B>() {
            put(&mut panel.small, lane, chunk.quants.as_chunks().0.iter().copied());
        } else {
            let pairs = chunk.quants.as_chunks().0.iter();
            put(&mut panel.large, lane, pairs.map(|[one, other]| [i16::from(*one), i16::from(*other)]));
        }
        put(&mut panel.scales, lane, chunk.scales.iter().copied());
        put(&mut panel.minima, lane, chunk.minima.iter().copied());
        panel.count = blocks.len() * B::VALUES / B::GROUP;
    }
}

/// Writes one lane.
#[inline(always)]
fn put<T>(to: &mut [[T; LANES]], lane: usize, from: impl Iterator<Item = T>) {
    for (to, from) in to.iter_mut().zip(from) {
        if let Some(to) = to.get_mut(lane) {
            *to = from;
        }
    }
}

/// Adds the panel's products with a chunk of four rows of activations. `PER` groups have the same scale of these.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn multiply<B: Block, const PER: usize>(panel: &Panel, values: [&Values<'_>; TOGETHER], sums: &mut [Sums]) {
    let mut totals = [_mm256_setzero_ps(); TOGETHER];
    for (total, sums) in totals.iter_mut().zip(&*sums) {
        *total = load(sums);
    }
    // Of each row, quants by groups, four or two to a lane.
    let quants = values.map(|values| values.quants.as_chunks::<4>().0.chunks_exact(B::GROUP / 4));
    let wide = values.map(|values| values.wide.as_chunks::<2>().0.chunks_exact(B::GROUP / 2));
    let mut products = [[_mm256_setzero_si256(); TOGETHER]; GROUPS];
    if small::<B>() {
        let weights = panel.small.chunks_exact(B::GROUP / 4).take(panel.count);
        let [a, b, c, d] = quants;
        let rows = a.zip(b).zip(c.zip(d));
        for (products, (weights, ((a, b), (c, d)))) in products.iter_mut().zip(weights.zip(rows)) {
            *products = dot_small(weights, [a, b, c, d]);
        }
    } else {
        let weights = panel.large.chunks_exact(B::GROUP / 2).take(panel.count);
        let [a, b, c, d] = wide;
        let rows = a.zip(b).zip(c.zip(d));
        for (products, (weights, ((a, b), (c, d)))) in products.iter_mut().zip(weights.zip(rows)) {
            *products = dot_large(weights, [a, b, c, d]);
        }
    }
    let numbers = products.iter().zip(panel.scales.iter().zip(&panel.minima));
    for (group, (products, (scales, minima))) in numbers.enumerate().take(panel.count) {
        let (scales, minima) = (load(scales), load(minima));
        for ((total, products), values) in totals.iter_mut().zip(products).zip(values) {
            let sums = if PER == 1 { &values.sums[..] } else { &values.half_sums[..] };
            let (Some(value_scale), Some(sum)) = (values.scales.get(group / PER), sums.get(group)) else { continue };
            let scales = _mm256_mul_ps(scales, _mm256_set1_ps(*value_scale));
            *total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(*products), scales, *total);
            *total = _mm256_fnmadd_ps(minima, _mm256_set1_ps(*sum), *total);
        }
    }
    for (sums, total) in sums.iter_mut().zip(totals) {
        store(sums, total);
    }
}

/// The products of a group's small quants with those of four rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn dot_small(weights: &[[[u8; 4]; LANES]], [a, b, c, d]: [&[[i8; 4]]; TOGETHER]) -> [__m256i; TOGETHER] {
    let mut all = [_mm256_setzero_si256(); TOGETHER];
    let ones = _mm256_set1_epi16(1);
    let spread = |quants: &[i8; 4]| _mm256_set1_epi32(i32::from_le_bytes(quants.map(i8::cast_unsigned)));
    let pairs = a
        .as_chunks::<2>()
        .0
        .iter()
        .zip(b.as_chunks::<2>().0)
        .zip(c.as_chunks::<2>().0.iter().zip(d.as_chunks::<2>().0));
    for ([one, other], ((a, b), (c, d))) in weights.as_chunks::<2>().0.iter().zip(pairs) {
        // SAFETY: there are 32 bytes of each to be read.
        let (one, other) =
            unsafe { (_mm256_loadu_si256(one.as_ptr().cast()), _mm256_loadu_si256(other.as_ptr().cast())) };
        for (sum, [first, last]) in all.iter_mut().zip([a, b, c, d]) {
            // Four products of six bits with a sign and seven are within 16.
            let products =
                _mm256_add_epi16(_mm256_maddubs_epi16(one, spread(first)), _mm256_maddubs_epi16(other, spread(last)));
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(products, ones));
        }
    }
    all
}

/// The same of quants of eight bits.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn dot_large(weights: &[[[i16; 2]; LANES]], [a, b, c, d]: [&[[i16; 2]]; TOGETHER]) -> [__m256i; TOGETHER] {
    let mut all = [_mm256_setzero_si256(); TOGETHER];
    for (weights, ((a, b), (c, d))) in weights.iter().zip(a.iter().zip(b).zip(c.iter().zip(d))) {
        // SAFETY: there are 32 bytes to be read.
        let weights = unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) };
        for (sum, [one, other]) in all.iter_mut().zip([a, b, c, d]) {
            let pair = u32::from(one.cast_unsigned()) | u32::from(other.cast_unsigned()) << 16;
            let values = _mm256_set1_epi32(pair.cast_signed());
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(weights, values));
        }
    }
    all
}

/// Writes the products of a strip of eight rows.
fn write(strip: usize, sums: &[Sums], out: &mut [&mut [f32]]) {
    for (out, sums) in out.iter_mut().zip(sums) {
        let Some(out) = out.get_mut(strip * LANES..) else { continue };
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum);
    }
}

/// Columns of floating point weights that are laid out at once.
const FLOAT_COLUMNS: usize = 256;

/// Multiplies a matrix of floating point numbers with all rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn float_products<F: Float>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let mut sums: Vec<Sums> = alloc::vec![[0.0; LANES]; out.len()];
    let mut panel = [[0.0f32; LANES]; FLOAT_COLUMNS];
    let mut widened = [0.0f32; FLOAT_COLUMNS];
    let row_bytes = matrix.row_bytes().max(1);
    for (strip, rows) in matrix.bytes().chunks(LANES * row_bytes).enumerate() {
        sums.fill([0.0; LANES]);
        for start in (0..matrix.columns()).step_by(FLOAT_COLUMNS) {
            let columns = start..(start + FLOAT_COLUMNS).min(matrix.columns());
            for (lane, row) in rows.chunks_exact(row_bytes).enumerate().take(LANES) {
                let bytes = columns.start * size_of::<F>()..columns.end * size_of::<F>();
                let Some(widened) = widened.get_mut(..columns.len()) else { continue };
                super::widen_row::<F>(row.get(bytes).unwrap_or(&[]), widened);
                put(&mut panel, lane, widened.iter().copied());
            }
            for (index, sums) in sums.chunks_mut(TOGETHER).enumerate() {
                let row = |place: usize| {
                    let row = activations.row((index * TOGETHER + place).min(activations.rows().saturating_sub(1)));
                    row.values.get(columns.clone()).unwrap_or(&[])
                };
                multiply_floats(&panel, [row(0), row(1), row(2), row(3)], sums);
            }
        }
        write(strip, &sums, out);
    }
}

/// Adds the panel's products with as many columns of four rows of activations as there are.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn multiply_floats(panel: &[[f32; LANES]; FLOAT_COLUMNS], values: [&[f32]; TOGETHER], sums: &mut [Sums]) {
    let [a, b, c, d] = values;
    let mut totals = [_mm256_setzero_ps(); TOGETHER];
    for (total, sums) in totals.iter_mut().zip(&*sums) {
        *total = load(sums);
    }
    for (weights, ((a, b), (c, d))) in panel.iter().zip(a.iter().zip(b).zip(c.iter().zip(d))) {
        let weights = load(weights);
        for (total, value) in totals.iter_mut().zip([a, b, c, d]) {
            *total = _mm256_fmadd_ps(weights, _mm256_set1_ps(*value), *total);
        }
    }
    for (sums, total) in sums.iter_mut().zip(totals) {
        store(sums, total);
    }
}
