//! Keeping what people, tools and documents say apart from the marks of a template.
//!
//! A rendered text knows the author of each character. Foreign characters are masked while marks are searched for. So
//! no mark begins in a foreign character, and none that the template began continues in one.

use capos_jinja::Char;

/// Begins what stands for something else; where a text has it, it is doubled.
const BREAK: char = '\u{2bd2}';
/// Behind [`BREAK`]: stands for nothing.
const NOTHING: char = '\u{10fffd}';
/// Behind [`BREAK`]: a character of the basic plane, that much further on.
const SHIFT: u32 = 0x10_0000;
/// Behind [`BREAK`]: that and the number of another plane, before its character in the same way.
const PLANE: u32 = 0x10_ffe0;

/// The marks that foreign text must not become.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Characters that marks begin with.
    first: Vec<char>,
    /// Whether a mark has white space in it.
    blank: bool,
}

impl Guard {
    pub fn new<'a>(marks: impl IntoIterator<Item = &'a str>) -> Self {
        let mut guard = Self::default();
        for mark in marks {
            guard.blank |= mark.contains(char::is_whitespace);
            guard.first.extend(mark.chars().next());
        }
        guard.first.sort_unstable();
        guard.first.dedup();
        guard
    }

    /// What a template made, with the foreign parts of it masked.
    pub fn mask(&self, made: &[Char]) -> String {
        let mut out = String::with_capacity(made.len());
        let mut was_foreign = false;
        for c in made {
            let character = c.get();
            // White space that a mark takes with it is found where it follows the mark.
            if c.is_foreign() && !was_foreign && (self.blank || !character.is_whitespace()) {
                out.extend([BREAK, NOTHING]);
            }
            was_foreign = c.is_foreign() && (was_foreign || self.blank || !character.is_whitespace());
            if character == BREAK {
                out.extend([BREAK, BREAK]);
            } else if c.is_foreign() && self.first.binary_search(&character).is_ok() {
                let code = u32::from(character);
                let plane = Some(code >> 16).filter(|plane| *plane > 0 || code >= PLANE & 0xffff);
                out.push(BREAK);
                out.extend(plane.and_then(|plane| char::from_u32(PLANE.saturating_add(plane))));
                out.extend(char::from_u32(SHIFT | code & 0xffff));
            } else {
                out.push(character);
            }
        }
        out
    }

    /// What was masked, as it was.
    pub fn restore(masked: &str) -> String {
        let mut out = String::with_capacity(masked.len());
        let mut characters = masked.chars();
        while let Some(character) = characters.next() {
            if character != BREAK {
                out.push(character);
                continue;
            }
            match characters.next() {
                Some(BREAK) => out.push(BREAK),
                None | Some(NOTHING) => {}
                Some(masked) => {
                    let code = u32::from(masked);
                    let plane = code.checked_sub(PLANE);
                    let low = plane.map_or(Some(code), |_| characters.next().map(u32::from)).unwrap_or(0) & 0xffff;
                    out.extend(char::from_u32(plane.unwrap_or(0) << 16 | low));
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARKS: [&str; 7] = ["<|im_end|>", "<s>", "[INST]", "<|im_start|>", "§", "🦀x", "🦉"];

    fn guard() -> Guard {
        Guard::new(MARKS)
    }

    /// Parts by the template and, where `true`, by others.
    fn made(parts: &[(bool, String)]) -> Vec<Char> {
        let one = |foreign: bool| move |c| if foreign { Char::foreign(c) } else { Char::own(c) };
        parts.iter().flat_map(|(foreign, text)| text.chars().map(one(*foreign))).collect()
    }

    #[test]
    fn marks_are_those_of_the_template() {
        let parts =
            |parts: &[(bool, &str)]| made(&parts.iter().map(|(by, text)| (*by, (*text).into())).collect::<Vec<_>>());
        for foreign in [
            &[(true, "a<|im_end|>b")] as &[(bool, &str)],
            &[(true, "<|im_"), (false, "end|>")],
            &[(false, "<|im_"), (true, "end|>")],
            &[(false, "<|im_"), (true, "en"), (false, "d|>")],
            &[(false, "<"), (true, "|im_end|>")],
            &[(true, "["), (false, "INST]")],
            &[(true, "<"), (true, "<s>s>")],
            &[(true, "§")],
            &[(true, "🦀x")],
            &[(true, "🦉")],
        ] {
            let masked = guard().mask(&parts(foreign));
            assert!(MARKS.iter().all(|mark| !masked.contains(mark)), "{masked:?}");
        }
        let own = guard().mask(&parts(&[(false, "<|im_start|>"), (true, "x"), (false, "<|im_end|>")]));
        assert!(own.starts_with("<|im_start|>") && own.ends_with("x<|im_end|>"), "{own:?}");
        // White space behind a mark stays behind it, unless a mark may have some in it.
        assert!(guard().mask(&parts(&[(false, "<s>"), (true, "  x")])).starts_with("<s>  "));
        let blank = Guard::new(["<a b>", "<a  b>"]);
        for foreign in
            [&[(false, "<a"), (true, " "), (false, "b>")] as &[(bool, &str)], &[(false, "<a "), (true, " b>")]]
        {
            let masked = blank.mask(&parts(foreign));
            assert!(!masked.contains("<a b>") && !masked.contains("<a  b>"), "{masked:?}");
        }
    }

    proptest! {
        /// Whatever is put together: it comes back, and marks are those that the template wrote whole.
        #[test]
        fn no_mark_has_a_foreign_character(
            parts in prop::collection::vec((any::<bool>(), "(<\\|im_end\\|>|<s>|\\[INST\\]|[<|>\\[\\]imends_ §🦀🦉x\u{2bd2}\u{10003c}\u{10fffd}]){0,6}"), 0..6),
        ) {
            let made = made(&parts);
            let masked = guard().mask(&made);
            let whole: String = parts.iter().map(|(_, text)| text.as_str()).collect();
            prop_assert_eq!(Guard::restore(&masked), whole);
            let own: Vec<String> = made.split(|c| c.is_foreign()).map(|run| run.iter().map(|c| c.get()).collect()).collect();
            for mark in MARKS {
                let written: usize = own.iter().map(|run: &String| run.matches(mark).count()).sum();
                prop_assert_eq!(masked.matches(mark).count(), written, "{}", mark);
            }
        }
    }
}
