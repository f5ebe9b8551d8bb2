//! Four bits that name one of 16 values, which lie closer together near zero.

use bytemuck::{Pod, Zeroable};

use super::{Block, half, nibbles};

/// The 16 values, each with 128 added.
pub(crate) const VALUES: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

#[inline(always)]
fn look_up(quants: &mut [u8]) {
    for quant in quants {
        *quant = VALUES.get(usize::from(*quant)).copied().unwrap_or(0);
    }
}

/// Groups of 32 with a scale of 16 bits.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Iq4Nl {
    scale: [u8; 2],
    quants: [u8; 16],
}

impl Block for Iq4Nl {
    const VALUES: usize = 32;
    const GROUP: usize = 32;
    const OFFSET: u8 = 128;
    const MINIMA: bool = false;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], _minima: &mut [f32]) {
        let block = *self;
        nibbles(&block.quants, quants);
        look_up(quants);
        scales.fill(half(block.scale));
    }
}

/// Eight groups of 32, each with a scale of six bits to a common one.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Iq4Xs {
    scale: [u8; 2],
    /// The upper two bits of each group's scale.
    scales_high: [u8; 2],
    /// The lower four.
    scales_low: [u8; 4],
    quants: [[u8; 16]; 8],
}

impl Block for Iq4Xs {
    const VALUES: usize = 256;
    const GROUP: usize = 32;
    const OFFSET: u8 = 128;
    const MINIMA: bool = false;

    #[inline(always)]
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], _minima: &mut [f32]) {
        let block = *self;
        for (to, from) in quants.chunks_exact_mut(32).zip(&block.quants) {
            nibbles(from, to);
        }
        look_up(quants);
        let scale = half(block.scale);
        let high = u16::from_le_bytes(block.scales_high);
        let low = u32::from_le_bytes(block.scales_low);
        for (group, to) in (0u32..8).zip(scales) {
            let bits = ((low >> (4 * group)) & 15) as u8 | (((high >> (2 * group)) & 3) << 4) as u8;
            *to = scale * (f32::from(bits) - 32.0);
        }
    }
}
