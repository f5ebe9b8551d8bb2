//! The texts of the conversation that strings have to repeat: each is found there, and neither begins nor ends within a
//! word or a name.

use std::collections::BTreeSet;

use capos_chat::SaidText;
use capos_tokenizer::{Marks, Tokenizer};

use crate::paths::{File, files, is_folder, is_space};

/// Longest text, in bytes, whose words are also found with a hyphen for the space between them: requests are short.
const HYPHENATED: usize = 400;
/// Characters that connect words to a name, if no space is there, and that which connects names to a path.
const CONNECTORS: [&str; 5] = ["-", ".", "_", "(", SLASH];
const SLASH: &str = "/";
/// What the next word is the name of, whatever word it is.
pub(crate) const CALLED: [&str; 2] = ["called", "named"];
/// Characters that people type for an apostrophe, and what stands behind it in a word.
const APOSTROPHES: [&str; 6] = ["'", "\u{2019}", "\u{2018}", "\u{b4}", "\u{2bc}", "`"];
const ENDINGS: [&str; 7] = ["s", "t", "m", "d", "re", "ve", "ll"];
/// Marks around names and texts, as JSON strings write them.
pub(crate) const QUOTES: [&str; 12] =
    ["\\\"", "'", "`", "\u{201c}", "\u{201e}", "\u{2018}", "\u{2019}", "\u{ab}", "(", "[", "<", "*"];
/// Marks that make a name of nothing. Others can be one: `/`.
const MARKS: [char; 12] = ['.', ',', ';', ':', '!', '?', '"', '\\', '-', '(', ')', '='];
/// Marks of a sentence, with which no name ends.
const STOPS: [&str; 6] = [".", ",", ";", ":", "!", "?"];
/// What follows the name of a thing that goes somewhere: "copy a to b".
const TO: [&str; 8] = ["to", "into", "in", "from", "as", "over", "and", "or"];

/// Texts of people and tools, in the tokens with which JSON strings write them.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// What begins at each border: a word, or a character that is none, or both if a space comes before a word.
    runs: Vec<Run>,
    /// The text that joins two strings.
    pub(crate) slash: Option<u32>,
    /// The folder that one is in.
    pub(crate) dot: Option<u32>,
    /// The files that the request names by their paths, by borders. Empty if results name files after it.
    pub(crate) files: Vec<File>,
}

/// The tokens from one border to another. Without tokens it separates texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    tokens: Vec<u32>,
    /// The border where they end.
    end: usize,
    /// Where the text that it is of says this: a text that is pushed in another form has the borders of the first.
    origin: usize,
    /// Whether it is a space.
    is_space: bool,
    /// Whether it is one, or the end of a line.
    is_gap: bool,
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
    /// The same up to the next space.
    leads_in_word: bool,
    /// Whether a name that begins here may have spaces: in quotes, or after "called".
    may_have_spaces: bool,
    /// Whether a folder may begin here that the rest of a path is joined to.
    is_folder: bool,
    /// Whether it is a mark that ends a sentence or a part of it.
    is_stop: bool,
}

/// A text to push.
struct Pushed<'p> {
    /// A gap ends the run of each.
    pieces: &'p [Option<String>],
    /// The border where it is first.
    origin: usize,
    is_result: bool,
    /// Whether it is the latest that a person said.
    is_request: bool,
    function_words: &'p [String],
}

/// A position in the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The border where this part of the string began.
    pub(crate) start: usize,
    pub(crate) border: usize,
    /// How many tokens of the run at the border were taken.
    pub(crate) taken: usize,
    /// Whether the string so far has more than function words.
    pub(crate) is_name: bool,
    /// Whether another string has these words. Then it takes the folder that they begin with, and no more.
    pub(crate) is_folder: bool,
}

impl Place {
    /// The beginning of a part.
    pub(crate) fn at(border: usize) -> Self {
        Self { start: border, border, taken: 0, is_name: false, is_folder: false }
    }
}

