//! Where the brackets of a text close that hold a value.

use alloc::vec::Vec;
use core::ops::Range;

use crate::after;

/// Open brackets that are known at once. If there are more, the outermost is forgotten.
const DEPTH: usize = 128;

/// The brackets that follow `:`, `=` or `>`, or end their line: each with what it holds, in the order of the text.
pub(crate) struct Brackets(Vec<Range<usize>>);

/// A bracket that has not closed yet.
struct Open {
    at: usize,
    closes: u8,
    is_kept: bool,
}

impl Brackets {
    /// Reads a text once.
    ///
    /// - A bracket in quotes does not count, if the quotes close on their line.
    /// - `{[}` closes both: the inner one holds what is before the `}`.
    /// - If the text ends before a `[` or `{` closes, as the beginning of a file does, that bracket holds the rest. This is so only
    ///   if its line ends with a comma or a bracket; otherwise it is taken for a single character.
    pub(crate) fn of(text: &str) -> Self {
        const ESCAPE: u8 = 0x1b;
        let bytes = text.as_bytes();
        let mut found = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        let (mut at, mut before) = (0_usize, b' ');
        while let Some(&letter) = bytes.get(at) {
            let mut step = 1_usize;
            match letter {
                // `ESC [` begins a colour.
                b'\\' | ESCAPE => step = 2,
                // What follows a letter or a digit is an apostrophe, or the mark of a unit.
                b'\'' if before.is_ascii_alphanumeric() => {}
                b'"' if before.is_ascii_digit() => {}
                b'"' | b'\'' | b'`' => step = string(bytes.get(at..).unwrap_or_default()),
                b'[' | b'{' | b'(' => {
                    if open.len() == DEPTH {
                        open.remove(0);
                    }
                    let is_kept = matches!(before, b':' | b'=' | b'>') || ends_line(text, at);
                    open.push(Open { at, closes: closing(letter), is_kept });
                }
                b']' | b'}' | b')' => {
                    if let Some(level) = open.iter().rposition(|open| open.closes == letter) {
                        let outermost = open.get(level).map(|open| open.at);
                        for inner in open.drain(level..).filter(|inner| inner.is_kept) {
                            let end = at.saturating_add(usize::from(Some(inner.at) == outermost));
                            found.push(inner.at..end);
                        }
                    }
                }
                _ => {}
            }
            if !letter.is_ascii_whitespace() {
                before = letter;
            }
            at = at.saturating_add(step);
        }
        let unclosed = open.into_iter().filter(|open| open.is_kept && open.closes != b')' && goes_on(text, open.at));
        found.extend(unclosed.map(|open| open.at..text.len()));
        found.sort_unstable_by_key(|held| held.start);
        Self(found)
    }

    /// What the bracket at this place holds, from the bracket on.
    pub(crate) fn at(&self, start: usize) -> Option<Range<usize>> {
        let place = self.0.binary_search_by_key(&start, |held| held.start).ok()?;
        self.0.get(place).cloned()
    }
}

/// Whether nothing but blanks follows on the line of the bracket at this place. Only as much is looked at as there are blanks.
fn ends_line(text: &str, at: usize) -> bool {
    let rest = after(text, at.saturating_add(1)).trim_start_matches([' ', '\t', '\r']);
    rest.is_empty() || rest.starts_with('\n')
}

/// Whether the line of the bracket at this place ends in a way that the next line continues.
fn goes_on(text: &str, at: usize) -> bool {
    let rest = after(text, at.saturating_add(1)).split('\n').next().unwrap_or_default().trim_end();
    rest.is_empty() || rest.ends_with([',', '[', '{', '('])
}

fn closing(letter: u8) -> u8 {
    match letter {
        b'[' => b']',
        b'{' => b'}',
        _ => b')',
    }
}

/// Length of the string at the beginning, with its quotes. 1 if its line does not end it; all of the text if that is cut off
/// within it.
fn string(text: &[u8]) -> usize {
    let mut at = 1_usize;
    while let Some(letter) = text.get(at) {
        if *letter == b'\n' {
            return 1;
        }
        if Some(letter) == text.first() {
            return at.saturating_add(1);
        }
        at = at.saturating_add(if *letter == b'\\' { 2 } else { 1 });
    }
    text.len()
}
