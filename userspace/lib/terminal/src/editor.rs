//! One line being edited on the screen.

#![deny(clippy::arithmetic_side_effects)]

use alloc::string::String;
use alloc::vec::Vec;

use crate::buffer::Buffer;
use crate::completion::{Completed, Completions};
use crate::console::{Echo, Event, Read};
use crate::history::History;
use crate::keys::Key;
use crate::layout::{cells, width};
use crate::style::Painter;
use crate::view::{Size, View};

/// A prompt, the line behind it, and where on the screen they are.
#[derive(Debug)]
pub(crate) struct LineEditor {
    echo: Echo,
    keep: bool,
    /// Whether what is pasted is taken.
    pub(crate) pastes: bool,
    /// Whether what stands above it was laid out for the screen.
    pub(crate) laid_out: bool,
    completions: Completions,
    buffer: Buffer,
    /// What was typed or pasted and is not in the buffer yet: it goes there in one piece.
    pending: String,
    /// Where in the buffer the paste that is under way began.
    paste: Option<usize>,
    pub(crate) view: View,
}

/// What came of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The line is still edited, and may have changed.
    Edited,
    /// The line is still edited, as it was.
    Refused,
    /// The paste that is under way has no room, and nothing of it is in the line.
    PasteTooLong,
    /// What is typed has no room, and the line is gone.
    LineTooLong,
    /// A secret was pasted with several lines, and it is gone.
    SeveralLines,
    /// The screen is to be cleared above the line.
    Clear,
    /// These words are to be shown above the line.
    Choice(Vec<String>),
    /// The line is done.
    Ended(Event),
}

impl LineEditor {
    pub(crate) fn new(read: Read, size: Size) -> Self {
        Self {
            echo: read.echo,
            keep: read.keep,
            pastes: read.pastes,
            laid_out: read.laid_out.is_some(),
            completions: Completions(read.completions),
            buffer: Buffer::default(),
            pending: String::new(),
            paste: None,
            view: View::new(&read.prompt, size),
        }
    }

    /// Draws what has changed of prompt and line.
    pub(crate) fn draw(&mut self, painter: &Painter, out: &mut Vec<u8>) {
        self.settle();
        if let Some(from) = self.buffer.take_change() {
            self.view.changed(from);
        }
        match self.echo {
            Echo::On => self.view.draw(self.buffer.text(), self.buffer.cursor(), painter, out),
            Echo::Off => self.view.draw("", 0, painter, out),
        }
    }

    /// Forgets the line.
    pub(crate) fn empty(&mut self) {
        self.settle();
        self.buffer.wipe();
        self.paste = None;
    }

    /// Whether that key ends the line.
    pub(crate) fn ends_with(&self, key: Key) -> bool {
        match key {
            Key::Enter | Key::Control('c') => true,
            Key::Control('d') => self.buffer.text().is_empty() && self.pending.is_empty(),
            _ => false,
        }
    }

    /// Whether earlier lines come back: those of a prompt answer no question.
    fn recalls(&self) -> bool {
        self.keep && self.echo == Echo::On
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: Key, history: &mut History) -> Outcome {
        match key {
            Key::Char(character) => {
                self.paste = None;
                if self.take(character) {
                    return Outcome::Edited;
                }
                self.pending.clear();
                self.buffer.take();
                return Outcome::LineTooLong;
            }
            Key::Pasted(_) if !self.pastes => return Outcome::Refused,
            Key::Pasted(character) => {
                if self.paste.is_none() {
                    self.settle();
                    self.paste = Some(self.buffer.cursor());
                }
                if self.take(character) {
                    return Outcome::Edited;
                }
                self.pending.clear();
                if let Some(start) = self.paste.take() {
                    self.buffer.remove(start);
                }
                return Outcome::PasteTooLong;
            }
            _ => {}
        }
        self.settle();
        self.paste = None;
        let known = match key {
            Key::Enter => {
                let mut line = self.buffer.take();
                if self.echo == Echo::Off {
                    // What is copied from a file or a row of a table often ends with a newline, which is not shown here.
                    line.truncate(line.trim_end_matches('\n').len());
                    if line.contains('\n') {
                        // Nobody could type it, and nobody sees where it was cut.
                        return Outcome::SeveralLines;
                    }
                }
                history.leave();
                if self.recalls() {
                    history.add(&line);
                }
                return Outcome::Ended(Event::Line(line));
            }
            Key::Control('c') => {
                history.leave();
                return Outcome::Ended(Event::Interrupt);
            }
            Key::Control('d') if self.ends_with(key) => {
                history.leave();
                return Outcome::Ended(Event::End);
            }
            Key::Control('l') => return Outcome::Clear,
            Key::Up | Key::Control('p') if self.recalls() => {
                if let Some(line) = history.older(self.buffer.text()) {
                    self.buffer.set(line);
                }
                true
            }
            Key::Down | Key::Control('n') if self.recalls() => {
                if let Some(line) = history.newer() {
                    self.buffer.set(line);
                }
                true
            }
            Key::Tab if self.echo == Echo::On => return self.complete(),
            Key::PasteEnd => true,
            _ => edit(&mut self.buffer, key),
        };
        if known { Outcome::Edited } else { Outcome::Refused }
    }

    /// Whether there is room for one more character, which is taken then.
    fn take(&mut self, character: char) -> bool {
        let fits = self.pending.len().saturating_add(character.len_utf8()) <= self.buffer.room();
        if fits {
            self.pending.push(character);
        }
        fits
    }

    /// Puts what is pending into the buffer.
    fn settle(&mut self) {
        if !self.pending.is_empty() {
            // There is room: `take` has looked.
            let _ = self.buffer.insert(&self.pending);
            self.pending.clear();
        }
    }

    /// Completes the word before the cursor up to the first ambiguity, or lists the choices.
    fn complete(&mut self) -> Outcome {
        let completed = match self.buffer.at_end() {
            true => self.completions.complete(self.buffer.text()),
            false => Completed::Nothing,
        };
        match completed {
            Completed::With(rest) if self.buffer.insert(&rest) => Outcome::Edited,
            Completed::With(_) | Completed::Nothing => Outcome::Refused,
            Completed::Choice(words) => Outcome::Choice(words),
        }
    }
}

/// Words next to and below each other, each in one piece where a row of the screen has room for it.
pub(crate) fn in_rows(words: &[String], columns: usize) -> String {
    const GAP: &str = "  ";
    let mut out = String::new();
    let mut column = 0_usize;
    for word in words {
        let shown: String = cells(word).into_iter().map(|cell| cell.text).collect();
        let wide = width(&shown);
        if column > 0 && column.saturating_add(wide).saturating_add(GAP.len()) > columns {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push_str(GAP);
            column = column.saturating_add(GAP.len());
        }
        out.push_str(word);
        column = column.saturating_add(wide);
    }
    out
}

/// Whether that key does anything to a line.
fn edit(buffer: &mut Buffer, key: Key) -> bool {
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
        Key::Control('y') => return buffer.yank(),
        // What means nothing here is no mistake that a bell would have to tell of.
        _ => {}
    }
    true
}

/// A secret does not stay behind in memory that is given back.
impl Drop for LineEditor {
    fn drop(&mut self) {
        if self.echo == Echo::Off {
            self.empty();
        }
    }
}
