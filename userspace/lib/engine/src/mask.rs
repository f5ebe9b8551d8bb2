//! The set of tokens that may come next.

use alloc::vec::Vec;

/// For each token of a vocabulary whether it is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// 32 tokens a word, from the lowest bit on. Bits after the last token are never set.
    words: Vec<u32>,
    tokens: usize,
}

impl Mask {
    /// All of a vocabulary's tokens.
    pub fn all(tokens: usize) -> Self {
        let mut mask = Self { words: alloc::vec![0; tokens.div_ceil(32)], tokens };
        mask.allow_all();
        mask
    }

    /// Tokens in the vocabulary.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Allows all.
    pub fn allow_all(&mut self) {
        self.words.fill(u32::MAX);
        self.cut();
    }

    /// Allows none.
    pub fn forbid_all(&mut self) {
        self.words.fill(0);
    }

    /// Allows a token; one that is not in the vocabulary stays forbidden.
    pub fn allow(&mut self, id: u32) {
        if let Some((word, bit)) = self.place(id) {
            *word |= bit;
        }
    }

    /// Forbids a token.
    pub fn forbid(&mut self, id: u32) {
        if let Some((word, bit)) = self.place(id) {
            *word &= !bit;
        }
    }

    /// Takes over a set of 32 tokens a word, from the lowest bit on; tokens after its end are forbidden.
    pub fn copy_from(&mut self, words: &[u32]) {
        let given = words.iter().copied().chain(core::iter::repeat(0));
        self.words.iter_mut().zip(given).for_each(|(to, from)| *to = from);
        self.cut();
    }

    /// Whether a token is allowed.
    pub fn allows(&self, id: u32) -> bool {
        let word = usize::try_from(id / 32).ok().and_then(|index| self.words.get(index));
        word.is_some_and(|word| (word >> (id % 32)) & 1 == 1)
    }

    /// How many tokens are allowed.
    pub fn count(&self) -> usize {
        self.words.iter().fold(0, |sum: usize, word| sum.saturating_add(word.count_ones() as usize))
    }

    /// The allowed tokens, in their order.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.words).filter(|(_, word)| **word != 0).flat_map(|(index, word)| {
            (0u32..32).filter(move |bit| (word >> bit) & 1 == 1).map(move |bit| index.saturating_mul(32) | bit)
        })
    }

    fn place(&mut self, id: u32) -> Option<(&mut u32, u32)> {
        let index = usize::try_from(id).ok().filter(|index| *index < self.tokens)?;
        Some((self.words.get_mut(index / 32)?, 1 << (id % 32)))
    }

    /// Clears what is after the last token.
    fn cut(&mut self) {
        if let (Some(last), used @ 1..) = (self.words.last_mut(), self.tokens % 32) {
            *last &= (1u32 << used).wrapping_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_of_the_vocabulary_can_be_allowed() {
        let mut mask = Mask::all(35);
        assert_eq!(mask.count(), 35);
        assert!(mask.allows(34) && !mask.allows(35));
        mask.copy_from(&[1 << 31, u32::MAX]);
        assert!(mask.ids().eq([31, 32, 33, 34]));
        mask.copy_from(&[5]);
        assert!(mask.ids().eq([0, 2]));
        mask.allow(35);
        mask.allow(u32::MAX);
        mask.allow(33);
        mask.forbid(0);
        assert!(mask.ids().eq([2, 33]));
        mask.forbid_all();
        assert_eq!(mask.count(), 0);
        assert_eq!(Mask::all(64).count(), 64);
        assert_eq!(Mask::all(0).count(), 0);
    }
}
