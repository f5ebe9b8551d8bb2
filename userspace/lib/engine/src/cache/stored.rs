//! A cache as bytes, to be kept in a file.
//!
//! For each layer there are the keys of all tokens and then the values, each number in 16 bits, little-endian.

use alloc::vec::Vec;

use super::rows::Rows;
use super::{Cache, CacheType};
use crate::EngineError;
use crate::config::Config;
use crate::kernel::Kernels;

/// Bytes of a number.
const NUMBER: usize = size_of::<u16>();

impl Cache {
    /// The first `length` tokens as bytes. None if there are fewer, or if numbers are not kept in 16 bits.
    #[must_use]
    pub fn to_bytes(&self, length: usize) -> Option<Vec<u8>> {
        if length > self.length {
            return None;
        }
        let mut bytes = Vec::new();
        for layer in &self.layers {
            for rows in [&layer.keys, &layer.values] {
                bytes.extend(rows.floats(length)?.iter().flat_map(|number| number.to_le_bytes()));
            }
        }
        Some(bytes)
    }

    /// A cache for a model like this, and for at most `positions` tokens, with the `length` tokens that
    /// [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`EngineError::Stored`] if the bytes are not that many tokens of such a model, [`EngineError::Memory`] if there
    /// is no memory for them, [`EngineError::Full`] if they are more than `positions`.
    pub fn from_bytes(
        kind: CacheType,
        config: &Config,
        kernels: &dyn Kernels,
        (length, positions): (usize, usize),
        bytes: &[u8],
    ) -> Result<Self, EngineError> {
        let mut cache = Self::of_type(kind, config, positions);
        let numbers = |rows: &Rows| rows.numbers().saturating_mul(length);
        let all = cache.layers.iter().flat_map(|layer| [&layer.keys, &layer.values]);
        let wanted = all.fold(0, |sum: usize, rows| sum.saturating_add(numbers(rows)));
        if Some(bytes.len()) != wanted.checked_mul(NUMBER) {
            return Err(EngineError::Stored { why: "they are not as many bytes as these tokens of this model take" });
        }
        cache.extend(length)?;
        let mut rest = bytes;
        for layer in &mut cache.layers {
            for rows in [&mut layer.keys, &mut layer.values] {
                let width = rows.numbers();
                for row in 0..length {
                    let Some((values, behind)) = rest.split_at_checked(width.saturating_mul(NUMBER)) else { break };
                    let values: Vec<u16> = values.as_chunks().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
                    rows.put_floats(kernels, row, &values);
                    rest = behind;
                }
            }
        }
        Ok(cache)
    }
}
