//! Answers that go round and round.

/// Tokens of the longest block that is looked for.
const BLOCK: usize = 64;
/// An answer ends after this many tokens that only repeat earlier ones.
const MOST: usize = 192;

/// Checks for a block of tokens that is repeated without end.
///
/// A small model that repeats itself continues until its limit. A person has seen that after a few rounds, and repeated
/// text makes the model repeat it again, so nothing else will follow.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// The newest tokens, in the order of their numbers from `next` on.
    last: [Option<u32>; BLOCK],
    /// Where the next token goes: the place of the oldest.
    next: usize,
    /// For each length of a block, how many of the newest tokens equal those that many tokens before.
    repeated: [usize; BLOCK],
}

impl Default for Repetition {
    fn default() -> Self {
        Self { last: [None; BLOCK], next: 0, repeated: [0; BLOCK] }
    }
}

impl Repetition {
    /// Takes the next token of a text. Whether there was nothing but repetition for long enough.
    pub fn push(&mut self, token: u32) -> bool {
        // Backwards from the newest: the first is the token before this one.
        let (newer, older) = self.last.split_at(self.next);
        let before = newer.iter().rev().chain(older.iter().rev());
        let mut endless = false;
        for (count, earlier) in self.repeated.iter_mut().zip(before) {
            *count = if *earlier == Some(token) { count.saturating_add(1) } else { 0 };
            endless |= *count >= MOST;
        }
        if let Some(place) = self.last.get_mut(self.next) {
            *place = Some(token);
        }
        self.next = self.next.saturating_add(1) % BLOCK;
        endless
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many tokens an answer is found to go round.
    fn ends(tokens: impl IntoIterator<Item = u32>) -> Option<usize> {
        let mut repetition = Repetition::default();
        tokens.into_iter().position(|token| repetition.push(token)).map(|at| at.saturating_add(1))
    }

    /// Tokens without early repetition.
    fn counting(from: u32, count: u32) -> impl Iterator<Item = u32> {
        (from..).take(usize::try_from(count).unwrap())
    }

    #[test]
    fn a_block_that_is_said_again_and_again_is_found() {
        for length in [1, 2, 7, 63, 64] {
            let block: Vec<u32> = counting(0, length).collect();
            let rounds = block.iter().copied().cycle().take(1000);
            // The first block is new, and so is the text before it.
            assert_eq!(ends(rounds.clone()), Some(192 + length as usize), "{length}");
            assert_eq!(ends(counting(500, 300).chain(rounds)), Some(300 + 192 + length as usize), "{length}");
        }
    }

    #[test]
    fn what_is_not_nothing_but_repetition_goes_on() {
        // A longer block, a text in which nothing comes twice, and one short of the bound.
        assert_eq!(ends((0..65).cycle().take(5000)), None);
        assert_eq!(ends(counting(0, 5000)), None);
        assert_eq!(ends([1, 2, 3].into_iter().cycle().take(3 + 191)), None);
        // A list whose lines differ in one word each.
        let lines = (0..500).flat_map(|line| [1, 2, 3, 4, 1000 + line, 5]);
        assert_eq!(ends(lines), None);
        // Something else in between: the count begins again.
        let rounds = || [1, 2, 3].into_iter().cycle().take(150);
        assert_eq!(ends(rounds().chain([9]).chain(rounds())), None);
    }
}
