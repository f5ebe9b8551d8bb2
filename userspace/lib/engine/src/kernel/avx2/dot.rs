//! Products with few rows of activations: each row of weights is used immediately after unpacking. The types that
//! common files have are unpacked in registers, all others through memory.

use alloc::vec::Vec;
use core::arch::x86_64::*;

use super::unpack::{Flat, Unpack, all_scales, half_of_six, nibbles, six_bits, with_fifth};
use super::{TOGETHER, Weights, has_minima, load, load_bytes, small, store, sum_of};
use crate::activations::{Activations, GROUP, Row, parts};
use crate::block::{Block, Iq4Nl, Iq4Xs, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, blocks};
use crate::kernel::chunk::{Chunk, VALUE_GROUPS, Values, blocks_of, chunks};
use crate::kernel::prefetch::prefetch;
use crate::tensor::Tensor;

/// Multiplies a matrix with all rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub fn products<B: Dot>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let count = out.len();
    for first in (0..matrix.rows()).step_by(STRIP) {
        let strip = matrix.part(first..first.saturating_add(STRIP).min(matrix.rows()));
        for rows in parts(count, TOGETHER) {
            let row = |place: usize| activations.row(rows.start.saturating_add(place));
            let Some(out) = out.get_mut(rows.clone()) else { continue };
            match out.len() {
                1 => products_with::<B, 1>(&strip, first, [row(0)], out),
                2 => products_with::<B, 2>(&strip, first, [row(0), row(1)], out),
                3 => products_with::<B, 3>(&strip, first, [row(0), row(1), row(2)], out),
                _ => products_with::<B, TOGETHER>(&strip, first, [row(0), row(1), row(2), row(3)], out),
            }
        }
    }
}

/// Rows of weights that are multiplied with all activations while they are near.
const STRIP: usize = 256;

/// Multiplies a strip of a matrix, whose first row is in place `first` of it.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn products_with<B: Dot, const N: usize>(strip: &Tensor<'_>, first: usize, rows: [Row<'_>; N], out: &mut [&mut [f32]]) {
    // For each chunk those of all rows.
    let mut values: Vec<[Values<'_>; N]> = Vec::new();
    for (place, row) in rows.into_iter().enumerate() {
        if place == 0 {
            values.extend(chunks(row).map(|chunk| [chunk; N]));
        }
        for (to, chunk) in values.iter_mut().zip(chunks(row)) {
            if let Some(to) = to.get_mut(place) {
                *to = chunk;
            }
        }
    }
    for (index, bytes) in (first..).zip(strip.bytes().chunks_exact(strip.row_bytes().max(1))) {
        let products = dot::<B, N>(blocks::<B>(bytes), &values);
        for (out, product) in out.iter_mut().zip(products) {
            if let Some(out) = out.get_mut(index) {
                *out = product;
            }
        }
    }
}

/// The sums of a row's products with a row of activations. Those of consecutive groups are separate, so that their
/// latency is hidden.
#[derive(Clone, Copy)]
pub struct Sums {
    products: [__m256; 2],
    minima: __m256,
}

/// The sums of a row's products with some rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn dot<B: Dot, const N: usize>(row: &[B], values: &[[Values<'_>; N]]) -> [f32; N] {
    let zero = _mm256_setzero_ps();
    let mut sums = [Sums { products: [zero; 2], minima: zero }; N];
    for (blocks, values) in row.chunks(blocks_of::<B>()).zip(values) {
        // SAFETY: this function has the instructions of these kernels.
        unsafe { B::add(blocks, values, &mut sums) };
    }
    let mut products = [0.0; N];
    for (product, sums) in products.iter_mut().zip(sums) {
        let [one, other] = sums.products;
        *product = sum_of(_mm256_sub_ps(_mm256_add_ps(one, other), sums.minima));
    }
    products
}

