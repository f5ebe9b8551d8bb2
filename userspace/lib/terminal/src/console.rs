//! The whole terminal: keyboard bytes in, events out, and every byte for the screen.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use crate::editor::LineEditor;
use crate::history::History;
use crate::keys::{Key, KeyDecoder};
use crate::sanitise::{Clean, sanitise};
use crate::style::{Painter, Style};

/// What the screen is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub columns: u16,
    pub rows: u16,
    /// Off for `NO_COLOR` and screens without it: no style is emitted, labels remain.
    pub colour: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { columns: 80, rows: 24, colour: true }
    }
}

/// A line to be read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Stands before the line. What comes before its last newline is shown once, above.
    pub prompt: Vec<(Style, Clean)>,
    pub echo: Echo,
    /// Whether the line joins the history. Answers to questions do not.
    pub keep: bool,
    /// Whether what was typed before counts. Off where a person decides about something: they cannot have meant a
    /// question that they had not seen.
    pub typeahead: bool,
    /// What lines may begin with, whole: Tab goes on to them.
    pub completions: Vec<String>,
}

impl Read {
    /// An ordinary line with history and type-ahead.
    #[must_use]
    pub fn line(prompt: &str) -> Self {
        Self {
            prompt: prompt_of(Style::Prompt, prompt),
            echo: Echo::On,
            keep: true,
            typeahead: true,
            completions: Vec::new(),
        }
    }

    /// The answer to a question: what was typed before does not count, and it stays out of the history.
    #[must_use]
    pub fn question(prompt: &str) -> Self {
        Self { prompt: prompt_of(Style::Question, prompt), keep: false, typeahead: false, ..Self::line("") }
    }

    /// A secret: a question whose answer is not shown.
    #[must_use]
    pub fn secret(prompt: &str) -> Self {
        Self { echo: Echo::Off, ..Self::question(prompt) }
    }
}

fn prompt_of(style: Style, text: &str) -> Vec<(Style, Clean)> {
    Vec::from([(style, sanitise(text.as_bytes()))])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    On,
    /// Nothing of the line appears, not even its length.
    Off,
}

/// What the person did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A line was entered. Pasted lines are joined by newlines.
    Line(String),
    /// Ctrl-C. A line that was being read is gone, and so is the type-ahead.
    Interrupt,
    /// Ctrl-D on an empty line. The read is over.
    End,
    /// The terminal told its size.
    Size { columns: u16, rows: u16 },
}

/// A terminal: one screen, one keyboard, at most one line being read.
#[derive(Debug)]
pub struct Console {
    painter: Painter,
    columns: usize,
    decoder: KeyDecoder,
    /// Keys that nobody has read yet.
    keys: VecDeque<Key>,
    editor: Option<LineEditor>,
    history: History,
    events: VecDeque<Event>,
    out: Vec<u8>,
    /// Answers that are due to the question for the size.
    sizes_due: u8,
    /// The cursor is behind a status line.
    has_status: bool,
}

/// How many keys may wait; more are dropped with a bell.
const TYPEAHEAD_LIMIT: usize = 4096;
/// The narrowest screen that is edited on.
const MIN_COLUMNS: u16 = 8;

const BELL: u8 = 7;

