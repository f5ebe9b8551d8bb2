//! AVX2 with FMA and F16C: 32 products of bytes without and with a sign are made at once.

mod attention;
mod dot;
mod float;
mod quantise;
mod strip;
mod tile;
mod unpack;

use core::arch::x86_64::*;
use core::slice::{ChunksExact, ChunksExactMut};

use super::{Kernels, Layout, MANY_FROM, Parts, USUAL_MANY, portable};
use crate::activations::{Activations, RowMut};
use crate::architecture::Activation;
use crate::block::{BFloat16, Block, Float16, Float32, Kind, Q8_0, with_block};
use crate::tensor::Tensor;

/// Rows of activations that a row of weights is multiplied with at once, while it is unpacked.
const TOGETHER: usize = 4;

/// Kernels for processors with AVX2.
#[derive(Clone, Copy, Debug)]
pub struct Avx2 {
    /// See [`Kernels::many_from`].
    many: usize,
}

/// One set for each number of rows.
static SETS: [Avx2; MANY_FROM.len()] = {
    let [a, b, c, d, e] = MANY_FROM;
    [Avx2 { many: a }, Avx2 { many: b }, Avx2 { many: c }, Avx2 { many: d }, Avx2 { many: e }]
};

impl Avx2 {
    /// The kernels, if the processor can run them.
    pub fn get() -> Option<&'static Self> {
        let set = SETS.iter().find(|set| set.many == USUAL_MANY);
        set.filter(|_| super::detect::features().avx2)
    }
}

