//! Counting and cutting: tokens of the scripted model, `maxTokens`, and stop sequences.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

/// Tokens in a text: one per maximal run of characters that are not white space.
#[must_use]
pub fn count_tokens(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// The fate of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Continue,
    /// A stop sequence was reached; no more text may follow.
    Stopped,
    /// The token limit was reached; no more text may follow.
    Full,
}

/// Counts tokens over the pieces of one text, and cuts before the token that would exceed the budget.
#[derive(Debug, Default)]
struct WordCounter {
    in_word: bool,
}

/// The response's remaining tokens and how many it has used.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: Option<u64>,
    used: u64,
}

impl Budget {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit, used: 0 }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Takes one token; false when none is left.
    pub(crate) fn take(&mut self) -> bool {
        if self.limit.is_some_and(|limit| self.used >= limit) {
            return false;
        }
        self.used = self.used.saturating_add(1);
        true
    }
}

impl WordCounter {
    /// The part of `piece` that fits the budget, and whether all of it did.
    fn admit<'a>(&mut self, piece: &'a str, budget: &mut Budget) -> (&'a str, bool) {
        for (at, character) in piece.char_indices() {
            if character.is_whitespace() {
                self.in_word = false;
            } else if !self.in_word {
                if !budget.take() {
                    return (piece.get(..at).unwrap_or_default(), false);
                }
                self.in_word = true;
            }
        }
        (piece, true)
    }
}

/// The answer's text on its way out: holds back what may be the beginning of a stop sequence.
#[derive(Debug)]
pub(crate) struct TextGate {
    stops: Vec<String>,
    held: String,
    words: WordCounter,
}

impl TextGate {
    pub(crate) fn new(stops: &[&str]) -> Self {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).map(|stop| String::from(*stop)).collect();
        Self { stops, held: String::new(), words: WordCounter::default() }
    }

    /// Takes the next piece; returns the text that may be sent now.
    pub(crate) fn push(&mut self, piece: &str, budget: &mut Budget) -> (String, Verdict) {
        self.held.push_str(piece);
        let stop = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(at) = stop {
            self.held.truncate(at);
            let (said, verdict) = self.flush(budget);
            return (said, if verdict == Verdict::Full { verdict } else { Verdict::Stopped });
        }
        let keep = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let tail = self.held.split_off(self.held.len().saturating_sub(keep));
        let (said, verdict) = self.flush(budget);
        self.held = tail;
        (said, verdict)
    }

    /// Lets out what is held back, as at the end of the text.
    pub(crate) fn flush(&mut self, budget: &mut Budget) -> (String, Verdict) {
        let held = core::mem::take(&mut self.held);
        let (said, whole) = self.words.admit(&held, budget);
        (String::from(said), if whole { Verdict::Continue } else { Verdict::Full })
    }
}

/// The arguments of tool calls on their way out: the same count, without stop sequences.
#[derive(Debug, Default)]
pub(crate) struct ArgumentGate {
    begun: BTreeSet<u32>,
    current: Option<u32>,
    words: WordCounter,
}

impl ArgumentGate {
    /// Takes a piece of the call with that index. A new call costs one token more than its arguments' words. `None`
    /// when not even the call's beginning fits.
    pub(crate) fn push(&mut self, index: u32, piece: &str, budget: &mut Budget) -> Option<(String, Verdict)> {
        if !self.begun.contains(&index) {
            if !budget.take() {
                return None;
            }
            self.begun.insert(index);
        }
        if self.current != Some(index) {
            self.current = Some(index);
            self.words = WordCounter::default();
        }
        let (said, whole) = self.words.admit(piece, budget);
        Some((String::from(said), if whole { Verdict::Continue } else { Verdict::Full }))
    }
}

/// Length of the longest end of `text` that is a proper beginning of `stop`, in bytes.
fn overlap(text: &str, stop: &str) -> usize {
    stop.char_indices()
        .map(|(at, _)| at)
        .filter(|&length| length > 0 && stop.get(..length).is_some_and(|start| text.ends_with(start)))
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_possible_beginning_is_held_back() {
        assert_eq!(overlap("one <", "<end>"), 1);
        assert_eq!(overlap("one <en", "<end>"), 3);
        assert_eq!(overlap("one", "<end>"), 0);
        assert_eq!(overlap("aaa", "aaab"), 3);
        assert_eq!(overlap("", "x"), 0);
    }

    #[test]
    fn tokens_are_words() {
        assert_eq!(count_tokens(" one  two\nthree\t"), 3);
        assert_eq!(count_tokens(""), 0);
    }

    #[test]
    fn a_held_text_that_turns_out_harmless_is_said() {
        let mut budget = Budget::new(None);
        let mut gate = TextGate::new(&["<end>"]);
        assert_eq!(gate.push("a <e", &mut budget), ("a ".into(), Verdict::Continue));
        assert_eq!(gate.push("lse", &mut budget), ("<else".into(), Verdict::Continue));
        assert_eq!(gate.flush(&mut budget), (String::new(), Verdict::Continue));
    }
}
