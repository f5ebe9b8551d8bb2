//! The other end of a serial terminal: its output as plain text, waiting for more, typing.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result};
use regex_lite::Regex;

use crate::timing::Piece;

/// Removes control sequences from a terminal's output: text and line feeds remain.
#[derive(Debug, Default, Clone)]
pub struct Stripper {
    state: State,
    /// A program's mark between two rows of one line; empty if it has none.
    row_mark: &'static str,
    /// Bytes of a UTF-8 character that is not complete yet.
    partial: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// After `ESC (` and the like: one more byte.
    Charset,
    /// After `ESC [`: until a byte from `@` to `~`.
    Control,
    /// After `ESC ]` and the like: until BEL or `ESC \`.
    String,
    /// After an ESC within such a string.
    StringEscape,
}

impl Stripper {
    /// One that joins the rows of a line again: `row_mark` is the program's mark between two rows, from the line feed
    /// on.
    #[must_use]
    pub fn joining(row_mark: &'static str) -> Self {
        Self { row_mark, ..Self::default() }
    }

    /// Appends the text in `bytes` to `text`.
    pub fn feed(&mut self, bytes: &[u8], text: &mut String) {
        for &byte in bytes {
            self.state = match (self.state, byte) {
                (State::Text, 0x1b) => State::Escape,
                (State::Text, _) => {
                    self.text(byte, text);
                    State::Text
                }
                (State::Escape, b'[') => State::Control,
                (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::String,
                (State::Escape, b' '..=b'/') => State::Charset,
                (State::Escape | State::Charset, _) => State::Text,
                (State::Control, b'K') => {
                    // A status line was on its own line before it was erased from the screen.
                    text.push('\n');
                    State::Text
                }
                (State::Control, b'@'..=b'~') => State::Text,
                (State::Control, _) => State::Control,
                (State::String, 0x07) => State::Text,
                (State::String, 0x1b) => State::StringEscape,
                (State::String, _) => State::String,
                (State::StringEscape, b'\\') => State::Text,
                (State::StringEscape, _) => State::String,
            };
        }
    }

    fn text(&mut self, byte: u8, text: &mut String) {
        match byte {
            b'\n' | b'\t' => text.push(char::from(byte)),
            0x08 => {
                text.pop();
            }
            0..=0x1f | 0x7f => {}
            0x20..=0x7e => {
                text.push(char::from(byte));
                if let Some(line) = text.strip_suffix(self.row_mark) {
                    text.truncate(line.len());
                }
            }
            _ => {
                self.partial.push(byte);
                match std::str::from_utf8(&self.partial) {
                    Ok(character) => text.push_str(character),
                    Err(error) if error.error_len().is_none() => return,
                    Err(_) => text.push(char::REPLACEMENT_CHARACTER),
                }
                self.partial.clear();
            }
        }
    }
}

/// The text to wait for.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// This text.
    Text(String),
    /// Anything this expression matches.
    Regex(Regex),
}

impl Pattern {
    /// Where it ends in `text`, at its first place there.
    pub fn end_in(&self, text: &str) -> Option<usize> {
        match self {
            Self::Text(wanted) => text.find(wanted.as_str()).map(|at| at + wanted.len()),
            Self::Regex(regex) => regex.find(text).map(|found| found.end()),
        }
    }

    /// The line of `text` in which it ends, at its first place there.
    pub fn line_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (before, after) = text.split_at_checked(self.end_in(text)?)?;
        let start = before.rfind('\n').map_or(0, |feed| feed + 1);
        let end = before.len() + after.find('\n').unwrap_or(after.len());
        text.get(start..end)
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Regex(regex) => write!(f, "/{}/", regex.as_str()),
        }
    }
}

/// Why waiting ended without what was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// The time is up.
    Deadline,
    /// The machine has closed the line.
    Closed,
}

/// A terminal session.
pub struct Terminal {
    line: File,
    began: Instant,
    output: Receiver<(Instant, Vec<u8>)>,
    reader: Option<JoinHandle<()>>,
    stripper: Stripper,
    raw: Vec<u8>,
    pieces: Vec<Piece>,
    text: String,
    seen: usize,
}

impl Terminal {
    /// A session on a connected line, whose text `stripper` makes.
    pub fn new(line: impl Into<OwnedFd>, stripper: Stripper) -> Result<Self> {
        let (line, output, reader) = open(line.into())?;
        let (raw, text) = (Vec::new(), String::new());
        let (began, pieces) = (Instant::now(), Vec::new());
        Ok(Self { line, began, output, reader: Some(reader), stripper, raw, pieces, text, seen: 0 })
    }

    /// Continues on the line of a machine that was started again. Everything that has appeared stays, and counts as seen: what
    /// is expected from now on, a prompt say, is that of the new machine. The new output begins on a line of its own, whatever
    /// the earlier machine left unfinished.
    pub fn reconnect(&mut self, line: impl Into<OwnedFd>) -> Result<()> {
        self.close();
        (self.line, self.output, self.reader) = {
            let (line, output, reader) = open(line.into())?;
            (line, output, Some(reader))
        };
        self.stripper = Stripper::joining(self.stripper.row_mark);
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.seen = self.text.len();
        Ok(())
    }

    /// Closes the line. What has appeared stays, and [`reconnect`](Self::reconnect) continues.
    pub fn close(&mut self) {
        // A socket has to be closed for its reader to end; a terminal has ended with the machine.
        let _ = rustix::net::shutdown(&self.line, rustix::net::Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }

    /// Everything that has appeared, as it came over the line.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// When each piece of it came, since the line was there.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Everything that has appeared, as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text after the last match.
    pub fn unseen(&self) -> &str {
        self.text.get(self.seen..).unwrap_or("")
    }

    /// Types bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.line.write_all(bytes).context("typing at the machine's terminal")
    }

