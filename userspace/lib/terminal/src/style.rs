//! Styles: what a text means, and how that is shown with colour and without.

use alloc::vec::Vec;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::sanitise::{Clean, sanitise};

/// What a text is. Colour only repeats what a label says, so that nothing is told by colour alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Plain,
    Bold,
    Dim,
    Heading,
    /// The prompt of a line that is being edited.
    Prompt,
    /// What the model says.
    Model,
    /// A tool call and its result.
    Tool,
    /// A question a person has to answer.
    Question,
    Success,
    Warning,
    Error,
}

impl Style {
    /// Parameters of the SGR sequence.
    fn parameters(self) -> &'static str {
        match self {
            Self::Plain | Self::Model => "",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Heading => "1;36",
            Self::Prompt => "1;32",
            Self::Tool => "35",
            Self::Question => "1;33",
            Self::Success => "32",
            Self::Warning => "33",
            Self::Error => "1;31",
        }
    }

    /// What stands before a line of this style.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Tool => "[tool] ",
            Self::Question => "[question] ",
            Self::Warning => "warning: ",
            Self::Error => "error: ",
            Self::Plain | Self::Bold | Self::Dim | Self::Heading | Self::Prompt | Self::Model | Self::Success => "",
        }
    }
}

/// Turns styled text into bytes for the screen, and knows in which column they leave the cursor.
#[derive(Clone, Debug)]
pub struct Painter {
    colour: bool,
    columns: usize,
    column: usize,
}

/// Columns between tab stops.
pub(crate) const TAB: usize = 8;

impl Painter {
    /// A painter for a screen of that width whose cursor is at the left edge. Without `colour` no style is emitted.
    #[must_use]
    pub fn new(columns: usize, colour: bool) -> Self {
        Self { colour, columns: columns.max(TAB), column: 0 }
    }

    /// The column the cursor is in, from 0.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    pub fn resize(&mut self, columns: usize) {
        self.columns = columns.max(TAB);
        self.column = self.column.min(self.columns);
    }

    /// Paints text where the cursor is. Newlines go to the left edge of the next line; tabs become spaces.
    pub fn paint(&mut self, style: Style, text: &Clean, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        self.open(style, out);
        for grapheme in text.as_str().graphemes(true) {
            match grapheme {
                "\n" => {
                    out.extend_from_slice(b"\r\n");
                    self.column = 0;
                }
                "\t" => {
                    let spaces = TAB.saturating_sub(self.column % TAB);
                    out.extend(core::iter::repeat_n(b' ', spaces));
                    self.advance(spaces);
                }
                _ => {
                    out.extend_from_slice(grapheme.as_bytes());
                    self.advance(grapheme.width());
                }
            }
        }
        self.close(style, out);
    }

    /// Paints a line of its own, with the style's label before it.
    pub fn line(&mut self, style: Style, text: &Clean, out: &mut Vec<u8>) {
        self.fresh_line(out);
        self.paint(style, &sanitise(style.label().as_bytes()), out);
        self.paint(style, text, out);
        self.fresh_line(out);
    }

    /// Goes to the left edge of the next line, unless the cursor is at the left edge.
    pub fn fresh_line(&mut self, out: &mut Vec<u8>) {
        if self.column != 0 {
            out.extend_from_slice(b"\r\n");
            self.column = 0;
        }
    }

    /// The cursor has been put at the left edge by other means.
    pub(crate) fn at_left(&mut self) {
        self.column = 0;
    }

    pub(crate) fn open(&self, style: Style, out: &mut Vec<u8>) {
        if self.colour && !style.parameters().is_empty() {
            out.extend_from_slice(b"\x1b[");
            out.extend_from_slice(style.parameters().as_bytes());
            out.push(b'm');
        }
    }

    pub(crate) fn close(&self, style: Style, out: &mut Vec<u8>) {
        if self.colour && !style.parameters().is_empty() {
            out.extend_from_slice(b"\x1b[0m");
        }
    }

    fn advance(&mut self, width: usize) {
        let column = self.column.saturating_add(width);
        // What does not fit goes to the next line; the cursor waits behind the last column until something comes.
        self.column = if column > self.columns { width.min(self.columns) } else { column };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn painted(colour: bool, style: Style, text: &str) -> String {
        let mut out = Vec::new();
        Painter::new(80, colour).line(style, &sanitise(text.as_bytes()), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn without_colour_the_label_remains() {
        assert_eq!(painted(true, Style::Error, "no disk"), "\x1b[1;31merror: \x1b[0m\x1b[1;31mno disk\x1b[0m\r\n");
        assert_eq!(painted(false, Style::Error, "no disk"), "error: no disk\r\n");
        assert_eq!(painted(false, Style::Tool, "readFile"), "[tool] readFile\r\n");
        assert_eq!(painted(true, Style::Plain, "a\nb\n"), "a\r\nb\r\n");
    }

    #[test]
    fn text_cannot_bring_a_style_of_its_own() {
        assert_eq!(painted(false, Style::Plain, "\x1b[1;31merror\x1b[0m"), "error\r\n");
    }

    #[test]
    fn the_column_is_known() {
        let mut painter = Painter::new(10, true);
        let mut out = Vec::new();
        for (text, column) in
            [("abc", 3), ("\t", 8), ("日", 10), ("x", 1), ("\n", 0), ("0123456789", 10), ("日", 2), ("e\u{301}", 3)]
        {
            painter.paint(Style::Dim, &sanitise(text.as_bytes()), &mut out);
            assert_eq!(painter.column(), column, "{text:?}");
        }
        painter.fresh_line(&mut out);
        painter.fresh_line(&mut out);
        assert!(out.ends_with(b"\x1b[0m\r\n"));
        assert_eq!(painter.column(), 0);
    }
}
