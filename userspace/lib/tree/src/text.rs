//! Pieces of a file's text: from the beginning of a character to that of another.

use core::fmt;
use core::str::Utf8Error;

/// The most text that one answer carries, in bytes.
pub const MAX_TEXT: usize = 256 * 1024;
/// Bytes of a character before its last one at most.
const REST: usize = 3;

/// A piece of a file's text that a call asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextPiece {
    /// Where its bytes begin in the file, with the rest of the character at its beginning.
    first: u64,
    /// Bytes before the piece itself.
    skipped: usize,
    /// Bytes of the piece itself at most.
    most: usize,
}

/// Why a piece of a file's text cannot be had; it follows the file's name in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextError {
    /// The call wants all of it, and that is more than [`MAX_TEXT`].
    TooLong(u64),
    /// It is no text.
    NotUtf8(Utf8Error),
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(size) => write!(
                f,
                "has {size} bytes, more than the {MAX_TEXT} of one answer; ask for pieces, by offset and length"
            ),
            Self::NotUtf8(error) => write!(f, "is not UTF-8 text: {error}"),
        }
    }
}

impl TextPiece {
    /// The piece of a file of `size` bytes that begins at `offset` and has `length` bytes: at most [`MAX_TEXT`]. With a length
    /// of 0 it is all that follows.
    ///
    /// # Errors
    /// All that follows is more than one answer carries.
    pub fn choose(size: u64, offset: u32, length: u32) -> Result<Self, TextError> {
        let offset = u64::from(offset).min(size);
        if length == 0 && size.saturating_sub(offset) > MAX_TEXT as u64 {
            return Err(TextError::TooLong(size));
        }
        let most = usize::try_from(length).ok().filter(|length| *length > 0).unwrap_or(MAX_TEXT).min(MAX_TEXT);
        let first = offset.saturating_sub(REST as u64);
        let skipped = usize::try_from(offset.saturating_sub(first)).unwrap_or(0);
        Ok(Self { first, skipped, most })
    }

    /// Which of the file's bytes [`Self::text`] wants: where they begin, and how many.
    pub fn bytes(&self) -> (u64, usize) {
        // The byte behind the piece says whether a character ends there.
        (self.first, self.skipped.saturating_add(self.most).saturating_add(1))
    }

    /// The text in those bytes, and where in the file it begins: from the beginning of the character that the piece begins in
    /// to that of the one that it ends in. Pieces of which each begins where the one before was to end come together as
    /// the whole.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn text<'a>(&self, bytes: &'a [u8]) -> Result<(&'a str, u64), TextError> {
        let start = begin(bytes, self.skipped);
        let end = begin(bytes, self.skipped.saturating_add(self.most)).max(start);
        let text = core::str::from_utf8(bytes.get(start..end).unwrap_or_default()).map_err(TextError::NotUtf8)?;
        Ok((text, self.first.saturating_add(start as u64)))
    }
}

/// Where the character at a place begins: at most three bytes before it, or just there where it is none.
fn begin(bytes: &[u8], at: usize) -> usize {
    let at = at.min(bytes.len());
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (at.saturating_sub(REST)..=at).rev().find(|at| !is_inside(*at)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use proptest::prelude::*;

    /// As a server does it, with the file in memory.
    fn read(file: &[u8], offset: u32, length: u32) -> Result<(&str, u64), TextError> {
        let piece = TextPiece::choose(file.len() as u64, offset, length)?;
        let (first, count) = piece.bytes();
        let first = usize::try_from(first).unwrap();
        piece.text(&file[first..first.saturating_add(count).min(file.len())])
    }

    #[test]
    fn a_piece_has_whole_characters() {
        let bytes = "aé\u{1f512}b".as_bytes();
        assert_eq!(read(bytes, 0, 99), Ok(("aé\u{1f512}b", 0)));
        assert_eq!(read(bytes, 0, 0), Ok(("aé\u{1f512}b", 0)));
        assert_eq!(read(bytes, 2, 4), Ok(("é", 1)));
        assert_eq!(read(bytes, 5, 3), Ok(("\u{1f512}b", 3)));
        assert_eq!(read(bytes, 4, 1), Ok(("", 3)));
        assert_eq!(read(bytes, 99, 5), Ok(("", 8)));
        assert!(read(b"\xff\xfe", 0, 2).is_err());
        assert!(read(b"\x80\x80\x80\x80\x80", 4, 1).is_err());
    }

    #[test]
    fn one_answer_is_bounded() {
        let file = "é".repeat(MAX_TEXT);
        let bytes = file.as_bytes();
        assert_eq!(read(bytes, 0, 0), Err(TextError::TooLong(file.len() as u64)));
        assert_eq!(read(bytes, 0, u32::MAX).map(|(text, start)| (text.len(), start)), Ok((MAX_TEXT, 0)));
        assert_eq!(read(bytes, 1, u32::MAX).map(|(text, start)| (text.len(), start)), Ok((MAX_TEXT, 0)));
        let half = u32::try_from(MAX_TEXT).unwrap();
        assert_eq!(read(bytes, half, 0).map(|(text, start)| (text.len(), start)), Ok((MAX_TEXT, MAX_TEXT as u64)));
        assert_eq!(
            TextError::TooLong(300_000).to_string(),
            "has 300000 bytes, more than the 262144 of one answer; ask for pieces, by offset and length"
        );
    }

    proptest! {
        #[test]
        fn pieces_come_together_as_the_whole(whole in "[aé\u{1f512}]{0,30}", length in 1_u32..9) {
            let mut all = String::new();
            for from in (0..u32::try_from(whole.len()).unwrap()).step_by(length as usize) {
                let (text, start) = read(whole.as_bytes(), from, length).unwrap();
                prop_assert_eq!(start, all.len() as u64);
                all.push_str(text);
            }
            prop_assert_eq!(all, whole);
        }
    }
}
