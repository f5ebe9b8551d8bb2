//! Vectors that are multiplied with the same rows of the cache, laid out for that.

use alloc::vec::Vec;
use core::slice::ChunksExact;

/// The longest vectors that are taken together.
pub const MOST: usize = 256;

/// Vectors from which on it is worth to take them together.
pub const FEW: usize = 4;

/// Of `N` vectors after the other the first numbers, then the second ones, and so on. They have `size` numbers each; there
/// are zeros if there is no vector.
pub fn packed<const N: usize>(vectors: ChunksExact<'_, f32>, size: usize) -> Vec<[f32; N]> {
    let mut packed = alloc::vec![[0.0; N]; vectors.len().div_ceil(N).saturating_mul(size)];
    for (index, vector) in vectors.enumerate() {
        let group = packed.iter_mut().skip((index / N).saturating_mul(size));
        for (to, number) in group.zip(vector) {
            if let Some(to) = to.get_mut(index % N) {
                *to = *number;
            }
        }
    }
    packed
}
