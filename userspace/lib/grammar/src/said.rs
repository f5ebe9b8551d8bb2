//! The texts of the conversation that strings have to repeat: each is found there, and neither begins nor ends within a
//! word or a name.

use std::collections::BTreeSet;
use std::sync::Arc;

use capos_tokenizer::{Marks, Tokenizer};

/// Longest text, in bytes, whose words are also found with a hyphen for the space between them: requests are short.
const HYPHENATED: usize = 400;
/// Characters that connect words to a name, if no space is there, and that which connects names to a path.
const CONNECTORS: [&str; 5] = ["-", ".", "_", "(", SLASH];
const SLASH: &str = "/";
/// What the next word is the name of, whatever word it is.
const CALLED: [&str; 2] = ["called", "named"];
/// Characters that people type for an apostrophe, and what stands behind it in a word.
const APOSTROPHES: [&str; 6] = ["'", "\u{2019}", "\u{2018}", "\u{b4}", "\u{2bc}", "`"];
const ENDINGS: [&str; 7] = ["s", "t", "m", "d", "re", "ve", "ll"];
/// Marks around names and texts, as JSON strings write them.
const QUOTES: [&str; 12] =
    ["\\\"", "'", "`", "\u{201c}", "\u{201e}", "\u{2018}", "\u{2019}", "\u{ab}", "(", "[", "<", "*"];
/// Marks that make a name of nothing. Others can be one: `/`.
const MARKS: [char; 12] = ['.', ',', ';', ':', '!', '?', '"', '\\', '-', '(', ')', '='];
/// What follows the name of a thing that goes somewhere: "copy a to b".
const TO: [&str; 8] = ["to", "into", "in", "from", "as", "over", "and", "or"];

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
    /// Where the text that it is of says this: a text that is pushed in another form has the borders of the first.
    origin: usize,
    /// Whether it is a space.
    is_space: bool,
    /// Whether it is a hyphen for a space.
    is_hyphen: bool,
    after_hyphen: bool,
    /// Whether it connects the words before and after it to a name or a path.
    connects: bool,
    /// Whether this is within a name: it neither begins nor ends here.
    in_name: bool,
    /// Whether it is a word that alone is the name of nothing.
    is_function_word: bool,
    /// Whether it has another word.
    has_name: bool,
    /// Whether it or what follows up to the next gap has one.
    leads_to_name: bool,
}

/// A position in the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    border: usize,
    /// How many tokens of the run at the border were taken.
    taken: usize,
    /// Whether the string so far has more than function words.
    is_name: bool,
    /// Whether another string has these words. Then it takes the folder that they begin with, and no more.
    is_folder: bool,
}

impl Said {
    /// These texts, literally and, if they are JSON, as the values of its strings. The function words are in small letters.
    pub fn new(texts: &[String], function_words: &[String], tokenizer: &Tokenizer) -> Self {
        let single = |text: &str| match tokenizer.encode(text, Marks::Foreign)[..] {
            [id] => Some(id),
            _ => None,
        };
        let mut said = Self { slash: single(SLASH), dot: single("."), ..Self::default() };
        for text in texts {
            let (pieces, origin) = (literal(text), said.runs.len());
            said.push(&pieces, origin, function_words, tokenizer);
            if text.len() <= HYPHENATED && text.contains(' ') {
                said.push(&hyphenated(&pieces), origin, function_words, tokenizer);
            }
            if text.contains('\\') {
                said.push(&written(text), said.runs.len(), function_words, tokenizer);
            }
        }
        said
    }

