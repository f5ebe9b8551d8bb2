//! WordPiece, the tokenizer of `bert` models: text becomes plain words, and a word the longest tokens that make it up
//! from its start. The first token of a word is written with `▁` before it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;

use capos_gguf::Header;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::pool::Pool;
use regex_automata::{Anchored, Input};
use unicode_normalization::UnicodeNormalization;

use crate::sentence_piece::SPACE;
use crate::vocabulary::Vocabulary;
use crate::{TokenizerError, flag};

/// Words with more characters than this are the unknown token, as in the models' own tokenizer.
const WORD_CHARACTERS: usize = 100;

/// The classes of characters, in the order of [`CLASSES`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Dropped,
    Space,
    Accent,
    Alone,
    Other,
}

/// Dropped characters; white space; accents; punctuation and Chinese characters, which are words of their own.
const CLASSES: [&str; 4] = [
    r"[\p{Cc}\p{Cf}\p{Co}\x{fffd}]",
    r"\s",
    r"\p{Mn}",
    r"[\p{P}$+<=>^`|~\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{20000}-\x{2a6df}\x{2a700}-\x{2b73f}\x{2b740}-\x{2b81f}\x{2b920}-\x{2ceaf}\x{f900}-\x{faff}\x{2f800}-\x{2fa1f}]",
];

/// A vocabulary's encoder of text.
pub struct WordPiece {
    classes: DFA,
    caches: Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync>>,
    lowercase: bool,
    strip_accents: bool,
    /// Bytes of the longest token.
    longest: usize,
}

impl WordPiece {
    pub fn new(header: &Header<'_>, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let lowercase = flag(header, "tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
        let strip_accents = flag(header, "tokenizer.ggml.normalizer.strip_accents")?.unwrap_or(lowercase);
        let rules = |why| TokenizerError::Rules { why };
        let classes = DFA::builder().build_many(&CLASSES).map_err(|error| rules(error.to_string()))?;
        let for_caches = classes.clone();
        let caches: Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync>> =
            Pool::new(Box::new(move || for_caches.create_cache()));
        let longest = vocabulary.ids().filter_map(|id| vocabulary.text(id)).map(str::len).max().unwrap_or(0);
        Ok(Self { classes, caches, lowercase, strip_accents, longest })
    }

    /// Appends the tokens of `text`.
    pub fn encode(&self, text: &str, vocabulary: &Vocabulary, ids: &mut Vec<u32>) {
        let mut cache = self.caches.get();
        let mut word = String::from(SPACE);
        let mut end = |word: &mut String| {
            if word.len() > SPACE.len_utf8() {
                self.encode_word(word, vocabulary, ids);
                word.truncate(SPACE.len_utf8());
            }
        };
        let mut take = |character: char| match self.class(&mut cache, character) {
            Class::Dropped => {}
            Class::Accent if self.strip_accents => {}
            Class::Space => end(&mut word),
            Class::Alone => {
                end(&mut word);
                word.push(character);
                end(&mut word);
            }
            Class::Accent | Class::Other if self.lowercase => word.extend(character.to_lowercase()),
            Class::Accent | Class::Other => word.push(character),
        };
        if self.strip_accents {
            text.nfd().for_each(&mut take)
        } else {
            text.chars().for_each(&mut take)
        }
        take(' ');
    }

    fn class(&self, cache: &mut Cache, character: char) -> Class {
        if matches!(character, '\t' | '\n' | '\r' | ' ') {
            return Class::Space;
        }
        let mut bytes = [0; 4];
        let input = Input::new(character.encode_utf8(&mut bytes)).anchored(Anchored::Yes);
        let found = self.classes.try_search_fwd(cache, &input).ok().flatten();
        match found.map(|found| found.pattern().as_usize()) {
            Some(0) => Class::Dropped,
            Some(1) => Class::Space,
            Some(2) => Class::Accent,
            Some(_) => Class::Alone,
            None => Class::Other,
        }
    }

    /// Appends the tokens of a word, which begins with `▁`; the unknown token if they do not make up all of it.
    fn encode_word(&self, word: &str, vocabulary: &Vocabulary, ids: &mut Vec<u32>) {
        let before = ids.len();
        let mut rest = word;
        let short = word.chars().count() <= WORD_CHARACTERS.saturating_add(1);
        while short && !rest.is_empty() {
            let ends = rest.char_indices().map(|(at, character)| at.saturating_add(character.len_utf8()));
            let fitting: Vec<usize> = ends.take_while(|end| *end <= self.longest).collect();
            let longest = fitting.iter().rev().find_map(|end| {
                rest.split_at_checked(*end).and_then(|(token, after)| Some((vocabulary.find(token)?, after)))
            });
            let Some((id, after)) = longest else {
                break;
            };
            ids.push(id);
            rest = after;
        }
        if !rest.is_empty() || !short {
            ids.truncate(before);
            ids.extend(vocabulary.roles().unknown);
        }
    }
}
