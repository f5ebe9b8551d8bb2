//! The frame bitmap: one bit per 4 KiB frame, set if the frame is free.
//!
//! Single frames come from low addresses upwards, runs of frames from high addresses downwards, so
//! that the many short-lived single frames do not break up the space that runs need. A hint keeps
//! the search for a single frame at one word in the common case.

/// Frames per word of the bitmap.
const WORD: usize = 64;
/// Frames of a block, which begins at a multiple of that: a large page.
pub const BLOCK: usize = 512;
/// Words of a block.
const BLOCK_WORDS: usize = BLOCK / WORD;

/// Which of `frames` frames are free.
#[derive(Debug)]
pub struct Bitmap<'a> {
    words: &'a mut [u64],
    frames: usize,
    free: usize,
    /// No word below this one has a free frame.
    hint: usize,
}

/// How many `u64` words a bitmap over `frames` frames needs.
#[must_use]
pub const fn words_for(frames: usize) -> usize {
    frames.div_ceil(WORD)
}

impl<'a> Bitmap<'a> {
    /// A bitmap in which no frame is free. Takes at most `words.len() * 64` frames.
    #[must_use]
    pub fn new(words: &'a mut [u64], frames: usize) -> Self {
        words.fill(0);
        let frames = frames.min(words.len().saturating_mul(WORD));
        Self { words, frames, free: 0, hint: 0 }
    }

    /// How many frames are free.
    #[must_use]
    pub fn free_count(&self) -> usize {
        self.free
    }