    /// Adds a text in its pieces; a gap ends the run of each. `origin` is the border where it is first.
    fn push(&mut self, pieces: &[Option<String>], origin: usize, function_words: &[String], tokenizer: &Tokenizer) {
        let begin = self.runs.len();
        for (at, piece) in pieces.iter().chain([&None]).enumerate() {
            let following = pieces.get(at.saturating_add(1)).and_then(Option::as_deref);
            // Vocabularies have tokens for a word with the space before it.
            let (text, borders): (String, usize) = match (piece.as_deref(), following) {
                (Some(" "), Some(word)) if is_word(Some(word)) => (format!(" {word}"), 2),
                (piece, _) => (piece.unwrap_or_default().into(), 1),
            };
            let tokens = tokenizer.encode(&text, Marks::Foreign);
            let before = at.checked_sub(1).and_then(|at| pieces.get(at)?.as_deref());
            let (end, origin) = (self.runs.len().saturating_add(borders), origin.saturating_add(at));
            let is_hyphen = piece.as_deref() == Some("-") && self.runs.get(origin).is_some_and(|first| first.is_space);
            let is_connector = piece.as_deref().is_some_and(|piece| CONNECTORS.contains(&piece));
            let connects = !is_hyphen && is_connector && is_word(before) && is_word(following);
            let last = self.runs.last();
            let in_name = connects && piece.as_deref() != Some(SLASH)
                || last.is_some_and(|last| last.connects && last.tokens.first() != self.slash.as_ref());
            let after_hyphen = last.is_some_and(|last| last.is_hyphen);
            let is_space = piece.as_deref() == Some(" ");
            let is_function = |at| is_function_word(pieces, at, function_words);
            let is_name = |at: usize| match pieces.get(at).and_then(Option::as_deref) {
                // Without a list, as in older files, everything is a name.
                _ if function_words.is_empty() => true,
                piece if is_word(piece) => !is_function(at),
                piece => piece.is_some_and(is_sign),
            };
            let (is_function_word, has_name) = match self.runs.get(origin) {
                Some(first) => (first.is_function_word, first.has_name && (!is_hyphen || function_words.is_empty())),
                None => (is_function(at), is_name(at.saturating_add(borders).saturating_sub(1))),
            };
            self.runs.push(Run {
                tokens,
                end,
                origin,
                is_space,
                is_hyphen,
                after_hyphen,
                connects,
                in_name,
                is_function_word,
                has_name,
                leads_to_name: false,
            });
        }
        for border in (begin..self.runs.len()).rev() {
            let follows = |run: &Run| self.runs.get(run.end).is_some_and(|next| next.leads_to_name);
            let leads =
                self.runs.get(border).is_some_and(|run| !run.tokens.is_empty() && (run.has_name || follows(run)));
            if let Some(run) = self.runs.get_mut(border) {
                run.leads_to_name = leads;
            }
        }
    }

    /// Where a repeatable string begins: not within a name, as `txt` in `todo.txt`, nor at a space. Nor does one with hyphens
    /// for spaces begin with a function word: "a service" is no `a-service`.
    fn starts(&self) -> impl Iterator<Item = Place> {
        let runs = self.runs.iter().enumerate();
        let begins = |(border, run): &(usize, &Run)| {
            let is_within = run.in_name || run.is_space || run.is_hyphen;
            let is_joined = run.is_function_word && run.origin != *border;
            !run.tokens.is_empty() && !is_within && !is_joined
        };
        runs.filter(begins).map(|(border, _)| Place { border, taken: 0, is_name: false, is_folder: false })
    }

    /// Whether one ends at a place: not within a name, as `client` in `client-port`.
    fn ends(&self, place: Place) -> bool {
        place.taken == 0 && self.runs.get(place.border).is_none_or(|run| !run.in_name && !run.after_hyphen)
    }

    /// Whether a name that is here is one already, or becomes one.
    fn leads_to_name(&self, place: Place) -> bool {
        place.is_name || self.runs.get(place.border).is_some_and(|run| run.leads_to_name)
    }

    fn token(&self, place: Place) -> Option<u32> {
        self.runs.get(place.border)?.tokens.get(place.taken).copied()
    }

    /// The places after a token, from those before it.
    fn step(&self, places: impl Iterator<Item = Place>, token: u32) -> BTreeSet<Place> {
        places.filter_map(|place| self.after(place, token)).collect()
    }

    fn after(&self, place: Place, token: u32) -> Option<Place> {
        let run = self.runs.get(place.border)?;
        let taken = (*run.tokens.get(place.taken)? == token).then_some(place.taken.saturating_add(1))?;
        let is_name = place.is_name || run.has_name;
        let at_end = taken == run.tokens.len();
        Some(if at_end { Place { border: run.end, taken: 0, is_name, ..place } } else { Place { taken, ..place } })
    }

