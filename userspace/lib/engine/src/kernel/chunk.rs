//! A piece of a quantised row, unpacked: the input of all kernels except the reference.

use crate::activations::{CHUNK, Row};
use crate::block::{Block, LEAST_GROUP};

/// Groups of a chunk at most.
pub const GROUPS: usize = CHUNK / LEAST_GROUP;

/// Groups of activations in a chunk.
pub const VALUE_GROUPS: usize = CHUNK / crate::activations::GROUP;

/// Up to [`CHUNK`] values: `scale × quant − minimum` each.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Chunk {
    /// Quants. If there are fewer values, those after them mean nothing.
    pub quants: [u8; CHUNK],
    /// A scale for each group; zero if there is none.
    pub scales: [f32; GROUPS],
    /// A minimum for each group; zero if there is none.
    pub minima: [f32; GROUPS],
}

impl Chunk {
    /// Nothing.
    pub const EMPTY: Self = Self { quants: [0; CHUNK], scales: [0.0; GROUPS], minima: [0.0; GROUPS] };

    /// Unpacks a chunk's blocks.
    #[inline(always)]
    pub fn unpack<B: Block>(&mut self, blocks: &[B]) {
        if blocks.len() * B::VALUES < CHUNK {
            self.scales = [0.0; GROUPS];
            self.minima = [0.0; GROUPS];
        }
        let quants = self.quants.chunks_exact_mut(B::VALUES);
        let scales = self.scales.chunks_exact_mut(B::VALUES / B::GROUP);
        let minima = self.minima.chunks_exact_mut(B::VALUES / B::GROUP);
        for ((block, quants), (scales, minima)) in blocks.iter().zip(quants).zip(scales.zip(minima)) {
            block.unpack(quants, scales, minima);
        }
        let offset = f32::from(B::OFFSET);
        for (minimum, scale) in self.minima.iter_mut().zip(&self.scales) {
            *minimum = if B::MINIMA { *minimum + offset * scale } else { offset * scale };
        }
    }
}

/// A chunk of a row of activations.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    /// See [`Row::quants`].
    pub quants: &'a [i8; CHUNK],
    /// See [`Row::scales`].
    pub scales: &'a [f32; VALUE_GROUPS],
    /// See [`Row::sums`].
    pub sums: &'a [f32; VALUE_GROUPS],
    /// See [`Row::half_sums`].
    pub half_sums: &'a [f32; GROUPS],
}

/// The chunks of a row.
#[inline(always)]
pub fn chunks(row: Row<'_>) -> impl Iterator<Item = Values<'_>> {
    let numbers = row.quants.as_chunks().0.iter().zip(row.scales.as_chunks().0);
    let sums = row.sums.as_chunks().0.iter().zip(row.half_sums.as_chunks().0);
    numbers.zip(sums).map(|((quants, scales), (sums, half_sums))| Values { quants, scales, sums, half_sums })
}

/// Blocks of a chunk.
pub const fn blocks_of<B: Block>() -> usize {
    CHUNK / B::VALUES
}
