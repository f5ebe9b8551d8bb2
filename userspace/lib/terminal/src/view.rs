//! The part of prompt and line that is on the screen: a window of rows, drawn by what has changed in it.

#![deny(clippy::arithmetic_side_effects)]

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use unicode_width::UnicodeWidthChar;

use crate::layout::{Cell, Place, Rows, SYNC, cells, width};
use crate::sanitise::Clean;
use crate::style::{Painter, Style};

/// The size of the screen that a line is edited on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// The longest prompt, in bytes.
pub(crate) const PROMPT_LIMIT: usize = 512;

/// A row to draw: its text, and the part of the prompt with which it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    text: String,
    /// Bytes of the prompt, and how they are styled: up to that byte each.
    styles: Vec<(usize, Style)>,
}

/// Prompt and line in a window. It knows what it has drawn, and where that leaves the cursor.
#[derive(Debug)]
pub(crate) struct View {
    size: Size,
    prompt: Vec<(Style, Vec<Cell>)>,
    /// The prompt's rows; the line begins in the last of them.
    head: Vec<Row>,
    rows: Rows,
    /// Number of the first row in the window.
    top: usize,
    drawn: Vec<Row>,
    /// Where the cursor is, from the beginning of what is drawn.
    cursor: Place,
    /// What is drawn has not been touched since, except rows that may have changed from this one on.
    dirty: usize,
    /// Rows that have left the screen at its top because the window became lower. What is drawn begins in the top row then.
    gone: usize,
}

impl View {
    pub(crate) fn new(prompt: &[(Style, Clean)], size: Size) -> Self {
        let prompt = prompt.iter().map(|(style, text)| (*style, cells(text.as_str()))).collect();
        let mut view = Self {
            size,
            prompt,
            head: Vec::new(),
            rows: Rows::new(size.columns, 0),
            top: 0,
            drawn: Vec::new(),
            cursor: Place::default(),
            dirty: 0,
            gone: 0,
        };
        view.resize(size);
        view
    }

    /// Adapts to a screen; nothing of what was drawn counts any more.
    pub(crate) fn resize(&mut self, size: Size) {
        self.size = size;
        let mut column = 0_usize;
        let mut rows = Vec::from([Row::default()]);
        for (style, cells) in &self.prompt {
            for cell in cells {
                column = column.saturating_add(cell.width);
                if column > size.columns {
                    rows.push(Row::default());
                    column = cell.width;
                }
                if let Some(row) = rows.last_mut() {
                    row.text.push_str(&cell.text);
                    let end = row.text.len();
                    match row.styles.last_mut() {
                        Some((last, same)) if same == style => *last = end,
                        _ => row.styles.push((end, *style)),
                    }
                }
            }
        }
        self.head = rows;
        self.rows = Rows::new(size.columns, column);
        self.lost();
    }

    /// Forgets what was drawn: the cursor is at the left edge of a row of its own.
    pub(crate) fn lost(&mut self) {
        self.drawn.clear();
        self.cursor = Place::default();
        self.dirty = 0;
    }

    /// The line has changed from this byte on.
    pub(crate) fn changed(&mut self, from: usize) {
        self.rows.changed(from);
        let known = self.rows.known().saturating_add(self.head.len()).saturating_sub(1);
        self.dirty = self.dirty.min(known);
    }

    /// Takes what is drawn off the screen; the cursor stands where it began.
    pub(crate) fn hide(&mut self, out: &mut Vec<u8>) {
        self.go(Place::default(), out);
        if !self.drawn.is_empty() {
            out.extend_from_slice(b"\x1b[J");
        }
        self.lost();
        self.gone = 0;
    }

    /// The same if the window has another size, by which the terminal has moved what is drawn: it began `rows` above the
    /// cursor, above which there are `screen` rows of the screen.
    pub(crate) fn hide_moved(&mut self, rows: usize, screen: usize, out: &mut Vec<u8>) {
        // Many terminals bring rows back that had left a lower window: then there is more above the cursor than this.
        let back = screen.saturating_sub(rows).min(self.gone);
        let gone = self.gone.saturating_sub(back).saturating_add(rows.saturating_sub(screen));
        self.cursor = Place { row: rows.saturating_add(back).min(screen), column: usize::MAX };
        self.hide(out);
        self.gone = gone;
    }

    /// Puts the cursor at the left edge below what is drawn, with a last remark behind the cursor or the line.
    pub(crate) fn leave(&mut self, remark: &[u8], out: &mut Vec<u8>) {
        let last = self.drawn.len().saturating_sub(1);
        self.go(Place { row: last, column: self.cursor.column }, out);
        out.extend_from_slice(remark);
        out.extend_from_slice(b"\r\n");
        self.lost();
    }

    /// Rows above the cursor, where the terminal may have wrapped rows that no longer fit into `columns`.
    pub(crate) fn above(&self, columns: usize, wrapped: bool) -> usize {
        if !wrapped {
            return self.cursor.row;
        }
        let before = self.drawn.iter().take(self.cursor.row);
        before
            .map(|row| width(&row.text).div_ceil(columns).max(1))
            .fold(self.cursor.column.checked_div(columns).unwrap_or(0), usize::saturating_add)
    }

    /// The cursor's place in what is drawn.
    pub(crate) fn cursor(&self) -> Place {
        self.cursor
    }

