//! Splitting text into the words within which bytes are merged.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::Range;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::pool::Pool;
use regex_automata::util::start;
use regex_automata::{Anchored, Input, MatchKind};

use crate::TokenizerError;
use crate::families::{Family, Step};

/// Bytes that the automaton of one step may keep. It is built as text needs it.
const CACHE_BYTES: usize = 1 << 20;

/// The pattern for the text that [`Step::Words`] does not match.
const WHITE_SPACE: &str = r"\s+";

type Caches = Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync>>;

/// A family's steps, prepared.
pub struct PreTokenizer {
    steps: Vec<Prepared>,
}

struct Prepared {
    automaton: DFA,
    caches: Caches,
    step: Step,
}

impl PreTokenizer {
    pub fn new(family: &Family) -> Result<Self, TokenizerError> {
        let steps = family.steps.iter().map(|step| Prepared::new(*step)).collect::<Result<_, _>>()?;
        Ok(Self { steps })
    }

    /// Gives the words of `text` to `word`, in order; together they are the whole text.
    pub fn split(&self, text: &str, word: &mut dyn FnMut(&str)) {
        split(&self.steps, text, word);
    }
}

fn split(steps: &[Prepared], text: &str, word: &mut dyn FnMut(&str)) {
    let Some((first, others)) = steps.split_first() else {
        return word(text);
    };
    first.split(text, &mut |piece| split(others, piece, word));
}

impl Prepared {
    fn new(step: Step) -> Result<Self, TokenizerError> {
        let patterns: &[&str] = match &step {
            Step::Isolate(pattern) => &[*pattern],
            Step::Words(pattern) => &[*pattern, WHITE_SPACE],
            Step::Trailing => &[WHITE_SPACE],
        };
        let automaton = DFA::builder()
            .configure(
                DFA::config()
                    .match_kind(MatchKind::LeftmostFirst)
                    .cache_capacity(CACHE_BYTES)
                    .skip_cache_capacity_check(true),
            )
            .thompson(thompson::Config::new().shrink(false))
            .build_many(patterns)
            .map_err(|error| TokenizerError::Rules { why: error.to_string() })?;
        let for_caches = automaton.clone();
        let caches: Caches = Pool::new(Box::new(move || for_caches.create_cache()));
        let prepared = Self { automaton, caches, step };
        // Whether searches can begin is checked once, here.
        let begin = start::Config::new().anchored(Anchored::Yes);
        let begins = prepared.automaton.start_state(&mut prepared.caches.get(), &begin);
        begins.map(|_| prepared).map_err(|error| TokenizerError::Rules { why: error.to_string() })
    }

    /// Returns matches and the text between them.
    fn split(&self, text: &str, piece: &mut dyn FnMut(&str)) {
        let mut cache = self.caches.get();
        let mut give = |range: Range<usize>| {
            if let Some(text) = text.get(range).filter(|text| !text.is_empty()) {
                piece(text);
            }
        };
        let (mut given, mut at) = (0, 0);
        while let Some(next) = text.get(at..).and_then(|rest| rest.chars().next()) {
            // Where to continue if nothing matches here.
            let mut after = at.saturating_add(next.len_utf8());
            let found = self.find(&mut cache, text, at);
            match found {
                Some((end, true)) => {
                    give(given..at);
                    give(at..end);
                    (given, after) = (end, end);
                }
                Some((end, false)) => after = end,
                None => {}
            }
            at = after;
        }
        give(given..text.len());
    }

    /// The end of the piece that begins at `at`, and whether it is one.
    fn find(&self, cache: &mut Cache, text: &str, at: usize) -> Option<(usize, bool)> {
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        // An automaton without bytes to stop at and without a bound on its refills does not fail.
        let found = self.automaton.try_search_fwd(cache, &input).ok().flatten()?;
        let end = found.offset();
        if end <= at {
            return None;
        }
        let white_space = found.pattern().as_usize() == 1;
        match self.step {
            Step::Trailing => Some((end, end == text.len())),
            Step::Words(_) if white_space && end < text.len() => {
                let last = text.get(at..end)?.chars().next_back()?.len_utf8();
                let shorter = end.saturating_sub(last);
                Some((if shorter > at { shorter } else { end }, true))
            }
            _ => Some((end, true)),
        }
    }
}
