//! The layout of a tensor's numbers in the file, one file for each family of types.
//!
//! A quantised row is a sequence of blocks. A block's values fall into groups that share a scale
//! and, in some types, a minimum; every value is `scale × (quant − OFFSET) − minimum`. The kernels
//! need only [`Block::unpack`] of a type: the quants as bytes, the scales, the minima. A value of a
//! float type has no block ([`Float`]).

mod float;
mod iq4;
mod k_quants;
mod q4;
mod q5;
mod q8_0;

use bytemuck::Pod;
use capos_gguf::TensorType;

pub use float::{BFloat16, Float, Float16, Float32};
pub use iq4::{Iq4Nl, Iq4Xs};
pub(crate) use k_quants::scales_and_minima;
pub use k_quants::{Q2K, Q3K, Q4K, Q5K, Q6K};
pub use q4::{Q4_0, Q4_1};
pub use q5::{Q5_0, Q5_1};
pub use q8_0::Q8_0;

/// Values of the largest block.
pub const MOST_VALUES: usize = 256;

/// Values of the smallest group that shares a scale.
pub const LEAST_GROUP: usize = 16;

/// A block of a quantised type.
pub trait Block: Pod + Send + Sync {
    /// Values in a block: 32 or 256.
    const VALUES: usize;
    /// Values that share a scale: 16 or 32.
    const GROUP: usize;
    /// The offset that is subtracted from every quant.
    const OFFSET: u8;
    /// Whether groups have a minimum.
    const MINIMA: bool;

    /// Writes [`Self::VALUES`] quants, and for each group a scale and, if the type has them, a
    /// minimum. The slices have exactly these lengths.
    ///
    /// It begins with a copy of the block: without one the compiler must assume that the slices overlap the block, and
    /// vectorises nothing.
    fn unpack(&self, quants: &mut [u8], scales: &mut [f32], minima: &mut [f32]);

    /// The values of the block, into a slice of [`Self::VALUES`].
    fn dequantise(&self, out: &mut [f32]) {
        let mut unpacked = Unpacked::EMPTY;
        let (quants, scales, minima) = unpacked.parts::<Self>();
        self.unpack(quants, scales, minima);
        let groups = quants.chunks_exact(Self::GROUP).zip(scales.iter().zip(minima.iter()));
        for (out, (quants, (scale, minimum))) in out.chunks_exact_mut(Self::GROUP).zip(groups) {
            for (out, quant) in out.iter_mut().zip(quants) {
                *out = scale * (f32::from(*quant) - f32::from(Self::OFFSET)) - minimum;
            }
        }
    }
}

/// Room for an unpacked block of any type.
pub(crate) struct Unpacked {
    quants: [u8; MOST_VALUES],
    scales: [f32; MOST_VALUES / LEAST_GROUP],
    minima: [f32; MOST_VALUES / LEAST_GROUP],
}

impl Unpacked {
    /// Nothing.
    pub const EMPTY: Self = Self {
        quants: [0; MOST_VALUES],
        scales: [0.0; MOST_VALUES / LEAST_GROUP],
        minima: [0.0; MOST_VALUES / LEAST_GROUP],
    };

    /// The parts of a type: quants, scales and minima.
    #[inline(always)]
    pub fn parts<B: Block>(&mut self) -> (&mut [u8], &mut [f32], &mut [f32]) {
        let groups = B::VALUES / B::GROUP;
        let quants = self.quants.get_mut(..B::VALUES).unwrap_or_default();
        (quants, self.scales.get_mut(..groups).unwrap_or_default(), self.minima.get_mut(..groups).unwrap_or_default())
    }
}

/// Evaluates an expression with a name bound to the block type of a quantised [`Kind`]; `else` is
/// for the float types.
macro_rules! with_block {
    ($kind:expr, $block:ident => $body:expr, else $other:expr) => {{
        use $crate::block::{self, Kind};
        macro_rules! body {
            ($type:ty) => {{
                type $block = $type;
                $body
            }};
        }
        match $kind {
            Kind::F32 | Kind::F16 | Kind::BF16 => $other,
            Kind::Q8_0 => body!(block::Q8_0),
            Kind::Q4_0 => body!(block::Q4_0),
            Kind::Q4_1 => body!(block::Q4_1),
            Kind::Q5_0 => body!(block::Q5_0),
            Kind::Q5_1 => body!(block::Q5_1),
            Kind::Q2K => body!(block::Q2K),
            Kind::Q3K => body!(block::Q3K),
            Kind::Q4K => body!(block::Q4K),
            Kind::Q5K => body!(block::Q5K),
            Kind::Q6K => body!(block::Q6K),
            Kind::Iq4Nl => body!(block::Iq4Nl),
            Kind::Iq4Xs => body!(block::Iq4Xs),
        }
    }};
}
pub(crate) use with_block;

