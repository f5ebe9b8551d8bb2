//! Texts become vectors.
//!
//! If tokens attend to later ones, no token passes a layer before the keys of all are there. So texts pass through the
//! model layer by layer. Each half of a layer, that of keys and that of attention, is computed in pieces of some
//! tokens. A cancellation between two pieces waits for one piece only, however long the texts are.

use alloc::vec::Vec;
use core::ops::Range;

use crate::EngineError;
use crate::aligned::Aligned;
use crate::attention::Place;
use crate::cache::{Cache, CacheType};
use crate::config::Pooling;
use crate::forward::Forward;
use crate::model::Model;
use crate::norm::norm;
use crate::pace::Pace;
use crate::product::Machine;
use crate::turns::Rotations;

/// Makes vectors of texts with one model, some texts at a time.
pub struct Encoder<'m> {
    model: &'m Model<'m>,
    machine: Machine<'m>,
    cache: CacheType,
    /// Times of pieces in the two halves of a layer, which differ.
    keys_pace: Pace<'m>,
    mixed_pace: Pace<'m>,
    forward: Forward,
    texts: Option<Texts<'m>>,
}

/// The steps for the tokens, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Their embeddings are read.
    Embeddings,
    /// Their keys, values and queries in this layer are computed.
    Keys(usize),
    /// The rest of this layer is.
    Mixed(usize),
}

/// Texts in progress.
struct Texts<'m> {
    ids: Vec<u32>,
    places: Vec<Place>,
    /// One for each text, with room for one layer.
    caches: Vec<Cache>,
    rotations: Rotations<'m>,
    states: Vec<f32>,
    queries: Vec<f32>,
    stage: Stage,
    /// Tokens that the stage is done with.
    done: usize,
}

impl<'m> Encoder<'m> {
    /// Without texts. A piece has at most `piece` tokens. Keys and values are kept as `cache` says, or as
    /// [`Model::cache_type`] has it. With a clock, in nanoseconds since a time that stays the same, pieces are over within some 40 ms.
    ///
    /// # Errors
    /// [`EngineError::EmbedsNothing`] if the model is not for this.
    pub fn new(
        model: &'m Model<'m>,
        machine: Machine<'m>,
        piece: usize,
        cache: Option<CacheType>,
        clock: Option<&'m dyn Fn() -> u64>,
    ) -> Result<Self, EngineError> {
        if model.config.pooling.is_none() {
            return Err(EngineError::EmbedsNothing);
        }
        Ok(Self {
            model,
            machine,
            cache: cache.unwrap_or_else(|| model.cache_type(machine.kernels)),
            keys_pace: Pace::new(clock, piece),
            mixed_pace: Pace::new(clock, piece),
            forward: Forward::new(),
            texts: None,
        })
    }

    /// Takes texts, each of which is one list of tokens. Those in progress are forgotten.
    ///
    /// # Errors
    /// [`EngineError`] if a text has no tokens, more than the context holds, or one that the vocabulary does not have,
    /// or there is no memory for all.
    pub fn begin(&mut self, texts: &[Vec<u32>]) -> Result<(), EngineError> {
        self.texts = None;
        let config = &self.model.config;
        let positions = self.model.context();
        let mut ids = Vec::new();
        let mut places = Vec::new();
        let mut caches = Vec::new();
        for (sequence, text) in texts.iter().enumerate() {
            if text.is_empty() {
                return Err(EngineError::Batch { why: "has a text without tokens" });
            }
            if text.len() > positions {
                return Err(EngineError::Prompt { tokens: text.len(), positions });
            }
            text.iter().try_for_each(|id| self.model.check(*id))?;
            let mut cache = Cache::of_one_layer(self.cache, config, text.len());
            cache.extend(text.len())?;
            caches.push(cache);
            ids.extend_from_slice(text);
            places.extend((0..text.len()).map(|position| (sequence, position)));
        }
        let states = room(ids.len(), config.width)?;
        let queries = room(ids.len(), config.queries())?;
        let mut rotations = Rotations::new(self.model);
        rotations.reserve(ids.len()).map_err(|_| EngineError::Memory { what: BETWEEN })?;
        let stage = Stage::Embeddings;
        self.texts = Some(Texts { ids, places, caches, rotations, states, queries, stage, done: 0 });
        Ok(())
    }

    /// Forgets the texts.
    pub fn cancel(&mut self) {
        self.texts = None;
    }

    /// Does a bounded piece of work. Once all is done, and with texts only, it gives a vector of length one for each.
    ///
    /// # Errors
    /// [`EngineError::NoVector`] if a vector has something else than numbers in it. The texts are then forgotten.
    pub fn step(&mut self) -> Result<Option<Vec<Vec<f32>>>, EngineError> {
        let Some(texts) = &mut self.texts else { return Ok(None) };
        let pace = match texts.stage {
            Stage::Mixed(_) => &mut self.mixed_pace,
            Stage::Embeddings | Stage::Keys(_) => &mut self.keys_pace,
        };
        let began = pace.now();
        let piece = texts.done..texts.done.saturating_add(pace.tokens()).min(texts.ids.len());
        texts.take(self.model, self.machine, &mut self.forward, piece.clone());
        // Reading embeddings takes almost no time, which says nothing about keys.
        if texts.stage != Stage::Embeddings {
            pace.passed(piece.len(), began);
        }
        if !texts.go_on(self.model, piece.end) {
            return Ok(None);
        }
        let vectors = texts.vectors(self.model);
        self.texts = None;
        vectors.map(Some)
    }
}

