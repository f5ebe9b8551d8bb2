//! Paths in what a person writes: which words are paths of files by their form, and which words name folders.
//!
//! A small model takes a word of the story around a request for the file that it is about. So if the request names
//! files by a path, such as `todo.txt` or `logs/old.txt`, other words are less likely as a file. They remain possible, because not all
//! files have such names. All this is about plain English forms.

use std::ops::Range;

use crate::said::{CALLED, QUOTES, is_word};

/// Letters and digits of the longest ending of a file's name: "todo.txt".
const ENDING: usize = 10;
/// Words and marks of the longest name of a folder that is looked at.
const NAME: usize = 64;
/// Marks at the edges of a word that belong to the sentence.
const EDGES: [&str; 13] = ["\\\"", "'", "`", "(", ")", "[", "]", ",", ";", ":", "!", "?", ">"];
/// What else ends a sentence, and begins the name of a hidden file.
const DOT: &str = ".";
/// What precedes the name of a folder in which something is. "To" also precedes verbs.
const PLACES: [&str; 12] =
    ["in", "into", "under", "inside", "from", "of", "at", "within", "below", "on", "through", "behind"];
/// What is between that and the name.
const BETWEEN: [&str; 9] = ["the", "my", "our", "your", "this", "that", "a", "an", "new"];
/// What precedes a file that is to be there afterwards, with the shell's forms of it.
const TARGETS: [&str; 9] = ["to", "into", "as", "in", "name", "called", "named", "-", "="];
const COMMANDS: [&str; 4] = ["cp", "mv", "CP", "MV"];
/// What a folder is.
const KINDS: [&str; 5] = ["folder", "folders", "directory", "directories", "dir"];

/// A file that a text names by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Its first piece, and the one behind its last.
    pub start: usize,
    pub end: usize,
    /// Whether something is to become it, or may: "to b.txt", `cp a b.txt`.
    pub is_target: bool,
}

/// The files in a text, by pieces. None if the path of one has a space, since its beginning is not known.
pub(crate) fn files(pieces: &[Option<String>]) -> Vec<File> {
    let mut found = Vec::new();
    let quoted = quotations(pieces);
    for quoted in quoted.clone() {
        // A sentence in quotes is a text that somebody writes to a file. What ends as a file does may be its name.
        let last = words(pieces, quoted.clone()).pop();
        if last.is_some_and(|word| is_file(pieces, &word)) {
            return Vec::new();
        }
    }
    let piece = |at: usize| pieces.get(at).and_then(Option::as_deref).unwrap_or_default();
    let mut before: Option<Range<usize>> = None;
    let mut is_command = false;
    for word in words(pieces, 0..pieces.len()) {
        let is_quoted = quoted.iter().any(|text| text.contains(&word.start));
        if !is_quoted && is_file(pieces, &word) {
            let leads = |word: &Range<usize>| TARGETS.iter().any(|to| to.eq_ignore_ascii_case(piece(word.start)));
            let is_second = is_command && !before.as_ref().is_some_and(|word| COMMANDS.contains(&piece(word.start)));
            let is_target = is_second || before.as_ref().is_some_and(leads);
            found.push(File { start: word.start, end: word.end, is_target });
        }
        is_command |= COMMANDS.contains(&piece(word.start));
        before = Some(word);
    }
    found
}

/// Whether a word is said to be a folder: "in the box", "the box folder", "a folder called box", "box/lid".
pub(crate) fn is_folder(pieces: &[Option<String>], at: usize) -> bool {
    let piece = |at: Option<usize>| pieces.get(at?)?.as_deref();
    let is_any =
        |word: Option<&str>, of: &[&str]| word.is_some_and(|word| of.iter().any(|one| one.eq_ignore_ascii_case(word)));
    let previous = |at: usize| {
        let word = at.checked_sub(2).filter(|word| is_word(piece(Some(*word))))?;
        (piece(at.checked_sub(1)) == Some(" ")).then_some(word)
    };
    let mut before = at;
    while let Some(word) = previous(before) {
        before = word;
        if !is_any(piece(Some(word)), &BETWEEN) {
            break;
        }
    }
    let is_after = before != at && {
        let word = piece(Some(before));
        is_any(word, &PLACES) || is_any(word, &KINDS) || is_any(word, &CALLED)
    };
    // A name of several words, such as `old-notes`, is one up to the next space.
    let rest = pieces.get(at..).unwrap_or_default();
    let length =
        rest.iter().take(NAME).take_while(|piece| piece.as_deref().is_some_and(|piece| !is_space(piece))).count();
    let end = at.saturating_add(length);
    let is_path = pieces.get(at..end).is_some_and(|word| word.iter().any(|piece| piece.as_deref() == Some("/")));
    is_after || is_path || is_any(piece(end.checked_add(1)), &KINDS)
}

pub(crate) fn is_space(piece: &str) -> bool {
    matches!(piece, " " | "\\n" | "\\r" | "\\t")
}

/// The words between spaces, without the marks of the sentence around them.
fn words(pieces: &[Option<String>], within: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = within.start;
    for at in within.start..=within.end {
        let piece = pieces.get(at).and_then(Option::as_deref).filter(|_| at < within.end);
        if piece.is_some_and(|piece| !is_space(piece) && piece != "," && piece != ";") {
            continue;
        }
        let (mut first, mut end) = (start, at);
        let is_edge = |at: Option<usize>| {
            at.and_then(|at| pieces.get(at)?.as_deref())
                .is_some_and(|piece| EDGES.contains(&piece) || QUOTES.contains(&piece))
        };
        while first < end && is_edge(Some(first)) {
            first = first.saturating_add(1);
        }
        let is_dot = |at: usize| pieces.get(at).and_then(Option::as_deref) == Some(DOT);
        while first < end && (is_edge(end.checked_sub(1)) || is_dot(end.saturating_sub(1))) {
            end = end.saturating_sub(1);
        }
        if first < end {
            found.push(first..end);
        }
        start = at.saturating_add(1);
    }
    found
}

