//! Tokens of one or several sequences that go through the layers together.

use alloc::vec::Vec;

/// A token in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchToken {
    /// Its id.
    pub id: u32,
    /// Which of the caches is its sequence's.
    pub sequence: usize,
    /// Whether logits are wanted after it.
    pub logits: bool,
}

/// Tokens, those of a sequence in their order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    tokens: Vec<BatchToken>,
}

impl Batch {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tokens of the first sequence, with logits after the last.
    pub fn prompt(ids: &[u32]) -> Self {
        let mut batch = Self::new();
        for (index, id) in ids.iter().enumerate() {
            batch.push(*id, 0, index.saturating_add(1) == ids.len());
        }
        batch
    }

    /// Adds a token.
    pub fn push(&mut self, id: u32, sequence: usize, logits: bool) {
        self.tokens.push(BatchToken { id, sequence, logits });
    }

    /// All tokens.
    pub fn tokens(&self) -> &[BatchToken] {
        &self.tokens
    }
}
