//! The alphabet in which byte-level vocabularies write bytes: each of the 256 is one printable character. Bytes that are
//! printable in Latin-1 stand for themselves, the others, in order, for the characters from U+0100 on.

use alloc::string::String;
use alloc::vec::Vec;

/// Whether a byte stands for itself.
const fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The 68 bytes that do not stand for themselves, in order.
const SHIFTED: [u8; 68] = {
    let mut all = [0u8; 68];
    let (mut byte, mut rest) = (0u8, all.as_mut_slice());
    while let Some((first, others)) = rest.split_first_mut() {
        while is_printable(byte) {
            byte = byte.wrapping_add(1);
        }
        *first = byte;
        byte = byte.wrapping_add(1);
        rest = others;
    }
    all
};

/// The character that stands for a byte.
pub fn character(byte: u8) -> char {
    if is_printable(byte) {
        return char::from(byte);
    }
    let place = SHIFTED.iter().position(|shifted| *shifted == byte).unwrap_or(0);
    u32::try_from(place).ok().and_then(|place| char::from_u32(place.saturating_add(0x100))).unwrap_or('\u{fffd}')
}

/// The byte that a character stands for, if it stands for one.
pub fn byte(character: char) -> Option<u8> {
    match u8::try_from(character) {
        Ok(byte) => is_printable(byte).then_some(byte),
        Err(_) => SHIFTED.get(usize::try_from(u32::from(character).checked_sub(0x100)?).ok()?).copied(),
    }
}

/// Appends the characters that stand for `bytes`.
pub fn write(bytes: &[u8], out: &mut String) {
    out.extend(bytes.iter().map(|byte| character(*byte)));
}

/// Appends the bytes that `text` stands for. A character outside of the alphabet, which byte-level vocabularies should
/// not have, stands for itself.
pub fn read(text: &str, out: &mut Vec<u8>) {
    for character in text.chars() {
        match byte(character) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_one_character() {
        let all: Vec<char> = (0..=255).map(character).collect();
        assert!(all.iter().zip(0u8..=255).all(|(character, number)| byte(*character) == Some(number)));
        assert_eq!((character(b' '), character(b'\n'), character(b'A'), character(0xad)), ('Ġ', 'Ċ', 'A', 'Ń'));
        let mut bytes = Vec::new();
        read("Ġü漢", &mut bytes);
        assert_eq!(bytes, [b' ', 0xfc, 0xe6, 0xbc, 0xa2]);
    }
}