impl Said {
    /// These texts, literally and, if they are JSON, as the values of its strings. The function words are in small letters.
    pub fn new(texts: &[SaidText], function_words: &[String], tokenizer: &Tokenizer) -> Self {
        let single = |text: &str| match tokenizer.encode(text, Marks::Foreign)[..] {
            [id] => Some(id),
            _ => None,
        };
        let mut said = Self { slash: single(SLASH), dot: single("."), ..Self::default() };
        let request = texts.iter().rposition(|text| !text.is_result);
        for (at, SaidText { text, is_result }) in texts.iter().enumerate() {
            let (pieces, origin, is_result) = (literal(text), said.runs.len(), *is_result);
            let is_request = Some(at) == request;
            if is_request {
                let moved = |file: File| File {
                    start: origin.saturating_add(file.start),
                    end: origin.saturating_add(file.end),
                    ..file
                };
                said.files = files(&pieces).into_iter().map(moved).collect();
            } else if is_result && text.starts_with(['{', '[']) {
                said.files.clear();
            }
            let pushed = Pushed { pieces: &pieces, origin, is_result, is_request, function_words };
            said.push(&pushed, tokenizer);
            if text.len() <= HYPHENATED && text.contains(' ') {
                said.push(&Pushed { pieces: &hyphenated(&pieces), ..pushed }, tokenizer);
            }
            if text.contains('\\') {
                let origin = said.runs.len();
                said.push(&Pushed { pieces: &written(text), origin, ..pushed }, tokenizer);
            }
        }
        said
    }

    /// Adds a text.
    fn push(&mut self, pushed: &Pushed<'_>, tokenizer: &Tokenizer) {
        let Pushed { pieces, origin, is_result, is_request, function_words } = *pushed;
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
            let is_gap = piece.as_deref().is_some_and(is_space);
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
            // Strings of JSON are in quotes, or between gaps.
            let may_have_spaces = match before {
                None => is_result && at > 0,
                Some(before) => QUOTES.contains(&before) || is_called(pieces, at),
            };
            self.runs.push(Run {
                tokens,
                end,
                origin,
                is_space: piece.as_deref() == Some(" "),
                is_gap,
                is_hyphen,
                after_hyphen,
                connects,
                in_name,
                is_function_word,
                has_name,
                leads_to_name: false,
                leads_in_word: false,
                may_have_spaces,
                is_folder: self
                    .runs
                    .get(origin)
                    .map_or_else(|| !is_request || is_folder(pieces, at), |first| first.is_folder),
                is_stop: piece.as_deref().is_some_and(|piece| STOPS.contains(&piece))
                    && following.is_none_or(|next| is_space(next) || QUOTES.contains(&next) || STOPS.contains(&next)),
            });
        }
        for border in (begin..self.runs.len()).rev() {
            let Some(run) = self.runs.get(border).filter(|run| !run.tokens.is_empty()) else { continue };
            let next = self.runs.get(run.end);
            let leads = run.has_name || next.is_some_and(|next| next.leads_to_name);
            let in_word = run.has_name || next.is_some_and(|next| next.leads_in_word && !next.is_gap && !next.is_stop);
            if let Some(run) = self.runs.get_mut(border) {
                (run.leads_to_name, run.leads_in_word) = (leads, in_word);
            }
        }
    }

    /// Where a repeatable string begins: not within a name, as `txt` in `todo.txt`, nor at a space. Nor does one with hyphens
    /// for spaces begin with a function word: "a service" is no `a-service`.
    pub(crate) fn starts(&self) -> impl Iterator<Item = Place> {
        let runs = self.runs.iter().enumerate();
        let begins = |(border, run): &(usize, &Run)| {
            let is_within = run.in_name || run.is_space || run.is_hyphen;
            let is_joined = run.is_function_word && run.origin != *border;
            !run.tokens.is_empty() && !is_within && !is_joined
        };
        runs.filter(begins).map(|(border, _)| Place::at(border))
    }

    /// Whether one ends at a place: not within a name, as `client` in `client-port`.
    pub(crate) fn ends(&self, place: Place) -> bool {
        place.taken == 0 && self.runs.get(place.border).is_none_or(|run| !run.in_name && !run.after_hyphen)
    }

    /// Whether a name that is here is one already, or becomes one; within a word, if it is one.
    pub(crate) fn leads_to_name(&self, place: Place, is_word: bool) -> bool {
        let leads = |run: &Run| if is_word { run.leads_in_word } else { run.leads_to_name };
        place.is_name || self.runs.get(place.border).is_some_and(leads)
    }

    /// Whether a folder may begin at a border that the rest of a path is joined to.
    pub(crate) fn is_folder(&self, border: usize) -> bool {
        self.runs.get(border).is_some_and(|run| run.is_folder)
    }

    /// Whether a name that begins at a border may have spaces.
    pub(crate) fn may_have_spaces(&self, border: usize) -> bool {
        self.runs.get(border).is_some_and(|run| run.may_have_spaces)
    }

    /// Whether a string is at the end of a word, and behind that are others.
    pub(crate) fn is_behind_word(&self, place: Place) -> bool {
        let inside = self.runs.get(place.border).filter(|_| place.taken == 0 && place.start != place.border);
        inside.is_some_and(|run| run.is_gap || run.is_stop)
    }

    pub(crate) fn token(&self, place: Place) -> Option<u32> {
        self.runs.get(place.border)?.tokens.get(place.taken).copied()
    }

    /// The places after a token, from those before it.
    pub(crate) fn step(&self, places: impl Iterator<Item = Place>, token: u32) -> BTreeSet<Place> {
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
    pub(crate) fn says(&self, start: Place, tokens: &[u32]) -> bool {
        let end = tokens.iter().try_fold(start, |place, token| self.after(place, *token));
        end.is_some_and(|end| end.taken == 0 && self.runs.get(end.border).is_none_or(|run| !run.connects))
    }

    /// Whether a slash of a path is here.
    pub(crate) fn is_at_slash(&self, border: usize) -> bool {
        self.runs.get(border).is_some_and(|run| run.connects && run.tokens.first() == self.slash.as_ref())
    }

    /// Whether a folder is here: up to a slash of a path that follows, or to that of a folder within it.
    pub(crate) fn is_in_folder(&self, place: Place) -> bool {
        let connects = |border: usize| self.runs.get(border).is_some_and(|run| run.connects);
        // Between two connectors of a path there is one word.
        let first = place.border.saturating_add(if connects(place.border) { 2 } else { 1 });
        let mut connectors = (first..).step_by(2).take_while(|border| connects(*border));
        connectors.any(|border| self.is_at_slash(border))
    }

    /// Where these tokens are said, as origins.
    pub(crate) fn origins(&self, tokens: &[u32]) -> BTreeSet<usize> {
        let starts = self.starts().filter(|start| self.says(*start, tokens));
        starts.filter_map(|start| Some(self.runs.get(start.border)?.origin)).collect()
    }

    /// Whether what begins at a place begins at one of these origins, or crosses one.
    pub(crate) fn enters(&self, Place { border, taken, .. }: Place, origins: &BTreeSet<usize>) -> bool {
        let run = self.runs.get(border).filter(|_| taken == 0);
        run.is_some_and(|run| {
            // A hyphen for a space has to be followed by its word.
            let borders = if run.is_hyphen { 2 } else { run.end.saturating_sub(border) };
            origins.range(run.origin..run.origin.saturating_add(borders)).next().is_some()
        })
    }
}

