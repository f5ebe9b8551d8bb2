//! Five bits for each value, groups of 32: four in nibbles, the fifth ones together.

use bytemuck::{Pod, Zeroable};

use super::{Block, half, nibbles};

/// Five bits from −16 on.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Q5_0 {
    pub(crate) scale: [u8; 2],
    pub(crate) fifth: [u8; 4],
    pub(crate) quants: [u8; 16],
}

impl Block for Q5_0 {
    const VALUES: usize = 32;
    const GROUP: usize = 32;
    const OFFSET: u8 = 16;
    const MINIMA: bool = false;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], _minima: &mut [f32]) {
        let block = *self;
        nibbles(&block.quants, quants);
        fifth_bits(block.fifth, quants);
        scales.fill(half(block.scale));
    }
}

/// Five bits and a minimum.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Q5_1 {
    scale: [u8; 2],
    minimum: [u8; 2],
    fifth: [u8; 4],
    quants: [u8; 16],
}

impl Block for Q5_1 {
    const VALUES: usize = 32;
    const GROUP: usize = 32;
    const OFFSET: u8 = 0;
    const MINIMA: bool = true;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
        let block = *self;
        nibbles(&block.quants, quants);
        fifth_bits(block.fifth, quants);
        scales.fill(half(block.scale));
        minima.fill(-half(block.minimum));
    }
}

/// Adds the fifth bit to each value.
#[inline(always)]
fn fifth_bits(bytes: [u8; 4], quants: &mut [u8]) {
    for (quants, byte) in quants.chunks_exact_mut(8).zip(bytes) {
        for (quant, bit) in quants.iter_mut().zip([1u8, 2, 4, 8, 16, 32, 64, 128]) {
            *quant |= if byte & bit == 0 { 0 } else { 16 };
        }
    }
}