    /// Whether a text says these tokens from a place on, and then no more of a name or a path.
    fn says(&self, start: Place, tokens: &[u32]) -> bool {
        let end = tokens.iter().try_fold(start, |place, token| self.after(place, *token));
        end.is_some_and(|end| end.taken == 0 && self.runs.get(end.border).is_none_or(|run| !run.connects))
    }

    /// Whether a slash of a path is here.
    fn is_at_slash(&self, border: usize) -> bool {
        self.runs.get(border).is_some_and(|run| run.connects && run.tokens.first() == self.slash.as_ref())
    }

    /// Whether a folder is here: up to a slash of a path that follows, or to that of a folder within it.
    fn is_in_folder(&self, place: Place) -> bool {
        let connects = |border: usize| self.runs.get(border).is_some_and(|run| run.connects);
        // Between two connectors of a path there is one word.
        let first = place.border.saturating_add(if connects(place.border) { 2 } else { 1 });
        let mut connectors = (first..).step_by(2).take_while(|border| connects(*border));
        connectors.any(|border| self.is_at_slash(border))
    }

    /// Where these tokens are said, as origins.
    fn origins(&self, tokens: &[u32]) -> BTreeSet<usize> {
        let starts = self.starts().filter(|start| self.says(*start, tokens));
        starts.filter_map(|start| Some(self.runs.get(start.border)?.origin)).collect()
    }

    /// Whether what begins at a place begins at one of these origins, or crosses one.
    fn enters(&self, Place { border, taken, .. }: Place, origins: &BTreeSet<usize>) -> bool {
        let run = self.runs.get(border).filter(|_| taken == 0);
        run.is_some_and(|run| {
            // A hyphen for a space has to be followed by its word.
            let borders = if run.is_hyphen { 2 } else { run.end.saturating_sub(border) };
            origins.range(run.origin..run.origin.saturating_add(borders)).next().is_some()
        })
    }
}

/// The strings that a call has so far, which keep its next ones from being taken from the same words.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Where no string may begin, and none may go on.
    origins: BTreeSet<usize>,
    /// What no later string may be.
    others: Vec<Vec<u32>>,
}

impl Taken {
    /// A string of the call. What was said once is said for it; if it is `distinct`, no later string may be the same, however
    /// often that was said.
    pub fn push(&mut self, said: &Said, tokens: &[u32], distinct: bool) {
        if distinct {
            self.others.push(tokens.to_vec());
        }
        if tokens.is_empty() || said.dot.is_some_and(|dot| tokens == [dot]) {
            return;
        }
        let origins = said.origins(tokens);
        if origins.len() == 1 || distinct {
            self.origins.extend(origins);
        }
    }
}

/// Whether a piece that is no word can be a name, as a slash and a symbol can.
fn is_sign(piece: &str) -> bool {
    let is_plain = |sign: char| sign.is_whitespace() || MARKS.contains(&sign) || sign == '\u{2026}';
    !APOSTROPHES.contains(&piece) && !piece.starts_with(is_plain)
}

/// Whether a piece is a word.
fn is_word(piece: Option<&str>) -> bool {
    piece.is_some_and(|piece| piece.starts_with(char::is_alphanumeric))
}