/// The texts of several words in quotes, as ranges of pieces.
fn quotations(pieces: &[Option<String>]) -> Vec<Range<usize>> {
    let piece = |at: Option<usize>| pieces.get(at?)?.as_deref();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < pieces.len() {
        let begins =
            piece(Some(at)).is_some_and(|piece| closing(piece).is_some()) && !is_word(piece(at.checked_sub(1)));
        let close = piece(Some(at)).filter(|_| begins).and_then(closing);
        let first = at.saturating_add(1);
        let end = close.and_then(|close| {
            (first..pieces.len()).find(|end| {
                piece(Some(*end)).is_some_and(|piece| close.contains(&piece)) && !is_word(piece(end.checked_add(1)))
            })
        });
        match end {
            Some(end) => {
                if pieces.get(first..end).is_some_and(|text| text.iter().flatten().any(|piece| is_space(piece))) {
                    found.push(first..end);
                }
                at = end.saturating_add(1);
            }
            None => at = first,
        }
    }
    found
}

/// What closes a quotation that a mark opens.
fn closing(mark: &str) -> Option<&'static [&'static str]> {
    match mark {
        "\\\"" => Some(&["\\\""]),
        "'" => Some(&["'"]),
        "`" => Some(&["`", "'"]),
        "\u{201c}" | "\u{201e}" => Some(&["\u{201d}", "\u{201c}"]),
        "\u{2018}" => Some(&["\u{2019}"]),
        "\u{ab}" => Some(&["\u{bb}"]),
        _ => None,
    }
}

/// Whether a word is the path of a file by its form: it ends in a dot and letters.
fn is_file(pieces: &[Option<String>], word: &Range<usize>) -> bool {
    let parts: Vec<&str> =
        pieces.get(word.clone()).unwrap_or_default().iter().map(|piece| piece.as_deref().unwrap_or_default()).collect();
    let is_odd = |part: &&str| matches!(*part, "@" | "*" | ":" | "=" | "<" | ">" | "|");
    let (Some(first), None) = (parts.first(), parts.iter().find(|part| is_odd(part))) else { return false };
    // An old log has a number behind its ending.
    let named = match parts.as_slice() {
        [named @ .., ".", number] if number.chars().all(|digit| digit.is_ascii_digit()) => named,
        all => all,
    };
    let [before @ .., name, ".", ending] = named else { return false };
    let is_ending = ending.len() <= ENDING
        && ending.chars().all(|letter| letter.is_ascii_alphanumeric())
        && ending.starts_with(|letter: char| letter.is_ascii_alphabetic());
    // "e.g" is an abbreviation.
    let is_short = before.is_empty() && name.chars().nth(1).is_none() && ending.len() == 1;
    *first != "-" && is_ending && !is_short && *name != "/"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::said::literal;

    fn found(text: &str) -> Vec<String> {
        let pieces = literal(text);
        let join = |file: File| {
            let text: String = pieces.get(file.start..file.end).unwrap_or_default().iter().flatten().cloned().collect();
            if file.is_target { format!("to {text}") } else { text }
        };
        files(&pieces).into_iter().map(join).collect()
    }

    #[test]
    fn files_are_recognised_by_their_form() {
        for (text, files) in [
            ("Size and age of var/dump.sql? It took two seconds.", &["var/dump.sql"] as &[&str]),
            ("copy a.txt to b/c-d_e.tar.gz, please.", &["a.txt", "to b/c-d_e.tar.gz"]),
            ("cp hosts hosts.bak; mv a.txt b.txt", &["to hosts.bak", "a.txt", "to b.txt"]),
            ("call it new.txt, or under the name old.txt", &["new.txt", "to old.txt"]),
            ("read 'todo.txt' and logs/proxy.log.1", &["todo.txt", "logs/proxy.log.1"]),
            ("append 'see todo.txt' to it", &[]),
            ("append 'see the list' to todo.txt", &["to todo.txt"]),
            ("delete \"my letter.txt\" and old.txt", &[]),
            ("don't read it, it's old.txt that I want", &["old.txt"]),
            ("find *.jpg, e.g. in docs/ or at 10.0.4.17 from a@b.org, http://a.org", &[]),
            ("list docs/2024 and hosts", &[]),
            ("read .config.toml, ./notes.txt,a.txt.", &[".config.toml", "./notes.txt", "a.txt"]),
            ("read hosts\nand b.txt", &["b.txt"]),
        ] {
            assert_eq!(found(text), files, "{text}");
        }
    }

    #[test]
    fn folders_are_said_to_be_some() {
        for (text, word, is) in [
            ("put it into my box", "box", true),
            ("open the box folder", "box", true),
            ("a folder called box, please", "box", true),
            ("look at box/lid", "box", true),
            ("know what it is", "know", false),
            ("have to be sure it is right", "sure", false),
            ("box", "box", false),
        ] {
            let pieces = literal(text);
            let at = pieces.iter().position(|piece| piece.as_deref() == Some(word)).unwrap();
            assert_eq!(is_folder(&pieces, at), is, "{text}");
        }
    }
}
