//! Attention of the batch's tokens to all that their sequences have seen.

use alloc::vec::Vec;
use core::ops::Range;

use crate::cache::{Cache, Layer};
use crate::config::Config;
use crate::pool::share;
use crate::product::Machine;

/// Products from which on the work is handed to other threads.
const PRODUCTS_SHARED: usize = 32 * 1024;

/// One token's heads that share keys and values.
struct Part<'p> {
    layer: &'p Layer,
    positions: Range<usize>,
    kv_head: usize,
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
    let mut parts = Vec::new();
    let mut work = 0usize;
    for ((queries, out), (sequence, position)) in tokens.zip(places) {
        let Some(cache) = caches.get(*sequence) else { continue };
        let Some(layer) = cache.layer(cached) else { continue };
        let end = if config.architecture.encoder { cache.length() } else { position.saturating_add(1) };
        let start = window.map_or(0, |window| end.saturating_sub(window));
        work = work.saturating_add(queries.len().saturating_mul(end.saturating_sub(start)));
        let heads = queries.chunks_exact(query_width.max(1)).zip(out.chunks_exact_mut(value_width.max(1)));
        for (kv_head, (queries, out)) in heads.enumerate() {
            parts.push(Part { layer, positions: start..end, kv_head, queries, out });
        }
    }
    let compute = |part: Part<'_>| attend(machine, config, part);
    match work < PRODUCTS_SHARED {
        true => parts.into_iter().for_each(compute),
        false => share(machine.pool, parts, compute),
    }
}

fn attend(machine: Machine<'_>, config: &Config, part: Part<'_>) {
    let kernels = machine.kernels;
    let heads = part.queries.len().checked_div(config.key_size).unwrap_or(0);
    let mut scores = alloc::vec![0.0f32; heads.saturating_mul(part.positions.len())];
    part.layer.keys.dot(kernels, &part.positions, part.kv_head, part.queries, &mut scores);
    for scores in scores.chunks_exact_mut(part.positions.len().max(1)) {
        scores.iter_mut().for_each(|score| *score *= config.attention_scale);
        if let Some(cap) = config.attention_cap {
            soft_cap(scores, cap);
        }
        kernels.softmax(scores);
    }
    part.layer.values.add(kernels, &part.positions, part.kv_head, &scores, part.out);
}

/// Keeps numbers between `-cap` and `cap`.
pub(crate) fn soft_cap(values: &mut [f32], cap: f32) {
    for value in values {
        *value = cap * libm::tanhf(*value / cap);
    }
}
