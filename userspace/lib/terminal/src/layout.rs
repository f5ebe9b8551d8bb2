//! How the text of an edited line is shown: its cells, and the rows of a screen of some width that they fill.

#![deny(clippy::arithmetic_side_effects)]

use alloc::string::String;
use alloc::vec::Vec;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthChar;

use crate::sanitise::{is_hidden, push_visible};

/// A place on the screen, counted from where the line begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub row: usize,
    pub column: usize,
}

/// Stands behind a cell whose width terminals do not agree on. It is never shown: there the cursor is put where the cell
/// ends here.
pub(crate) const SYNC: char = '\0';

/// They choose how the character before them looks.
const SELECTORS: [char; 2] = ['\u{fe0e}', WIDE_SELECTOR];
const WIDE_SELECTOR: char = '\u{fe0f}';

/// The most characters that are looked at as one grapheme; what is longer is cut.
const CLUSTER: usize = 32;
/// The most characters without width that are shown on top of one another.
const MARKS: usize = 8;
/// Bytes before a change that may be drawn in another way after it: a cluster, and the character behind it.
const REACH: usize = (CLUSTER + 1) * 4;

/// Something that is shown on one row: a character and the marks on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) width: usize,
}

/// The length in bytes of the grapheme at the beginning of a text, cut where it is longer than [`CLUSTER`] characters.
fn cluster(text: &str) -> usize {
    let window = text.char_indices().nth(CLUSTER).map_or(text, |(end, _)| text.get(..end).unwrap_or(text));
    window.graphemes(true).next().map_or(0, str::len)
}

/// Gives the cells of one cluster to `take`, in order.
///
/// A character that takes columns begins a cell, and marks that take none join it. Of joined characters terminals make one
/// or several, so each is a cell with its full width and is followed by [`SYNC`]. A newline is shown as a sign for it; what
/// is invisible, and a mark on nothing, is written out.
fn cells_of(cluster: &str, mut take: impl FnMut(Cell)) {
    let mut cell = Cell::default();
    let mut marks = 0_usize;
    let joined = cluster.chars().filter(|character| character.width().is_some_and(|width| width > 0)).count() > 1;
    for character in cluster.chars() {
        let (shown, hidden) = match character {
            '\n' => ('\u{21b5}', false),
            '\t' => ('\u{21e5}', false),
            _ => (character, is_hidden(character)),
        };
        let width = shown.width().unwrap_or(0);
        if width == 0 && !hidden && !cell.text.is_empty() && marks < MARKS {
            marks = marks.saturating_add(1);
            cell.text.push(shown);
            continue;
        }
        finish(&mut cell, joined, &mut take);
        if width == 0 || hidden {
            let mut written = String::new();
            push_visible(shown, &mut written);
            for letter in written.chars() {
                take(Cell { text: String::from(letter), width: 1 });
            }
        } else {
            marks = 0;
            cell = Cell { text: String::from(shown), width: 0 };
        }
    }
    finish(&mut cell, joined, &mut take);
}

fn finish(cell: &mut Cell, joined: bool, take: &mut impl FnMut(Cell)) {
    if cell.text.is_empty() {
        return;
    }
    let mut cell = core::mem::take(cell);
    if joined || cell.text.contains(SELECTORS) {
        cell.text.push(SYNC);
    }
    cell.width = width(&cell.text);
    take(cell);
}

/// Columns of shown text.
pub(crate) fn width(text: &str) -> usize {
    let (mut before, mut cell) = (0_usize, 0_usize);
    for character in text.chars() {
        match character.width() {
            Some(own @ 1..) => {
                before = before.saturating_add(cell);
                cell = own;
            }
            // Some terminals make a character wider that has this behind it.
            _ if character == WIDE_SELECTOR => cell = cell.max(2),
            _ => {}
        }
    }
    before.saturating_add(cell)
}

