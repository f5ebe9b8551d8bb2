//! What a person may answer to a question about a call.

use capos_schema::authority::Span;

/// What a person may answer to a question about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Reach(Span),
    Pattern,
    No,
    Unclear,
}

impl Choice {
    /// Reads an answer. Enter alone is no.
    pub fn of(line: &str, has_pattern: bool) -> Self {
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => Self::Reach(Span::Once),
            "t" | "turn" => Self::Reach(Span::Turn),
            "s" | "session" => Self::Reach(Span::Session),
            "p" if has_pattern => Self::Pattern,
            "" | "n" | "no" => Self::No,
            _ => Self::Unclear,
        }
    }
}

/// The question, with the letters that answer it.
pub fn allow(has_pattern: bool) -> &'static str {
    if has_pattern { "Allow this call? [y/t/s/p/N] " } else { "Allow this call? [y/t/s/N] " }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_answer_allows_a_call() {
        let reach = Choice::Reach;
        for (line, choice) in [
            ("y", reach(Span::Once)),
            (" YES ", reach(Span::Once)),
            ("t", reach(Span::Turn)),
            ("Turn", reach(Span::Turn)),
            ("s", reach(Span::Session)),
            ("session", reach(Span::Session)),
            ("p", Choice::Pattern),
            ("", Choice::No),
            ("n", Choice::No),
            ("No", Choice::No),
            ("yy", Choice::Unclear),
            ("yes please", Choice::Unclear),
            ("\u{443}", Choice::Unclear),
            ("list my files", Choice::Unclear),
        ] {
            assert_eq!(Choice::of(line, true), choice, "{line:?}");
        }
        assert_eq!(Choice::of("p", false), Choice::Unclear);
        // The question has each letter that is no "no", and no other.
        for has_pattern in [false, true] {
            let letters = allow(has_pattern).split_once('[').unwrap().1.split_once(']').unwrap().0;
            for letter in ["y", "t", "s", "p"] {
                let is_answer = Choice::of(letter, has_pattern) != Choice::Unclear;
                assert_eq!(letters.split('/').any(|offered| offered == letter), is_answer, "{letter} of {letters}");
            }
        }
    }
}
