//! What a background run says, until its person looks at it.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_schema::terminal::Style;

/// Lines and bytes that are kept of one run; of more, the first are dropped.
const LINES: usize = 200;
const BYTES: usize = 32 << 10;

/// The last lines of a run.
#[derive(Default)]
pub struct Output {
    lines: RefCell<VecDeque<(Style, String)>>,
    bytes: Cell<usize>,
    /// Lines that are not kept any more.
    dropped: Cell<usize>,
    /// The last line is of the model, and continues.
    is_open: Cell<bool>,
}

impl Output {
    /// Adds a line.
    pub fn line(&self, style: Style, text: &str) {
        self.end();
        self.push(style, text);
    }

    /// Adds a piece of the model's text.
    pub fn text(&self, text: &str) {
        for (at, piece) in text.split('\n').enumerate() {
            if at > 0 {
                self.end();
            }
            if self.is_open.get()
                && let Some((_, line)) = self.lines.borrow_mut().back_mut()
            {
                line.push_str(piece);
                self.bytes.set(self.bytes.get().saturating_add(piece.len()));
            } else if !piece.is_empty() {
                self.push(Style::Model, piece);
                self.is_open.set(true);
            }
        }
        self.bound();
    }

    /// The model's text does not go on in this line.
    pub fn end(&self) {
        self.is_open.set(false);
    }

    fn push(&self, style: Style, text: &str) {
        self.bytes.set(self.bytes.get().saturating_add(text.len()));
        self.lines.borrow_mut().push_back((style, text.to_string()));
        self.bound();
    }

    fn bound(&self) {
        let mut lines = self.lines.borrow_mut();
        while lines.len() > LINES || (self.bytes.get() > BYTES && lines.len() > 1) {
            let Some((_, first)) = lines.pop_front() else { break };
            self.bytes.set(self.bytes.get().saturating_sub(first.len()));
            self.dropped.set(self.dropped.get().saturating_add(1));
        }
        // A line that alone is too long keeps its end.
        if let Some((_, line)) = lines.front_mut().filter(|(_, line)| line.len() > BYTES) {
            let from = line.ceil_char_boundary(line.len().saturating_sub(BYTES));
            *line = line.get(from..).unwrap_or_default().to_string();
            self.bytes.set(line.len());
            self.dropped.set(self.dropped.get().max(1));
        }
    }

    /// The lines, and how many were dropped before them.
    pub fn all(&self) -> (usize, Vec<(Style, String)>) {
        (self.dropped.get(), self.lines.borrow().iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pieces_of_an_answer_are_lines() {
        let output = Output::default();
        for piece in ["There ", "is\nno", "", " note.\n"] {
            output.text(piece);
        }
        output.line(Style::Tool, "▸ read_file");
        output.text("Done.");
        output.end();
        output.text("Again.");
        let (dropped, lines) = output.all();
        let lines: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!((dropped, lines), (0, Vec::from(["There is", "no note.", "▸ read_file", "Done.", "Again."])));
    }

    proptest! {
        /// Whatever a run says, what is kept of it is bounded, and it is the end.
        #[test]
        fn what_is_kept_is_bounded(pieces in proptest::collection::vec(("(a|é|\\n){0,400}", any::<bool>()), 0..300)) {
            let output = Output::default();
            for (piece, is_line) in &pieces {
                if *is_line { output.line(Style::Plain, &piece.replace('\n', " ")) } else { output.text(piece) }
            }
            output.line(Style::Plain, "the end");
            let (_, lines) = output.all();
            prop_assert!(lines.len() <= LINES);
            let bytes: usize = lines.iter().map(|(_, line)| line.len()).sum();
            prop_assert_eq!(bytes, output.bytes.get());
            prop_assert!(bytes <= BYTES + 8);
            prop_assert_eq!(lines.last().map(|(_, line)| line.as_str()), Some("the end"));
        }
    }
}
