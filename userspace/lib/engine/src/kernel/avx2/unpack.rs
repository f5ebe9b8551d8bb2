//! Chunks, unpacked with special instructions for the types that common files have, and for all others in portable
//! code.

use core::arch::x86_64::*;

use super::{load_bytes, store, store_bytes};
use crate::activations::{CHUNK, GROUP};
use crate::block::{Block, Iq4Nl, Iq4Xs, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, scales_and_minima};
use crate::kernel::chunk::Chunk;

/// A block type that chunks are made of.
pub trait Unpack: Block {
    /// Bits of a quant.
    const BITS: u32;

    /// Unpacks the blocks of a chunk, as [`Chunk::unpack`] does.
    ///
    /// # Safety
    /// The processor has the instructions that the kernels of this folder use.
    #[inline(always)]
    unsafe fn unpack_chunk(blocks: &[Self], chunk: &mut Chunk) {
        chunk.unpack(blocks);
    }
}

/// A block of 32 values with one scale.
pub trait Flat: Block {
    /// Its scale, 16 bits wide.
    fn scale(&self) -> [u8; 2];

    /// Its values above the least one.
    ///
    /// # Safety
    /// The processor has AVX2.
    unsafe fn quants(&self) -> __m256i;
}

impl Flat for Q8_0 {
    #[inline(always)]
    fn scale(&self) -> [u8; 2] {
        self.scale
    }

    #[inline(always)]
    unsafe fn quants(&self) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_xor_si256(load_bytes(&self.quants), _mm256_set1_epi8(i8::MIN)) }
    }
}

impl Flat for Q4_0 {
    #[inline(always)]
    fn scale(&self) -> [u8; 2] {
        self.scale
    }

    #[inline(always)]
    unsafe fn quants(&self) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { half_nibbles(&self.quants) }
    }
}

impl Flat for Q5_0 {
    #[inline(always)]
    fn scale(&self) -> [u8; 2] {
        self.scale
    }

    #[inline(always)]
    unsafe fn quants(&self) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { with_fifth_of(half_nibbles(&self.quants), self.fifth) }
    }
}

impl Unpack for Q4_1 {
    const BITS: u32 = 4;
}

impl Unpack for Q5_1 {
    const BITS: u32 = 5;
}

impl Unpack for Q2K {
    const BITS: u32 = 2;
}

impl Unpack for Q3K {
    const BITS: u32 = 3;
}

impl Unpack for Iq4Nl {
    const BITS: u32 = 8;
}

impl Unpack for Iq4Xs {
    const BITS: u32 = 8;
}

impl Unpack for Q8_0 {
    const BITS: u32 = 8;

    #[inline(always)]
    unsafe fn unpack_chunk(blocks: &[Self], chunk: &mut Chunk) {
        // SAFETY: the caller guarantees these instructions.
        unsafe { unpack_flat(blocks, chunk) }
    }
}

impl Unpack for Q4_0 {
    const BITS: u32 = 4;

    #[inline(always)]
    unsafe fn unpack_chunk(blocks: &[Self], chunk: &mut Chunk) {
        // SAFETY: the caller guarantees these instructions.
        unsafe { unpack_flat(blocks, chunk) }
    }
}

impl Unpack for Q5_0 {
    const BITS: u32 = 5;

    #[inline(always)]
    unsafe fn unpack_chunk(blocks: &[Self], chunk: &mut Chunk) {
        // SAFETY: the caller guarantees these instructions.
        unsafe { unpack_flat(blocks, chunk) }
    }
}

impl Unpack for Q4K {
    const BITS: u32 = 4;

    #[inline(always)]
    unsafe fn unpack_chunk(blocks: &[Self], chunk: &mut Chunk) {
        let [block] = blocks else { return chunk.unpack(blocks) };
        // SAFETY: the caller guarantees these instructions.
        unsafe {
            put_scales(chunk, six_bits(block.groups, block.scale, block.minimum));
            for ([low, high], bytes) in chunk.quants.as_chunks_mut().0.as_chunks_mut().0.iter_mut().zip(&block.quants) {
                let [lower, upper] = nibbles(bytes);
                store_bytes(low, lower);
                store_bytes(high, upper);
            }
        }
    }
}

impl Unpack for Q5K {
    const BITS: u32 = 5;

    #[inline(always)]
    unsafe fn unpack_chunk(blocks: &[Self], chunk: &mut Chunk) {
        let [block] = blocks else { return chunk.unpack(blocks) };
        // SAFETY: the caller guarantees these instructions.
        unsafe {
            put_scales(chunk, six_bits(block.groups, block.scale, block.minimum));
            let fifth = load_bytes(&block.fifth);
            let mut bit = _mm256_set1_epi8(1);
            for ([low, high], bytes) in chunk.quants.as_chunks_mut().0.as_chunks_mut().0.iter_mut().zip(&block.quants) {
                let [lower, upper] = nibbles(bytes);
                store_bytes(low, with_fifth(lower, fifth, bit));
                bit = _mm256_add_epi8(bit, bit);
                store_bytes(high, with_fifth(upper, fifth, bit));
                bit = _mm256_add_epi8(bit, bit);
            }
        }
    }
}

impl Unpack for Q6K {
    const BITS: u32 = 6;