/// Whether a piece that is no word can be a name, as a slash and a symbol can.
fn is_sign(piece: &str) -> bool {
    let is_plain = |sign: char| sign.is_whitespace() || MARKS.contains(&sign) || sign == '\u{2026}';
    !APOSTROPHES.contains(&piece) && !piece.starts_with(is_plain)
}

/// Whether a piece is a word.
pub(crate) fn is_word(piece: Option<&str>) -> bool {
    piece.is_some_and(|piece| piece.starts_with(char::is_alphanumeric))
}

/// Whether something is said to be called so.
fn is_called(pieces: &[Option<String>], at: usize) -> bool {
    let before = |count| at.checked_sub(count).and_then(|at| pieces.get(at)?.as_deref());
    before(1) == Some(" ")
        && before(2).is_some_and(|word| CALLED.iter().any(|called| called.eq_ignore_ascii_case(word)))
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
    let connects = |piece: Option<&str>| piece.is_some_and(|piece| CONNECTORS.contains(&piece));
    let is_part = || connects(before(1)) || connects(after(1)) && is_word(after(2)) || after(1) == Some(SLASH);
    // "Stop a service", and "copy a to b".
    let is_letter = |word: &str| {
        let is_followed = after(1) == Some(" ") && is_word(after(2));
        word.chars().nth(1).is_none() && !(is_followed && after(2).is_some_and(|next| !TO.contains(&next)))
    };
    piece(Some(at)).is_some_and(|word| is_one(word) && (is_ending() || !is_letter(word)))
        && !is_quoted()
        && !is_called(pieces, at)
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
pub(crate) fn literal(text: &str) -> Vec<Option<String>> {
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
