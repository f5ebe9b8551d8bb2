//! Attention of the batch's tokens to all that their sequences have seen.

use alloc::vec::Vec;
use core::ops::Range;

use crate::cache::{Cache, Layer};
use crate::config::Config;
use crate::pool::share;
use crate::product::Machine;

/// Products from which on the work is shared with other threads.
const PRODUCTS_SHARED: usize = 32 * 1024;
/// The same if each takes long.
const SLOW_PRODUCTS_SHARED: usize = 1024;

/// Scores that there may be of tokens which are taken together, unless one token has more.
pub(crate) const SCORES_TOGETHER: usize = 128 * 1024;

/// Bytes of a part that has one token.
pub(crate) const PART_BYTES: usize = size_of::<Part<'_>>().saturating_add(size_of::<Token<'_>>());

/// Some tokens' heads that share keys and values.
struct Part<'p> {
    layer: &'p Layer,
    sequence: usize,
    kv_head: usize,
    tokens: Vec<Token<'p>>,
}

/// The keys and values that one token sees, the vectors of its heads, and where the results go.
struct Token<'p> {
    positions: Range<usize>,
    queries: &'p [f32],
    out: &'p mut [f32],
}

/// A token of the batch: its cache and its place in it.
pub(crate) type Place = (usize, usize);

/// Writes for each token the mixed values of all heads. `cached` is the layer's place in the caches, and `window` how
/// many tokens it sees, if not all. In an encoder all tokens of a sequence have to be in its cache by now.
pub(crate) fn attention(
    machine: Machine<'_>,
    config: &Config,
    (cached, window): (usize, Option<usize>),
    caches: &[Cache],
    places: &[Place],
    queries: &[f32],
    out: &mut [f32],
) {
    let group = config.heads.checked_div(config.kv_heads).unwrap_or(1);
    let (query_width, value_width) = (group.saturating_mul(config.key_size), group.saturating_mul(config.value_size));
    let tokens = queries.chunks_exact(config.queries().max(1)).zip(out.chunks_exact_mut(config.mixed().max(1)));
    // Separate parts for each head; the last part may get further tokens.
    let mut heads: Vec<Vec<Part<'_>>> = Vec::new();
    heads.resize_with(config.kv_heads, Vec::new);
    let most = machine.kernels.vectors_together();
    let mut work = 0usize;
    for ((queries, out), (sequence, position)) in tokens.zip(places) {
        let Some(cache) = caches.get(*sequence) else { continue };
        let Some(layer) = cache.layer(cached) else { continue };
        let end = if config.architecture.encoder { cache.length() } else { position.saturating_add(1) };
        let start = window.map_or(0, |window| end.saturating_sub(window));
        work = work.saturating_add(queries.len().saturating_mul(end.saturating_sub(start)));
        let vectors = queries.chunks_exact(query_width.max(1)).zip(out.chunks_exact_mut(value_width.max(1)));
        for (kv_head, (parts, (queries, out))) in heads.iter_mut().zip(vectors).enumerate() {
            let token = Token { positions: start..end, queries, out };
            let fits =
                |part: &&mut Part<'_>| part.sequence == *sequence && part.has_room(&token.positions, group, most);
            match parts.last_mut().filter(fits) {
                Some(part) => part.tokens.push(token),
                None => parts.push(Part { layer, sequence: *sequence, kv_head, tokens: alloc::vec![token] }),
            }
        }
    }
    let parts: Vec<Part<'_>> = heads.into_iter().flatten().collect();
    let compute = |part: Part<'_>| attend(machine, config, part);
    let least = if machine.kernels.has_slow_floats() { SLOW_PRODUCTS_SHARED } else { PRODUCTS_SHARED };
    match work < least {
        true => parts.into_iter().for_each(compute),
        false => share(machine.pool, parts, compute),
    }
}

impl Part<'_> {
    /// Whether another token, with `group` heads, may be taken with these: together at most `most` vectors.
    fn has_room(&self, seen: &Range<usize>, group: usize, most: usize) -> bool {
        let vectors = self.tokens.len().saturating_add(1).saturating_mul(group);
        if vectors > most {
            return false;
        }
        let all = self.positions();
        let length = all.end.max(seen.end).saturating_sub(all.start.min(seen.start));
        vectors.saturating_mul(length) <= SCORES_TOGETHER
    }

    /// All that any of the tokens sees.
    fn positions(&self) -> Range<usize> {
        let start = self.tokens.iter().map(|token| token.positions.start).min().unwrap_or(0);
        start..self.tokens.iter().map(|token| token.positions.end).max().unwrap_or(start)
    }
}

fn attend(machine: Machine<'_>, config: &Config, mut part: Part<'_>) {
    let kernels = machine.kernels;
    let positions = part.positions();
    let length = positions.len().max(1);
    let joined: Vec<f32>;
    let queries = match part.tokens.as_slice() {
        [token] => token.queries,
        tokens => {
            joined = tokens.iter().map(|token| token.queries).collect::<Vec<_>>().concat();
            &joined
        }
    };
    let heads = queries.len().checked_div(config.key_size).unwrap_or(0);
    let mut scores = alloc::vec![0.0f32; heads.saturating_mul(length)];
    part.layer.keys.dot(kernels, &positions, part.kv_head, queries, &mut scores);
    let group = heads.checked_div(part.tokens.len()).unwrap_or(0);
    for (token, scores) in part.tokens.iter().zip(scores.chunks_exact_mut(group.saturating_mul(length).max(1))) {
        let (before, seen) = (token.positions.start.saturating_sub(positions.start), token.positions.len());
        for scores in scores.chunks_exact_mut(length) {
            let (unseen, scores) = scores.split_at_mut_checked(before).unwrap_or_default();
            let (scores, later) = scores.split_at_mut_checked(seen).unwrap_or_default();
            unseen.fill(0.0);
            later.fill(0.0);
            scores.iter_mut().for_each(|score| *score *= config.attention_scale);
            if let Some(cap) = config.attention_cap {
                soft_cap(scores, cap);
            }
            kernels.softmax(scores);
        }
    }
    let values = &part.layer.values;
    if let [token] = part.tokens.as_mut_slice() {
        return values.add(kernels, &positions, part.kv_head, &scores, token.out);
    }
    let mut mixed = alloc::vec![0.0f32; heads.saturating_mul(config.value_size)];
    values.add(kernels, &positions, part.kv_head, &scores, &mut mixed);
    let width = group.saturating_mul(config.value_size).max(1);
    let scores = scores.chunks_exact(group.saturating_mul(length).max(1));
    for ((token, mixed), scores) in part.tokens.iter_mut().zip(mixed.chunks_exact(width)).zip(scores) {
        if mixed.iter().all(|value| value.is_finite()) {
            token.out.iter_mut().zip(mixed).for_each(|(out, value)| *out = *value);
            continue;
        }
        // It may come from a value that this token does not see, for zero times infinity is NaN.
        let first = token.positions.start.saturating_sub(positions.start);
        let own = scores.chunks_exact(length).flat_map(|scores| scores.iter().skip(first).take(token.positions.len()));
        let own: Vec<f32> = own.copied().collect();
        values.add(kernels, &token.positions, part.kv_head, &own, token.out);
    }
}

/// Keeps numbers between `-cap` and `cap`.
pub(crate) fn soft_cap(values: &mut [f32], cap: f32) {
    for value in values {
        *value = cap * libm::tanhf(*value / cap);
    }
}
