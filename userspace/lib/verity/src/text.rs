//! The text forms of signatures, keys and trust stores: strict, small, one way to write each.

use alloc::string::{String, ToString};
use core::fmt;

use crate::FormatError;

/// Longest text that any of the readers here accepts, in bytes.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Longest name of a file, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// Longest name of a purpose, in bytes.
pub(crate) const MAX_PURPOSE_BYTES: usize = 64;

/// Numbered lines of a text that begins with `<magic> <version>`; the first is already taken.
pub(crate) struct Lines<'a> {
    lines: core::iter::Enumerate<core::str::Split<'a, char>>,
}

impl<'a> Lines<'a> {
    pub fn new(bytes: &'a [u8], magic: &'static str, version: u32) -> Result<Self, FormatError> {
        if bytes.len() > MAX_TEXT_BYTES {
            return Err(FormatError::TooLong { bytes: bytes.len() });
        }
        let text = core::str::from_utf8(bytes)
            .map_err(|error| FormatError::NotText { line: line_of(bytes, error.valid_up_to()) })?;
        if let Some(at) = text.find(|c: char| c.is_control() && c != '\n') {
            return Err(FormatError::NotText { line: line_of(bytes, at) });
        }
        // The last line ends with a line feed like all others.
        let text = text.strip_suffix('\n').ok_or(FormatError::Missing { field: "final line feed" })?;
        let mut lines = text.split('\n').enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        let found = first
            .strip_prefix(magic)
            .and_then(|rest| rest.strip_prefix(' '))
            .ok_or(FormatError::Magic { expected: magic })?;
        if found != version.to_string() {
            let found = found.chars().take(32).collect();
            return Err(FormatError::Version { found, known: version });
        }
        Ok(Self { lines })
    }

    /// The next line and its number, counted from 1.
    pub fn next(&mut self) -> Option<(usize, &'a str)> {
        self.lines.next().map(|(index, line)| (index.saturating_add(1), line))
    }

    /// The value of the next line, which must be `<field>: <value>`.
    pub fn field(&mut self, field: &'static str) -> Result<(usize, &'a str), FormatError> {
        let (line, text) = self.next().ok_or(FormatError::Missing { field })?;
        text.strip_prefix(field)
            .and_then(|rest| rest.strip_prefix(": "))
            .map(|value| (line, value))
            .ok_or(FormatError::UnexpectedLine { line, expected: field })
    }

    /// The value of the next line if it is `<field>: <value>`; otherwise that line is still the next one.
    pub fn optional(&mut self, field: &'static str) -> Option<(usize, &'a str)> {
        let mut ahead = Self { lines: self.lines.clone() };
        let found = ahead.field(field).ok()?;
        *self = ahead;
        Some(found)
    }

    /// Refuses anything after the last field.
    pub fn end(&mut self) -> Result<(), FormatError> {
        match self.next() {
            None => Ok(()),
            Some((line, text)) => {
                let field = text.split(':').next().unwrap_or(text);
                Err(FormatError::UnknownField { line, field: field.chars().take(64).collect() })
            }
        }
    }
}

fn line_of(bytes: &[u8], at: usize) -> usize {
    let before = bytes.iter().take(at).filter(|byte| **byte == b'\n').count();
    before.saturating_add(1)
}

/// Writes bytes as lower-case hexadecimal digits.
pub(crate) fn write_hex(out: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Reads exactly `N` bytes of lower-case hexadecimal digits.
pub(crate) fn parse_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    if digits.bytes().any(|digit| digit.is_ascii_uppercase()) {
        return None;
    }
    let mut bytes = [0; N];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    Some(bytes)
}

/// The error in a purpose, if any: purposes are words of lower-case letters, digits and inner
/// hyphens.
pub(crate) fn check_purpose(purpose: &str) -> Result<(), &'static str> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if purpose.is_empty() || purpose.len() > MAX_PURPOSE_BYTES {
        Err("a purpose has 1 to 64 characters")
    } else if !purpose.bytes().all(allowed) || purpose.starts_with('-') || purpose.ends_with('-') {
        Err("a purpose is made of lower-case letters, digits and inner hyphens")
    } else {
        Ok(())
    }
}

/// The error in a file's name, if any: it is one path component of printable text.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        Err("a name has 1 to 255 bytes")
    } else if name.contains('/') || name.chars().any(char::is_control) {
        Err("a name holds no '/' and no control characters")
    } else if name == "." || name == ".." || name.trim() != name {
        Err("a name is not '.' or '..' and has no blanks at its ends")
    } else {
        Ok(())
    }
}

/// A decimal number written in the one shortest way.
pub(crate) fn parse_u64(digits: &str) -> Option<u64> {
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// A value as an error.
pub(crate) fn bad(line: usize, field: &'static str) -> impl Fn(&'static str) -> FormatError {
    move |why| FormatError::Value { line, field, why }
}

/// `text` as an owned string, for error values.
pub(crate) fn owned(text: &str) -> String {
    text.to_string()
}