    /// Waits until `pattern` appears after the last match, and makes this the last match.
    pub fn expect(&mut self, pattern: &Pattern, deadline: Instant) -> Result<(), Miss> {
        loop {
            if let Some(end) = pattern.end_in(self.unseen()) {
                self.seen += end;
                return Ok(());
            }
            self.more(deadline)?;
        }
    }

    /// Takes in everything until the line closes.
    pub fn drain(&mut self, deadline: Instant) -> Miss {
        loop {
            if let Err(miss) = self.more(deadline) {
                return miss;
            }
        }
    }

    /// Waits for more output, and takes all there is: a line comes in pieces of a few bytes, and a pattern is looked for
    /// in everything that is unseen.
    fn more(&mut self, deadline: Instant) -> Result<(), Miss> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.output.recv_timeout(left) {
            Ok(first) => {
                for (time, bytes) in std::iter::once(first).chain(self.output.try_iter()) {
                    self.stripper.feed(&bytes, &mut self.text);
                    self.pieces.push((time.saturating_duration_since(self.began), bytes.len()));
                    self.raw.extend(bytes);
                }
                // A backspace may have taken back text that was already matched.
                self.seen = self.seen.min(self.text.len());
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Err(Miss::Deadline),
            Err(RecvTimeoutError::Disconnected) => Err(Miss::Closed),
        }
    }
}

/// A line's output, and the thread that reads it.
type Opened = (File, Receiver<(Instant, Vec<u8>)>, JoinHandle<()>);

/// Begins to read a line.
fn open(line: OwnedFd) -> Result<Opened> {
    let line = File::from(line);
    let (sender, output) = channel();
    let mut source = line.try_clone().context("sharing the terminal's line")?;
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count) = source.read(&mut buffer) {
            let bytes = buffer.get(..count).unwrap_or(&[]).to_vec();
            if bytes.is_empty() || sender.send((Instant::now(), bytes)).is_err() {
                return;
            }
        }
    });
    Ok((line, output, reader))
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use std::time::Duration;

    fn stripped(pieces: &[&[u8]]) -> String {
        let (mut stripper, mut text) = (Stripper::joining("\n  ┆ "), String::new());
        for piece in pieces {
            stripper.feed(piece, &mut text);
        }
        text
    }

    #[test]
    fn control_sequences_vanish_however_they_are_cut() {
        let bytes =
            b"\x1b[2J\x1b[1;31mred\x1b[0m\r\n\x1b]0;title\x07a\x1b]8;;x\x1b\\b\x1b(Bc\x00\x7fd\xc3\xa9\x1b[?25h!";
        let whole = stripped(&[bytes]);
        assert_eq!(whole, "red\nabcd\u{e9}!");
        for cut in 0..bytes.len() {
            assert_eq!(stripped(&[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn backspaces_take_back_and_bad_bytes_show() {
        assert_eq!(stripped(&[b"abc\x08\x08x"]), "ax");
        assert_eq!(stripped(&[b"\xffa"]), "\u{fffd}a");
    }

    #[test]
    fn the_rows_of_a_line_are_joined() {
        let bytes = "a\u{1b}[1mb\r\n  ┆ c\u{1b}[0m d\r\n  │ ┆ e\r\n".as_bytes();
        for cut in 0..bytes.len() {
            assert_eq!(stripped(&[&bytes[..cut], &bytes[cut..]]), "abc d\n  │ ┆ e\n");
        }
    }

    fn session() -> (Terminal, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Terminal::new(ours, Stripper::default()).unwrap(), theirs)
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn matches_follow_each_other() {
        let (mut terminal, mut machine) = session();
        machine.write_all(b"one two \x1b[1mone\x1b[0m").unwrap();
        let one = Pattern::Text("one".into());
        terminal.expect(&one, far()).unwrap();
        terminal.expect(&one, far()).unwrap();
        drop(machine);
        assert_eq!(terminal.expect(&one, far()), Err(Miss::Closed));
        assert_eq!(terminal.text(), "one two one");
    }

    #[test]
    fn a_regex_matches_across_pieces() {
        let (mut terminal, mut machine) = session();
        let typed = std::thread::spawn(move || {
            machine.write_all(b"id=4").unwrap();
            machine.write_all(b"2;").unwrap();
            machine
        });
        terminal.expect(&Pattern::Regex(Regex::new("id=[0-9]+;").unwrap()), far()).unwrap();
        drop(typed.join().unwrap());
    }

    #[test]
    fn waiting_ends_at_the_deadline() {
        let (mut terminal, _machine) = session();
        let now = Instant::now();
        assert_eq!(terminal.expect(&Pattern::Text("x".into()), now), Err(Miss::Deadline));
    }

    #[test]
    fn a_second_line_continues_the_first() {
        let (mut terminal, mut machine) = session();
        machine.write_all(b"one \x1b[1").unwrap();
        drop(machine);
        assert_eq!(terminal.drain(far()), Miss::Closed);
        let (ours, mut machine) = UnixStream::pair().unwrap();
        terminal.reconnect(ours).unwrap();
        // The earlier machine's output is not what the later one is waited for.
        assert_eq!(terminal.unseen(), "");
        machine.write_all(b"two").unwrap();
        terminal.expect(&Pattern::Text("two".into()), far()).unwrap();
        assert_eq!(terminal.text(), "one \ntwo");
        assert_eq!(terminal.raw(), b"one \x1b[1two");
        terminal.send(b"x").unwrap();
        let mut byte = [0];
        machine.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }

    #[test]
    fn typing_arrives() {
        let (mut terminal, mut machine) = session();
        terminal.send(b"hi\r").unwrap();
        let mut bytes = [0; 3];
        machine.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"hi\r");
    }
}
