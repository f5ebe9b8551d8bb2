//! A pass: a batch passes through all layers.

use alloc::vec::Vec;

use crate::EngineError;
use crate::activations::Activations;
use crate::aligned::Aligned;
use crate::attention::{Place, attention, soft_cap};
use crate::batch::Batch;
use crate::cache::Cache;
use crate::config::Config;
use crate::experts::{ExpertScratch, experts};
use crate::feed_forward::{FeedForwardScratch, dense};
use crate::model::Model;
use crate::norm::{layer_norm_in_place, norm, norm_in_place};
use crate::pool::{Pool, rows_of_part, share};
use crate::product::{Machine, Product, multiply};
use crate::turns::{Rotations, Turns};
use crate::weights::{FeedForward, Head, Layer, PartNorms, add};

/// Room for results between the steps, kept from pass to pass.
#[derive(Default)]
pub struct Forward {
    pub(crate) state: Aligned<f32>,
    normed: Activations,
    pub(crate) queries: Aligned<f32>,
    keys: Aligned<f32>,
    values: Aligned<f32>,
    mixed: Activations,
    added: Aligned<f32>,
    feed_forward: FeedForwardScratch,
    experts: ExpertScratch,
    last: Activations,
    logits: Aligned<f32>,
}

impl Forward {
    /// Empty room.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of memory that it has taken.
    pub fn bytes(&self) -> usize {
        let numbers = [&self.state, &self.queries, &self.keys, &self.values, &self.added, &self.logits];
        let rows = [&self.normed, &self.mixed, &self.last];
        let numbers = numbers.into_iter().fold(0, |sum: usize, numbers| sum.saturating_add(numbers.bytes()));
        let rows = rows.into_iter().fold(numbers, |sum, rows| sum.saturating_add(rows.bytes()));
        rows.saturating_add(self.feed_forward.bytes()).saturating_add(self.experts.bytes())
    }