/// Whether a piece is one of the function words, and neither in quotes, nor said to be a name, nor a part of one.
fn is_function_word(pieces: &[Option<String>], at: usize, function_words: &[String]) -> bool {
    let piece = |at: Option<usize>| pieces.get(at?)?.as_deref();
    let (before, after) = (|count| piece(at.checked_sub(count)), |count| piece(at.checked_add(count)));
    let is_apostrophe = |piece: Option<&str>| piece.is_some_and(|piece| APOSTROPHES.contains(&piece));
    // "don't" and "let's" are words of the list without their apostrophes, and "ahci's" is "ahci" with an ending.
    let is_ending = || is_apostrophe(before(1)) && is_word(before(2));
    let is_contracted = |word: &str| {
        let ending = after(2).filter(|_| is_apostrophe(after(1))).unwrap_or_default();
        function_words.contains(&[word, ending].concat().to_lowercase())
    };
    let is_one = |word: &str| match is_ending() {
        true => ENDINGS.contains(&word.to_lowercase().as_str()),
        false => function_words.contains(&word.to_lowercase()) || is_contracted(word),
    };
    let is_quoted = || before(1).is_some_and(|piece| QUOTES.contains(&piece)) && !is_ending();
    let is_called = || {
        before(1) == Some(" ")
            && before(2).is_some_and(|word| CALLED.iter().any(|called| called.eq_ignore_ascii_case(word)))
    };
    let connects = |piece: Option<&str>| piece.is_some_and(|piece| CONNECTORS.contains(&piece));
    let is_part = || connects(before(1)) || connects(after(1)) && is_word(after(2)) || after(1) == Some(SLASH);
    // "Stop a service", and "copy a to b".
    let is_letter = |word: &str| {
        let is_followed = after(1) == Some(" ") && is_word(after(2));
        word.chars().nth(1).is_none() && !(is_followed && after(2).is_some_and(|next| !TO.contains(&next)))
    };
    piece(Some(at)).is_some_and(|word| is_one(word) && (is_ending() || !is_letter(word)))
        && !is_quoted()
        && !is_called()
        && !is_part()
}

/// The same pieces, with a hyphen for each space between two words: people say "the model loader" for `model-loader`.
fn hyphenated(pieces: &[Option<String>]) -> Vec<Option<String>> {
    let word_at = |at: Option<usize>| is_word(at.and_then(|at| pieces.get(at)?.as_deref()));
    let changed = pieces.iter().enumerate().map(|(at, piece)| {
        let is_space = piece.as_deref() == Some(" ") && word_at(at.checked_sub(1)) && word_at(at.checked_add(1));
        if is_space { Some("-".into()) } else { piece.clone() }
    });
    changed.collect()
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

/// What a string has to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Whether it is a name, and so more than function words.
    pub is_name: bool,
    /// Whether it is in the folder that one is in, and not that folder: neither a dot nor empty.
    pub is_below: bool,
}

/// A string that repeats the conversation, or joins two parts of it with a slash; or is empty, or a dot.
#[derive(Clone, Debug)]
pub struct Repetition {
    said: Arc<Said>,
    /// What the call's earlier strings were taken from.
    taken: Taken,
    limits: Limits,
    /// Its tokens so far.
    tokens: Vec<u32>,
    /// The positions in the conversation's texts where it can be.
    first: BTreeSet<Place>,
    /// The positions in the conversation's texts where its second part can be.
    second: BTreeSet<Place>,
    /// Whether its second part can begin now.
    joined: bool,
    /// Whether its first part is a folder that another string has.
    again: bool,
    dot: bool,
}

impl Repetition {
    /// The beginning of a string of a call.
    pub fn new(said: &Arc<Said>, taken: &Taken, limits: Limits) -> Self {
        let (said, taken, tokens) = (Arc::clone(said), taken.clone(), Vec::new());
        let (first, second) = (BTreeSet::new(), BTreeSet::new());
        Self { said, taken, limits, tokens, first, second, joined: false, again: false, dot: false }
    }

    /// The tokens with which it can go on.
    pub fn tokens(&self) -> impl Iterator<Item = u32> {
        let places = self.first_places().chain(self.second_places());
        let slash = self.said.slash.filter(|_| self.may_join());
        let dot = self.said.dot.filter(|dot| self.may_be_dot(*dot));
        places.filter_map(|at| self.said.token(at)).chain(slash).chain(dot)
    }

    /// Takes a token; returns whether the string can continue with it.
    pub fn accept(&mut self, token: u32) -> bool {
        let said = &self.said;
        let joined = Some(token) == said.slash && self.may_join();
        let (first, second) = (said.step(self.first_places(), token), said.step(self.second_places(), token));
        self.dot = Some(token) == said.dot && self.may_be_dot(token);
        self.again = joined && self.is_again();
        (self.first, self.second, self.joined) = (first, second, joined);
        self.tokens.push(token);
        self.dot || self.joined || !self.first.is_empty() || !self.second.is_empty()
    }

