//! Choosing the next token by its logits.

use alloc::vec::Vec;
use core::cmp::Ordering;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::EngineError;
use crate::mask::Mask;

/// The token with the largest logit, of equals the first. NaN is never chosen, except if there is
/// no other number: then the first token is.
pub fn greedy(logits: &[f32]) -> u32 {
    largest(candidates(logits, None)).map_or(0, |candidate| candidate.id)
}

/// How tokens are chosen. Settings at their default (see [`Sampling::default`]) change nothing; by default the
/// likeliest token is taken each time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by it; at 0 the likeliest token is taken.
    pub temperature: f32,
    /// Only this many of the likeliest tokens stay; 0 keeps all.
    pub top_k: usize,
    /// The likeliest tokens that together have this probability stay.
    pub top_p: f32,
    /// Tokens that have this part of the likeliest one's probability stay.
    pub min_p: f32,
    /// Logits of tokens among the latest [`REPETITION_WINDOW`] are divided by it, or multiplied if negative.
    pub repetition_penalty: f32,
    /// Where the random numbers begin. The same seed, settings and logits give the same tokens.
    pub seed: u64,
}

/// Tokens, the prompt's with them, in which a repetition is looked for.
pub const REPETITION_WINDOW: usize = 64;

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, repetition_penalty: 1.0, seed: 0 }
    }
}

impl Sampling {
    /// Rejects impossible values.
    ///
    /// # Errors
    /// [`EngineError::Sampling`] with the setting.
    pub fn check(&self) -> Result<(), EngineError> {
        // NaN is in no range.
        let within = |setting, value: f32, range: core::ops::RangeInclusive<f32>| match range.contains(&value) {
            true => Ok(()),
            false => Err(EngineError::Sampling { setting, value, least: *range.start(), most: *range.end() }),
        };
        within("temperature", self.temperature, 0.0..=100.0)?;
        within("top-p", self.top_p, 0.0..=1.0)?;
        within("min-p", self.min_p, 0.0..=1.0)?;
        within("repetition penalty", self.repetition_penalty, 0.01..=100.0)
    }
}

/// A token that may be chosen.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: u32,
    /// Its logit, then its probability over the likeliest one's.
    weight: f32,
}

impl Candidate {
    /// The likelier first, of equals the one with the smaller id.
    fn order(&self, other: &Self) -> Ordering {
        other.weight.total_cmp(&self.weight).then(self.id.cmp(&other.id))
    }
}

/// Chooses the tokens of one sequence. The steps are, in this order, which is the one of Hugging Face's transformers:
/// mask, repetition penalty, temperature, top-k, top-p, min-p, and a random number.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: Pcg32,
    candidates: Vec<Candidate>,
    penalised: Vec<f32>,
}

impl Sampler {
    /// At the beginning of its random numbers.
    ///
    /// # Errors
    /// As [`Sampling::check`].
    pub fn new(sampling: Sampling) -> Result<Self, EngineError> {
        sampling.check()?;
        let random = Pcg32::seed_from_u64(sampling.seed);
        Ok(Self { sampling, random, candidates: Vec::new(), penalised: Vec::new() })
    }

    /// The next token of a sequence whose tokens so far are `tokens`, by the logits after them. None if no allowed
    /// token has a logit that is a number.
    pub fn choose(&mut self, logits: &[f32], allowed: Option<&Mask>, tokens: &[u32]) -> Option<u32> {
        let sampling = self.sampling;
        let logits = match sampling.repetition_penalty == 1.0 {
            true => logits,
            false => {
                penalise(logits, sampling.repetition_penalty, tokens, &mut self.penalised);
                &self.penalised
            }
        };
        let largest = largest(candidates(logits, allowed))?;
        if sampling.temperature == 0.0 {
            return Some(largest.id);
        }
        let candidates = &mut self.candidates;
        candidates.clear();
        candidates.extend(self::candidates(logits, allowed));
        if sampling.top_k > 0 {
            keep_largest(candidates, sampling.top_k);
        }
        for candidate in candidates.iter_mut() {
            candidate.weight = libm::expf((candidate.weight - largest.weight) / sampling.temperature);
        }
        if sampling.top_p < 1.0 {
            keep_probable(candidates, f64::from(sampling.top_p));
        }
        candidates.retain(|candidate| candidate.weight >= sampling.min_p);
        draw(candidates, &mut self.random)
    }
}

