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

fn grow(numbers: &mut Vec<u16>, wanted: Option<usize>) -> Result<(), EngineError> {
    let none_left = || EngineError::Memory { what: "keys and values of more tokens" };
    let wanted = wanted.ok_or_else(none_left)?;
    if let Some(more) = wanted.checked_sub(numbers.len()) {
        numbers.try_reserve(more).map_err(|_| none_left())?;
        numbers.resize(wanted, 0);
    }
    Ok(())
}