/// A block type that is multiplied with activations.
pub trait Dot: Unpack {
    /// Adds the products of a chunk's blocks with as many columns of some rows of activations.
    ///
    /// # Safety
    /// The processor has the instructions that the kernels of this folder use.
    #[inline(always)]
    unsafe fn add<const N: usize>(blocks: &[Self], values: &[Values<'_>; N], sums: &mut [Sums; N]) {
        // SAFETY: the caller guarantees these instructions.
        unsafe { add_by_memory(blocks, values, sums) }
    }
}

impl Dot for Q4_1 {}
impl Dot for Q5_1 {}
impl Dot for Q2K {}
impl Dot for Q3K {}
impl Dot for Iq4Nl {}
impl Dot for Iq4Xs {}

impl Dot for Q8_0 {
    #[inline(always)]
    unsafe fn add<const N: usize>(blocks: &[Self], values: &[Values<'_>; N], sums: &mut [Sums; N]) {
        // SAFETY: the caller guarantees these instructions.
        unsafe { add_eight(blocks, values, sums) }
    }
}

impl Dot for Q4_0 {
    #[inline(always)]
    unsafe fn add<const N: usize>(blocks: &[Self], values: &[Values<'_>; N], sums: &mut [Sums; N]) {
        // SAFETY: the caller guarantees these instructions.
        unsafe { add_eight(blocks, values, sums) }
    }
}

impl Dot for Q5_0 {
    #[inline(always)]
    unsafe fn add<const N: usize>(blocks: &[Self], values: &[Values<'_>; N], sums: &mut [Sums; N]) {
        // SAFETY: the caller guarantees these instructions.
        unsafe { add_eight(blocks, values, sums) }
    }
}

impl Dot for Q4K {
    #[inline(always)]
    unsafe fn add<const N: usize>(blocks: &[Self], values: &[Values<'_>; N], sums: &mut [Sums; N]) {
        let [block] = blocks else { return };
        prefetch(core::slice::from_ref(block));
        // SAFETY: the caller guarantees these instructions.
        unsafe {
            let [scales, minima] = six_bits(block.groups, block.scale, block.minimum);
            let scales = scaled(scales, minima, values, sums);
            for (pair, bytes) in block.quants.iter().enumerate() {
                let [lower, upper] = nibbles(bytes);
                add_group::<Self, N>(lower, 2 * pair, &scales, values, sums);
                add_group::<Self, N>(upper, 2 * pair + 1, &scales, values, sums);
            }
        }
    }
}

impl Dot for Q5K {
    #[inline(always)]
    unsafe fn add<const N: usize>(blocks: &[Self], values: &[Values<'_>; N], sums: &mut [Sums; N]) {
        let [block] = blocks else { return };
        prefetch(core::slice::from_ref(block));
        // SAFETY: the caller guarantees these instructions.
        unsafe {
            let [scales, minima] = six_bits(block.groups, block.scale, block.minimum);
            let scales = scaled(scales, minima, values, sums);
            let fifth = load_bytes(&block.fifth);
            let mut bit = _mm256_set1_epi8(1);
            for (pair, bytes) in block.quants.iter().enumerate() {
                let [lower, upper] = nibbles(bytes);
                add_group::<Self, N>(with_fifth(lower, fifth, bit), 2 * pair, &scales, values, sums);
                bit = _mm256_add_epi8(bit, bit);
                add_group::<Self, N>(with_fifth(upper, fifth, bit), 2 * pair + 1, &scales, values, sums);
                bit = _mm256_add_epi8(bit, bit);
            }
        }
    }
}

impl Dot for Q6K {
    /// The scales of the groups are whole numbers and are multiplied as such, two at a time: a group is half of one of the
    /// activations.
    #[inline(always)]
    unsafe fn add<const N: usize>(blocks: &[Self], values: &[Values<'_>; N], sums: &mut [Sums; N]) {
        let [block] = blocks else { return };
        prefetch(core::slice::from_ref(block));
        // SAFETY: the caller guarantees these instructions; there are 16 bytes of scales to be read.
        unsafe {
            let scale = _mm256_cvtph_ps(_mm_set1_epi16(i16::from_le_bytes(block.scale)));
            let offset = _mm256_mul_ps(scale, _mm256_set1_ps(f32::from(Self::OFFSET)));
            let groups = _mm_loadu_si128(block.scales.as_ptr().cast());
            let low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(groups));
            let high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(groups, groups)));
            for (sums, values) in sums.iter_mut().zip(values) {
                let [first, last] = values.half_sums.as_chunks().0 else { continue };
                let all = _mm256_fmadd_ps(high, load(last), _mm256_mul_ps(low, load(first)));
                sums.minima = _mm256_fmadd_ps(all, offset, sums.minima);
            }
            // Those of first halves in the lower half of a register, those of second ones in the upper one.
            let order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
            let groups = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(groups, order));
            let mut parts = [[_mm256_setzero_ps(); 2]; N];
            let mut place = _mm256_set1_epi16(0x0100);
            for (half, (low, high)) in block.low.iter().zip(&block.high).enumerate() {
                for (index, quants) in half_of_six(low, high).into_iter().enumerate() {
                    let group = 4 * half + index;
                    let weights = Weights::of::<Self>(quants);
                    let scales = _mm256_shuffle_epi8(groups, place);
                    place = _mm256_add_epi8(place, _mm256_set1_epi8(2));
                    for ([one, other], values) in parts.iter_mut().zip(values) {
                        let Some(quants) = values.quants.as_chunks().0.get(group) else { continue };
                        let products = _mm256_madd_epi16(weights.pairs::<Self>(load_bytes(quants)), scales);
                        let scale = _mm256_set1_ps(values.scales.get(group).copied().unwrap_or(0.0));
                        let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), scale, *one);
                        (*one, *other) = (*other, sum);
                    }
                }
            }
            for (sums, parts) in sums.iter_mut().zip(parts) {
                for (sum, part) in sums.products.iter_mut().zip(parts) {
                    *sum = _mm256_fmadd_ps(part, scale, *sum);
                }
            }
        }
    }
}

/// A scale for each group of a chunk, with that of the activations.
type Scales = [f32; VALUE_GROUPS];

/// Multiplies scales with those of the activations, and adds the sums of the groups' minima.
#[inline(always)]
unsafe fn scaled<const N: usize>(
    scales: __m256,
    minima: __m256,
    values: &[Values<'_>; N],
    sums: &mut [Sums; N],
) -> [Scales; N] {
    let mut all = [[0.0; VALUE_GROUPS]; N];
    for (to, (sums, values)) in all.iter_mut().zip(sums.iter_mut().zip(values)) {
        // SAFETY: the caller has AVX2 and FMA.
        unsafe {
            store(to, _mm256_mul_ps(scales, load(values.scales)));
            sums.minima = _mm256_fmadd_ps(minima, load(values.sums), sums.minima);
        }
    }
    all
}

/// Adds the products of up to eight blocks of 32 values.
#[inline(always)]
unsafe fn add_eight<B: Flat, const N: usize>(blocks: &[B], values: &[Values<'_>; N], sums: &mut [Sums; N]) {
    // SAFETY: the caller guarantees these instructions.
    unsafe {
        if let Some(blocks) = blocks.first_chunk::<VALUE_GROUPS>() {
            return add_blocks(blocks, values, sums);
        }
        // Half of them are what the end of a row often has.
        let (halves, rest) = blocks.as_chunks::<{ VALUE_GROUPS / 2 }>();
        for blocks in halves {
            add_blocks(blocks, values, sums);
        }
        for (place, block) in rest.iter().enumerate() {
            add_block(block, halves.len() * VALUE_GROUPS / 2 + place, values, sums);
        }
    }
}

/// Adds the products of `COUNT` blocks of 32 values with the first groups of the activations. Their number is a
/// constant, so that the compiler unrolls the loop.
#[inline(always)]
unsafe fn add_blocks<B: Flat, const COUNT: usize, const N: usize>(
    blocks: &[B; COUNT],
    values: &[Values<'_>; N],
    sums: &mut [Sums; N],
) {
    prefetch(blocks);
    // SAFETY: the caller guarantees these instructions.
    unsafe {
        let scales = all_scales(blocks);
        let minima = match small::<B>() {
            true => _mm256_mul_ps(scales, _mm256_set1_ps(f32::from(B::OFFSET))),
            // Signs are multiplied, and no offset.
            false => _mm256_setzero_ps(),
        };
        let scales = scaled(scales, minima, values, sums);
        for (group, block) in blocks.iter().enumerate() {
            add_group::<B, N>(block.quants(), group, &scales, values, sums);
        }
    }
}

/// Adds the products of a block of 32 values with a group of the activations.
#[inline(always)]
unsafe fn add_block<B: Flat, const N: usize>(block: &B, group: usize, values: &[Values<'_>; N], sums: &mut [Sums; N]) {
    prefetch(core::slice::from_ref(block));
    // SAFETY: the caller guarantees these instructions.
    unsafe {
        let scale = _mm256_cvtph_ps(_mm_set1_epi16(i16::from_le_bytes(block.scale())));
        let weights = Weights::of::<B>(block.quants());
        for (sums, values) in sums.iter_mut().zip(values) {
            let quants = values.quants.as_chunks().0.get(group);
            let (Some(quants), Some(value_scale)) = (quants, values.scales.get(group)) else { continue };
            let products = _mm256_cvtepi32_ps(weights.products::<B>(load_bytes(quants)));
            let scales = _mm256_mul_ps(scale, _mm256_set1_ps(*value_scale));
            let [one, other] = sums.products;
            sums.products = [other, _mm256_fmadd_ps(products, scales, one)];
            if small::<B>() {
                let value_sum = values.sums.get(group).copied().unwrap_or(0.0);
                // One of the eight sums.
                let offset = _mm256_zextps128_ps256(_mm_set_ss(value_sum * f32::from(B::OFFSET)));
                sums.minima = _mm256_fmadd_ps(scale, offset, sums.minima);
            }
        }
    }
}

/// Adds the products of a group.
#[inline(always)]
unsafe fn add_group<B: Block, const N: usize>(
    quants: __m256i,
    group: usize,
    scales: &[Scales; N],
    values: &[Values<'_>; N],
    sums: &mut [Sums; N],
) {
    // SAFETY: the caller guarantees these instructions.
    unsafe {
        let weights = Weights::of::<B>(quants);
        for (sums, (scales, values)) in sums.iter_mut().zip(scales.iter().zip(values)) {
            let quants = values.quants.as_chunks().0.get(group);
            let (Some(quants), Some(scale)) = (quants, scales.get(group)) else { continue };
            let products = _mm256_cvtepi32_ps(weights.products::<B>(load_bytes(quants)));
            let [one, other] = sums.products;
            sums.products = [other, _mm256_fmadd_ps(products, _mm256_set1_ps(*scale), one)];
        }
    }
}

/// Unpacks a chunk and adds its products.
#[inline(always)]
unsafe fn add_by_memory<B: Unpack, const N: usize>(blocks: &[B], values: &[Values<'_>; N], sums: &mut [Sums; N]) {
    prefetch(blocks);
    let mut chunk = Chunk::EMPTY;
    let wide = |scales: &[f32]| {
        let (low, high) = (scales.first().copied().unwrap_or(0.0), scales.last().copied().unwrap_or(0.0));
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_set_m128(_mm_set1_ps(high), _mm_set1_ps(low)) }
    };
    // SAFETY: the caller guarantees these instructions.
    unsafe {
        B::unpack_chunk(blocks, &mut chunk);
        let scales = chunk.scales.chunks_exact(GROUP / B::GROUP);
        let groups = chunk.quants.as_chunks().0.iter().zip(scales).take(blocks.len() * B::VALUES / GROUP);
        for (group, (quants, scales)) in groups.enumerate() {
            let (weights, scales) = (Weights::of::<B>(load_bytes(quants)), wide(scales));
            for (sums, values) in sums.iter_mut().zip(values) {
                let quants = values.quants.as_chunks().0.get(group);
                let (Some(quants), Some(value_scale)) = (quants, values.scales.get(group)) else { continue };
                let products = _mm256_cvtepi32_ps(weights.products::<B>(load_bytes(quants)));
                let [one, other] = sums.products;
                let scales = _mm256_mul_ps(scales, _mm256_set1_ps(*value_scale));
                sums.products = [other, _mm256_fmadd_ps(products, scales, one)];
            }
        }
        if !has_minima::<B>() {
            return;
        }
        for (sums, values) in sums.iter_mut().zip(values) {
            let value_sums = if B::GROUP == GROUP { &values.sums[..] } else { &values.half_sums[..] };
            for (minimum, value_sums) in chunk.minima.as_chunks().0.iter().zip(value_sums.as_chunks().0) {
                sums.minima = _mm256_fmadd_ps(load(minimum), load(value_sums), sums.minima);
            }
        }
    }
}
