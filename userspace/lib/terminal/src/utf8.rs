//! Bytes to characters, joined across reads.

#![deny(clippy::arithmetic_side_effects)]

/// Decodes UTF-8 a byte at a time. Each maximal piece that is not UTF-8 becomes one U+FFFD.
#[derive(Clone, Debug, Default)]
pub(crate) struct Utf8 {
    bytes: [u8; 4],
    have: usize,
    need: usize,
}

impl Utf8 {
    /// Takes a byte; returns the characters that are complete with it, in order.
    pub(crate) fn push(&mut self, byte: u8) -> impl Iterator<Item = char> + use<> {
        let broken = (self.need > 0 && !self.continues(byte)).then(|| {
            self.need = 0;
            char::REPLACEMENT_CHARACTER
        });
        let whole = if self.need > 0 { self.store(byte) } else { self.begin(byte) };
        broken.into_iter().chain(whole)
    }

    /// Whether no character has begun.
    pub(crate) fn is_idle(&self) -> bool {
        self.need == 0
    }

    /// What an unfinished character at the end of the input becomes.
    pub(crate) fn finish(&mut self) -> Option<char> {
        let unfinished = self.need > 0;
        self.need = 0;
        unfinished.then_some(char::REPLACEMENT_CHARACTER)
    }

    fn begin(&mut self, byte: u8) -> Option<char> {
        self.have = 0;
        self.need = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80.. => return Some(char::REPLACEMENT_CHARACTER),
            _ => return Some(char::from(byte)),
        };
        self.store(byte)
    }

    fn store(&mut self, byte: u8) -> Option<char> {
        if let Some(place) = self.bytes.get_mut(self.have) {
            *place = byte;
        }
        self.have = self.have.saturating_add(1);
        if self.have < self.need {
            return None;
        }
        let bytes = self.bytes.get(..self.need).unwrap_or_default();
        self.need = 0;
        core::str::from_utf8(bytes).ok().and_then(|text| text.chars().next())
    }

    /// Whether the byte may come next in the character that has begun.
    fn continues(&self, byte: u8) -> bool {
        let [first, ..] = self.bytes;
        match (self.have, first) {
            (1, 0xe0) => matches!(byte, 0xa0..=0xbf),
            (1, 0xed) => matches!(byte, 0x80..=0x9f),
            (1, 0xf0) => matches!(byte, 0x90..=0xbf),
            (1, 0xf4) => matches!(byte, 0x80..=0x8f),
            _ => matches!(byte, 0x80..=0xbf),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8]) -> String {
        let mut utf8 = Utf8::default();
        let mut text: String = bytes.iter().flat_map(|&byte| utf8.push(byte)).collect();
        text.extend(utf8.finish());
        text
    }

    proptest! {
        #[test]
        fn it_is_the_lossy_decoding_of_the_standard_library(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&bytes), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn text_comes_through(text: String) {
            prop_assert_eq!(decode(text.as_bytes()), text);
        }
    }

    #[test]
    fn every_lead_and_second_byte() {
        for first in 0x80..=0xff_u8 {
            for second in 0..=0xff_u8 {
                let bytes = [first, second, 0x80, b'x', first];
                assert_eq!(decode(&bytes), String::from_utf8_lossy(&bytes));
            }
        }
    }
}
