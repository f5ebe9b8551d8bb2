//! Counts as text: `1 call`, `2 calls`. Texts for people take the noun from here if their number may be one; a fixed
//! larger limit is written out.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::{String, ToString};
use core::fmt;

/// A number and its noun, the noun in the number that the number asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<'a> {
    number: u64,
    noun: &'a str,
}

/// A number of things. The noun is given in the singular, and is regular: `call`, `process`, `entry`, `model call`.
#[must_use]
pub fn count(number: impl TryInto<u64>, noun: &str) -> Count<'_> {
    Count { number: number.try_into().unwrap_or(u64::MAX), noun }
}

/// The noun alone, as this number asks for it.
#[must_use]
pub fn noun(number: impl TryInto<u64>, noun: &str) -> Noun<'_> {
    Noun(count(number, noun))
}

/// A noun for a number that stands elsewhere in the sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noun<'a>(Count<'a>);

impl fmt::Display for Noun<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count { number, noun } = self.0;
        if number == 1 {
            return formatter.write_str(noun);
        }
        match noun.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => write!(formatter, "{stem}ies"),
            _ if ["s", "x", "ch", "sh"].iter().any(|ending| noun.ends_with(ending)) => write!(formatter, "{noun}es"),
            _ => write!(formatter, "{noun}s"),
        }
    }
}

impl fmt::Display for Count<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.number, Noun(*self))
    }
}

/// A number with a comma before each three of its digits.
#[must_use]
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in (1..=digits.len()).rev().zip(digits.chars()) {
        if place.is_multiple_of(3) && !text.is_empty() {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        let all = [0, 12, 999, 1000, 142_311, 1_000_000].map(with_commas);
        assert_eq!(all, ["0", "12", "999", "1,000", "142,311", "1,000,000"]);
    }

    #[test]
    fn one_is_singular_and_everything_else_plural() {
        for (number, word, text) in [
            (0_usize, "call", "0 calls"),
            (1, "call", "1 call"),
            (2, "call", "2 calls"),
            (1, "process", "1 process"),
            (13, "process", "13 processes"),
            (2, "switch", "2 switches"),
            (1, "entry", "1 entry"),
            (2, "entry", "2 entries"),
            (2, "key", "2 keys"),
            (21, "model call", "21 model calls"),
        ] {
            assert_eq!(count(number, word).to_string(), text);
        }
        assert_eq!(count(-1_i32, "byte").to_string(), format!("{} bytes", u64::MAX));
        assert_eq!(
            (noun(1_u32, "record").to_string(), noun(2_u32, "record").to_string()),
            ("record".into(), "records".into())
        );
    }
}