/// The types that the engine computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Float32`]
    F32,
    /// [`Float16`]
    F16,
    /// [`BFloat16`]
    BF16,
    /// [`Q8_0`]
    Q8_0,
    /// [`Q4_0`]
    Q4_0,
    /// [`Q4_1`]
    Q4_1,
    /// [`Q5_0`]
    Q5_0,
    /// [`Q5_1`]
    Q5_1,
    /// [`Q2K`]
    Q2K,
    /// [`Q3K`]
    Q3K,
    /// [`Q4K`]
    Q4K,
    /// [`Q5K`]
    Q5K,
    /// [`Q6K`]
    Q6K,
    /// [`Iq4Nl`]
    Iq4Nl,
    /// [`Iq4Xs`]
    Iq4Xs,
}

impl Kind {
    /// The type that the file calls so, if the engine computes with it.
    pub fn of(kind: TensorType) -> Option<Self> {
        Some(match kind.name() {
            "F32" => Self::F32,
            "F16" => Self::F16,
            "BF16" => Self::BF16,
            "Q8_0" => Self::Q8_0,
            "Q4_0" => Self::Q4_0,
            "Q4_1" => Self::Q4_1,
            "Q5_0" => Self::Q5_0,
            "Q5_1" => Self::Q5_1,
            "Q2_K" => Self::Q2K,
            "Q3_K" => Self::Q3K,
            "Q4_K" => Self::Q4K,
            "Q5_K" => Self::Q5K,
            "Q6_K" => Self::Q6K,
            "IQ4_NL" => Self::Iq4Nl,
            "IQ4_XS" => Self::Iq4Xs,
            _ => return None,
        })
    }

    /// Values that share a scale.
    pub fn group(self) -> usize {
        with_block!(self, B => B::GROUP, else 1)
    }

    /// Whether values are separate, without a shared scale.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16)
    }
}

/// The blocks that a row's bytes are; a row is a whole number of blocks.
#[inline(always)]
pub fn blocks<B: Pod>(bytes: &[u8]) -> &[B] {
    bytemuck::try_cast_slice(bytes).unwrap_or(&[])
}

/// Writes the values of a whole row.
pub fn dequantise_row(kind: Kind, bytes: &[u8], out: &mut [f32]) {
    fn floats<F: Float>(bytes: &[u8], out: &mut [f32]) {
        for (out, value) in out.iter_mut().zip(blocks::<F>(bytes)) {
            *out = value.to_f32();
        }
    }
    fn quantised<B: Block>(bytes: &[u8], out: &mut [f32]) {
        for (out, block) in out.chunks_exact_mut(B::VALUES).zip(blocks::<B>(bytes)) {
            block.dequantise(out);
        }
    }
    with_block!(kind, B => quantised::<B>(bytes, out), else match kind {
        Kind::F16 => floats::<Float16>(bytes, out),
        Kind::BF16 => floats::<BFloat16>(bytes, out),
        _ => floats::<Float32>(bytes, out),
    });
}

/// A scale of 16 bits. No branch is in it, so that many can be made at once.
#[inline(always)]
pub(crate) fn half(bytes: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bytes));
    let (sign, rest) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
    // The exponent counts from another number on; numbers that are not normal, and those that are not finite, need
    // that twice over.
    const STEP: u32 = 112 << 23;
    let normal = rest + STEP;
    let small = (f32::from_bits(normal + (1 << 23)) - f32::from_bits(STEP + (1 << 23))).to_bits();
    let magnitude = match rest >> 23 {
        0 => small,
        31 => normal + STEP,
        _ => normal,
    };
    f32::from_bits(magnitude | sign)
}

/// Writes the lower halves of the bytes, then the upper ones.
#[inline(always)]
fn nibbles(packed: &[u8], quants: &mut [u8]) {
    let Some((low, high)) = quants.split_at_mut_checked(packed.len()) else { return };
    for ((low, high), byte) in low.iter_mut().zip(high).zip(packed) {
        *low = byte & 15;
        *high = byte >> 4;
    }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn every_scale_is_the_number_that_its_bits_mean() {
        for bits in 0..=u16::MAX {
            let (found, expected) = (half(bits.to_le_bytes()), half::f16::from_bits(bits).to_f32());
            assert!(found == expected || found.is_nan() && expected.is_nan(), "{bits:#x}: {found}, not {expected}");
        }
    }
}
