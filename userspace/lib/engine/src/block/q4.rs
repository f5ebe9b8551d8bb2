//! Four bits for each value, groups of 32.

use bytemuck::{Pod, Zeroable};

use super::{Block, half, nibbles};

/// Four bits from −8 on.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Q4_0 {
    pub(crate) scale: [u8; 2],
    pub(crate) quants: [u8; 16],
}

impl Block for Q4_0 {
    const VALUES: usize = 32;
    const GROUP: usize = 32;
    const OFFSET: u8 = 8;
    const MINIMA: bool = false;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], _minima: &mut [f32]) {
        let block = *self;
        nibbles(&block.quants, quants);
        scales.fill(half(block.scale));
    }
}

/// Four bits and a minimum.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Q4_1 {
    scale: [u8; 2],
    minimum: [u8; 2],
    quants: [u8; 16],
}

impl Block for Q4_1 {
    const VALUES: usize = 32;
    const GROUP: usize = 32;
    const OFFSET: u8 = 0;
    const MINIMA: bool = true;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
        let block = *self;
        nibbles(&block.quants, quants);
        scales.fill(half(block.scale));
        minima.fill(-half(block.minimum));
    }
}
