//! One line being edited on the screen.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::buffer::Buffer;
use crate::completion::{Completed, Completions};
use crate::console::{Echo, Event};
use crate::history::History;
use crate::keys::Key;
use crate::layout::{Place, cells};
use crate::sanitise::Clean;
use crate::style::{Painter, Style};

/// A prompt, the line behind it, and where on the screen they are.
#[derive(Debug)]
pub(crate) struct LineEditor {
    prompt: Vec<(Style, Clean)>,
    echo: Echo,
    keep: bool,
    completions: Completions,
    buffer: Buffer,
    /// Where the cursor is, from where the prompt begins.
    cursor: Place,
    /// Row of the end of the line.
    last_row: usize,
    shown: bool,
}

/// The longest line, in bytes.
const LINE_LIMIT: usize = 64 * 1024;

const BELL: u8 = 7;

impl LineEditor {
    pub(crate) fn new(prompt: Vec<(Style, Clean)>, echo: Echo, keep: bool, completions: Vec<String>) -> Self {
        Self {
            prompt,
            echo,
            keep,
            completions: Completions(completions),
            buffer: Buffer::default(),
            cursor: Place::default(),
            last_row: 0,
            shown: false,
        }
    }

    /// Paints prompt and line at the left edge of the current row.
    pub(crate) fn show(&mut self, painter: &Painter, columns: usize, out: &mut Vec<u8>) {
        if !self.shown {
            self.shown = true;
            self.cursor = Place::default();
            self.redraw(painter, columns, out);
        }
    }

    /// Takes prompt and line off the screen; the cursor stands where they began.
    pub(crate) fn hide(&mut self, out: &mut Vec<u8>) {
        if self.shown {
            self.shown = false;
            self.go_to_start(out);
        }
    }

    /// Forgets where it stood, as after the screen has changed its width or has been cleared.
    pub(crate) fn lost(&mut self) {
        self.shown = false;
    }

    /// Takes a key; returns the event that ends the line. The line is then off the editor's hands, and the cursor at
    /// the left edge below it.
    pub(crate) fn key(
        &mut self,
        key: Key,
        history: &mut History,
        painter: &Painter,
        columns: usize,
        out: &mut Vec<u8>,
    ) -> Option<Event> {
        match key {
            Key::Char(character) | Key::Pasted(character) => {
                self.insert(character, painter, columns, out);
                return None;
            }
            Key::Enter => {
                self.leave(b"", out);
                let line = self.buffer.take();
                history.leave();
                if self.keep && self.echo == Echo::On {
                    history.add(&line);
                }
                return Some(Event::Line(line));
            }
            Key::Control('c') => {
                self.leave(b"^C", out);
                history.leave();
                return Some(Event::Interrupt);
            }
            Key::Control('d') if self.buffer.text().is_empty() => {
                self.leave(b"", out);
                history.leave();
                return Some(Event::End);
            }
            Key::Control('l') => {
                out.extend_from_slice(b"\x1b[H\x1b[2J");
                self.cursor = Place::default();
            }
            Key::Up | Key::Control('p') if self.echo == Echo::On => {
                if let Some(line) = history.older(self.buffer.text()) {
                    self.buffer.set(line);
                }
            }
            Key::Down | Key::Control('n') if self.echo == Echo::On => {
                if let Some(line) = history.newer() {
                    self.buffer.set(line);
                }
            }
            Key::Tab if self.echo == Echo::On => self.complete(columns, out),
            _ => edit(&mut self.buffer, key),
        }
        self.redraw(painter, columns, out);
        None
    }

    /// Goes on with the word before the cursor as far as that is clear, or tells what there is to choose from, above the line.
    fn complete(&mut self, columns: usize, out: &mut Vec<u8>) {
        let completed = match self.buffer.at_end() {
            true => self.completions.complete(self.buffer.text()),
            false => Completed::Nothing,
        };
        match completed {
            Completed::With(rest) if self.buffer.text().len().saturating_add(rest.len()) <= LINE_LIMIT => {
                self.buffer.insert(&rest);
            }
            Completed::With(_) | Completed::Nothing => out.push(BELL),
            Completed::Choice(words) => {
                self.go_to_start(out);
                put_words(&words, columns, out);
                out.extend_from_slice(b"\r\n");
                self.cursor = Place::default();
            }
        }
    }