    /// Whether frame `index` is free; false beyond the end.
    #[must_use]
    pub fn is_free(&self, index: usize) -> bool {
        let (word, bit) = split(index);
        index < self.frames && self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Makes frame `index` free. False, and no change, if it is free already or out of range.
    pub fn release(&mut self, index: usize) -> bool {
        if index >= self.frames || self.is_free(index) {
            return false;
        }
        let (word, bit) = split(index);
        let Some(slot) = self.words.get_mut(word) else { return false };
        *slot |= bit;
        self.free = self.free.saturating_add(1);
        self.hint = self.hint.min(word);
        true
    }

    /// Makes all frames in `first..end` free; those that are free already stay so.
    pub fn release_range(&mut self, first: usize, end: usize) {
        let end = end.min(self.frames);
        let mut index = first;
        while index < end {
            // Whole words at once: memory comes in millions of frames.
            let word = index / WORD;
            let whole = index.is_multiple_of(WORD) && end.saturating_sub(index) >= WORD;
            match self.words.get_mut(word) {
                Some(slot) if whole => {
                    self.free = self.free.saturating_add(slot.count_zeros() as usize);
                    *slot = u64::MAX;
                    self.hint = self.hint.min(word);
                    index = index.saturating_add(WORD);
                }
                _ => {
                    self.release(index);
                    index = index.saturating_add(1);
                }
            }
        }
    }

    /// Takes the frame with the lowest number.
    pub fn take(&mut self) -> Option<usize> {
        if self.free == 0 {
            return None;
        }
        let start = self.hint;
        for (step, slot) in self.words.get_mut(start..)?.iter_mut().enumerate() {
            if *slot != 0 {
                let bit = slot.trailing_zeros();
                *slot &= slot.wrapping_sub(1);
                self.hint = start.saturating_add(step);
                self.free = self.free.saturating_sub(1);
                return self.hint.checked_mul(WORD)?.checked_add(bit as usize);
            }
        }
        None
    }

    /// Takes `count` neighbouring frames, the highest such run; gives the first.
    pub fn take_run(&mut self, count: usize) -> Option<usize> {
        if count == 0 || count > self.free {
            return None;
        }
        let mut run = 0usize;
        let mut index = self.frames;
        while index > 0 {
            // A word without any free frame is passed in one step.
            if index.is_multiple_of(WORD) && self.words.get((index / WORD).wrapping_sub(1)) == Some(&0) {
                run = 0;
                index = index.saturating_sub(WORD);
                continue;
            }
            index = index.saturating_sub(1);
            run = if self.is_free(index) { run.saturating_add(1) } else { 0 };
            if run == count {
                self.claim(index, count);
                return Some(index);
            }
        }
        None
    }

    /// Takes the highest block that is free; gives its first frame.
    pub fn take_block(&mut self) -> Option<usize> {
        let (blocks, _) = self.words.as_chunks_mut::<BLOCK_WORDS>();
        let (at, block) = blocks.iter_mut().enumerate().rev().find(|(_, block)| **block == [u64::MAX; BLOCK_WORDS])?;
        *block = [0; BLOCK_WORDS];
        self.free = self.free.saturating_sub(BLOCK);
        at.checked_mul(BLOCK)
    }

    /// Makes a block free, by its first frame. False, and no change, if it is invalid, or a frame of it is free
    /// already.
    pub fn release_block(&mut self, first: usize) -> bool {
        let word = first / WORD;
        let end = word.saturating_add(BLOCK_WORDS);
        if !first.is_multiple_of(BLOCK) || first.saturating_add(BLOCK) > self.frames {
            return false;
        }
        let Some(block) = self.words.get_mut(word..end).filter(|block| block.iter().all(|word| *word == 0)) else {
            return false;
        };
        block.fill(u64::MAX);
        self.free = self.free.saturating_add(BLOCK);
        self.hint = self.hint.min(word);
        true
    }

    /// Marks a run, known to be free, as taken.
    fn claim(&mut self, first: usize, count: usize) {
        for index in first..first.saturating_add(count) {
            let (word, bit) = split(index);
            if let Some(slot) = self.words.get_mut(word) {
                *slot &= !bit;
            }
        }
        self.free = self.free.saturating_sub(count);
    }
}

/// The word and the bit in it of frame `index`.
fn split(index: usize) -> (usize, u64) {
    (index / WORD, 1u64.wrapping_shl((index % WORD) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singles_come_low_runs_come_high() {
        let mut words = [0; 4];
        let mut map = Bitmap::new(&mut words, 200);
        map.release_range(10, 300);
        assert_eq!(map.free_count(), 190);
        assert_eq!(map.take(), Some(10));
        assert_eq!(map.take(), Some(11));
        assert_eq!(map.take_run(5), Some(195));
        assert_eq!(map.free_count(), 183);
        assert!(map.release(10));
        assert_eq!(map.take(), Some(10));
    }

    #[test]
    fn ranges_are_released_to_the_frame() {
        for (first, end) in [(0, 0), (0, 1), (63, 65), (64, 128), (1, 200), (0, 256), (100, 400), (130, 120)] {
            let mut words = [0; 4];
            let mut map = Bitmap::new(&mut words, 250);
            map.release(70);
            map.release_range(first, end);
            let expected = |i: usize| i < 250 && (i == 70 || (first..end).contains(&i));
            assert!((0..300).all(|i| map.is_free(i) == expected(i)), "{first}..{end}");
            assert_eq!(map.free_count(), (0..300).filter(|i| expected(*i)).count(), "{first}..{end}");
        }
    }

    #[test]
    fn a_frame_is_freed_once() {
        let mut words = [0; 1];
        let mut map = Bitmap::new(&mut words, 8);
        assert!(map.release(3));
        assert!(!map.release(3));
        assert!(!map.release(8));
        assert_eq!(map.free_count(), 1);
    }

    #[test]
    fn every_frame_comes_out_exactly_once() {
        let mut words = [0; 3];
        let mut map = Bitmap::new(&mut words, 130);
        map.release_range(0, 130);
        let mut seen = [false; 130];
        while let Some(index) = map.take() {
            assert!(!seen[index]);
            seen[index] = true;
        }
        assert!(seen.iter().all(|s| *s));
        assert_eq!(map.free_count(), 0);
    }

    #[test]
    fn blocks_are_aligned_and_whole() {
        let mut words = [0; 26];
        let mut map = Bitmap::new(&mut words, 1600);
        map.release_range(1, 1600);
        assert_eq!(map.take_block(), Some(1024));
        assert_eq!(map.take_block(), Some(512));
        assert_eq!(map.take_block(), None, "one frame of the first is taken, the last is not whole");
        assert_eq!(map.free_count(), 511 + 64);
        assert!(!map.release_block(513) && !map.release_block(1536) && !map.release_block(0));
        assert!(map.release_block(512));
        assert!(!map.release_block(512));
        assert_eq!((map.take(), map.free_count()), (Some(1), 511 + 64 + 511));
    }

    #[test]
    fn runs_cross_words_and_skip_holes() {
        let mut words = [0; 4];
        let mut map = Bitmap::new(&mut words, 256);
        map.release_range(0, 256);
        assert_eq!(map.take_run(100), Some(156));
        assert_eq!(map.take_run(100), Some(56));
        assert_eq!(map.take_run(100), None);
        assert_eq!(map.take_run(56), Some(0));
        map.release_range(0, 10);
        map.release_range(11, 64);
        assert_eq!(map.take_run(54), None);
        assert_eq!(map.take_run(53), Some(11));
        assert_eq!(map.take_run(0), None);
    }
}
