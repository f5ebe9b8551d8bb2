//! Blocks of 256 whose groups have small whole scales to a common one.

use bytemuck::{Pod, Zeroable};

use super::{Block, half, nibbles};

/// Two bits and a minimum, groups of 16.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Q2K {
    /// Scale below, minimum above, four bits each.
    groups: [u8; 16],
    quants: [[u8; 32]; 2],
    scale: [u8; 2],
    minimum: [u8; 2],
}

impl Block for Q2K {
    const VALUES: usize = 256;
    const GROUP: usize = 16;
    const OFFSET: u8 = 0;
    const MINIMA: bool = true;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
        let block = *self;
        two_bits(&block.quants, quants);
        let (scale, minimum) = (half(block.scale), half(block.minimum));
        for ((group, to), least) in block.groups.iter().zip(scales).zip(minima) {
            *to = scale * f32::from(group & 15);
            *least = minimum * f32::from(group >> 4);
        }
    }
}

/// Three bits from −4 on, groups of 16.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Q3K {
    /// The third bits.
    high: [u8; 32],
    quants: [[u8; 32]; 2],
    /// 16 scales of six bits: the lower four of each, then the upper two.
    scales: [u8; 12],
    scale: [u8; 2],
}

impl Block for Q3K {
    const VALUES: usize = 256;
    const GROUP: usize = 16;
    const OFFSET: u8 = 4;
    const MINIMA: bool = false;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], _minima: &mut [f32]) {
        let block = *self;
        two_bits(&block.quants, quants);
        add_bits::<1, 2>(&block.high, quants);
        let [a, b, c, d, e, f, g, h, i, j, k, l] = block.scales;
        let low = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let high = u32::from_le_bytes([i, j, k, l]);
        let scale = half(block.scale);
        for (group, to) in (0u32..16).zip(scales) {
            let low = (low >> (8 * (group % 8) + 4 * (group / 8))) as u8 & 15;
            let high = (high >> (8 * (group % 4) + 2 * (group / 4))) as u8 & 3;
            *to = scale * (f32::from(low | (high << 4)) - 32.0);
        }
    }
}

/// Four bits and a minimum, groups of 32.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Q4K {
    pub(crate) scale: [u8; 2],
    pub(crate) minimum: [u8; 2],
    pub(crate) groups: [u8; 12],
    pub(crate) quants: [[u8; 32]; 4],
}

impl Block for Q4K {
    const VALUES: usize = 256;
    const GROUP: usize = 32;
    const OFFSET: u8 = 0;
    const MINIMA: bool = true;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
        let block = *self;
        for (to, from) in quants.chunks_exact_mut(64).zip(&block.quants) {
            nibbles(from, to);
        }
        six_bits(block.groups, half(block.scale), half(block.minimum), scales, minima);
    }
}

/// Five bits and a minimum, groups of 32.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Q5K {
    pub(crate) scale: [u8; 2],
    pub(crate) minimum: [u8; 2],
    pub(crate) groups: [u8; 12],
    /// The fifth bits: bit n is for group n.
    pub(crate) fifth: [u8; 32],
    pub(crate) quants: [[u8; 32]; 4],
}

impl Block for Q5K {
    const VALUES: usize = 256;
    const GROUP: usize = 32;
    const OFFSET: u8 = 0;
    const MINIMA: bool = true;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
        let block = *self;
        for (to, from) in quants.chunks_exact_mut(64).zip(&block.quants) {
            nibbles(from, to);
        }
        add_bits::<1, 4>(&block.fifth, quants);
        six_bits(block.groups, half(block.scale), half(block.minimum), scales, minima);
    }
}

/// Six bits from −32 on, groups of 16.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Q6K {
    /// The lower four bits; a byte has those of a value and of the one 64 after it.
    pub(crate) low: [[u8; 64]; 2],
    /// The upper two; a byte has those of values 32 apart.
    pub(crate) high: [[u8; 32]; 2],
    pub(crate) scales: [u8; 16],
    pub(crate) scale: [u8; 2],
}

impl Block for Q6K {
    const VALUES: usize = 256;
    const GROUP: usize = 16;
    const OFFSET: u8 = 32;
    const MINIMA: bool = false;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], _minima: &mut [f32]) {
        let block = *self;
        for ((to, low), high) in quants.chunks_exact_mut(128).zip(&block.low).zip(&block.high) {
            nibbles(low, to);
            add_bits::<2, 4>(high, to);
        }
        let scale = half(block.scale);
        for (to, group) in scales.iter_mut().zip(&block.scales) {
            *to = scale * f32::from(group.cast_signed());
        }
    }
}

/// Bytes of four values that are 32 apart.
#[inline(always)]
fn two_bits(packed: &[[u8; 32]; 2], quants: &mut [u8]) {
    for (to, packed) in quants.chunks_exact_mut(128).zip(packed) {
        for (shift, to) in [0u32, 2, 4, 6].into_iter().zip(to.chunks_exact_mut(32)) {
            for (to, byte) in to.iter_mut().zip(packed) {
                *to = (byte >> shift) & 3;
            }
        }
    }
}

/// Adds `WIDTH` bits to each value from its bit `PLACE` on. The bits of values 32 apart are in the same byte.
#[inline(always)]
fn add_bits<const WIDTH: u32, const PLACE: u32>(packed: &[u8; 32], quants: &mut [u8]) {
    for (index, quants) in (0u32..).zip(quants.chunks_exact_mut(32)) {
        for (quant, byte) in quants.iter_mut().zip(packed) {
            *quant |= ((byte >> (WIDTH * index)) & ((1 << WIDTH) - 1)) << PLACE;
        }
    }
}

/// Eight scales and eight minima of six bits each in twelve bytes. The first four of each have
/// bytes of their own, whose upper two bits belong to the last four.
#[inline(always)]
pub(crate) fn scales_and_minima(packed: [u8; 12]) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = packed;
    let one = u32::from_le_bytes([a, b, c, d]);
    let two = u32::from_le_bytes([e, f, g, h]);
    let low = u32::from_le_bytes([i, j, k, l]);
    let scales = (low & 0x0f0f_0f0f) | ((one >> 2) & 0x3030_3030);
    let minima = ((low >> 4) & 0x0f0f_0f0f) | ((two >> 2) & 0x3030_3030);
    let join = |first: u32, last: u32| u64::from(first & 0x3f3f_3f3f) | (u64::from(last) << 32);
    (join(one, scales), join(two, minima))
}

#[inline(always)]
fn six_bits(packed: [u8; 12], scale: f32, minimum: f32, scales: &mut [f32], minima: &mut [f32]) {
    let (whole_scales, whole_minima) = scales_and_minima(packed);
    for (to, whole) in scales.iter_mut().zip(whole_scales.to_le_bytes()) {
        *to = scale * f32::from(whole);
    }
    for (to, whole) in minima.iter_mut().zip(whole_minima.to_le_bytes()) {
        *to = minimum * f32::from(whole);
    }
}
