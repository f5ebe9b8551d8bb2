//! Blocks, unpacked into registers. The types that common files have are unpacked with special instructions; all others
//! in portable code.
//!
//! No function here may call a function that is compiled without these instructions and takes a closure, such as `map`
//! of arrays. If it is not inlined, each instruction in the closure becomes a call.

use core::arch::x86_64::*;

use crate::block::{Block, Iq4Nl, Iq4Xs, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, scales_and_minima};
use crate::kernel::chunk::Chunk;

/// A chunk: 64 quants in each of four registers, and for each group a scale and a minimum, as in [`Chunk`].
#[derive(Clone, Copy)]
pub struct Registers {
    pub quants: [__m512i; 4],
    pub scales: __m512,
    pub minima: __m512,
}

/// A block type that registers are filled from.
pub trait Load: Block {
    /// Unpacks the blocks of a chunk.
    ///
    /// # Safety
    /// The processor has the instructions that the kernels of this folder use.
    #[inline(always)]
    unsafe fn load(blocks: &[Self]) -> Registers {
        // SAFETY: the caller guarantees these instructions.
        unsafe { load_by_memory(blocks) }
    }
}

impl Load for Q4_1 {}
impl Load for Q5_1 {}
impl Load for Q2K {}
impl Load for Q3K {}
impl Load for Iq4Nl {}
impl Load for Iq4Xs {}

impl Load for Q8_0 {
    #[inline(always)]
    unsafe fn load(blocks: &[Self]) -> Registers {
        let pair = |one: &Self, other: &Self| {
            // SAFETY: the caller guarantees these instructions.
            unsafe { _mm512_xor_si512(halves(&one.quants, &other.quants), _mm512_set1_epi8(i8::MIN)) }
        };
        // SAFETY: the caller guarantees these instructions; a block begins with its scale, and has more than four bytes.
        unsafe { load_eight(blocks, pair) }
    }
}

impl Load for Q4_0 {
    #[inline(always)]
    unsafe fn load(blocks: &[Self]) -> Registers {
        let pair = |one: &Self, other: &Self| {
            // SAFETY: the caller guarantees these instructions.
            unsafe { pair_of_nibbles(&one.quants, &other.quants) }
        };
        // SAFETY: the caller guarantees these instructions; a block begins with its scale, and has more than four bytes.
        unsafe { load_eight(blocks, pair) }
    }
}

impl Load for Q5_0 {
    #[inline(always)]
    unsafe fn load(blocks: &[Self]) -> Registers {
        let pair = |one: &Self, other: &Self| {
            let fifth = |block: &Self| u64::from(u32::from_le_bytes(block.fifth));
            // SAFETY: the caller guarantees these instructions.
            unsafe {
                let quants = pair_of_nibbles(&one.quants, &other.quants);
                _mm512_mask_add_epi8(quants, fifth(one) | (fifth(other) << 32), quants, _mm512_set1_epi8(16))
            }
        };
        // SAFETY: the caller guarantees these instructions; a block begins with its scale, and has more than four bytes.
        unsafe { load_eight(blocks, pair) }
    }
}

impl Load for Q4K {
    #[inline(always)]
    unsafe fn load(blocks: &[Self]) -> Registers {
        let [block] = blocks else {
            // SAFETY: the caller guarantees these instructions.
            return unsafe { load_by_memory(blocks) };
        };
        // SAFETY: the caller guarantees these instructions.
        unsafe {
            let (scales, minima) = six_bits(block.groups, block.scale, block.minimum);
            let [a, b, c, d] = &block.quants;
            Registers { quants: [nibbles(a), nibbles(b), nibbles(c), nibbles(d)], scales, minima }
        }
    }
}

