//! Signed bytes with a scale for each 32.

use bytemuck::{Pod, Zeroable};

use super::{Block, half};

/// 32 signed bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Q8_0 {
    pub(crate) scale: [u8; 2],
    pub(crate) quants: [u8; 32],
}

impl Block for Q8_0 {
    const VALUES: usize = 32;
    const GROUP: usize = 32;
    const OFFSET: u8 = 128;
    const MINIMA: bool = false;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], _minima: &mut [f32]) {
        let block = *self;
        // A signed byte with its sign bit turned over is that byte and 128.
        for (to, from) in quants.iter_mut().zip(&block.quants) {
            *to = from ^ 0x80;
        }
        scales.fill(half(block.scale));
    }
}