    fn insert(&mut self, character: char, painter: &Painter, columns: usize, out: &mut Vec<u8>) {
        if self.buffer.text().len() >= LINE_LIMIT {
            out.push(BELL);
            return;
        }
        let simple = self.buffer.at_end() && (' '..='~').contains(&character);
        self.buffer.insert(character.encode_utf8(&mut [0; 4]));
        if self.echo == Echo::Off {
            return;
        }
        if simple && self.shown {
            // At the end of the line a plain character is all that has to be sent.
            if self.cursor.put(1, columns) {
                out.extend_from_slice(b"\r\n");
            }
            self.last_row = self.cursor.row;
            out.extend(u8::try_from(character));
        } else {
            self.redraw(painter, columns, out);
        }
    }

    /// Puts the cursor below the line, with a last remark behind it.
    fn leave(&mut self, remark: &[u8], out: &mut Vec<u8>) {
        let down = self.last_row.saturating_sub(self.cursor.row);
        if down > 0 {
            out.extend_from_slice(format!("\x1b[{down}B").as_bytes());
        }
        out.extend_from_slice(remark);
        out.extend_from_slice(b"\r\n");
        self.shown = false;
    }

    fn go_to_start(&self, out: &mut Vec<u8>) {
        if self.cursor.row > 0 {
            out.extend_from_slice(format!("\x1b[{}A", self.cursor.row).as_bytes());
        }
        out.extend_from_slice(b"\r\x1b[J");
    }

    fn redraw(&mut self, painter: &Painter, columns: usize, out: &mut Vec<u8>) {
        self.go_to_start(out);
        let mut place = Place::default();
        for (style, text) in &self.prompt {
            painter.open(*style, out);
            put(text.as_str(), &mut place, columns, out);
            painter.close(*style, out);
        }
        let mut cursor = place;
        if self.echo == Echo::On {
            put(self.buffer.before(), &mut place, columns, out);
            cursor = place;
            let mut rest = cells(self.buffer.after());
            if let Some((_, width)) = rest.next() {
                // The cursor stands on the grapheme that follows it, which may be on the next row.
                let mut on = place;
                if on.put(width, columns) {
                    cursor = Place { row: on.row, column: 0 };
                }
            }
            put(self.buffer.after(), &mut place, columns, out);
        }
        if place != cursor {
            let up = place.row.saturating_sub(cursor.row);
            out.push(b'\r');
            if up > 0 {
                out.extend_from_slice(format!("\x1b[{up}A").as_bytes());
            }
            if cursor.column > 0 {
                out.extend_from_slice(format!("\x1b[{}C", cursor.column).as_bytes());
            }
        }
        self.cursor = cursor;
        self.last_row = place.row;
    }
}

/// Writes a text's cells, going to the next row where they do not fit.
fn put(text: &str, place: &mut Place, columns: usize, out: &mut Vec<u8>) {
    for (shown, width) in cells(text) {
        if place.put(width, columns) {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(shown.as_bytes());
    }
}

/// Puts words beside and below each other, each in one piece where a row has room for it.
fn put_words(words: &[String], columns: usize, out: &mut Vec<u8>) {
    const GAP: &str = "  ";
    let mut place = Place::default();
    for word in words {
        let width = cells(word).map(|(_, width)| width).fold(GAP.len(), usize::saturating_add);
        if place.column > 0 && place.column.saturating_add(width) > columns {
            out.extend_from_slice(b"\r\n");
            place = Place::default();
        } else if place.column > 0 {
            put(GAP, &mut place, columns, out);
        }
        put(word, &mut place, columns, out);
    }
}

fn edit(buffer: &mut Buffer, key: Key) {
    match key {
        Key::Backspace | Key::Control('h') => buffer.backspace(),
        Key::Delete | Key::Control('d') => buffer.delete(),
        Key::Left | Key::Control('b') => buffer.left(),
        Key::Right | Key::Control('f') => buffer.right(),
        Key::Home | Key::Control('a') => buffer.home(),
        Key::End | Key::Control('e') => buffer.end(),
        Key::WordLeft => buffer.word_left(),
        Key::WordRight => buffer.word_right(),
        Key::KillWordLeft | Key::Control('w') => buffer.kill_word_left(),
        Key::KillWordRight => buffer.kill_word_right(),
        Key::Control('u') => buffer.kill_to_start(),
        Key::Control('k') => buffer.kill_to_end(),
        Key::Control('y') => buffer.yank(),
        _ => {}
    }
}

/// A secret does not stay behind in memory that is given back.
impl Drop for LineEditor {
    fn drop(&mut self) {
        if self.echo == Echo::Off {
            let mut line: Vec<u8> = String::into_bytes(self.buffer.take());
            line.fill(0);
            core::hint::black_box(&line);
        }
    }
}
