//! The program `letters`: counts the letters of its arguments.
//!
//! An ordinary program on `std`. It sees the files, directories and services that the manifest grants it and nothing
//! else.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::process::ExitCode;

/// How often each letter occurs in these words, without regard to case.
fn letters(words: &[String]) -> BTreeMap<char, u32> {
    let mut counts = BTreeMap::new();
    let letters = words.iter().flat_map(|word| word.chars()).filter(|letter| letter.is_alphabetic());
    for letter in letters.flat_map(char::to_lowercase) {
        let count: &mut u32 = counts.entry(letter).or_default();
        *count = count.saturating_add(1);
    }
    counts
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.is_empty() {
        eprintln!("usage: letters WORD...");
        return ExitCode::from(2);
    }
    for (letter, count) in letters(&words) {
        println!("{letter} {count}");
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted_without_case() {
        let counts = letters(&["Anna".into(), "4 n".into()]);
        assert_eq!(Vec::from_iter(counts), [('a', 2), ('n', 3)]);
    }
}
