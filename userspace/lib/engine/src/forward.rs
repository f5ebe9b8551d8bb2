//! A pass: a batch goes through all layers.

use alloc::vec::Vec;

use crate::EngineError;
use crate::activations::Activations;
use crate::attention::{Place, attention, soft_cap};
use crate::batch::Batch;
use crate::cache::Cache;
use crate::config::Config;
use crate::experts::{ExpertScratch, experts};
use crate::feed_forward::{FeedForwardScratch, dense};
use crate::model::Model;
use crate::norm::{norm, norm_in_place};
use crate::product::{Machine, Product, multiply};
use crate::rope::Rope;
use crate::weights::{FeedForward, Layer, Linear};

/// Room for results between the steps, kept from pass to pass.
#[derive(Default)]
pub struct Forward {
    state: Vec<f32>,
    normed: Activations,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    mixed: Activations,
    added: Vec<f32>,
    feed_forward: FeedForwardScratch,
    experts: ExpertScratch,
    last: Activations,
    logits: Vec<f32>,
}

/// Cosines and sines for all tokens of the batch, one token after another.
struct Turns {
    all: Vec<(f32, f32)>,
    pairs: usize,
}

impl Turns {
    fn of(rope: &Rope, places: &[Place]) -> Self {
        let pairs = rope.pairs().max(1);
        let mut all = alloc::vec![(0.0, 0.0); places.len().saturating_mul(pairs)];
        for (turns, (_, position)) in all.chunks_exact_mut(pairs).zip(places) {
            rope.turns(*position, turns);
        }
        Self { all, pairs }
    }

    /// Turns all heads of all tokens.
    fn apply(&self, rope: &Rope, values: &mut [f32], width: usize, head_size: usize) {
        for (values, turns) in values.chunks_exact_mut(width.max(1)).zip(self.all.chunks_exact(self.pairs)) {
            for head in values.chunks_exact_mut(head_size.max(1)) {
                rope.apply(head, turns);
            }
        }
    }
}

impl Forward {
    /// Room for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs the batch. Its tokens are added to their caches. What comes back has a row of logits for
    /// each token that asks for them.
    ///
    /// # Errors
    /// [`EngineError`] where the batch cannot be run; the caches are then as they were.
    pub fn pass(
        &mut self,
        model: &Model<'_>,
        machine: Machine<'_>,
        batch: &Batch,
        caches: &mut [Cache],
    ) -> Result<&[f32], EngineError> {
        let before: Vec<usize> = caches.iter().map(Cache::length).collect();
        match self.begin(model, batch, caches) {
            Ok(places) => Ok(self.run(model, machine, batch, &places, caches)),
            Err(error) => {
                caches.iter_mut().zip(before).for_each(|(cache, length)| cache.truncate(length));
                Err(error)
            }
        }
    }

    /// Checks the batch, finds each token's place, and reads the embeddings.
    fn begin(&mut self, model: &Model<'_>, batch: &Batch, caches: &mut [Cache]) -> Result<Vec<Place>, EngineError> {
        if batch.tokens().is_empty() {
            return Err(EngineError::Batch { why: "has no tokens" });
        }
        let mut places = Vec::with_capacity(batch.tokens().len());
        let width = model.config.width.max(1);
        self.state.resize(batch.tokens().len().saturating_mul(width), 0.0);
        for (token, state) in batch.tokens().iter().zip(self.state.chunks_exact_mut(width)) {
            let row = usize::try_from(token.id).ok().filter(|row| *row < model.vocabulary());
            let vocabulary = model.vocabulary();
            let row = row.ok_or(EngineError::Token { id: token.id, vocabulary })?;
            let why = "has a token of a sequence without a cache";
            let cache = caches.get_mut(token.sequence).ok_or(EngineError::Batch { why })?;
            if !cache.fits(&model.config) {
                return Err(EngineError::Batch { why: "has a cache that was made for another model" });
            }
            places.push((token.sequence, cache.extend(1)?));
            model.weights.embedding.dequantise_row(row, state);
            if model.config.embedding_scale != 1.0 {
                state.iter_mut().for_each(|value| *value *= model.config.embedding_scale);
            }
        }
        Ok(places)
    }

    fn run(
        &mut self,
        model: &Model<'_>,
        machine: Machine<'_>,
        batch: &Batch,
        places: &[Place],
        caches: &mut [Cache],
    ) -> &[f32] {
        let config = &model.config;
        let turns = Turns::of(&model.rope, places);
        let window_turns = match config.window.is_some() && config.window_rope != config.rope {
            true => Some(Turns::of(&model.window_rope, places)),
            false => None,
        };
        for (index, layer) in model.weights.layers.iter().enumerate() {
            let (rope, turns) = match &window_turns {
                Some(window_turns) if config.window_of(index).is_some() => (&model.window_rope, window_turns),
                _ => (&model.rope, &turns),
            };
            self.attend(machine, config, (index, layer), (rope, turns), places, caches);
            self.feed(machine, config, layer);
        }
        self.finish(model, machine, batch)
    }

