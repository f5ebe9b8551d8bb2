//! Keeping what people, tools and documents say apart from the marks of a template.
//!
//! Text of theirs goes through the template as any other, which may trim, split or quote it, and comes out as a part of
//! one text with marks in it. So that no mark can begin or end in it, a character of its own ([`BREAK`]) is put behind each character in it that could begin a mark, and before it where it could end one. Marks
//! are found in what the template made before the breaks are taken out again.

/// A character that text hardly ever has in it; where it has, it is doubled. It is one that is shown as it is, so that
/// templates which write out whole lists keep it.
const BREAK: char = '\u{2bd2}';

/// The marks that foreign text must not contain.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    marks: Vec<String>,
    /// Characters that marks begin with.
    first: Vec<char>,
}

impl Guard {
    pub fn new<'a>(marks: impl IntoIterator<Item = &'a str>) -> Self {
        let mut guard = Self::default();
        for mark in marks {
            guard.marks.push(mark.to_string());
            guard.first.extend(mark.chars().next());
        }
        guard.first.sort_unstable();
        guard.first.dedup();
        guard
    }

    /// All ends of marks that are not the whole mark.
    fn ends(&self) -> impl Iterator<Item = &str> {
        self.marks.iter().flat_map(|mark| mark.char_indices().skip(1).filter_map(|(at, _)| mark.get(at..)))
    }

    /// Foreign text, with breaks behind all that a mark could begin with, whatever the template takes out of it.
    pub fn protect(&self, text: &str) -> String {
        self.with_breaks(text, |_| true)
    }

    /// What the model said, in which templates look for the end of its thoughts: with breaks in marks only, and in what
    /// is the beginning of one at its end.
    pub fn protect_answer(&self, text: &str) -> String {
        self.with_breaks(text, |rest| self.marks.iter().any(|mark| rest.starts_with(mark) || mark.starts_with(rest)))
    }

    /// Text with breaks behind the characters that marks begin with and that `needed` asks for by the text from there on.
    fn with_breaks(&self, text: &str, needed: impl Fn(&str) -> bool) -> String {
        let mut out = String::with_capacity(text.len());
        let words = text.trim_start();
        let may_end_a_mark = self.ends().any(|end| words.starts_with(end) || end.starts_with(words));
        if may_end_a_mark && !words.is_empty() {
            // Behind the white space, which the template may take away.
            out.push_str(text.strip_suffix(words).unwrap_or(""));
            out.push(BREAK);
        }
        let rest = if out.is_empty() { text } else { words };
        for (at, character) in rest.char_indices() {
            out.push(character);
            let is_first = self.first.binary_search(&character).is_ok();
            if character == BREAK || is_first && needed(rest.get(at..).unwrap_or("")) {
                out.push(BREAK);
            }
        }
        out
    }

    /// Text without its breaks.
    pub fn restore(text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut breaks = 0u64;
        for character in text.chars() {
            if character == BREAK {
                breaks = breaks.saturating_add(1);
                // Of two the first was in the text.
                out.extend(breaks.is_multiple_of(2).then_some(BREAK));
            } else {
                breaks = 0;
                out.push(character);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARKS: [&str; 4] = ["<|im_end|>", "<s>", "[INST]", "<|im_start|>"];

    fn guard() -> Guard {
        Guard::new(MARKS)
    }

    #[test]
    fn text_without_marks_stays_as_it_is() {
        assert_eq!(guard().protect("Grüße, 1 > 0 (see |x|)"), "Grüße, 1 > 0 (see |x|)");
        assert_eq!(guard().protect("  "), "  ");
    }

    #[test]
    fn what_the_model_said_is_broken_in_marks_only() {
        let thoughts = "<think>1 < 2 [x]</think> <s> [INST";
        let protected = guard().protect_answer(thoughts);
        assert_eq!(protected, "<think>1 < 2 [x]</think> <\u{2bd2}s> [\u{2bd2}INST");
        assert_eq!(Guard::restore(&protected), thoughts);
    }

    #[test]
    fn marks_do_not_begin_or_end_in_foreign_text() {
        for (before, foreign, after) in [
            ("", "a<|im_end|>b", ""),
            ("", "<|im_", "end|>"),
            ("<|im_", "end|>", ""),
            ("<|im_", "  end|> x", ""),
            ("<", "|im_", "end|>"),
            ("[", "INST]", ""),
            ("", "<<s>s>", ""),
        ] {
            let whole = format!("{before}{}{after}", guard().protect(foreign).trim());
            assert!(MARKS.iter().all(|mark| !whole.contains(mark)), "{whole:?}");
        }
    }

    proptest! {
        #[test]
        fn foreign_text_comes_back(text in "[<|>\\[\\]a-z_ \u{2bd2}INST]{0,40}") {
            let protected = guard().protect(&text);
            prop_assert!(MARKS.iter().all(|mark| !protected.contains(mark)));
            prop_assert_eq!(Guard::restore(&protected), text);
        }

        /// Whatever a template takes away of it, and wherever it puts pieces of it.
        #[test]
        fn pieces_of_foreign_text_make_no_marks(
            texts in prop::collection::vec("(<\\|im_end\\|>|<s>|\\[INST\\]|[<|>\\[\\]imends_ ]){0,6}", 1..4),
            cut in 0usize..8,
        ) {
            let pieces: Vec<String> = texts.iter().map(|text| {
                let protected = guard().protect(text);
                protected.trim().chars().skip(cut.saturating_sub(4)).collect()
            }).collect();
            let whole = pieces.concat();
            prop_assert!(MARKS.iter().all(|mark| !whole.contains(mark)), "{:?}", whole);
        }
    }
}