impl Load for Q5K {
    #[inline(always)]
    unsafe fn load(blocks: &[Self]) -> Registers {
        let [block] = blocks else {
            // SAFETY: the caller guarantees these instructions.
            return unsafe { load_by_memory(blocks) };
        };
        // SAFETY: the caller guarantees these instructions.
        unsafe {
            let (scales, minima) = six_bits(block.groups, block.scale, block.minimum);
            let fifth = both(&block.fifth);
            // Bit 0 for the lower half, bit 1 for the upper one; two further for each register.
            let mut bit = _mm512_inserti64x4::<1>(_mm512_set1_epi8(1), _mm256_set1_epi8(2));
            let mut all = [_mm512_setzero_si512(); 4];
            for (to, quants) in all.iter_mut().zip(&block.quants) {
                let quants = nibbles(quants);
                let mask = _mm512_test_epi8_mask(fifth, bit);
                bit = _mm512_slli_epi16::<2>(bit);
                *to = _mm512_mask_add_epi8(quants, mask, quants, _mm512_set1_epi8(16));
            }
            Registers { quants: all, scales, minima }
        }
    }
}

impl Load for Q6K {
    #[inline(always)]
    unsafe fn load(blocks: &[Self]) -> Registers {
        let [block] = blocks else {
            // SAFETY: the caller guarantees these instructions.
            return unsafe { load_by_memory(blocks) };
        };
        // SAFETY: the caller guarantees these instructions.
        unsafe {
            let ([low, next_low], [high, next_high]) = (&block.low, &block.high);
            let ([a, b], [c, d]) = (half_of_six(low, high), half_of_six(next_low, next_high));
            let groups = _mm512_cvtepi8_epi32(_mm_loadu_si128(block.scales.as_ptr().cast()));
            let scales = _mm512_mul_ps(_mm512_cvtepi32_ps(groups), scale_of(block.scale));
            Registers { quants: [a, b, c, d], scales, minima: _mm512_mul_ps(scales, offset::<Self>()) }
        }
    }
}

/// Unpacks blocks as all other kernels do.
#[inline(always)]
unsafe fn load_by_memory<B: Block>(blocks: &[B]) -> Registers {
    let mut chunk = Chunk::EMPTY;
    chunk.unpack(blocks);
    let load = |at: usize| {
        // SAFETY: the caller has AVX-512F; there are 256 bytes to be read.
        unsafe { _mm512_loadu_si512(chunk.quants.as_ptr().add(at).cast()) }
    };
    let quants = [load(0), load(64), load(128), load(192)];
    // SAFETY: the caller has AVX-512F; there are 16 numbers twice to be read.
    unsafe {
        Registers {
            quants,
            scales: _mm512_loadu_ps(chunk.scales.as_ptr()),
            minima: _mm512_loadu_ps(chunk.minima.as_ptr()),
        }
    }
}

/// Unpacks up to eight blocks of 32 values pair by pair; if there are fewer, the groups that are missing have scales of
/// zero.
///
/// # Safety
/// The processor has the instructions that are used here. A block begins with its scale of 16 bits, and has more than four bytes.
#[inline(always)]
unsafe fn load_eight<B: Block>(blocks: &[B], pair: impl Fn(&B, &B) -> __m512i) -> Registers {
    let size = size_of::<B>() as i32;
    let there = (1_u32 << blocks.len().min(8)).wrapping_sub(1) as u8;
    // SAFETY: the caller guarantees these instructions; four bytes are read from the start of each block.
    let scales = unsafe {
        let places = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(size));
        let none = _mm256_setzero_si256();
        let words = _mm256_mmask_i32gather_epi32::<1>(none, there, places, blocks.as_ptr().cast());
        _mm512_zextps256_ps512(_mm256_cvtph_ps(_mm256_cvtepi32_epi16(words)))
    };
    let quants = match blocks.first_chunk() {
        Some([a, b, c, d, e, f, g, h]) => [pair(a, b), pair(c, d), pair(e, f), pair(g, h)],
        None => {
            // SAFETY: the caller has AVX-512F.
            let mut all = [unsafe { _mm512_setzero_si512() }; 4];
            for (to, blocks) in all.iter_mut().zip(blocks.chunks(2)) {
                *to = match blocks {
                    [one, other] => pair(one, other),
                    [one] => pair(one, one),
                    _ => continue,
                };
            }
            all
        }
    };
    // SAFETY: the caller guarantees these instructions.
    Registers { quants, scales, minima: unsafe { _mm512_mul_ps(scales, offset::<B>()) } }
}

