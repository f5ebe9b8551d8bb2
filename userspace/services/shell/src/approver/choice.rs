//! The answers to a question about a call, and their letters.

use capos_schema::authority::Span;

/// What a person may answer to a question about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Reach(Span),
    Pattern,
    No,
}

impl Choice {
    /// Reads an answer; Enter alone is no. None if the line is no answer.
    pub fn of(line: &str, has_pattern: bool) -> Option<Self> {
        let choice = match line.trim().to_lowercase().as_str() {
            "y" | "yes" => Self::Reach(Span::Once),
            "t" | "turn" => Self::Reach(Span::Turn),
            "s" | "session" => Self::Reach(Span::Session),
            "p" if has_pattern => Self::Pattern,
            "" | "n" | "no" => Self::No,
            _ => return None,
        };
        Some(choice)
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
        let reach = |span| Some(Choice::Reach(span));
        for (line, choice) in [
            ("y", reach(Span::Once)),
            (" YES ", reach(Span::Once)),
            ("t", reach(Span::Turn)),
            ("Turn", reach(Span::Turn)),
            ("s", reach(Span::Session)),
            ("session", reach(Span::Session)),
            ("p", Some(Choice::Pattern)),
            ("", Some(Choice::No)),
            ("n", Some(Choice::No)),
            ("No", Some(Choice::No)),
            ("yy", None),
            ("yes please", None),
            ("\u{443}", None),
            ("list my files", None),
        ] {
            assert_eq!(Choice::of(line, true), choice, "{line:?}");
        }
        assert_eq!(Choice::of("p", false), None);
        // The question has each letter that answers it, and no other.
        for has_pattern in [false, true] {
            let letters = allow(has_pattern).split_once('[').unwrap().1.split_once(']').unwrap().0;
            for letter in ["y", "t", "s", "p", "n"] {
                let is_answer = Choice::of(letter, has_pattern).is_some();
                assert_eq!(
                    letters.split('/').any(|offered| offered.to_lowercase() == letter),
                    is_answer,
                    "{letter} of {letters}"
                );
            }
        }
    }
}