impl Console {
    /// A terminal whose cursor is at the left edge.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let columns = usize::from(settings.columns.max(MIN_COLUMNS));
        Self {
            painter: Painter::new(columns, settings.colour),
            columns,
            decoder: KeyDecoder::default(),
            keys: VecDeque::new(),
            editor: None,
            history: History::default(),
            events: VecDeque::new(),
            out: Vec::new(),
            sizes_due: 0,
            has_status: false,
        }
    }

    /// Takes the bytes for the screen that have been made since the last time.
    #[must_use]
    pub fn take_output(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }

    /// The next thing the person did.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Makes the terminal mark what is pasted.
    pub fn start(&mut self) {
        self.out.extend_from_slice(b"\x1b[?2004h");
    }

    /// Leaves the terminal as it was before [`Self::start`].
    pub fn stop(&mut self) {
        self.out.extend_from_slice(b"\x1b[?2004l");
    }

    /// Asks the terminal for its size; the answer comes as [`Event::Size`], or not at all.
    pub fn ask_size(&mut self) {
        self.sizes_due = self.sizes_due.saturating_add(1);
        self.out.extend_from_slice(b"\x1b7\x1b[999;999H\x1b[6n\x1b8");
    }

    /// Adapts to a new width.
    pub fn resize(&mut self, columns: u16) {
        self.columns = usize::from(columns.max(MIN_COLUMNS));
        self.painter.resize(self.columns);
        if core::mem::take(&mut self.has_status) {
            // How many rows it has by now only the terminal knows, so it is left where it is.
            self.painter.fresh_line(&mut self.out);
        }
        if let Some(editor) = &mut self.editor {
            // The terminal has moved the old line in its own way; a fresh one below it is always right.
            editor.lost();
            self.out.extend_from_slice(b"\r\n");
            editor.show(&self.painter, self.columns, &mut self.out);
        }
    }

    /// Takes bytes from the keyboard.
    pub fn input(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            for key in self.decoder.push(byte) {
                self.key(key);
            }
        }
    }

    /// Begins to read a line. A read that is under way is given up, and its line is lost.
    pub fn read(&mut self, read: Read) {
        self.cancel_read();
        if !read.typeahead {
            self.flush_typeahead();
        }
        self.take_status();
        self.painter.fresh_line(&mut self.out);
        let mut prompt = Vec::new();
        for (style, text) in read.prompt {
            let (above, last) = text.split_last_line();
            if !above.is_empty() {
                for (style, text) in prompt.drain(..) {
                    self.painter.paint(style, &text, &mut self.out);
                }
                self.painter.paint(style, &above, &mut self.out);
            }
            prompt.push((style, last));
        }
        let mut editor = LineEditor::new(prompt, read.echo, read.keep, read.completions);
        editor.show(&self.painter, self.columns, &mut self.out);
        self.editor = Some(editor);
        while self.editor.is_some()
            && let Some(key) = self.keys.pop_front()
        {
            self.edit(key);
        }
    }

    /// Whether a line is being read.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.editor.is_some()
    }

    /// Gives up the line that is being read, and takes it off the screen.
    pub fn cancel_read(&mut self) {
        if let Some(mut editor) = self.editor.take() {
            editor.hide(&mut self.out);
            self.history.leave();
        }
    }

    /// Forgets what was typed and not yet read.
    pub fn flush_typeahead(&mut self) {
        self.keys.clear();
    }

    /// Shows text where the cursor is. While a line is being read the text appears above it, on lines of its own.
    pub fn write(&mut self, style: Style, text: &Clean) {
        if text.is_empty() {
            return;
        }
        self.above(|painter, out| painter.paint(style, text, out));
    }

    /// Shows text as lines of their own, with the style's label before the first.
    pub fn write_line(&mut self, style: Style, text: &Clean) {
        self.above(|painter, out| painter.line(style, text, out));
    }

    /// Shows a line below all else, of one row at most, which goes when anything else is shown. While a line is being read there is
    /// no place for it.
    pub fn status(&mut self, style: Style, text: &Clean) {
        if self.editor.is_some() {
            return;
        }
        self.take_status();
        self.painter.fresh_line(&mut self.out);
        // In the last column some terminals go on to the next row.
        let row = text.first_row(self.columns.saturating_sub(1));
        self.painter.paint(style, &row, &mut self.out);
        self.has_status = !row.is_empty();
    }

    /// Takes the status line off the screen.
    fn take_status(&mut self) {
        if core::mem::take(&mut self.has_status) {
            self.painter.at_left();
            self.out.extend_from_slice(b"\r\x1b[K");
        }
    }

    /// Goes to a new line unless the cursor is at the left edge.
    pub fn fresh_line(&mut self) {
        self.take_status();
        if self.editor.is_none() {
            self.painter.fresh_line(&mut self.out);
        }
    }

    /// Clears the screen.
    pub fn clear(&mut self) {
        self.above(|painter, out| {
            painter.at_left();
            out.extend_from_slice(b"\x1b[H\x1b[2J");
        });
    }

    /// Sounds the bell.
    pub fn bell(&mut self) {
        self.out.push(BELL);
    }

    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The history, to fill it at the beginning of a session or to forget it at the end.
    pub fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    fn above(&mut self, write: impl FnOnce(&mut Painter, &mut Vec<u8>)) {
        self.take_status();
        if let Some(editor) = &mut self.editor {
            editor.hide(&mut self.out);
        }
        write(&mut self.painter, &mut self.out);
        if let Some(editor) = &mut self.editor {
            self.painter.fresh_line(&mut self.out);
            editor.show(&self.painter, self.columns, &mut self.out);
        }
    }

    fn key(&mut self, key: Key) {
        match key {
            Key::CursorAt { row, column } => {
                if let Some(due) = self.sizes_due.checked_sub(1) {
                    self.sizes_due = due;
                    self.resize(column);
                    self.events.push_back(Event::Size { columns: column, rows: row });
                }
            }
            _ if self.editor.is_some() => self.edit(key),
            Key::Control('c') => {
                self.flush_typeahead();
                self.events.push_back(Event::Interrupt);
            }
            _ if self.keys.len() >= TYPEAHEAD_LIMIT => self.out.push(BELL),
            _ => self.keys.push_back(key),
        }
    }

    fn edit(&mut self, key: Key) {
        let Some(editor) = &mut self.editor else {
            return;
        };
        let event = editor.key(key, &mut self.history, &self.painter, self.columns, &mut self.out);
        if let Some(event) = event {
            self.editor = None;
            if event == Event::Interrupt {
                self.flush_typeahead();
            }
            self.events.push_back(event);
        }
    }
}