    #[inline(always)]
    unsafe fn unpack_chunk(blocks: &[Self], chunk: &mut Chunk) {
        let [block] = blocks else { return chunk.unpack(blocks) };
        // SAFETY: the caller guarantees these instructions; there are 16 bytes of scales to be read.
        unsafe {
            let parts = chunk.quants.as_chunks_mut().0.as_chunks_mut::<4>().0.iter_mut();
            for (to, (low, high)) in parts.zip(block.low.iter().zip(&block.high)) {
                for (to, quants) in to.iter_mut().zip(half_of_six(low, high)) {
                    store_bytes(to, quants);
                }
            }
            let all = _mm256_cvtepi8_epi16(_mm_loadu_si128(block.scales.as_ptr().cast()));
            let scale = _mm256_cvtph_ps(_mm_set1_epi16(i16::from_le_bytes(block.scale)));
            let offset = _mm256_set1_ps(f32::from(Self::OFFSET));
            let halves = [_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all)];
            let to = chunk.scales.as_chunks_mut().0.iter_mut().zip(chunk.minima.as_chunks_mut().0);
            for ((scales, minima), half) in to.zip(halves) {
                let found = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(half)), scale);
                store(scales, found);
                store(minima, _mm256_mul_ps(found, offset));
            }
        }
    }
}

/// The scales of up to eight blocks; zeros if there are no blocks.
#[inline(always)]
pub unsafe fn all_scales<B: Flat>(blocks: &[B]) -> __m256 {
    let at = |place: usize| blocks.get(place).map_or(0, |block| i16::from_le_bytes(block.scale()));
    // SAFETY: the caller has AVX2 and F16C.
    unsafe { _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7))) }
}

/// Unpacks the blocks of a chunk.
#[inline(always)]
unsafe fn unpack_flat<B: Flat>(blocks: &[B], chunk: &mut Chunk) {
    // SAFETY: the caller guarantees these instructions.
    unsafe {
        for (block, to) in blocks.iter().zip(chunk.quants.as_chunks_mut().0) {
            store_bytes(to, block.quants());
        }
        // No place need be looked for if there are all eight.
        let scales = match blocks.first_chunk::<{ CHUNK / GROUP }>() {
            Some(blocks) => all_scales(blocks),
            None => all_scales(blocks),
        };
        put_scales(chunk, [scales, _mm256_mul_ps(scales, _mm256_set1_ps(f32::from(B::OFFSET)))]);
    }
}

/// Eight scales and eight minima of six bits.
#[inline(always)]
pub unsafe fn six_bits(groups: [u8; 12], scale: [u8; 2], minimum: [u8; 2]) -> [__m256; 2] {
    let (scales, minima) = scales_and_minima(groups);
    let numbers = |bytes: u64, scale: [u8; 2]| {
        // SAFETY: the caller has AVX2 and F16C.
        unsafe {
            let numbers = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes.cast_signed())));
            _mm256_mul_ps(numbers, _mm256_cvtph_ps(_mm_set1_epi16(i16::from_le_bytes(scale))))
        }
    };
    [numbers(scales, scale), numbers(minima, minimum)]
}

/// Writes eight scales and eight minima.
#[inline(always)]
unsafe fn put_scales(chunk: &mut Chunk, [scales, minima]: [__m256; 2]) {
    if let (Some(to), Some(offsets)) = (chunk.scales.first_chunk_mut(), chunk.minima.first_chunk_mut()) {
        // SAFETY: the caller has AVX2.
        unsafe {
            store(to, scales);
            store(offsets, minima);
        }
    }
}

/// The lower halves of 16 bytes, then the upper ones.
#[inline(always)]
unsafe fn half_nibbles(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: the caller has AVX2; there are 16 bytes to be read.
    unsafe {
        let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
        _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16::<4>(bytes), bytes), _mm256_set1_epi8(15))
    }
}

/// The lower halves of 32 bytes, and the upper ones.
#[inline(always)]
pub unsafe fn nibbles(bytes: &[u8; 32]) -> [__m256i; 2] {
    // SAFETY: the caller has AVX2.
    unsafe {
        let (bytes, four) = (load_bytes(bytes), _mm256_set1_epi8(15));
        [_mm256_and_si256(bytes, four), _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), four)]
    }
}

/// Adds 16 if the byte of `fifth` has the bit of `bit`.
#[inline(always)]
pub unsafe fn with_fifth(quants: __m256i, fifth: __m256i, bit: __m256i) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe {
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(fifth, bit), bit);
        _mm256_or_si256(quants, _mm256_and_si256(set, _mm256_set1_epi8(16)))
    }
}

/// Adds 16 if the bits say so, one for each byte.
#[inline(always)]
unsafe fn with_fifth_of(quants: __m256i, bits: [u8; 4]) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe {
        let bytes = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
        with_fifth(quants, _mm256_shuffle_epi8(_mm256_set1_epi32(i32::from_le_bytes(bits)), bytes), bit)
    }
}

/// 128 values of six bits.
#[inline(always)]
pub unsafe fn half_of_six(low: &[u8; 64], high: &[u8; 32]) -> [__m256i; 4] {
    // SAFETY: the caller has AVX2.
    unsafe {
        let [first, second] = low.as_chunks().0 else { return [_mm256_setzero_si256(); 4] };
        let ([a, c], [b, d]) = (nibbles(first), nibbles(second));
        let high = load_bytes(high);
        let two = _mm256_set1_epi8(0x30);
        [
            _mm256_or_si256(a, _mm256_and_si256(_mm256_slli_epi16::<4>(high), two)),
            _mm256_or_si256(b, _mm256_and_si256(_mm256_slli_epi16::<2>(high), two)),
            _mm256_or_si256(c, _mm256_and_si256(high, two)),
            _mm256_or_si256(d, _mm256_and_si256(_mm256_srli_epi16::<2>(high), two)),
        ]
    }
}
