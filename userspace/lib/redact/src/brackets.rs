//! Where the brackets of a text close that hold a value.

use alloc::vec::Vec;
use core::ops::Range;

use crate::after;

/// Brackets within brackets that are told apart. Deeper ones are only counted.
const DEPTH: usize = 128;

/// The brackets that follow `:` or `=`, with what they hold, in the order of the text.
pub(crate) struct Brackets(Vec<Range<usize>>);

/// A bracket that has not closed yet.
struct Open {
    at: usize,
    closes: u8,
    /// Whether it follows `:` or `=`.
    is_value: bool,
}

impl Brackets {
    /// Reads a text once. Brackets in quotes do not count, if the quotes close on their line. A bracket that another one
    /// outside of it closes ends there. One that never closes, as in the beginning of a file, holds all that follows
    /// if it ends its line, and is none otherwise.
    pub(crate) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut found = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        let (mut at, mut deeper, mut before) = (0_usize, 0_usize, b' ');
        while let Some(&letter) = bytes.get(at) {
            let mut step = 1_usize;
            match letter {
                b'\\' => step = 2,
                b'"' | b'\'' | b'`' if !(letter == b'\'' && before.is_ascii_alphanumeric()) => {
                    step = string(bytes.get(at..).unwrap_or_default());
                }
                b'[' | b'{' | b'(' if open.len() < DEPTH => {
                    let is_value = matches!(before, b':' | b'=' | b'>');
                    open.push(Open { at, closes: closing(letter), is_value });
                }
                b'[' | b'{' | b'(' => deeper = deeper.saturating_add(1),
                b']' | b'}' | b')' if deeper > 0 => deeper = deeper.saturating_sub(1),
                b']' | b'}' | b')' => {
                    if let Some(level) = open.iter().rposition(|open| open.closes == letter) {
                        let outermost = open.get(level).map(|open| open.at);
                        for inner in open.drain(level..).filter(|inner| inner.is_value) {
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
        for unclosed in open.into_iter().filter(|unclosed| unclosed.is_value) {
            let line = after(text, unclosed.at.saturating_add(1)).split('\n').next().unwrap_or_default();
            if line.trim().is_empty() {
                found.push(unclosed.at..text.len());
            }
        }
        found.sort_unstable_by_key(|held| held.start);
        Self(found)
    }

    /// What the bracket at this place holds, with its brackets. `None` if no value's bracket is there.
    pub(crate) fn at(&self, start: usize) -> Option<Range<usize>> {
        let place = self.0.binary_search_by_key(&start, |held| held.start).ok()?;
        self.0.get(place).cloned()
    }
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
