//! Pieces of a file's text: from the beginning of a character to that of another.

use core::str::Utf8Error;

/// The text of the bytes from `from` to `to`, both moved back to the beginning of the character that they are in, and where it
/// begins. Pieces of which each begins where the one before was to end come together as the whole.
///
/// # Errors
/// It is not UTF-8.
pub fn text_of(bytes: &[u8], from: usize, to: usize) -> Result<(&str, usize), Utf8Error> {
    let start = begin(bytes, from);
    let text = bytes.get(start..begin(bytes, to).max(start)).unwrap_or_default();
    core::str::from_utf8(text).map(|text| (text, start))
}

/// Where the character at a place begins: at most three bytes before it, or just there where it is none.
fn begin(bytes: &[u8], at: usize) -> usize {
    let at = at.min(bytes.len());
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_inside(*at)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;

    #[test]
    fn a_piece_has_whole_characters() {
        let bytes = "aé\u{1f512}b".as_bytes();
        assert_eq!(text_of(bytes, 0, 99), Ok(("aé\u{1f512}b", 0)));
        assert_eq!(text_of(bytes, 2, 6), Ok(("é", 1)));
        assert_eq!(text_of(bytes, 5, 8), Ok(("\u{1f512}b", 3)));
        assert_eq!(text_of(bytes, 4, 5), Ok(("", 3)));
        assert_eq!(text_of(bytes, 99, 5), Ok(("", 8)));
        assert!(text_of(b"\xff\xfe", 0, 2).is_err());
        assert!(text_of(b"\x80\x80\x80\x80\x80", 4, 5).is_err());
    }

    proptest! {
        #[test]
        fn pieces_come_together_as_the_whole(whole in "[aé\u{1f512}]{0,30}", length in 1_usize..9) {
            let mut all = String::new();
            for from in (0..whole.len()).step_by(length) {
                all.push_str(text_of(whole.as_bytes(), from, from.saturating_add(length)).unwrap().0);
            }
            prop_assert_eq!(all, whole);
        }
    }
}
