//! Passages: a page, split at its headings, as text for a screen.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::pages::Page;

/// Bytes of a passage after which the next paragraph begins a new one.
const LONG: usize = 1_200;
/// Between a heading and the one above it.
pub const BELOW: &str = " > ";

/// A part of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The page's name.
    pub page: &'static str,
    /// The page's title and the headings above the passage, the nearest last.
    pub heading: String,
    /// Paragraphs, items of lists, rows of tables and lines of examples, a line each. Lines of examples begin with four spaces.
    pub text: String,
    /// Its page says how to do something.
    pub is_guide: bool,
}

/// The passages of a page.
pub fn of_page(page: &Page) -> Vec<Passage> {
    let mut parts = Parts { page, headings: Vec::new(), lines: Vec::new(), passages: Vec::new() };
    let mut paragraph = String::new();
    let mut in_example = false;
    for line in page.text.lines() {
        if line.starts_with("```") {
            parts.paragraph(&mut paragraph);
            in_example = !in_example;
        } else if in_example {
            parts.line(format!("    {line}"));
        } else if let Some((level, title)) = heading(line) {
            parts.paragraph(&mut paragraph);
            parts.begin(level, title);
        } else {
            let begins = starts_item(line, &paragraph) || line.starts_with('|');
            if begins || line.trim().is_empty() {
                parts.paragraph(&mut paragraph);
            }
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(line.trim());
        }
    }
    parts.paragraph(&mut paragraph);
    parts.end();
    parts.passages
}

/// The level and the text of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len().saturating_sub(text.len());
    (level > 0 && text.starts_with(' ')).then(|| (level, text.trim()))
}

/// Whether a line begins an item of a list. In the middle of a paragraph that is no item, only the number 1 does.
fn starts_item(line: &str, paragraph: &str) -> bool {
    let number = |line: &str| {
        let rest = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
        (rest.len() < line.len() && rest.starts_with(". ")).then(|| line.starts_with("1."))
    };
    let line = line.trim_start();
    let is_bullet = line.starts_with("- ") || line.starts_with("* ");
    is_bullet || number(line).is_some_and(|is_first| is_first || paragraph.is_empty() || number(paragraph).is_some())
}

/// What has been read of a page.
struct Parts<'a> {
    page: &'a Page,
    /// Titles by their levels, the page's first.
    headings: Vec<String>,
    lines: Vec<String>,
    passages: Vec<Passage>,
}

impl Parts<'_> {
    /// Ends a paragraph, which is a line then.
    fn paragraph(&mut self, paragraph: &mut String) {
        let text = plain(paragraph);
        paragraph.clear();
        let is_rule = text.chars().all(|letter| matches!(letter, '|' | '-' | ':' | ' '));
        if !is_rule && !text.starts_with("On this page:") {
            self.line(text);
        }
    }

    fn line(&mut self, line: String) {
        let so_far: usize = self.lines.iter().map(String::len).sum();
        if so_far.saturating_add(line.len()) > LONG {
            self.end();
        }
        self.lines.push(line);
    }

    fn begin(&mut self, level: usize, title: &str) {
        self.end();
        self.headings.truncate(level.saturating_sub(1));
        self.headings.push(plain(title));
    }

    /// Ends a passage.
    fn end(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let text = core::mem::take(&mut self.lines).join("\n");
        let (page, is_guide) = (self.page.name, self.page.is_guide);
        self.passages.push(Passage { page, heading: self.headings.join(BELOW), text, is_guide });
    }
}

/// Text without what is only for Markdown: targets of links, images, anchors, and marks of emphasis.
fn plain(text: &str) -> String {
    let mut left = text.trim();
    let mut out = String::new();
    while let Some(at) = left.find(['[', '<', '!']) {
        let (before, rest) = left.split_at(at);
        out.push_str(before);
        let rest_of_link = rest.strip_prefix('!').unwrap_or(rest);
        if let Some((shown, after)) = link(rest_of_link) {
            if rest_of_link.len() == rest.len() {
                out.push_str(&plain(shown));
            }
            left = after;
        } else if let Some((_, after)) = rest.strip_prefix("<a id=").and_then(|rest| rest.split_once("</a>")) {
            left = after;
        } else {
            let mut letters = rest.chars();
            out.extend(letters.next());
            left = letters.as_str();
        }
    }
    out.push_str(left);
    without_stars(&out.replace("\\|", "|"))
}

/// Text without the stars around words, which mark emphasis.
fn without_stars(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let touches = |other: char| !other.is_whitespace() && other != '`';
        if letter != '*' || !(touches(before) || letters.peek().is_some_and(|next| touches(*next))) {
            out.push(letter);
        }
        before = letter;
    }
    out
}

/// What a link at the beginning of a text shows, and the text after it.
fn link(text: &str) -> Option<(&str, &str)> {
    let (shown, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = rest.split_once(')')?;
    (!shown.contains('[')).then_some((shown, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passages(text: &'static str) -> Vec<(String, String)> {
        let all = of_page(&Page { name: "x", text, is_guide: false });
        all.into_iter().map(|passage| (passage.heading, passage.text)).collect()
    }

    #[test]
    fn a_page_is_split_at_its_headings() {
        let text = "# Top\n\nOne\ntwo [three](four.md#five) at most\n12. **Six**.\n\n- item\n  goes on\n- item\n\n## Under\n\n```sh\nmake run\n\n# no heading\n```\n\n| a | b |\n|---|---|\n| <a id=\"q\"></a>`c` | 1 < 2 |\n\n# Other\nx\n";
        let expected = [
            ("Top", "One two three at most 12. Six.\n- item goes on\n- item"),
            ("Top > Under", "    make run\n    \n    # no heading\n| a | b |\n| `c` | 1 < 2 |"),
            ("Other", "x"),
        ];
        assert_eq!(passages(text), expected.map(|(heading, text)| (heading.to_string(), text.to_string())));
    }

    #[test]
    fn long_sections_have_several_passages() {
        let text: &'static str =
            Box::leak(format!("# Top\n\n{}", "A sentence of the text.\n\n".repeat(200)).into_boxed_str());
        let parts = passages(text);
        assert_eq!(parts.len(), 4);
        assert!(parts.iter().all(|(heading, text)| heading == "Top" && text.len() <= LONG + 64));
    }

    #[test]
    fn odd_text_is_kept() {
        for text in ["[", "![", "a ] (b)", "[a]", "[a](b", "<a id=", "1! < 2", "[[a]](b)", "é[é](é)é"] {
            assert!(!plain(text).is_empty(), "{text}");
        }
        assert_eq!(plain("![picture](a.svg)x"), "x");
        assert_eq!(plain("é[é](é)é"), "ééé");
        assert_eq!(plain("*one* **two**: 3 * 4, `add|drop` a\\|b"), "one two: 3 * 4, `add|drop` a|b");
    }
}