    /// Runs the batch. Its tokens are added to their caches. The result has a row of logits for each
    /// token that asks for them.
    ///
    /// # Errors
    /// [`EngineError`] if the batch cannot be run, or the model writes nothing; the caches are then as they were.
    pub fn pass(
        &mut self,
        model: &Model<'_>,
        machine: Machine<'_>,
        batch: &Batch,
        caches: &mut [Cache],
    ) -> Result<&[f32], EngineError> {
        let head = model.weights.head.as_ref().ok_or(EngineError::WritesNothing)?;
        let before: Vec<usize> = caches.iter().map(Cache::length).collect();
        match self.begin(model, batch, caches) {
            Ok(places) => {
                self.run(model, machine, &places, caches);
                Ok(self.finish(&model.config, head, machine, batch))
            }
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
        for token in batch.tokens() {
            model.check(token.id)?;
            let why = "has a token of a sequence without a cache";
            let cache = caches.get_mut(token.sequence).ok_or(EngineError::Batch { why })?;
            if !cache.fits(&model.config) {
                return Err(EngineError::Batch { why: "has a cache that was made for another model" });
            }
            places.push((token.sequence, cache.extend(1)?));
        }
        self.embed(model, batch.tokens().iter().map(|token| token.id), &places);
        Ok(places)
    }

    /// Makes the state that of tokens in these places, before the first layer.
    pub(crate) fn embed(&mut self, model: &Model<'_>, ids: impl Iterator<Item = u32>, places: &[Place]) {
        let config = &model.config;
        let width = config.width.max(1);
        self.state.resize(places.len().saturating_mul(width));
        for ((id, (_, position)), state) in ids.zip(places).zip(self.state.chunks_exact_mut(width)) {
            model.weights.embedding.dequantise_row(usize::try_from(id).unwrap_or(usize::MAX), state);
            if config.embedding_scale != 1.0 {
                state.iter_mut().for_each(|value| *value *= config.embedding_scale);
            }
            let Some(input) = &model.weights.input else { continue };
            if let Some(kind) = &input.kind {
                add(state, kind);
            }
            if let Some(positions) = &input.positions {
                self.added.resize(width);
                positions.dequantise_row(*position, &mut self.added);
                add(state, &self.added);
            }
            layer_norm_in_place(state, &input.norm, config.norm_epsilon);
        }
    }

    fn run(&mut self, model: &Model<'_>, machine: Machine<'_>, places: &[Place], caches: &mut [Cache]) {
        let config = &model.config;
        let mut rotations = Rotations::new(model);
        rotations.extend(places);
        for (index, layer) in model.weights.layers.iter().enumerate() {
            self.project(machine, config, (index, layer), (rotations.of(index), 0), places, caches);
            self.mix(machine, config, (index, config.window_of(index)), layer, places, caches);
            self.feed(machine, config, layer);
        }
    }

    /// The first half of a layer's attention: queries of the state, and keys and values, which are added to the caches.
    /// `cached` is the layer's place in these, `first` that of the first token in the turns.
    pub(crate) fn project(
        &mut self,
        machine: Machine<'_>,
        config: &Config,
        (cached, layer): (usize, &Layer<'_>),
        (turns, first): (&Turns<'_>, usize),
        places: &[Place],
        caches: &mut [Cache],
    ) {
        let tokens = places.len();
        norm_rows(machine.pool, &self.state, layer.attention_norms.input.as_deref(), config, &mut self.normed);
        self.queries.resize(tokens.saturating_mul(config.queries()));
        self.keys.resize(tokens.saturating_mul(config.keys()));
        self.values.resize(tokens.saturating_mul(config.values()));
        let mut products = [
            Product { tensor: &layer.query.matrix, out: &mut self.queries },
            Product { tensor: &layer.key.matrix, out: &mut self.keys },
            Product { tensor: &layer.value.matrix, out: &mut self.values },
        ];
        multiply(machine, &mut self.normed, &mut products);
        let size = rows_of_part(machine.pool, tokens);
        let parts = self.queries.chunks_mut(size.saturating_mul(config.queries()).max(1));
        let parts = parts.zip(self.keys.chunks_mut(size.saturating_mul(config.keys()).max(1)));
        let parts = parts.zip(self.values.chunks_mut(size.saturating_mul(config.values()).max(1)));
        let parts = parts.zip(places.chunks(size)).enumerate();
        share(machine.pool, parts.collect(), |(index, (((queries, keys), values), places))| {
            layer.query.add_bias(queries);
            layer.key.add_bias(keys);
            layer.value.add_bias(values);
            if let Some(norms) = &layer.head_norms {
                for head in queries.chunks_exact_mut(config.key_size.max(1)) {
                    norm_in_place(head, &norms.query, config.norm_epsilon);
                }
                for head in keys.chunks_exact_mut(config.key_size.max(1)) {
                    norm_in_place(head, &norms.key, config.norm_epsilon);
                }
            }
            let first = first.saturating_add(size.saturating_mul(index));
            turns.apply(first, queries, config.queries(), config.key_size);
            turns.apply(first, keys, config.keys(), config.key_size);
            if let Some(temperature) = config.attention_temperature {
                for (queries, (_, position)) in queries.chunks_exact_mut(config.queries().max(1)).zip(places) {
                    let scale = temperature.at(*position);
                    queries.iter_mut().for_each(|value| *value *= scale);
                }
            }
        });
        let keys = self.keys.chunks_exact(config.keys().max(1));
        let values = self.values.chunks_exact(config.values().max(1));
        for ((sequence, position), (keys, values)) in places.iter().zip(keys.zip(values)) {
            if let Some(cache) = caches.get_mut(*sequence) {
                cache.put(machine.kernels, cached, *position, keys, values);
            }
        }
    }

    /// The second half: the attention's result is added to the state.
    pub(crate) fn mix(
        &mut self,
        machine: Machine<'_>,
        config: &Config,
        seen: (usize, Option<usize>),
        layer: &Layer<'_>,
        places: &[Place],
        caches: &[Cache],
    ) {
        let mixed = self.mixed.resize(places.len(), config.mixed());
        attention(machine, config, seen, caches, places, &self.queries, mixed);
        self.added.resize(self.state.len());
        multiply(machine, &mut self.mixed, &mut [Product { tensor: &layer.output.matrix, out: &mut self.added }]);
        layer.output.add_bias(&mut self.added);
        self.add(machine.pool, config, &layer.attention_norms);
    }

    /// The feed-forward part of a layer.
    pub(crate) fn feed(&mut self, machine: Machine<'_>, config: &Config, layer: &Layer<'_>) {
        norm_rows(machine.pool, &self.state, layer.feed_forward_norms.input.as_deref(), config, &mut self.normed);
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
        self.add(machine.pool, config, &layer.feed_forward_norms);
    }

    /// Adds the results of a part to the state, with the norms that are there for them.
    fn add(&mut self, pool: &dyn Pool, config: &Config, norms: &PartNorms) {
        let width = config.width.max(1);
        let rows = self.state.len().checked_div(width).unwrap_or(0);
        let length = rows_of_part(pool, rows).saturating_mul(width);
        let parts = self.state.chunks_mut(length).zip(self.added.chunks_mut(length)).collect();
        share(pool, parts, |(state, added): (&mut [f32], &mut [f32])| {
            if let Some(weights) = &norms.result {
                for row in added.chunks_exact_mut(width) {
                    norm_in_place(row, weights, config.norm_epsilon);
                }
            }
            add(state, added);
            if let Some(norm) = &norms.sum {
                for row in state.chunks_exact_mut(width) {
                    layer_norm_in_place(row, norm, config.norm_epsilon);
                }
            }
        });
    }

    /// Logits of the tokens that ask for them.
    fn finish(&mut self, config: &Config, head: &Head<'_>, machine: Machine<'_>, batch: &Batch) -> &[f32] {
        let width = config.width.max(1);
        let wanted = batch.tokens().iter().filter(|token| token.logits).count();
        self.logits.resize(wanted.saturating_mul(head.output.matrix.rows()));
        if wanted == 0 {
            return &self.logits;
        }
        let rows = self.last.resize(wanted, width);
        let states = self.state.chunks_exact(width).zip(batch.tokens()).filter(|(_, token)| token.logits);
        for (row, (state, _)) in rows.chunks_exact_mut(width).zip(states) {
            norm(state, &head.norm, config.norm_epsilon, row);
        }
        multiply(machine, &mut self.last, &mut [Product { tensor: &head.output.matrix, out: &mut self.logits }]);
        head.output.add_bias(&mut self.logits);
        if let Some(cap) = config.logit_cap {
            soft_cap(&mut self.logits, cap);
        }
        &self.logits
    }
}

/// The input of a part: the state, after a norm if there is one.
fn norm_rows(pool: &dyn Pool, state: &[f32], weights: Option<&[f32]>, config: &Config, out: &mut Activations) {
    let width = config.width.max(1);
    let count = state.len().checked_div(width).unwrap_or(0);
    let length = rows_of_part(pool, count).saturating_mul(width);
    let parts = out.resize(count, width).chunks_mut(length).zip(state.chunks(length)).collect();
    share(pool, parts, |(rows, state): (&mut [f32], &[f32])| {
        for (row, state) in rows.chunks_exact_mut(width).zip(state.chunks_exact(width)) {
            match weights {
                Some(weights) => norm(state, weights, config.norm_epsilon, row),
                None => row.copy_from_slice(state),
            }
        }
    });
}
