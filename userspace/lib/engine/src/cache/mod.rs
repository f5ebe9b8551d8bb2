//! Keys and values of the tokens that a sequence has seen.

use alloc::vec::Vec;

use crate::config::Config;
use crate::kernel::Kernels;
use crate::{EngineError, limits};

/// Tokens by which the memory of a cache grows.
const STEP: usize = 256;

/// Keys and values of one sequence, by layer.
#[derive(Clone, Debug)]
pub struct Cache {
    layers: Vec<Layer>,
    positions: usize,
    length: usize,
    key_width: usize,
    value_width: usize,
}

/// Keys and values of one layer: for each token those of all heads, as numbers of 16 bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    pub keys: Vec<u16>,
    pub values: Vec<u16>,
}

impl Cache {
    /// A cache for at most `positions` tokens. It takes memory as tokens come.
    pub fn new(config: &Config, positions: usize) -> Self {
        let mut layers = Vec::new();
        layers.resize_with(config.layers, Layer::default);
        let positions = positions.clamp(1, limits::CONTEXT);
        Self { layers, positions, length: 0, key_width: config.keys(), value_width: config.values() }
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
    /// [`EngineError::Memory`] where there is none for it.
    pub fn copy(&self, length: usize) -> Result<Self, EngineError> {
        let length = length.min(self.length);
        let mut layers = Vec::new();
        for layer in &self.layers {
            layers.push(Layer {
                keys: copy(&layer.keys, length.saturating_mul(self.key_width))?,
                values: copy(&layer.values, length.saturating_mul(self.value_width))?,
            });
        }
        Ok(Self { layers, length, ..*self })
    }

    /// Bytes of memory that it has taken.
    pub fn bytes(&self) -> usize {
        let numbers = self.layers.iter().fold(0usize, |sum, layer| {
            sum.saturating_add(layer.keys.capacity()).saturating_add(layer.values.capacity())
        });
        numbers.saturating_mul(size_of::<u16>())
    }

    /// Gives back memory until it has at most so many bytes: what no token uses, then what the last tokens use.
    pub fn shrink(&mut self, bytes: usize) {
        let numbers = self.key_width.saturating_add(self.value_width).saturating_mul(self.layers.len());
        let fitting = bytes.checked_div(numbers.saturating_mul(size_of::<u16>())).unwrap_or(0);
        self.truncate(fitting);
        for layer in &mut self.layers {
            layer.keys.truncate(self.length.saturating_mul(self.key_width));
            layer.keys.shrink_to_fit();
            layer.values.truncate(self.length.saturating_mul(self.value_width));
            layer.values.shrink_to_fit();
        }
    }

    /// Makes room for `count` more tokens.
    ///
    /// # Errors
    /// [`EngineError::Full`] where the cache was not made for so many, [`EngineError::Memory`] where there is none.
    pub fn reserve(&mut self, count: usize) -> Result<(), EngineError> {
        let before = self.length;
        self.extend(count)?;
        self.length = before;
        Ok(())
    }

    /// Whether it was made for a model like this.
    pub(crate) fn fits(&self, config: &Config) -> bool {
        self.layers.len() == config.layers && self.key_width == config.keys() && self.value_width == config.values()
    }

    /// Makes room for `count` more tokens and says where the first of them goes.
    pub(crate) fn extend(&mut self, count: usize) -> Result<usize, EngineError> {
        let full = || EngineError::Full { positions: self.positions };
        let end = self.length.checked_add(count).filter(|end| *end <= self.positions).ok_or_else(full)?;
        let room = end.checked_next_multiple_of(STEP).unwrap_or(end);
        let (keys, values) = (room.checked_mul(self.key_width), room.checked_mul(self.value_width));
        for layer in &mut self.layers {
            grow(&mut layer.keys, keys)?;
            grow(&mut layer.values, values)?;
        }
        let first = self.length;
        self.length = end;
        Ok(first)
    }

    /// Keeps keys and values of the token at a position.
    pub(crate) fn put(&mut self, kernels: &dyn Kernels, layer: usize, position: usize, keys: &[f32], values: &[f32]) {
        let Some(layer) = self.layers.get_mut(layer) else { return };
        if let Some(place) = layer.keys.chunks_exact_mut(self.key_width.max(1)).nth(position) {
            kernels.narrow(keys, place);
        }
        if let Some(place) = layer.values.chunks_exact_mut(self.value_width.max(1)).nth(position) {
            kernels.narrow(values, place);
        }
    }

    /// Keys and values of a layer.
    pub(crate) fn layer(&self, layer: usize) -> Option<&Layer> {
        self.layers.get(layer)
    }
}

fn none_left() -> EngineError {
    EngineError::Memory { what: "keys and values of more tokens" }
}

fn copy(numbers: &[u16], count: usize) -> Result<Vec<u16>, EngineError> {
    let mut copied = Vec::new();
    copied.try_reserve_exact(count).map_err(|_| none_left())?;
    copied.extend_from_slice(numbers.get(..count).unwrap_or(numbers));
    Ok(copied)
}

fn grow(numbers: &mut Vec<u16>, wanted: Option<usize>) -> Result<(), EngineError> {
    let wanted = wanted.ok_or_else(none_left)?;
    if let Some(more) = wanted.checked_sub(numbers.len()) {
        numbers.try_reserve(more).map_err(|_| none_left())?;
        numbers.resize(wanted, 0);
    }
    Ok(())
}