/// Part of the error message for a text that is too long.
const BETWEEN: &str = "what passes between the layers; embed shorter texts";

/// Room for some numbers of each token.
fn room(tokens: usize, width: usize) -> Result<Vec<f32>, EngineError> {
    let count = tokens.saturating_mul(width);
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count).map_err(|_| EngineError::Memory { what: BETWEEN })?;
    numbers.resize(count, 0.0);
    Ok(numbers)
}

impl Texts<'_> {
    /// Takes a piece through the stage.
    fn take(&mut self, model: &Model<'_>, machine: Machine<'_>, forward: &mut Forward, piece: Range<usize>) {
        let config = &model.config;
        let places = self.places.get(piece.clone()).unwrap_or(&[]);
        let of_width = |width: usize| piece.start.saturating_mul(width)..piece.end.saturating_mul(width);
        let states = self.states.get_mut(of_width(config.width)).unwrap_or(&mut []);
        let queries = self.queries.get_mut(of_width(config.queries())).unwrap_or(&mut []);
        let layer = |index: usize| model.weights.layers.get(index);
        match self.stage {
            Stage::Embeddings => {
                forward.embed(model, self.ids.iter().skip(piece.start).copied(), places);
                copy(states, &forward.state);
                self.rotations.extend(places);
            }
            Stage::Keys(index) => {
                let Some(layer) = layer(index) else { return };
                refill(&mut forward.state, states);
                let turns = (self.rotations.of(index), piece.start);
                forward.project(machine, config, (0, layer), turns, places, &mut self.caches);
                copy(queries, &forward.queries);
            }
            Stage::Mixed(index) => {
                let Some(layer) = layer(index) else { return };
                refill(&mut forward.state, states);
                refill(&mut forward.queries, queries);
                forward.mix(machine, config, (0, config.window_of(index)), layer, places, &self.caches);
                forward.feed(machine, config, layer);
                match &model.weights.head {
                    Some(head) if index.saturating_add(1) == config.layers => {
                        let width = config.width.max(1);
                        for (to, from) in states.chunks_exact_mut(width).zip(forward.state.chunks_exact(width)) {
                            norm(from, &head.norm, config.norm_epsilon, to);
                        }
                    }
                    _ => copy(states, &forward.state),
                }
            }
        }
    }

    /// Continues after the tokens up to `done`; returns whether nothing is left.
    fn go_on(&mut self, model: &Model<'_>, done: usize) -> bool {
        self.done = done;
        if done < self.ids.len() {
            return false;
        }
        let next = match self.stage {
            Stage::Embeddings => Stage::Keys(0),
            Stage::Keys(index) => Stage::Mixed(index),
            Stage::Mixed(index) => Stage::Keys(index.saturating_add(1)),
        };
        self.done = 0;
        self.stage = next;
        next == Stage::Keys(model.config.layers)
    }

    /// The vectors of all texts.
    fn vectors(&self, model: &Model<'_>) -> Result<Vec<Vec<f32>>, EngineError> {
        let width = model.config.width.max(1);
        let mut left = self.states.as_slice();
        let mut vectors = Vec::new();
        for cache in &self.caches {
            let (states, rest) = left.split_at_checked(cache.length().saturating_mul(width)).unwrap_or((left, &[]));
            left = rest;
            vectors.push(vector(states, width, model.config.pooling.unwrap_or(Pooling::Mean))?);
        }
        Ok(vectors)
    }
}

/// The vector of length one for a text whose tokens have these states; zeros stay zeros.
fn vector(states: &[f32], width: usize, pooling: Pooling) -> Result<Vec<f32>, EngineError> {
    let mut rows = states.chunks_exact(width);
    let pooled: Vec<f64> = match pooling {
        // Divided by how many there are it has the same direction.
        Pooling::Mean => rows.fold(alloc::vec![0.0; width], |mut sums, row| {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
            sums
        }),
        Pooling::First => rows.next().unwrap_or(&[]).iter().copied().map(f64::from).collect(),
        Pooling::Last => rows.next_back().unwrap_or(&[]).iter().copied().map(f64::from).collect(),
    };
    let length = libm::sqrt(pooled.iter().fold(0.0, |sum, value| sum + value * value));
    if !length.is_finite() {
        return Err(EngineError::NoVector);
    }
    let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
    Ok(pooled.iter().map(|value| (value * scale) as f32).collect())
}

fn copy(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

fn refill(to: &mut Aligned<f32>, from: &[f32]) {
    to.resize(from.len());
    copy(to, from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_made_as_the_pooling_says_and_have_length_one() {
        let states = [2.0, 0.0, 1.0, 0.0, 0.0, 4.0];
        let of = |pooling| vector(&states, 2, pooling).unwrap();
        assert_eq!(of(Pooling::First), [1.0, 0.0]);
        assert_eq!(of(Pooling::Last), [0.0, 1.0]);
        assert_eq!(of(Pooling::Mean), [0.6, 0.8]);
    }

    #[test]
    fn a_vector_without_a_direction_is_told() {
        assert_eq!(vector(&[0.0, 0.0], 2, Pooling::Mean), Ok(alloc::vec![0.0, 0.0]));
        assert_eq!(vector(&[f32::NAN, 0.0], 2, Pooling::Mean), Err(EngineError::NoVector));
        assert_eq!(vector(&[f32::INFINITY, 0.0], 2, Pooling::First), Err(EngineError::NoVector));
    }
}
