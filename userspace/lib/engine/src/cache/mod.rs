//! Keys and values of the tokens that a sequence has seen.

mod rows;
mod stored;

use alloc::vec::Vec;

use crate::config::Config;
use crate::kernel::Kernels;
use crate::{EngineError, limits};
use rows::Rows;

/// Tokens by which the memory of a cache grows at least.
const STEP: usize = 256;
/// The part of its tokens by which it grows, if that is more: growing copies its content, so the unused part is small.
const PART: usize = 8;

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheType {
    /// 16 bits for each number.
    #[default]
    F16,
    /// A byte for each number and a scale for 32, in a little more than half the memory.
    Q8_0,
}

/// Keys and values of one sequence, by layer.
#[derive(Clone, Debug)]
pub struct Cache {
    layers: Vec<Layer>,
    positions: usize,
    length: usize,
    /// Tokens that memory is allocated for.
    room: usize,
}

/// Keys and values of one layer.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub keys: Rows,
    pub values: Rows,
}

impl Cache {
    /// A cache of 16 bits a number for at most `positions` tokens. It takes memory as tokens come.
    pub fn new(config: &Config, positions: usize) -> Self {
        Self::of_type(CacheType::F16, config, positions)
    }

    /// The same of any type.
    pub fn of_type(kind: CacheType, config: &Config, positions: usize) -> Self {
        Self::of_layers(kind, config, config.layers, positions)
    }

    /// The same of any type, with room for one layer at a time.
    pub(crate) fn of_one_layer(kind: CacheType, config: &Config, positions: usize) -> Self {
        Self::of_layers(kind, config, 1, positions)
    }

    fn of_layers(kind: CacheType, config: &Config, count: usize, positions: usize) -> Self {
        let layer = || Layer {
            keys: Rows::new(kind, config.kv_heads, config.key_size),
            values: Rows::new(kind, config.kv_heads, config.value_size),
        };
        let mut layers = Vec::new();
        layers.resize_with(count, layer);
        Self { layers, positions: positions.clamp(1, limits::CONTEXT), length: 0, room: 0 }
    }

    /// Tokens in it.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Tokens that it can hold.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Forgets all but the first `length` tokens.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// A cache with the first `length` tokens.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if there is none for it.
    pub fn copy(&self, length: usize) -> Result<Self, EngineError> {
        let length = length.min(self.length);
        let mut layers = Vec::new();
        for layer in &self.layers {
            layers.push(Layer { keys: layer.keys.copy(length)?, values: layer.values.copy(length)? });
        }
        Ok(Self { layers, length, room: length, ..*self })
    }

    /// Bytes of memory that it has taken.
    pub fn bytes(&self) -> usize {
        self.sum(Rows::bytes)
    }

    /// Bytes of memory that a token takes.
    pub fn token_bytes(&self) -> usize {
        self.sum(Rows::row_bytes)
    }

    fn sum(&self, bytes: impl Fn(&Rows) -> usize) -> usize {
        let layers = self.layers.iter().flat_map(|layer| [&layer.keys, &layer.values]);
        layers.fold(0, |sum: usize, rows| sum.saturating_add(bytes(rows)))
    }

    /// Frees memory until at most `bytes` are used: first unused room, then the last tokens.
    pub fn shrink(&mut self, bytes: usize) {
        self.truncate(bytes.checked_div(self.token_bytes()).unwrap_or(0));
        for layer in &mut self.layers {
            layer.keys.shrink(self.length);
            layer.values.shrink(self.length);
        }
        self.room = self.length;
    }

    /// Makes room for `count` more tokens.
    ///
    /// # Errors
    /// [`EngineError::Full`] if the cache was not made for that many, [`EngineError::Memory`] if there is no memory.
    pub fn reserve(&mut self, count: usize) -> Result<(), EngineError> {
        self.room(count).map(|_| ())
    }

    /// Whether it was made for a model like this.
    pub(crate) fn fits(&self, config: &Config) -> bool {
        let fits = |layer: &Layer| {
            layer.keys.fits(config.kv_heads, config.key_size) && layer.values.fits(config.kv_heads, config.value_size)
        };
        self.layers.len() == config.layers && self.layers.iter().all(fits)
    }

    /// Makes room for `count` more tokens and says where the first of them goes.
    pub(crate) fn extend(&mut self, count: usize) -> Result<usize, EngineError> {
        let end = self.room(count)?;
        Ok(core::mem::replace(&mut self.length, end))
    }

    /// Makes room for `count` more tokens and says how many there are with them.
    fn room(&mut self, count: usize) -> Result<usize, EngineError> {
        let full = || EngineError::Full { positions: self.positions };
        let end = self.length.checked_add(count).filter(|end| *end <= self.positions).ok_or_else(full)?;
        if end > self.room {
            let more = end.saturating_add(end.checked_div(PART).unwrap_or(0));
            let room = more.checked_next_multiple_of(STEP).unwrap_or(end).min(self.positions);
            // If there is no memory for future tokens, there may be some for the existing ones.
            self.grow(room).or_else(|_| self.grow(end))?;
        }
        Ok(end)
    }

    fn grow(&mut self, room: usize) -> Result<(), EngineError> {
        for layer in &mut self.layers {
            layer.keys.grow(room)?;
            layer.values.grow(room)?;
        }
        self.room = room;
        Ok(())
    }

    /// Keeps keys and values of the token at a position.
    pub(crate) fn put(&mut self, kernels: &dyn Kernels, layer: usize, position: usize, keys: &[f32], values: &[f32]) {
        if let Some(layer) = self.layers.get_mut(layer) {
            layer.keys.put(kernels, position, keys);
            layer.values.put(kernels, position, values);
        }
    }

    /// Keys and values of a layer.
    pub(crate) fn layer(&self, layer: usize) -> Option<&Layer> {
        self.layers.get(layer)
    }
}
