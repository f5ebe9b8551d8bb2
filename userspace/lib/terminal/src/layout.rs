//! Where the graphemes of an edited line stand on a screen of some width.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::sanitise::{is_hidden, push_visible};

/// A place on the screen, counted from where the line begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub row: usize,
    /// Equal to the number of columns when the last column has been written and nothing followed.
    pub column: usize,
}

impl Place {
    /// Puts something of that width; true when it begins a new row.
    pub(crate) fn put(&mut self, width: usize, columns: usize) -> bool {
        let column = self.column.saturating_add(width);
        let wraps = column > columns && self.column > 0;
        if wraps {
            self.row = self.row.saturating_add(1);
            self.column = width;
        } else {
            self.column = column;
        }
        wraps
    }
}

/// The pieces of a text as they are shown, each of which stays on one row, with their widths. A newline is shown as a
/// sign for it, and what is invisible is written out.
pub(crate) fn cells(text: &str) -> impl Iterator<Item = (Cow<'_, str>, usize)> {
    text.graphemes(true).flat_map(|grapheme| {
        let (whole, pieces) = match shown(grapheme) {
            Cow::Borrowed(whole) => (Some(whole), Vec::new()),
            Cow::Owned(written) => (None, written.chars().map(String::from).collect()),
        };
        let whole = whole.map(Cow::Borrowed);
        whole.into_iter().chain(pieces.into_iter().map(Cow::Owned)).map(|cell| {
            let width = cell.width();
            (cell, width)
        })
    })
}

/// A grapheme as it is shown; owned where it had to be written out.
fn shown(grapheme: &str) -> Cow<'_, str> {
    match grapheme {
        "\n" => Cow::Borrowed("\u{21b5}"),
        "\t" => Cow::Borrowed("\u{21e5}"),
        _ if grapheme.width() == 0 || grapheme.chars().any(is_hidden) => {
            let mut out = String::new();
            for character in grapheme.chars() {
                if is_hidden(character) || grapheme.width() == 0 {
                    push_visible(character, &mut out);
                } else {
                    out.push(character);
                }
            }
            Cow::Owned(out)
        }
        _ => Cow::Borrowed(grapheme),
    }
}
