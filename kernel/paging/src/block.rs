//! A block of frames in a row that is kept for a part of a paged object, so that it can be mapped as one large page.

/// Pages of a large page.
pub const BLOCK_PAGES: u64 = 512;

const WORDS: usize = 8;

/// Which frames of a block are reserved for pages that have not been requested yet, and how many hold present pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    held: [u64; WORDS],
    filled: u64,
}

impl Default for Block {
    fn default() -> Self {
        Self::new()
    }
}

impl Block {
    /// All frames are held.
    #[must_use]
    pub const fn new() -> Self {
        Self { held: [u64::MAX; WORDS], filled: 0 }
    }

    fn place(page: u64) -> (usize, u64) {
        let within = page % BLOCK_PAGES;
        ((within / 64) as usize, 1_u64.wrapping_shl((within % 64) as u32))
    }

    /// Takes the frame that is held for a page. False if none is any more.
    #[must_use]
    pub fn take(&mut self, page: u64) -> bool {
        let (word, bit) = Self::place(page);
        let Some(held) = self.held.get_mut(word) else { return false };
        let was = *held & bit != 0;
        *held &= !bit;
        was
    }

    /// A page came in, in its frame of the block.
    pub fn fill(&mut self) {
        self.filled = self.filled.saturating_add(1);
    }

    /// A page that was in, in its frame of the block, went out.
    pub fn empty(&mut self) {
        self.filled = self.filled.saturating_sub(1);
    }

    /// Whether every page is in, in its frame.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.filled == BLOCK_PAGES
    }

    /// Whether no page is in its frame.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// How many frames are held.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.iter().fold(0, |sum, word| sum.saturating_add(u64::from(word.count_ones())))
    }

    /// Holds no frame any more; returns the held ones, by the pages that they are for.
    pub fn give_up(&mut self) -> impl Iterator<Item = u64> + use<> {
        let held = core::mem::take(&mut self.held);
        (0..BLOCK_PAGES).filter(move |page| {
            let (word, bit) = Self::place(*page);
            held.get(word).is_some_and(|word| word & bit != 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_block_is_whole_when_every_page_came_in() {
        let mut block = Block::new();
        for page in 0..512 {
            assert!(!block.is_whole() && block.take(page) && !block.take(page));
            block.fill();
        }
        assert!(block.is_whole() && block.held() == 0);
        block.empty();
        assert!(!block.is_whole() && !block.is_empty());
    }

    #[test]
    fn what_is_given_up_is_what_was_not_taken() {
        let mut block = Block::new();
        assert!((0..512).filter(|page| page % 3 == 0).all(|page| block.take(page + 5 * 512)));
        let given: Vec<u64> = block.give_up().collect();
        assert!(given.iter().all(|page| page % 3 != 0));
        // Every third of 512, the first among them, is taken.
        assert_eq!((given.len(), block.held(), block.take(1)), (512 - 171, 0, false));
    }
}
