//! Sequences that have ended and are kept, since others may begin as they do.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::cache::Cache;

/// Tokens in common from which on it is worth copying their keys and values.
pub const LEAST_SHARED: usize = 8;

/// A sequence that has ended.
struct Kept {
    tokens: Vec<u32>,
    cache: Cache,
}

/// Sequences with their keys and values, in a bounded amount of memory.
pub struct Prefixes {
    /// The one that was of no use for the longest time first.
    kept: VecDeque<Kept>,
    /// Most bytes of keys and values.
    bytes: usize,
}

/// How many tokens two sequences begin with alike.
pub fn common(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

impl Prefixes {
    pub fn new(bytes: usize) -> Self {
        Self { kept: VecDeque::new(), bytes }
    }

    /// Forgets all; says whether there was something.
    pub fn clear(&mut self) -> bool {
        let some = !self.kept.is_empty();
        self.kept.clear();
        some
    }

    /// Keys and values of the longest beginning of `tokens` that is longer than `least`. The last token is never in it,
    /// for the logits after it are wanted.
    pub fn find(&mut self, tokens: &[u32], least: usize) -> Option<Cache> {
        let tokens = tokens.split_last()?.1;
        let shared = self.kept.iter().map(|kept| common(&kept.tokens, tokens));
        let (shared, index) = shared.zip(0..).max().filter(|(shared, _)| *shared > least)?;
        let kept = self.kept.remove(index)?;
        // A request that continues a finished one takes over its cache.
        if shared == kept.tokens.len() {
            return Some(kept.cache);
        }
        let copy = kept.cache.copy(shared);
        self.kept.push_back(kept);
        copy.ok()
    }

    /// Keeps a sequence whose tokens, all or the first ones, have passed through the model, if there is memory.
    pub fn keep(&mut self, mut tokens: Vec<u32>, mut cache: Cache) {
        cache.shrink(self.bytes);
        tokens.truncate(cache.length());
        if tokens.len() < LEAST_SHARED || self.kept.iter().any(|kept| kept.tokens.starts_with(&tokens)) {
            return;
        }
        self.kept.retain(|kept| !tokens.starts_with(&kept.tokens));
        self.kept.push_back(Kept { tokens, cache });
        while self.kept.iter().fold(0, |sum: usize, kept| sum.saturating_add(kept.cache.bytes())) > self.bytes {
            self.kept.pop_front();
        }
    }
}