/// The offset that is subtracted from every quant, in all lanes.
#[inline(always)]
unsafe fn offset<B: Block>() -> __m512 {
    // SAFETY: the caller has AVX-512F.
    unsafe { _mm512_set1_ps(f32::from(B::OFFSET)) }
}

/// A scale of 16 bits, in all lanes.
#[inline(always)]
unsafe fn scale_of(bytes: [u8; 2]) -> __m512 {
    // SAFETY: the caller has AVX-512F and F16C.
    unsafe { _mm512_cvtph_ps(_mm256_set1_epi16(i16::from_le_bytes(bytes))) }
}

/// One after the other.
#[inline(always)]
unsafe fn halves(one: &[u8; 32], other: &[u8; 32]) -> __m512i {
    // SAFETY: the caller has AVX-512F; there are 32 bytes of each to be read.
    unsafe {
        let one = _mm512_castsi256_si512(_mm256_loadu_si256(one.as_ptr().cast()));
        _mm512_inserti64x4::<1>(one, _mm256_loadu_si256(other.as_ptr().cast()))
    }
}

/// The same bytes in both halves.
#[inline(always)]
unsafe fn both(bytes: &[u8; 32]) -> __m512i {
    // SAFETY: the caller has AVX-512F; there are 32 bytes to be read.
    unsafe { _mm512_broadcast_i64x4(_mm256_loadu_si256(bytes.as_ptr().cast())) }
}

/// The lower halves of the bytes, then the upper ones.
#[inline(always)]
unsafe fn nibbles(bytes: &[u8; 32]) -> __m512i {
    // SAFETY: the caller has AVX-512F.
    unsafe {
        let shifts = _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4);
        _mm512_and_si512(_mm512_srlv_epi64(both(bytes), shifts), _mm512_set1_epi8(15))
    }
}

/// The same of two times 16 bytes.
#[inline(always)]
unsafe fn pair_of_nibbles(one: &[u8; 16], other: &[u8; 16]) -> __m512i {
    // SAFETY: the caller has AVX-512F; there are 16 bytes of each to be read.
    unsafe {
        let one = _mm256_castsi128_si256(_mm_loadu_si128(one.as_ptr().cast()));
        let pair = _mm256_inserti128_si256::<1>(one, _mm_loadu_si128(other.as_ptr().cast()));
        let pair = _mm512_castsi256_si512(pair);
        let shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
        let shifted = _mm512_srlv_epi64(_mm512_shuffle_i64x2::<0b01_01_00_00>(pair, pair), shifts);
        _mm512_and_si512(shifted, _mm512_set1_epi8(15))
    }
}

/// Eight scales and eight minima of six bits.
#[inline(always)]
unsafe fn six_bits(groups: [u8; 12], scale: [u8; 2], minimum: [u8; 2]) -> (__m512, __m512) {
    let (scales, minima) = scales_and_minima(groups);
    // SAFETY: the caller has AVX-512F.
    unsafe {
        let numbers = |bytes: u64| {
            let words = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes.cast_signed()));
            _mm512_zextps256_ps512(_mm256_cvtepi32_ps(words))
        };
        (_mm512_mul_ps(numbers(scales), scale_of(scale)), _mm512_mul_ps(numbers(minima), scale_of(minimum)))
    }
}

/// 128 values of six bits.
#[inline(always)]
unsafe fn half_of_six(low: &[u8; 64], high: &[u8; 32]) -> [__m512i; 2] {
    // SAFETY: the caller has AVX-512F; there are 64 bytes to be read.
    unsafe {
        let low = _mm512_loadu_si512(low.as_ptr().cast());
        let high = both(high);
        let (four, two) = (_mm512_set1_epi8(0x0f), _mm512_set1_epi8(0x30));
        let first = _mm512_sllv_epi64(high, _mm512_setr_epi64(4, 4, 4, 4, 2, 2, 2, 2));
        let second = _mm512_srlv_epi64(high, _mm512_setr_epi64(0, 0, 0, 0, 2, 2, 2, 2));
        [
            _mm512_or_si512(_mm512_and_si512(low, four), _mm512_and_si512(first, two)),
            _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16::<4>(low), four), _mm512_and_si512(second, two)),
        ]
    }
}
