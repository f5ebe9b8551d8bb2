//! By how much the heads of tokens are turned for their positions.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use crate::attention::Place;
use crate::model::Model;
use crate::rope::Rope;

/// Cosines and sines of one rotary embedding for some tokens, one token after another.
pub(crate) struct Turns<'m> {
    rope: &'m Rope,
    all: Vec<(f32, f32)>,
}

impl<'m> Turns<'m> {
    fn new(rope: &'m Rope) -> Self {
        Self { rope, all: Vec::new() }
    }

    /// Makes room for this many tokens.
    fn reserve(&mut self, tokens: usize) -> Result<(), TryReserveError> {
        self.all.try_reserve_exact(tokens.saturating_mul(self.rope.pairs()))
    }

    /// Adds tokens in these places.
    fn extend(&mut self, places: &[Place]) {
        let pairs = self.rope.pairs();
        let before = self.all.len();
        self.all.resize(before.saturating_add(places.len().saturating_mul(pairs)), (0.0, 0.0));
        let new = self.all.get_mut(before..).unwrap_or(&mut []);
        for (turns, (_, position)) in new.chunks_exact_mut(pairs.max(1)).zip(places) {
            self.rope.turns(*position, turns);
        }
    }

    /// Turns all heads of tokens; the first token has place `first`.
    pub fn apply(&self, first: usize, values: &mut [f32], width: usize, head_size: usize) {
        let pairs = self.rope.pairs().max(1);
        let turns = self.all.chunks_exact(pairs).skip(first);
        for (values, turns) in values.chunks_exact_mut(width.max(1)).zip(turns) {
            for head in values.chunks_exact_mut(head_size.max(1)) {
                self.rope.apply(head, turns);
            }
        }
    }
}

/// Those of a model's layers.
pub(crate) struct Rotations<'m> {
    model: &'m Model<'m>,
    all: Turns<'m>,
    /// For layers with a window, if these are turned differently.
    windows: Option<Turns<'m>>,
}

impl<'m> Rotations<'m> {
    /// Of no tokens yet.
    pub fn new(model: &'m Model<'m>) -> Self {
        let config = &model.config;
        let differ = config.window.is_some() && config.window_rope != config.rope;
        let windows = differ.then(|| Turns::new(&model.window_rope));
        Self { model, all: Turns::new(&model.rope), windows }
    }

    /// Makes room for this many tokens.
    ///
    /// # Errors
    /// There is none.
    pub fn reserve(&mut self, tokens: usize) -> Result<(), TryReserveError> {
        self.all.reserve(tokens)?;
        self.windows.as_mut().map_or(Ok(()), |windows| windows.reserve(tokens))
    }

    /// Adds tokens in these places.
    pub fn extend(&mut self, places: &[Place]) {
        self.all.extend(places);
        if let Some(windows) = &mut self.windows {
            windows.extend(places);
        }
    }

    /// Those of a layer.
    pub fn of(&self, layer: usize) -> &Turns<'m> {
        match &self.windows {
            Some(windows) if self.model.config.window_of(layer).is_some() => windows,
            _ => &self.all,
        }
    }
}