    /// Whether it may end here. If it cannot go on, it may, too: so an answer comes to no dead end where the words that
    /// would make a name of it are taken.
    pub fn may_end(&self) -> bool {
        let is_other = || self.taken.others.contains(&self.tokens);
        let ends = || (self.part_ends(&self.first) || self.part_ends(&self.second)) && !is_other();
        self.tokens.is_empty() && !self.limits.is_below || self.dot || ends() || self.tokens().next().is_none()
    }

    /// Its tokens, as it ends.
    pub fn take_tokens(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.tokens)
    }

    /// Where its first part can go on. "Rename a/b to c" is about `a/c`: the folder of a string that has to be another one is
    /// taken again.
    fn first_places(&self) -> impl Iterator<Item = Place> {
        let is_taken = |place: Place| self.said.enters(place, &self.taken.origins);
        let starts = self.tokens.is_empty().then(|| self.said.starts());
        let starts = starts
            .into_iter()
            .flatten()
            .map(move |place| Place { is_folder: !self.taken.others.is_empty() && is_taken(place), ..place });
        let is_open =
            move |place: Place| if place.is_folder { self.said.is_in_folder(place) } else { !is_taken(place) };
        let places = starts.chain(self.first.iter().copied());
        places.filter(move |place| is_open(*place) && self.may_be_at(*place))
    }

    /// Where its second part can. It may be taken from what was said for another string.
    fn second_places(&self) -> impl Iterator<Item = Place> {
        let before = self.tokens.split_last().filter(|_| self.joined).map(|(_, before)| before);
        let starts = before.map(|before| self.second_starts(before, self.again));
        let places = starts.into_iter().flatten().chain(self.second.iter().copied());
        places.filter(|place| self.may_be_at(*place))
    }

    /// Where a second part begins after a first one. It does not repeat that, and makes no string of what must be another.
    fn second_starts(&self, first: &[u32], is_again: bool) -> impl Iterator<Item = Place> {
        let rests = self.taken.others.iter().filter_map(move |other| {
            let (slash, rest) = other.strip_prefix(first)?.split_first()?;
            (Some(*slash) == self.said.slash).then_some(rest)
        });
        let others: Vec<&[u32]> = rests.collect();
        self.said.starts().filter(move |start| {
            // Behind a folder that is taken again comes another name.
            let is_taken = || is_again && self.said.enters(*start, &self.taken.origins);
            let repeats = || self.said.says(*start, first) || others.iter().any(|rest| self.said.says(*start, rest));
            self.may_be_at(*start) && !repeats() && !is_taken()
        })
    }

    /// Whether the first part can only be a folder that is taken again.
    fn is_again(&self) -> bool {
        let mut ends = self.first.iter().filter(|place| self.is_end(**place)).peekable();
        ends.peek().is_some() && ends.all(|place| place.is_folder)
    }

    fn may_be_dot(&self, dot: u32) -> bool {
        !self.limits.is_below && self.tokens.is_empty() && !self.taken.others.iter().any(|other| *other == [dot])
    }

    /// Whether a part can be at a place.
    fn may_be_at(&self, place: Place) -> bool {
        !self.limits.is_name || self.said.leads_to_name(place)
    }

    /// Whether a part that is at one of these places may end.
    fn part_ends(&self, places: &BTreeSet<Place>) -> bool {
        places.iter().any(|place| self.is_end(*place) && !place.is_folder)
    }

    fn is_end(&self, place: Place) -> bool {
        self.said.ends(place) && (!self.limits.is_name || place.is_name)
    }

    /// Whether its first part may end, and something is said that can be its second.
    fn may_join(&self) -> bool {
        let ends = |place: &Place| self.is_end(*place) && (!place.is_folder || self.said.is_at_slash(place.border));
        self.first.iter().any(ends) && self.second_starts(&self.tokens, self.is_again()).next().is_some()
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
