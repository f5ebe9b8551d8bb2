//! The one sanitiser: text from anywhere becomes text that a terminal shows and does not obey.

#![deny(clippy::arithmetic_side_effects)]

use alloc::string::String;
use core::fmt::Write;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::style::TAB;
use crate::utf8::Utf8;

/// Text without control characters other than newline and tab, without escape sequences, and with everything
/// that is invisible or reorders other text written out as `\u{...}`. Only a [`Sanitiser`] makes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clean(String);

impl Clean {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is up to and with the last newline, and what comes after it.
    pub(crate) fn split_last_line(&self) -> (Self, Self) {
        let last = self.0.rfind('\n').map_or(0, |at| at.saturating_add(1));
        let (above, last) = self.0.split_at_checked(last).unwrap_or(("", &self.0));
        (Self(above.into()), Self(last.into()))
    }

    /// The part of the first line that fits into this many columns, if each tab has its greatest width.
    pub(crate) fn first_row(&self, columns: usize) -> Self {
        let line = self.0.lines().next().unwrap_or_default();
        let (mut width, mut end) = (0_usize, 0_usize);
        for (at, grapheme) in line.grapheme_indices(true) {
            width = width.saturating_add(if grapheme == "\t" { TAB } else { grapheme.width() });
            if width > columns {
                break;
            }
            end = at.saturating_add(grapheme.len());
        }
        Self(line.get(..end).unwrap_or_default().into())
    }

    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

/// Sanitises a whole text.
#[must_use]
pub fn sanitise(bytes: &[u8]) -> Clean {
    let mut sanitiser = Sanitiser::default();
    let Clean(mut text) = sanitiser.push(bytes);
    text.push_str(sanitiser.finish().as_str());
    Clean(text)
}

/// Sanitises a stream, piece by piece; where the pieces are cut makes no difference. Use one for each source.
///
/// Escape sequences are removed; an unfinished control string (OSC, DCS, APC, PM, SOS) swallows at most the rest of its
/// line, and at most [`STRING_LIMIT`] characters. Other controls are written out. CR LF becomes LF.
#[derive(Clone, Debug, Default)]
pub struct Sanitiser {
    utf8: Utf8,
    state: State,
    /// A carriage return has come, and what follows decides what it becomes.
    after_return: bool,
    /// The last character put out was a variation selector.
    after_selector: bool,
    /// Characters without width put out in a row.
    marks: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After ESC and at least one intermediate.
    Intermediate,
    /// In a control sequence, this many characters long.
    Sequence(u32),
    /// In a control string, this many characters long.
    Text(u32),
    /// After ESC in a control string.
    TextEscape,
}

/// The longest control sequence that is removed whole, in characters.
const SEQUENCE_LIMIT: u32 = 64;
/// The longest control string that is removed whole, in characters.
const STRING_LIMIT: u32 = 4096;
/// The most characters without width that are shown on top of one another.
const MARK_LIMIT: u32 = 8;

const ESCAPE: char = '\u{1b}';

impl Sanitiser {
    /// Takes the next piece; returns what can be shown of it.
    pub fn push(&mut self, bytes: &[u8]) -> Clean {
        let mut out = String::with_capacity(bytes.len());
        for &byte in bytes {
            for character in self.utf8.push(byte) {
                self.take(character, &mut out);
            }
        }
        Clean(out)
    }

    /// Ends the stream; returns what was held back. The sanitiser is then as new.
    pub fn finish(&mut self) -> Clean {
        let mut out = String::new();
        if let Some(character) = self.utf8.finish() {
            self.take(character, &mut out);
        }
        if self.after_return {
            self.put_visible('\r', &mut out);
        }
        if self.state == State::Escape {
            self.put_visible(ESCAPE, &mut out);
        }
        *self = Self::default();
        Clean(out)
    }

    fn take(&mut self, character: char, out: &mut String) {
        match self.state {
            State::Ground => self.ground(character, out),
            State::Escape => self.escape(character, out),
            State::Intermediate => match character {
                ' '..='/' => {}
                '0'..='~' => self.state = State::Ground,
                _ => self.ground(character, out),
            },
            State::Sequence(length) => match character {
                ' '..='?' if length < SEQUENCE_LIMIT => self.state = State::Sequence(length.saturating_add(1)),
                '@'..='~' => self.state = State::Ground,
                _ => self.ground(character, out),
            },
            State::Text(length) => match character {
                '\u{7}' | '\u{9c}' | '\u{18}' | '\u{1a}' => self.state = State::Ground,
                ESCAPE => self.state = State::TextEscape,
                '\n' => self.ground(character, out),
                _ if length >= STRING_LIMIT => self.ground(character, out),
                _ => self.state = State::Text(length.saturating_add(1)),
            },
            State::TextEscape => match character {
                '\\' => self.state = State::Ground,
                _ => self.escape(character, out),
            },
        }
    }

    fn escape(&mut self, character: char, out: &mut String) {
        self.state = match character {
            '[' => State::Sequence(0),
            ']' | 'P' | 'X' | '^' | '_' => State::Text(0),
            ' '..='/' => State::Intermediate,
            '0'..='~' => State::Ground,
            _ => {
                self.put_visible(ESCAPE, out);
                return self.ground(character, out);
            }
        };
    }

    fn ground(&mut self, character: char, out: &mut String) {
        self.state = State::Ground;
        if core::mem::take(&mut self.after_return) && character != '\n' {
            self.put_visible('\r', out);
        }
        match character {
            '\r' => self.after_return = true,
            ESCAPE => self.state = State::Escape,
            '\u{9b}' => self.state = State::Sequence(0),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.state = State::Text(0),
            '\n' | '\t' => self.put(character, out),
            _ if is_hidden(character) => self.put_visible(character, out),
            // One selector after a visible character chooses how it looks; more of them are a message in disguise.
            '\u{fe0e}' | '\u{fe0f}' if !self.after_selector => {
                self.after_selector = true;
                out.push(character);
            }
            '\u{fe00}'..='\u{fe0f}' => self.put_visible(character, out),
            _ if character.width() == Some(0) => {
                self.marks = self.marks.saturating_add(1);
                if self.marks > MARK_LIMIT {
                    self.put_visible(character, out);
                } else {
                    out.push(character);
                }
            }
            _ => self.put(character, out),
        }
    }

    fn put(&mut self, character: char, out: &mut String) {
        self.after_selector = false;
        self.marks = 0;
        out.push(character);
    }

    fn put_visible(&mut self, character: char, out: &mut String) {
        self.after_selector = false;
        self.marks = 0;
        push_visible(character, out);
    }
}

/// One line of a log: nothing is left out of it. A newline becomes a space, and each other control and invisible character is
/// written as `\u{...}`, those of escape sequences too: a sequence without an end would hide what follows it.
#[must_use]
pub fn log_line(text: &str) -> Clean {
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => written.push(' '),
            '\t' => written.push(character),
            _ if is_hidden(character) => push_visible(character, &mut written),
            _ => written.push(character),
        }
    }
    // What is left for it to do are marks without width.
    sanitise(written.as_bytes())
}

/// Appends `\u{...}`.
pub(crate) fn push_visible(character: char, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
}

/// Whether a character is a control, is invisible, or changes the order in which others are shown. Newline and tab
/// are controls too.
#[must_use]
pub(crate) fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
        )
}
