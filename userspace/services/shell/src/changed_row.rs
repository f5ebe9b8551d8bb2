//! What a write changes in its file, as rows of a question: everything visible, and each on one row of the screen.

use alloc::format;
use alloc::string::String;

use capos_runner::change::{Kind, Row};
use capos_schema::terminal::Style;
use capos_terminal::escape_for_prompt;

/// Characters of a line that is cut, before the first that differs from the line in its place.
const BEFORE: usize = 8;
/// Columns of the longest row, on however wide a screen.
const WIDEST: usize = 400;
/// Says that a line has no end. No text is shown like that: a backslash of a text is shown as two.
const NO_END: &str = " \\ no end of line";

/// A row in at most `room` columns, except on a screen that has no room for its marks. A person does not get the question
/// before they have seen these rows, so no line takes more than one of them. What is cut says so.
pub fn laid_out(row: &Row, room: usize) -> (Style, String) {
    let (style, sign) = match row.kind {
        Kind::Same => (Style::Dim, ' '),
        Kind::Goes => (Style::Plain, '-'),
        Kind::Comes => (Style::Bold, '+'),
        // The mark stands for no text: in one it is written out.
        Kind::LeftOut => return (Style::Dim, format!("… {}", row.text)),
    };
    let end = if row.is_endless { NO_END } else { "" };
    let room = room.min(WIDEST).saturating_sub(2).saturating_sub(end.len());
    (style, format!("{sign} {}{end}", cut(&row.text, row.same, room)))
}

/// A text with everything visible. What has no room is cut, and the mark says how much is shown. It begins shortly before
/// the first character that differs: of two lines with the same beginning, what differs is shown.
fn cut(text: &str, same: usize, room: usize) -> String {
    let whole = visible(text);
    if whole.chars().count() <= room {
        return whole;
    }
    let all = text.chars().count();
    let skipped = same.min(all).saturating_sub(BEFORE);
    let mut part: String = text.chars().skip(skipped).take(room).collect();
    loop {
        let shown = part.chars().count();
        let before = if skipped > 0 { "…" } else { "" };
        let after = if skipped.saturating_add(shown) < all { "…" } else { "" };
        let row = format!("{before}{}{after} (cut: {shown} of {all} characters)", visible(&part));
        if row.chars().count() <= room || part.pop().is_none() {
            return row;
        }
    }
}

/// A text with everything visible, a space at either end too.
fn visible(text: &str) -> String {
    let shown = escape_for_prompt(text);
    let (shown, after) = shown.strip_suffix(' ').map_or((shown.as_str(), ""), |shown| (shown, "\\u{20}"));
    let (shown, before) = shown.strip_prefix(' ').map_or((shown, ""), |shown| (shown, "\\u{20}"));
    format!("{before}{shown}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(kind: Kind, text: &str, same: usize) -> Row {
        Row { kind, text: text.into(), is_endless: false, same }
    }

    fn shown(row: &Row, room: usize) -> String {
        laid_out(row, room).1
    }

    #[test]
    fn a_change_shows_no_two_lines_alike() {
        let comes = |text: &str| shown(&row(Kind::Comes, text, 0), 76);
        assert_eq!(comes("owner = alice"), "+ owner = alice");
        assert_eq!(comes("owner = \u{430}lice"), "+ owner = \\u{430}lice");
        assert_eq!(comes("\u{5d0}\u{5d1}"), "+ \\u{5d0}\\u{5d1}");
        assert_eq!(comes("a\r"), "+ a\\r");
        assert_eq!(comes(" a "), "+ \\u{20}a\\u{20}");
        let endless = Row { is_endless: true, ..row(Kind::Goes, "a", 0) };
        assert_eq!(shown(&endless, 76), "- a \\ no end of line");
        assert_ne!(shown(&endless, 76), shown(&row(Kind::Goes, "a \\ no end of line", 0), 76));
        let rest = row(Kind::LeftOut, "3 more lines that change", 0);
        assert_eq!(shown(&rest, 76), "… 3 more lines that change");
        assert!(shown(&row(Kind::Same, "… 3 more lines", 0), 76).starts_with("  \\u{2026} 3"));
    }

    #[test]
    fn a_long_line_is_cut_where_it_differs_and_says_so() {
        let padding = "x".repeat(300);
        let goes = shown(&row(Kind::Goes, &format!("{padding}off"), 300), 60);
        let comes = shown(&row(Kind::Comes, &format!("{padding}on, and more{padding}"), 300), 60);
        assert_eq!(goes, "- …xxxxxxxxoff (cut: 11 of 303 characters)");
        assert_eq!(comes, "+ …xxxxxxxxon, and morexxxxxxxx… (cut: 28 of 612 characters)");
    }

    proptest! {
        #[test]
        fn a_line_takes_one_row(text in "( {1,50}|[a-z]{0,90}|[\u{430}\u{5d0}\\\\]{0,30}){0,8}", same in 0_usize..90, room in 60_usize..140) {
            let shown = shown(&row(Kind::Comes, &text, same), room);
            prop_assert!(shown.chars().count() <= room && !shown.contains('\n'), "{shown:?}");
            let is_whole = shown.ends_with(&visible(&text));
            prop_assert!(is_whole || shown.ends_with(" characters)"), "{shown:?}");
        }
    }
}
