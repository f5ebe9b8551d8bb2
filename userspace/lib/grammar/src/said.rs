//! The texts of the conversation that strings have to repeat: each is found there, from the beginning of a word to the
//! end of one.

use std::collections::BTreeSet;
use std::sync::Arc;

use capos_tokenizer::{Marks, Tokenizer};

/// Texts of people and tools, in the tokens with which JSON strings write them.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// What begins at each border: a word, or a character that is none, or both if a space comes before a word.
    runs: Vec<Run>,
    /// The text that joins two strings.
    slash: Option<u32>,
    /// The folder that one is in.
    dot: Option<u32>,
}

/// The tokens from one border to another. Without tokens it separates texts.
#[derive(Clone, Debug, Default)]
struct Run {
    tokens: Vec<u32>,
    /// The border where they end.
    end: usize,
}

/// A position in the texts: a border, and how many tokens of its run were taken.
type Place = (usize, usize);

impl Said {
    /// These texts, literally and, if they are JSON, as the values of its strings.
    pub fn new(texts: &[String], tokenizer: &Tokenizer) -> Self {
        let single = |text: &str| match tokenizer.encode(text, Marks::Foreign)[..] {
            [id] => Some(id),
            _ => None,
        };
        let mut said = Self { slash: single("/"), dot: single("."), ..Self::default() };
        for text in texts {
            said.push(&literal(text), tokenizer);
            if text.contains('\\') {
                said.push(&written(text), tokenizer);
            }
        }
        said
    }

    /// Adds a text in its pieces; a gap ends the run of each.
    fn push(&mut self, pieces: &[Option<String>], tokenizer: &Tokenizer) {
        let is_word = |text: &str| text.starts_with(char::is_alphanumeric);
        for (at, piece) in pieces.iter().chain([&None]).enumerate() {
            let following = pieces.get(at.saturating_add(1)).and_then(Option::as_deref);
            // Vocabularies have tokens for a word with the space before it.
            let (text, borders) = match (piece.as_deref(), following) {
                (Some(" "), Some(word)) if is_word(word) => (format!(" {word}"), 2),
                (piece, _) => (piece.unwrap_or_default().into(), 1),
            };
            let tokens = tokenizer.encode(&text, Marks::Foreign);
            self.runs.push(Run { tokens, end: self.runs.len().saturating_add(borders) });
        }
    }

    /// Where a repeatable string begins.
    fn starts(&self) -> impl Iterator<Item = Place> {
        let runs = self.runs.iter().enumerate();
        runs.filter(|(_, run)| !run.tokens.is_empty()).map(|(border, _)| (border, 0))
    }

    fn token(&self, (border, taken): Place) -> Option<u32> {
        self.runs.get(border)?.tokens.get(taken).copied()
    }

    /// The places after a token, from those before it.
    fn step(&self, places: impl Iterator<Item = Place>, token: u32) -> BTreeSet<Place> {
        let next = |(border, taken): Place| {
            let run = self.runs.get(border)?;
            let taken = (*run.tokens.get(taken)? == token).then_some(taken.saturating_add(1))?;
            Some(if taken == run.tokens.len() { (run.end, 0) } else { (border, taken) })
        };
        places.filter_map(next).collect()
    }
}

/// The pieces of a text as they are in a JSON string: words, and single characters.
fn literal(text: &str) -> Vec<Option<String>> {
    pieces(text, |character, _| match character {
        '"' | '\\' => Some(format!("\\{character}")),
        '\n' => Some("\\n".into()),
        '\r' => Some("\\r".into()),
        '\t' => Some("\\t".into()),
        other => (!other.is_control()).then(|| other.into()),
    })
}

/// The pieces of a text whose strings are JSON already.
fn written(text: &str) -> Vec<Option<String>> {
    pieces(text, |character, rest| match character {
        '\\' => {
            let escaped = rest.next().filter(|escaped| matches!(escaped, '"' | '\\' | 'n' | 'r' | 't'));
            escaped.map(|escaped| format!("\\{escaped}"))
        }
        other => (other != '"' && !other.is_control()).then(|| other.into()),
    })
}

/// Words, and the results of `single` for the characters between them.
fn pieces(
    text: &str,
    single: impl Fn(char, &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String>,
) -> Vec<Option<String>> {
    let (mut pieces, mut rest) = (Vec::new(), text.chars().peekable());
    while let Some(character) = rest.next() {
        if !character.is_alphanumeric() {
            pieces.push(single(character, &mut rest));
            continue;
        }
        let mut word = String::from(character);
        while let Some(more) = rest.next_if(|character| character.is_alphanumeric()) {
            word.push(more);
        }
        pieces.push(Some(word));
    }
    pieces
}

/// A string that repeats the conversation, or joins two parts of it with a slash; or is empty, or a dot.
#[derive(Clone, Debug)]
pub struct Repetition {
    said: Arc<Said>,
    begun: bool,
    /// The positions in the conversation's texts where it can be.
    first: BTreeSet<Place>,
    /// The positions in the conversation's texts where its second part can be.
    second: BTreeSet<Place>,
    /// Whether its second part can begin now.
    joined: bool,
    dot: bool,
}

impl Repetition {
    /// The beginning of a string.
    pub fn new(said: &Arc<Said>) -> Self {
        let (first, second) = (BTreeSet::new(), BTreeSet::new());
        Self { said: Arc::clone(said), begun: false, first, second, joined: false, dot: false }
    }

    /// The tokens with which it can go on.
    pub fn tokens(&self) -> impl Iterator<Item = u32> {
        let starts = self.said.starts().filter(|_| !self.begun || self.joined);
        let places = starts.chain(self.first.iter().copied()).chain(self.second.iter().copied());
        let slash = self.said.slash.filter(|_| self.may_join());
        let dot = self.said.dot.filter(|_| !self.begun);
        places.filter_map(|at| self.said.token(at)).chain(slash).chain(dot)
    }

    /// Takes a token; returns whether the string can continue with it.
    pub fn accept(&mut self, token: u32) -> bool {
        let said = &self.said;
        let joined = Some(token) == said.slash && self.may_join();
        let starts = || said.starts();
        let second = said.step(self.second.iter().copied().chain(starts().filter(|_| self.joined)), token);
        let first = said.step(self.first.iter().copied().chain(starts().filter(|_| !self.begun)), token);
        self.dot = !self.begun && Some(token) == said.dot;
        (self.first, self.second, self.joined, self.begun) = (first, second, joined, true);
        self.dot || self.joined || !self.first.is_empty() || !self.second.is_empty()
    }

    /// Whether it may end here.
    pub fn may_end(&self) -> bool {
        !self.begun || self.dot || self.first.iter().chain(&self.second).any(|(_, taken)| *taken == 0)
    }

    fn may_join(&self) -> bool {
        self.first.iter().any(|(_, taken)| *taken == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pieces: Vec<Option<String>>) -> Vec<String> {
        pieces.into_iter().map(|piece| piece.unwrap_or("|".into())).collect()
    }

    #[test]
    fn words_and_characters_are_written_as_in_json() {
        assert_eq!(
            texts(literal("Straße 7,\n\"a\\b\"\u{1}")),
            ["Straße", " ", "7", ",", "\\n", "\\\"", "a", "\\\\", "b", "\\\"", "|"]
        );
    }

    /// A string in JSON can be repeated in its encoded form.
    #[test]
    fn strings_of_json_are_taken_as_they_are() {
        assert_eq!(
            texts(written(r#"{"a":"b\nc\u00e9\"#)),
            ["{", "|", "a", "|", ":", "|", "b", "\\n", "c", "|", "00e9", "|"]
        );
    }
}