/// Tokens that are allowed and whose logit is a number, or too large for one.
fn candidates<'l>(logits: &'l [f32], allowed: Option<&'l Mask>) -> impl Iterator<Item = Candidate> + 'l {
    let all = (0u32..).zip(logits).filter(|(_, logit)| **logit > f32::NEG_INFINITY);
    let allowed = all.filter(move |(id, _)| allowed.is_none_or(|mask| mask.allows(*id)));
    allowed.map(|(id, logit)| Candidate { id, weight: logit.min(f32::MAX) })
}

/// The likeliest, of equals the first.
fn largest(candidates: impl Iterator<Item = Candidate>) -> Option<Candidate> {
    candidates.reduce(|best, candidate| if candidate.weight > best.weight { candidate } else { best })
}

/// Writes the logits, with those of recent tokens made less likely.
fn penalise(logits: &[f32], penalty: f32, tokens: &[u32], penalised: &mut Vec<f32>) {
    penalised.clear();
    penalised.extend_from_slice(logits);
    let latest = tokens.get(tokens.len().saturating_sub(REPETITION_WINDOW)..).unwrap_or(tokens);
    for (index, id) in latest.iter().enumerate() {
        let before = latest.get(..index).unwrap_or(&[]);
        let logit = usize::try_from(*id).ok().and_then(|id| penalised.get_mut(id));
        if let Some(logit) = logit.filter(|_| !before.contains(id)) {
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
        }
    }
}

/// Keeps this many of the largest and sorts them.
fn keep_largest(candidates: &mut Vec<Candidate>, count: usize) {
    if count < candidates.len() {
        candidates.select_nth_unstable_by(count, Candidate::order);
        candidates.truncate(count);
    }
    candidates.sort_unstable_by(Candidate::order);
}

/// Candidates that are sorted at first, to find those that are probable; mostly these are few.
const SORTED_FIRST: usize = 256;

/// Keeps the likeliest that together have the probability, at least one, and sorts them.
fn keep_probable(candidates: &mut Vec<Candidate>, probability: f64) {
    let wanted = probability * sum(candidates);
    let mut sorted = SORTED_FIRST;
    loop {
        if sorted < candidates.len() {
            candidates.select_nth_unstable_by(sorted, Candidate::order);
        }
        let all = sorted >= candidates.len();
        let likeliest = candidates.get_mut(..sorted).unwrap_or_default();
        let likeliest = if all { candidates.as_mut_slice() } else { likeliest };
        likeliest.sort_unstable_by(Candidate::order);
        let mut total = 0.0;
        let enough = likeliest.iter().position(|candidate| {
            total += f64::from(candidate.weight);
            total >= wanted
        });
        match enough {
            Some(last) => return candidates.truncate(last.saturating_add(1)),
            None if all => return,
            None => sorted = sorted.saturating_mul(8),
        }
    }
}

fn sum(candidates: &[Candidate]) -> f64 {
    candidates.iter().fold(0.0, |sum, candidate| sum + f64::from(candidate.weight))
}

/// Takes one by chance, in proportion to its weight.
fn draw(candidates: &[Candidate], random: &mut Pcg32) -> Option<u32> {
    // 53 bits, which is what a number of 64 bits can hold below one.
    let chance = (random.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
    let mut left = chance * sum(candidates);
    let mut chosen = None;
    for candidate in candidates.iter().filter(|candidate| candidate.weight > 0.0) {
        chosen = Some(candidate.id);
        left -= f64::from(candidate.weight);
        if left < 0.0 {
            break;
        }
    }
    chosen
}
