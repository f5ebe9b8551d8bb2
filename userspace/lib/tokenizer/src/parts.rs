//! Text without end, in parts: merging takes memory many times its bytes.

use crate::limits::MERGED_BYTES;

/// The parts of a text that are merged separately: all of it, if it has no more than [`MERGED_BYTES`]. A longer one is
/// cut at the last place that `is_border`, given what comes before it and after it, or else between two characters.
pub fn parts(text: &str, is_border: impl Fn(&str, &str) -> bool) -> impl Iterator<Item = &str> {
    let mut rest = text;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, behind) = rest.split_at_checked(end(rest, &is_border)).unwrap_or((rest, ""));
        rest = behind;
        Some(part)
    })
}

/// Where the first part of a text ends.
fn end(text: &str, is_border: impl Fn(&str, &str) -> bool) -> usize {
    if text.len() <= MERGED_BYTES {
        return text.len();
    }
    let most = (0..=MERGED_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    // Looked for in the second half, so that each part is of some length.
    let border = (MERGED_BYTES / 2..=most)
        .rev()
        .find(|at| text.split_at_checked(*at).is_some_and(|(before, behind)| is_border(before, behind)));
    border.unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Between a letter and a space.
    fn of(text: &str) -> Vec<&str> {
        parts(text, |before, behind| !before.ends_with(' ') && behind.starts_with(' ')).collect()
    }

    #[test]
    fn what_is_not_too_long_is_one_part() {
        let whole = "a ".repeat(MERGED_BYTES / 2);
        assert_eq!(of(&whole), [whole.as_str()]);
        assert!(of("").is_empty());
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_border_or_between_characters() {
        let words = "word  ".repeat(MERGED_BYTES / 3);
        let found = of(&words);
        assert_eq!(found.concat(), words);
        assert!(found.len() > 1 && found.iter().skip(1).all(|part| part.starts_with("  word")));
        let letters = "\u{20ac}".repeat(MERGED_BYTES);
        let found = of(&letters);
        assert_eq!((found.concat(), found.len()), (letters.clone(), 4));
        assert!(found.iter().all(|part| part.len() <= MERGED_BYTES));
    }
}