impl Kernels for Avx2 {
    fn name(&self) -> &'static str {
        "avx2"
    }

    fn quantise(&self, row: RowMut<'_>) {
        // SAFETY: `get` has found all that is needed.
        unsafe { quantise::quantise(row) }
    }

    fn layout(&self, kind: Kind, rows: usize) -> Option<Layout> {
        (rows >= self.many && !kind.is_float()).then_some(Layout::EightSigned)
    }

    fn many_from(&self, rows: usize) -> Option<&'static dyn Kernels> {
        SETS.iter().find(|set| set.many == rows).map(|set| set as &dyn Kernels)
    }

    fn product(&self, matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { product(matrix, activations, out, self.many) }
    }

    fn dot_f16(&self, vector: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { dot_f16(vector, rows, out) }
    }

    fn add_f16(&self, weights: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { add_f16(weights, rows, out) }
    }

    fn vectors_together(&self) -> usize {
        attention::TOGETHER_BEST
    }

    fn dots_f16(&self, vectors: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
        // SAFETY: `get` has found all that is needed.
        unsafe { attention::dots_f16(vectors, rows, out) }
    }

    fn adds_f16(&self, weights: ChunksExact<'_, f32>, rows: Parts<'_, u16>, out: ChunksExactMut<'_, f32>) {
        // SAFETY: `get` has found all that is needed.
        unsafe { attention::adds_f16(weights, rows, out) }
    }

    fn narrow(&self, values: &[f32], out: &mut [u16]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { narrow(values, out) }
    }

    fn dot_q8_0(&self, vectors: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
        // SAFETY: `get` has found all that is needed.
        unsafe { dot_q8_0(vectors, rows, out) }
    }

    fn add_q8_0(&self, weights: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
        // SAFETY: `get` has found all that is needed.
        unsafe { add_q8_0(weights, rows, out) }
    }

    fn quantise_q8_0(&self, values: &[f32], out: &mut [Q8_0]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { quantise_q8_0(values, out) }
    }

    fn softmax(&self, scores: &mut [f32]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { softmax(scores) }
    }

    fn gate(&self, activation: Activation, gates: &mut [f32], ups: &[f32]) {
        // SAFETY: `get` has found all that is needed.
        unsafe { gate(activation, gates, ups) }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn dot_q8_0(vectors: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
    portable::dot_q8_0(vectors, rows, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn add_q8_0(weights: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
    portable::add_q8_0(weights, rows, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn quantise_q8_0(values: &[f32], out: &mut [Q8_0]) {
    portable::quantise_q8_0(values, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn softmax(scores: &mut [f32]) {
    portable::softmax(scores);
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn gate(activation: Activation, gates: &mut [f32], ups: &[f32]) {
    portable::gate(activation, gates, ups);
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn product(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]], many: usize) {
    if out.len() < many {
        with_block!(matrix.kind(), B => dot::products::<B>(matrix, activations, out), else match matrix.kind() {
            Kind::F16 => float::products::<Float16>(matrix, activations, out),
            Kind::BF16 => float::products::<BFloat16>(matrix, activations, out),
            _ => float::products::<Float32>(matrix, activations, out),
        });
    } else {
        with_block!(matrix.kind(), B => tile::products::<B>(matrix, activations, out), else match matrix.kind() {
            Kind::F16 => float::tile_products::<Float16>(matrix, activations, out),
            Kind::BF16 => float::tile_products::<BFloat16>(matrix, activations, out),
            _ => float::tile_products::<Float32>(matrix, activations, out),
        });
    }
}

/// Whether quants have at most six bits, so that with signed bytes four products fit into 16 bits. All others have
/// eight, whose inverted upper bit is a sign.
const fn small<B: Block>() -> bool {
    const { assert!(B::OFFSET <= 32 || B::OFFSET == 128) }
    B::OFFSET < 128
}

/// Whether something is taken off products: the type's minima, or the offset of quants that are multiplied with it.
const fn has_minima<B: Block>() -> bool {
    B::MINIMA || small::<B>()
}

/// 32 quants as they are multiplied with signed bytes: small ones unchanged; for others the size and the sign without
/// the offset.
#[derive(Clone, Copy)]
struct Weights {
    sizes: __m256i,
    signs: __m256i,
}

impl Weights {
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    fn of<B: Block>(quants: __m256i) -> Self {
        if small::<B>() {
            return Self { sizes: quants, signs: quants };
        }
        let signs = _mm256_xor_si256(quants, _mm256_set1_epi8(i8::MIN));
        Self { sizes: _mm256_abs_epi8(signs), signs }
    }

    /// For every two bytes the sum of the products, at most 2 × 128 × 127.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    fn pairs<B: Block>(self, values: __m256i) -> __m256i {
        _mm256_maddubs_epi16(self.sizes, if small::<B>() { values } else { _mm256_sign_epi8(values, self.signs) })
    }

    /// For every four bytes the sum of the products.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    fn products<B: Block>(self, values: __m256i) -> __m256i {
        sum_pairs(self.pairs::<B>(values))
    }
}

/// The sums of every two numbers of 16 bits.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sum_pairs(numbers: __m256i) -> __m256i {
    _mm256_madd_epi16(numbers, _mm256_set1_epi16(1))
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn load_bytes<T: Byte>(bytes: &[T; 32]) -> __m256i {
    // SAFETY: there are 32 bytes to be read.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn store_bytes(to: &mut [u8; 32], bytes: __m256i) {
    // SAFETY: there is room for 32 bytes.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), bytes) }
}

/// A byte, with a sign or without.
trait Byte {}
impl Byte for u8 {}
impl Byte for i8 {}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn load(numbers: &[f32; 8]) -> __m256 {
    // SAFETY: there are 8 numbers to be read.
    unsafe { _mm256_loadu_ps(numbers.as_ptr()) }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn store(numbers: &mut [f32; 8], values: __m256) {
    // SAFETY: there is room for 8 numbers.
    unsafe { _mm256_storeu_ps(numbers.as_mut_ptr(), values) }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn widen(numbers: &[u16; 8]) -> __m256 {
    // SAFETY: there are 16 bytes to be read.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(numbers.as_ptr().cast())) }
}

/// The sum of eight numbers.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sum_of(numbers: __m256) -> f32 {
    let mut all = [0.0; 8];
    store(&mut all, numbers);
    let [a, b, c, d, e, f, g, h] = all;
    ((a + e) + (b + f)) + ((c + g) + (d + h))
}

/// The sum of a vector's products with each of some rows.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn dot_f16(vector: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
    for (out, row) in out.iter_mut().zip(rows.iter()) {
        *out = dot_row(vector, row);
    }
}

/// Adds rows, each multiplied with its weight.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn add_f16(weights: &[f32], rows: Parts<'_, u16>, out: &mut [f32]) {
    for (weight, row) in weights.iter().zip(rows.iter()) {
        add_row(out, row, *weight);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn dot_row(one: &[f32], other: &[u16]) -> f32 {
    let mut sums = [_mm256_setzero_ps(); 2];
    let (ones, one_rest) = one.as_chunks::<8>();
    let (others, other_rest) = other.as_chunks::<8>();
    for (one, other) in ones.iter().zip(others) {
        let [first, second] = sums;
        sums = [second, _mm256_fmadd_ps(load(one), widen(other), first)];
    }
    let [first, second] = sums;
    sum_of(_mm256_add_ps(first, second)) + portable::dot_f16(one_rest, other_rest)
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn add_row(out: &mut [f32], row: &[u16], weight: f32) {
    let (parts, rest) = row.as_chunks::<8>();
    let (outs, out_rest) = out.as_chunks_mut::<8>();
    for (out, part) in outs.iter_mut().zip(parts) {
        let sum = _mm256_fmadd_ps(_mm256_set1_ps(weight), widen(part), load(out));
        store(out, sum);
    }
    portable::add_f16(out_rest, rest, weight);
}

/// Makes 16 bits of each number.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn narrow(values: &[f32], out: &mut [u16]) {
    let (parts, rest) = values.as_chunks::<8>();
    let (outs, out_rest) = out.as_chunks_mut::<8>();
    for (out, part) in outs.iter_mut().zip(parts) {
        let narrow = _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(load(part));
        // SAFETY: there is room for 16 bytes.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), narrow) };
    }
    portable::narrow(rest, out_rest);
}
