//! Text of others within the rows of a screen: no row of it can pass for one of the system's own.

#![deny(clippy::arithmetic_side_effects)]

use alloc::string::String;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::sanitise::{push_visible, sanitise};
use crate::style::TAB;

/// Stands before each row that continues the text of the row above.
pub const CONTINUED: &str = "  ┆ ";

/// The most characters without width that are shown on top of one another. The terminal's sanitiser allows more, so that it
/// changes nothing of what was laid out here.
const MARKS: u32 = 4;

/// Lays a text out in rows that the terminal need not wrap. Pieces of a text may come one after the other.
#[derive(Clone, Debug)]
pub struct Wrap {
    /// Columns that may be written to. The last one of the screen stays free: some terminals wrap when it is written.
    columns: usize,
    column: usize,
    /// Characters without width in a row.
    marks: u32,
}

impl Wrap {
    /// Continues after `column` columns of a row, on a screen of `screen` columns.
    #[must_use]
    pub fn new(screen: usize, column: usize) -> Self {
        let least = CONTINUED.width().saturating_add(TAB);
        Self { columns: screen.saturating_sub(1).max(least), column, marks: 0 }
    }

    /// The next piece of the text, with a newline and [`CONTINUED`] before whatever has no room in its row. A newline of the text
    /// itself begins a row without that.
    #[must_use]
    pub fn push(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for grapheme in sanitise(text.as_bytes()).as_str().graphemes(true) {
            match grapheme {
                "\n" => {
                    out.push('\n');
                    (self.column, self.marks) = (0, 0);
                }
                "\t" => self.put("        ", &mut out),
                _ => self.marked(grapheme, &mut out),
            }
        }
        out
    }

    /// Puts a grapheme, with what is too much on top of it written out.
    fn marked(&mut self, grapheme: &str, out: &mut String) {
        let mut kept = String::new();
        for character in grapheme.chars() {
            if character.width() != Some(0) {
                self.marks = 0;
                kept.push(character);
                continue;
            }
            self.marks = self.marks.saturating_add(1);
            let doubled = self.marks > 1 && ('\u{fe00}'..='\u{fe0f}').contains(&character);
            if self.marks <= MARKS && !doubled {
                kept.push(character);
                continue;
            }
            self.put(&core::mem::take(&mut kept), out);
            let mut written = String::new();
            push_visible(character, &mut written);
            for letter in written.chars() {
                self.put(letter.encode_utf8(&mut [0; 4]), out);
            }
            self.marks = 0;
        }
        self.put(&kept, out);
    }

    /// Puts what stays on one row. Terminals differ in how wide joined characters are, so each counts as if it stood alone.
    fn put(&mut self, piece: &str, out: &mut String) {
        let width = piece.chars().filter_map(UnicodeWidthChar::width).fold(0_usize, usize::saturating_add);
        if self.column.saturating_add(width) > self.columns && self.column > 0 {
            out.push('\n');
            out.push_str(CONTINUED);
            self.column = CONTINUED.width();
        }
        out.push_str(piece);
        self.column = self.column.saturating_add(width);
    }
}

/// A text behind what stands before it in its row, laid out.
#[must_use]
pub fn wrap(before: &str, text: &str, screen: usize) -> String {
    Wrap::new(screen, before.width()).push(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::escape_json;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn a_row_goes_on_behind_the_margin() {
        assert_eq!(wrap("▸ ", "0123456789abcdef0123", 20), "0123456789abcdef0\n  ┆ 123");
        assert_eq!(wrap("", "äb\ncd\t日", 20), "äb\ncd        日");
        assert_eq!(wrap("", "abcdefghijklmnopqr日", 20), "abcdefghijklmnopqr\n  ┆ 日");
        assert_eq!(wrap("", "e\u{301}\u{301}\u{301}\u{301}\u{301}x", 20), "e\u{301}\u{301}\u{301}\u{301}\\u{301}x");
    }

    #[test]
    fn where_a_text_is_cut_makes_no_difference() {
        let text = "one two three 日本語 four five six seven eight";
        let mut wrapped = Wrap::new(24, 3);
        let pieces: String = text.chars().map(|letter| wrapped.push(letter.encode_utf8(&mut [0; 4]))).collect();
        assert_eq!(pieces, Wrap::new(24, 3).push(text));
    }

    /// The rows that a terminal of this many columns shows of it.
    fn shown(text: &str, columns: usize) -> Vec<String> {
        let mut rows = Vec::from([(String::new(), 0_usize)]);
        for grapheme in text.graphemes(true) {
            let width = grapheme.width();
            if grapheme == "\n" || rows.last().is_some_and(|(_, used)| used.saturating_add(width) > columns) {
                rows.push((String::new(), 0));
            }
            if grapheme != "\n"
                && let Some((row, used)) = rows.last_mut()
            {
                row.push_str(grapheme);
                *used = used.saturating_add(width);
            }
        }
        rows.into_iter().map(|(row, _)| row).collect()
    }

    proptest! {
        /// Whatever a text is, and however wide the screen: none of its rows begins where the system's own rows begin, and
        /// nothing of it is lost.
        #[test]
        fn no_row_of_a_text_begins_in_the_first_column(
            pieces in proptest::collection::vec("( {0,90}|[a-z]{0,40}|[日本語\u{301}\u{fe0f}\u{200d}👩ж┆]{0,12}|\\PC{0,30})", 0..8),
            columns in 20_usize..140,
        ) {
            let text = pieces.concat();
            let mut wrapped = Wrap::new(columns, 2);
            let laid_out: String = pieces.iter().map(|piece| wrapped.push(piece)).collect();
            let row = alloc::format!("▸ {laid_out}");
            // The terminal service's sanitiser leaves it alone.
            let clean = sanitise(row.as_bytes());
            prop_assert_eq!(clean.as_str(), &row);
            for (number, row) in shown(clean.as_str(), columns).iter().enumerate() {
                prop_assert!(row.starts_with(if number == 0 { "▸ " } else { CONTINUED }), "{:?}", row);
            }
            let joined = laid_out.replace(&alloc::format!("\n{CONTINUED}"), "");
            if text.is_ascii() {
                prop_assert_eq!(joined, text);
            }
        }

        #[test]
        fn arguments_keep_within_their_margin(
            text in "(a| {1,200}|\"|[A-Za-z ]{0,100}|\n|Allow this call\\? \\[y/t/s/N\\] ){0,12}",
            columns in 20_usize..140,
        ) {
            let json = escape_json(&serde_json::to_string(&text).unwrap_or_default());
            for row in shown(&alloc::format!("  │ {}", wrap("  │ ", &json, columns)), columns) {
                let text = row.strip_prefix("  │ ").or_else(|| row.strip_prefix(CONTINUED));
                prop_assert!(text.is_some_and(|text| !text.contains("  ")), "{:?}", row);
            }
        }
    }
}
