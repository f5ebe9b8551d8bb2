//! A console whose other end is an emulated terminal.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "each test uses a part of it, and may fail"
)]

use std::num::NonZero;

use capos_terminal::{Console, Event, Read, Settings};
use vt100::Parser;

/// The question where the cursor is.
const ASK: &[u8] = b"\x1b[6n";

pub struct Session {
    pub console: Console,
    pub terminal: Parser,
    /// The terminal answers where its cursor is.
    pub answers: bool,
    /// Bytes that were shown.
    pub shown: usize,
    /// Rows that have left the screen because the window became lower, whatever was on them.
    pub pushed: Vec<String>,
    /// Whether the terminal brings such rows back when the window becomes higher.
    pub pulls: bool,
    /// Rows that have left the screen of a terminal that does not.
    left: Vec<String>,
}

impl Session {
    pub fn new(columns: u16) -> Self {
        Self::of(columns, 24)
    }

    pub fn of(columns: u16, rows: u16) -> Self {
        let settings = Settings { columns, rows, colour: true };
        let terminal = Parser::new(number(rows), number(columns), 10_000);
        Self {
            console: Console::new(settings),
            terminal,
            answers: false,
            shown: 0,
            pushed: Vec::new(),
            pulls: true,
            left: Vec::new(),
        }
    }

    /// Types, and looks at the screen.
    pub fn type_(&mut self, bytes: &[u8]) -> Option<Event> {
        self.console.input(bytes);
        self.look();
        self.console.next_event()
    }

    /// Reads a line; a question is asked and seen.
    pub fn read(&mut self, read: Read) -> Option<Event> {
        let question = self.console.read(read);
        self.look();
        if let Some(question) = question {
            self.console.hear(question);
        }
        self.console.next_event()
    }

    /// Shows the output, and lets the terminal answer what it is asked.
    pub fn look(&mut self) {
        loop {
            let output = self.console.take_output();
            self.shown += output.len();
            let mut answers = Vec::new();
            let mut rest = output.as_slice();
            while let Some(at) = rest.windows(ASK.len()).position(|part| part == ASK) {
                self.terminal.process(&rest[..at]);
                let (row, column) = self.cursor();
                answers.extend(format!("\x1b[{};{}R", row + 1, column + 1).bytes());
                rest = &rest[at + ASK.len()..];
            }
            self.terminal.process(rest);
            if !self.answers || answers.is_empty() {
                return;
            }
            self.console.input(&answers);
        }
    }

    /// Changes the size of the window without telling the console. A lower one keeps the cursor's row on the screen.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        if !self.pulls && rows > self.terminal.screen().size().0.get() {
            self.left = self.scrollback();
            let mut higher = Parser::new(number(rows), self.terminal.screen().size().1, 10_000);
            let shown = self.terminal.screen().contents_formatted();
            higher.process(shown.as_bytes());
            self.terminal = higher;
        }
        let before = self.scrollback().len();
        self.terminal.screen_mut().set_size(number(rows), number(columns));
        let after = self.scrollback();
        self.pushed.extend(after.into_iter().skip(before));
    }

    /// The same of a terminal that wraps rows which no longer fit, and leaves the others as they are.
    pub fn wrap(&mut self, columns: u16) {
        let screen = self.terminal.screen();
        let (rows, _) = screen.size();
        let (cursor_row, cursor_column) = self.cursor();
        let lines = self.lines();
        let taken = |line: &String| line.chars().count().div_ceil(columns.into()).max(1);
        let all: usize = lines.iter().map(taken).sum();
        let above: usize = lines.iter().take(cursor_row.into()).map(taken).sum();
        let gone = all.saturating_sub(rows.get().into());
        let row = (above + usize::from(cursor_column / columns)).saturating_sub(gone);
        let mut wrapped = Parser::new(rows, number(columns), 10_000);
        wrapped.process(lines.join("\r\n").as_bytes());
        wrapped.process(format!("\x1b[{};{}H", row + 1, cursor_column % columns + 1).as_bytes());
        self.terminal = wrapped;
    }

    pub fn line(&mut self, bytes: &[u8]) -> String {
        self.read(Read::line("> "));
        match self.type_(bytes) {
            Some(Event::Line(line)) => line,
            other => panic!("{other:?}"),
        }
    }

    /// Row and column of the cursor, from 0. Behind the last column it is in it.
    pub fn cursor(&self) -> (u16, u16) {
        let screen = self.terminal.screen();
        let (row, column) = screen.cursor_position();
        (row, column.min(screen.size().1.get() - 1))
    }

    /// The rows of the screen, down to the last with text and to the cursor's.
    pub fn lines(&self) -> Vec<String> {
        let screen = self.terminal.screen();
        let (_, columns) = screen.size();
        let mut lines: Vec<String> = screen.rows(0, columns.get()).map(|row| row.trim_end().to_owned()).collect();
        while lines.len() > usize::from(self.cursor().0) + 1 && lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    /// Rows that have left the screen at its top, as wide as they were then.
    pub fn scrollback(&mut self) -> Vec<String> {
        self.terminal.screen_mut().set_scrollback(usize::MAX);
        let all = self.terminal.screen().scrollback();
        let mut lines = self.left.clone();
        for back in (1..=all).rev() {
            self.terminal.screen_mut().set_scrollback(back);
            let row = self.terminal.screen().rows(0, u16::MAX).next();
            lines.push(row.unwrap_or_default().trim_end().to_owned());
        }
        self.terminal.screen_mut().set_scrollback(0);
        lines
    }
}

fn number(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}