    /// The attention part of a layer.
    fn attend(
        &mut self,
        machine: Machine<'_>,
        config: &Config,
        (index, layer): (usize, &Layer<'_>),
        (rope, turns): (&Rope, &Turns),
        places: &[Place],
        caches: &mut [Cache],
    ) {
        let tokens = places.len();
        norm_rows(&self.state, &layer.attention_norm, config.norm_epsilon, &mut self.normed);
        self.queries.resize(tokens.saturating_mul(config.queries()), 0.0);
        self.keys.resize(tokens.saturating_mul(config.keys()), 0.0);
        self.values.resize(tokens.saturating_mul(config.values()), 0.0);
        let mut products = [
            Product { tensor: &layer.query.matrix, out: &mut self.queries },
            Product { tensor: &layer.key.matrix, out: &mut self.keys },
            Product { tensor: &layer.value.matrix, out: &mut self.values },
        ];
        multiply(machine, &mut self.normed, &mut products);
        add_bias(&layer.query, &mut self.queries);
        add_bias(&layer.key, &mut self.keys);
        add_bias(&layer.value, &mut self.values);
        if let Some(norms) = &layer.head_norms {
            for head in self.queries.chunks_exact_mut(config.key_size.max(1)) {
                norm_in_place(head, &norms.query, config.norm_epsilon);
            }
            for head in self.keys.chunks_exact_mut(config.key_size.max(1)) {
                norm_in_place(head, &norms.key, config.norm_epsilon);
            }
        }
        turns.apply(rope, &mut self.queries, config.queries(), config.key_size);
        turns.apply(rope, &mut self.keys, config.keys(), config.key_size);
        if let Some(temperature) = config.attention_temperature {
            for (queries, (_, position)) in self.queries.chunks_exact_mut(config.queries().max(1)).zip(places) {
                let scale = temperature.at(*position);
                queries.iter_mut().for_each(|value| *value *= scale);
            }
        }
        let keys = self.keys.chunks_exact(config.keys().max(1));
        let values = self.values.chunks_exact(config.values().max(1));
        for ((sequence, position), (keys, values)) in places.iter().zip(keys.zip(values)) {
            if let Some(cache) = caches.get_mut(*sequence) {
                cache.put(machine.kernels, index, *position, keys, values);
            }
        }
        let mixed = self.mixed.resize(tokens, config.mixed());
        attention(machine, config, index, caches, places, &self.queries, mixed);
        self.added.resize(self.state.len(), 0.0);
        multiply(machine, &mut self.mixed, &mut [Product { tensor: &layer.output.matrix, out: &mut self.added }]);
        add_bias(&layer.output, &mut self.added);
        self.add(config, layer.post_norms.as_ref().map(|norms| norms.attention.as_slice()));
    }

    /// The feed-forward part of a layer.
    fn feed(&mut self, machine: Machine<'_>, config: &Config, layer: &Layer<'_>) {
        norm_rows(&self.state, &layer.feed_forward_norm, config.norm_epsilon, &mut self.normed);
        let activation = config.architecture.activation;
        match &layer.feed_forward {
            FeedForward::Dense(weights) => {
                dense(machine, weights, activation, &mut self.normed, &mut self.feed_forward, &mut self.added);
            }
            FeedForward::Experts { router, experts: all } => {
                let used = config.experts.map_or(1, |experts| experts.used);
                let weights = (router, all.as_slice());
                let (scratch, out) = (&mut self.experts, &mut self.added);
                experts(machine, weights, used, activation, &mut self.normed, scratch, out);
            }
        }
        self.add(config, layer.post_norms.as_ref().map(|norms| norms.feed_forward.as_slice()));
    }

    /// Adds the results of a part to the state, behind a norm if there is one.
    fn add(&mut self, config: &Config, post_norm: Option<&[f32]>) {
        if let Some(weights) = post_norm {
            for row in self.added.chunks_exact_mut(config.width.max(1)) {
                norm_in_place(row, weights, config.norm_epsilon);
            }
        }
        for (state, added) in self.state.iter_mut().zip(&self.added) {
            *state += added;
        }
    }

    /// Logits of the tokens that ask for them.
    fn finish(&mut self, model: &Model<'_>, machine: Machine<'_>, batch: &Batch) -> &[f32] {
        let config = &model.config;
        let width = config.width.max(1);
        let wanted = batch.tokens().iter().filter(|token| token.logits).count();
        self.logits.resize(wanted.saturating_mul(model.vocabulary()), 0.0);
        if wanted == 0 {
            return &self.logits;
        }
        let rows = self.last.resize(wanted, width);
        let states = self.state.chunks_exact(width).zip(batch.tokens()).filter(|(_, token)| token.logits);
        for (row, (state, _)) in rows.chunks_exact_mut(width).zip(states) {
            norm(state, &model.weights.norm, config.norm_epsilon, row);
        }
        multiply(machine, &mut self.last, &mut [Product { tensor: &model.weights.output, out: &mut self.logits }]);
        if let Some(cap) = config.logit_cap {
            soft_cap(&mut self.logits, cap);
        }
        &self.logits
    }
}

fn norm_rows(state: &[f32], weights: &[f32], epsilon: f32, out: &mut Activations) {
    let width = weights.len().max(1);
    let rows = out.resize(state.len().checked_div(width).unwrap_or(0), width);
    for (row, state) in rows.chunks_exact_mut(width).zip(state.chunks_exact(width)) {
        norm(state, weights, epsilon, row);
    }
}

fn add_bias(linear: &Linear<'_>, rows: &mut [f32]) {
    if let Some(bias) = &linear.bias {
        for row in rows.chunks_exact_mut(bias.len().max(1)) {
            for (value, bias) in row.iter_mut().zip(bias) {
                *value += bias;
            }
        }
    }
}
