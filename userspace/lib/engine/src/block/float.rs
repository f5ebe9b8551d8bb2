//! Floating point numbers of 32 and 16 bits.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

/// A single number.
pub trait Float: Pod + Send + Sync {
    /// The number.
    fn to_f32(self) -> f32;
}

/// 32 bits.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub struct Float32([u8; 4]);

/// 16 bits, as IEEE 754 has them.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub struct Float16([u8; 2]);

/// The upper 16 bits of one of 32.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub struct BFloat16([u8; 2]);

impl Float for Float32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_le_bytes(self.0)
    }
}

impl Float for Float16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f16::from_le_bytes(self.0).to_f32()
    }
}

impl Float for BFloat16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        bf16::from_le_bytes(self.0).to_f32()
    }
}
