//! Base64 of RFC 4648, with padding, strict.

use alloc::string::String;
use alloc::vec::Vec;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let group = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for (at, shift) in [18_u32, 12, 6, 0].into_iter().enumerate() {
            let letter = ALPHABET.get(((group >> shift) & 63) as usize).copied().unwrap_or(b'=');
            out.push(if at <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// The bytes of a text; `None` if it is not exactly what [`encode`] makes.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity((text.len() / 4).saturating_mul(3));
    let last = (text.len() / 4).saturating_sub(1);
    for (number, chunk) in text.chunks(4).enumerate() {
        let padding = chunk.iter().rev().take_while(|letter| **letter == b'=').count();
        if padding > 2 || (padding > 0 && number != last) {
            return None;
        }
        let mut group = 0_u32;
        for letter in chunk.iter().take(4_usize.saturating_sub(padding)) {
            group = (group << 6) | value(*letter)?;
        }
        group = match padding {
            1 => group << 6,
            2 => group << 12,
            _ => group,
        };
        let bytes = [(group >> 16) & 255, (group >> 8) & 255, group & 255];
        let whole = 3_usize.saturating_sub(padding);
        // Bits that pad the last letter must be zero, or two texts would mean the same bytes.
        if bytes.iter().skip(whole).any(|byte| *byte != 0) {
            return None;
        }
        out.extend(bytes.iter().take(whole).filter_map(|byte| u8::try_from(*byte).ok()));
    }
    Some(out)
}

fn value(letter: u8) -> Option<u32> {
    let at = ALPHABET.iter().position(|candidate| *candidate == letter)?;
    u32::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_standard() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in ["Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "Z===", "Zm9v\n", "Zm-_", "===="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn bytes_round_trip(bytes in any::<Vec<u8>>()) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }
}