    /// Draws what has changed, and puts the cursor before this byte of the line.
    pub(crate) fn draw(&mut self, line: &str, cursor: usize, painter: &Painter, out: &mut Vec<u8>) {
        let above = self.head.len().saturating_sub(1);
        let place = self.rows.place(cursor, line);
        let row = place.row.saturating_add(above);
        let top = self.window(row, above, line);
        if top != self.top {
            self.top = top;
            self.dirty = 0;
        }
        // What stands before the first row that may have changed is drawn already.
        let first = self.dirty.saturating_sub(top).min(self.drawn.len());
        // Of a line that does not fit the window is always full, so that moving in it makes no rows.
        let tall = self.exists(self.size.rows, above, line);
        let mut number = first;
        while number < self.size.rows && (tall || self.exists(number, above, line)) {
            let new = self.row(top.saturating_add(number), above, line);
            let next = number.saturating_add(1);
            let last = next >= self.size.rows || !(tall || self.exists(next, above, line));
            self.put(number, new, last, painter, out);
            number = next;
        }
        if number < self.drawn.len() {
            self.go(Place { row: number, column: 0 }, out);
            out.extend_from_slice(b"\x1b[J");
            self.drawn.truncate(number);
        }
        self.dirty = usize::MAX;
        self.go(Place { row: row.saturating_sub(top), column: place.column }, out);
    }

    /// The first row of the window. The window stays, or moves by half once the cursor's row is outside, so a long line
    /// is not drawn again for each of its rows.
    fn window(&mut self, cursor: usize, above: usize, line: &str) -> usize {
        let (height, half) = (self.size.rows, self.size.rows.checked_div(2).unwrap_or(0));
        if !self.exists(height, above, line) {
            return 0;
        }
        let seen = self.top..self.top.saturating_add(height);
        let top = if seen.contains(&cursor) { self.top } else { cursor.saturating_sub(half) };
        // Not less of the line than half a window shows.
        let mut fits = top;
        while fits > 0 && !self.exists(fits.saturating_add(half), above, line) {
            fits = fits.saturating_sub(1);
        }
        fits
    }

    fn exists(&mut self, row: usize, above: usize, line: &str) -> bool {
        row <= above || self.rows.has(row.saturating_sub(above), line)
    }

    fn row(&mut self, row: usize, above: usize, line: &str) -> Row {
        let mut shown = self.head.get(row).cloned().unwrap_or_default();
        if let Some(number) = row.checked_sub(above) {
            shown.text.push_str(&self.rows.row(number, line));
        }
        shown
    }

    /// Makes a row of the window what it has to be.
    fn put(&mut self, number: usize, new: Row, last: bool, painter: &Painter, out: &mut Vec<u8>) {
        let old = match self.drawn.get_mut(number) {
            Some(old) if *old == new => return,
            Some(old) => core::mem::take(old),
            None => {
                // A row further down is made by going there.
                if let Some(before) = number.checked_sub(1) {
                    self.go(Place { row: before, column: self.cursor.column }, out);
                    out.extend_from_slice(b"\r\n");
                    self.cursor = Place { row: number, column: 0 };
                }
                self.drawn.push(Row::default());
                Row::default()
            }
        };
        let same = if old.styles == new.styles { common(&old.text, &new.text) } else { 0 };
        let mut column = width(new.text.get(..same).unwrap_or_default());
        self.go(Place { row: number, column }, out);
        if same < old.text.len() {
            // Below the last row there is nothing that has to stay.
            out.extend_from_slice(if last { b"\x1b[J" } else { b"\x1b[K" });
            self.drawn.truncate(if last { number.saturating_add(1) } else { usize::MAX });
        }
        let mut from = same;
        for &(end, style) in &new.styles {
            if end > from {
                painter.open(style, out);
                emit(new.text.get(from..end).unwrap_or_default(), &mut column, out);
                painter.close(style, out);
                from = end;
            }
        }
        emit(new.text.get(from..).unwrap_or_default(), &mut column, out);
        self.cursor = Place { row: number, column };
        if let Some(drawn) = self.drawn.get_mut(number) {
            *drawn = new;
        }
    }

    /// Moves the cursor within what is drawn.
    fn go(&mut self, to: Place, out: &mut Vec<u8>) {
        let Place { row, column } = self.cursor;
        if let Some(up @ 1..) = row.checked_sub(to.row) {
            out.extend_from_slice(format!("\x1b[{up}A").as_bytes());
        } else if let Some(down @ 1..) = to.row.checked_sub(row) {
            out.extend_from_slice(format!("\x1b[{down}B").as_bytes());
        }
        if column != to.column {
            go_to_column(to.column, out);
        }
        self.cursor = to;
    }
}

fn go_to_column(column: usize, out: &mut Vec<u8>) {
    out.push(b'\r');
    if column > 0 {
        out.extend_from_slice(format!("\x1b[{column}C").as_bytes());
    }
}

/// Writes shown text. Where terminals do not agree how far that brings the cursor, it is put there.
fn emit(text: &str, column: &mut usize, out: &mut Vec<u8>) {
    for piece in text.split_inclusive(SYNC) {
        let plain = piece.trim_end_matches(SYNC);
        out.extend_from_slice(plain.as_bytes());
        *column = column.saturating_add(width(piece));
        if plain.len() < piece.len() {
            go_to_column(*column, out);
        }
    }
}

/// How many bytes two rows begin with together, up to the end of a cell.
fn common(one: &str, other: &str) -> usize {
    let same = one.bytes().zip(other.bytes()).take_while(|(left, right)| left == right).count();
    let is_end = |text: &str, at: usize| {
        text.get(at..).is_some_and(|rest| {
            rest.chars().next().is_none_or(|next| next != SYNC && next.width().is_some_and(|width| width > 0))
        })
    };
    (0..=same).rev().find(|&at| is_end(one, at) && is_end(other, at)).unwrap_or(0)
}