/// The cells of a short text.
pub(crate) fn cells(text: &str) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (first, after) = rest.split_at_checked(cluster(rest)).unwrap_or((rest, ""));
        cells_of(first, |cell| cells.push(cell));
        rest = after;
    }
    cells
}

/// Where a row begins in the text: at a cell of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Start {
    offset: usize,
    cell: usize,
}

/// The rows that a text fills, as far as they have been asked for. The first begins in a column of its own; behind the last
/// cell there is always a column for the cursor.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    columns: usize,
    indent: usize,
    /// Of each row that is known to exist.
    starts: Vec<Start>,
    /// Whether the last of them is the last row.
    whole: bool,
}

impl Rows {
    pub(crate) fn new(columns: usize, indent: usize) -> Self {
        Self { columns: columns.max(2), indent, starts: Vec::from([Start::default()]), whole: false }
    }

    /// The text has changed from this byte on.
    pub(crate) fn changed(&mut self, from: usize) {
        let known = self.starts.partition_point(|start| start.offset.saturating_add(REACH) <= from);
        self.starts.truncate(known.max(1));
        self.whole = false;
    }

    /// How many rows are as they were before the last change.
    pub(crate) fn known(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there is such a row.
    pub(crate) fn has(&mut self, row: usize, text: &str) -> bool {
        while self.starts.len() <= row && !self.whole {
            self.fill(self.starts.len().saturating_sub(1), text, |_, _| {});
        }
        row < self.starts.len()
    }

    /// What a row shows.
    pub(crate) fn row(&mut self, row: usize, text: &str) -> String {
        let mut shown = String::new();
        if self.has(row, text) {
            self.fill(row, text, |_, cell| shown.push_str(&cell.text));
        }
        shown
    }

    /// Where the cell at this byte stands, or the cursor behind the last one.
    pub(crate) fn place(&mut self, offset: usize, text: &str) -> Place {
        let wanted = Start { offset, cell: 0 };
        while self.starts.last().is_some_and(|last| *last <= wanted) && !self.whole {
            self.fill(self.starts.len().saturating_sub(1), text, |_, _| {});
        }
        let row = self.starts.partition_point(|start| *start <= wanted).saturating_sub(1);
        let mut column = self.indent_of(row);
        let mut is_behind = true;
        self.fill(row, text, |start, cell| {
            if start.offset < offset {
                column = column.saturating_add(cell.width);
            } else {
                is_behind = false;
            }
        });
        // From within the last cell of a row it goes to the next one.
        let next = row.saturating_add(1);
        if is_behind && self.has(next, text) { Place { row: next, column: 0 } } else { Place { row, column } }
    }

    fn indent_of(&self, row: usize) -> usize {
        if row == 0 { self.indent } else { 0 }
    }

    /// Goes through the cells of a row, and learns where the next one begins.
    fn fill(&mut self, row: usize, text: &str, mut take: impl FnMut(Start, &Cell)) {
        let Some(&start) = self.starts.get(row) else { return };
        let mut column = self.indent_of(row);
        let mut offset = start.offset;
        let mut next = None;
        while next.is_none() {
            let rest = text.get(offset..).unwrap_or_default();
            let length = cluster(rest);
            if length == 0 {
                // The cursor's own place.
                if column >= self.columns {
                    next = Some(Start { offset, cell: 0 });
                }
                break;
            }
            let mut number = 0_usize;
            cells_of(rest.get(..length).unwrap_or_default(), |cell| {
                let at = Start { offset, cell: number };
                number = number.saturating_add(1);
                if next.is_some() || at < start {
                    return;
                }
                let end = column.saturating_add(cell.width);
                if end > self.columns && column > 0 {
                    next = Some(at);
                } else {
                    column = end;
                    take(at, &cell);
                }
            });
            offset = offset.saturating_add(length);
        }
        if row.saturating_add(1) == self.starts.len() {
            match next {
                Some(next) => self.starts.push(next),
                None => self.whole = true,
            }
        }
    }
}
