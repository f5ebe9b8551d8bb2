//! Keyboard bytes to keys, whatever pieces they come in.

#![deny(clippy::arithmetic_side_effects)]

use crate::utf8::Utf8;

/// What was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// A character from the clipboard; a newline is one of them and enters nothing.
    Pasted(char),
    Enter,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    WordLeft,
    WordRight,
    /// Alt-Backspace.
    KillWordLeft,
    /// Alt-D.
    KillWordRight,
    /// Ctrl with a letter, given in lower case.
    Control(char),
    /// The terminal's answer to the question where its cursor is; both from 1.
    CursorAt {
        row: u16,
        column: u16,
    },
}

/// Decodes keyboard input a byte at a time. Sequences it does not know are dropped; a paste is known by its brackets,
/// and Ctrl-C ends it.
#[derive(Clone, Debug, Default)]
pub struct KeyDecoder {
    utf8: Utf8,
    state: State,
    pasting: bool,
    /// The last key was a carriage return: a line feed after it is the same key.
    after_return: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// ESC O.
    SingleShift,
    /// ESC [, with its numbers so far and how many bytes it has.
    Sequence {
        numbers: [u16; 2],
        at: usize,
        length: u8,
        private: bool,
    },
}

/// The longest sequence that is read as one, in bytes.
const SEQUENCE_LIMIT: u8 = 32;

const ESCAPE: u8 = 0x1b;

impl KeyDecoder {
    /// Takes the next byte; returns the keys that are complete with it: none, one, or two after broken UTF-8.
    pub fn push(&mut self, byte: u8) -> impl Iterator<Item = Key> + use<> {
        let mut keys = [None, None];
        let mut broken = None;
        match self.state {
            // Controls work in the middle of a sequence, so that Ctrl-C always does.
            State::Escape | State::SingleShift | State::Sequence { .. } if byte < 0x20 && byte != ESCAPE => {
                self.state = State::Ground;
                keys = self.ground(byte);
            }
            State::Ground => keys = self.ground(byte),
            State::Escape => broken = self.escape(byte),
            State::SingleShift => {
                self.state = State::Ground;
                broken = letter(byte, [0, 0]);
            }
            State::Sequence { numbers, at, length, private } => {
                broken = self.sequence(byte, numbers, at, length, private);
            }
        }
        if self.pasting {
            broken = None;
        }
        keys.into_iter().flatten().chain(broken)
    }

    fn ground(&mut self, byte: u8) -> [Option<Key>; 2] {
        if byte == ESCAPE {
            self.state = State::Escape;
            return [self.utf8.finish().and_then(|character| self.character(character)), None];
        }
        let mut keys = [None, None];
        for (key, character) in keys.iter_mut().zip(self.utf8.push(byte)) {
            *key = self.character(character);
        }
        keys
    }

    fn character(&mut self, character: char) -> Option<Key> {
        let after_return = core::mem::replace(&mut self.after_return, character == '\r');
        if character == '\u{3}' {
            self.pasting = false;
            return Some(Key::Control('c'));
        }
        if self.pasting {
            return match character {
                '\n' if after_return => None,
                '\r' | '\n' => Some(Key::Pasted('\n')),
                '\t' => Some(Key::Pasted('\t')),
                _ if character.is_control() => None,
                _ => Some(Key::Pasted(character)),
            };
        }
        match character {
            '\n' if after_return => None,
            '\r' | '\n' => Some(Key::Enter),
            '\t' => Some(Key::Tab),
            '\u{8}' | '\u{7f}' => Some(Key::Backspace),
            '\u{1}'..='\u{1a}' => {
                let letter = u32::from(character).checked_add(0x60).and_then(char::from_u32)?;
                Some(Key::Control(letter))
            }
            _ if character.is_control() => None,
            _ => Some(Key::Char(character)),
        }
    }

    fn escape(&mut self, byte: u8) -> Option<Key> {
        self.state = State::Ground;
        match byte {
            b'[' => {
                self.state = State::Sequence { numbers: [0, 0], at: 0, length: 0, private: false };
                None
            }
            b'O' => {
                self.state = State::SingleShift;
                None
            }
            ESCAPE => {
                self.state = State::Escape;
                None
            }
            b'b' => Some(Key::WordLeft),
            b'f' => Some(Key::WordRight),
            b'd' => Some(Key::KillWordRight),
            0x7f => Some(Key::KillWordLeft),
            // Escape and then a key: there is no clock here, so the key counts as itself.
            _ => self.ground(byte).into_iter().flatten().next(),
        }
    }

    fn sequence(&mut self, byte: u8, mut numbers: [u16; 2], mut at: usize, length: u8, private: bool) -> Option<Key> {
        self.state = State::Ground;
        match byte {
            _ if length >= SEQUENCE_LIMIT => return None,
            ESCAPE => {
                self.state = State::Escape;
                return None;
            }
            b'0'..=b'9' => {
                if let Some(number) = numbers.get_mut(at) {
                    let digit = u16::from(byte.saturating_sub(b'0'));
                    *number = number.saturating_mul(10).saturating_add(digit);
                }
            }
            b';' => at = at.saturating_add(1),
            b' '..=b'/' | b':' | b'<'..=b'?' => {
                self.state = State::Sequence { numbers, at, length: length.saturating_add(1), private: true };
                return None;
            }
            b'@'..=b'~' if private => return None,
            b'~' => return self.numbered(numbers),
            b'R' => {
                let [row, column] = numbers;
                return Some(Key::CursorAt { row, column });
            }
            b'@'..=b'}' => return letter(byte, numbers),
            _ => return None,
        }
        self.state = State::Sequence { numbers, at, length: length.saturating_add(1), private };
        None
    }

    fn numbered(&mut self, [number, _]: [u16; 2]) -> Option<Key> {
        match number {
            1 | 7 => Some(Key::Home),
            3 => Some(Key::Delete),
            4 | 8 => Some(Key::End),
            200 => {
                self.pasting = true;
                self.after_return = false;
                None
            }
            201 => {
                self.pasting = false;
                self.after_return = false;
                None
            }
            _ => None,
        }
    }
}

/// A key that is known by a final letter, with modifiers in the second number.
fn letter(byte: u8, [_, modifier]: [u16; 2]) -> Option<Key> {
    let by_word = matches!(modifier, 3 | 5);
    match byte {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'C' if by_word => Some(Key::WordRight),
        b'D' if by_word => Some(Key::WordLeft),
        b'C' => Some(Key::Right),
        b'D' => Some(Key::Left),
        b'H' => Some(Key::Home),
        b'F' => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = KeyDecoder::default();
        bytes.iter().flat_map(|&byte| decoder.push(byte)).collect()
    }

    #[test]
    fn sequences_of_the_common_terminals() {
        for (bytes, key) in [
            (&b"\x1b[A"[..], Key::Up),
            (b"\x1bOA", Key::Up),
            (b"\x1b[B", Key::Down),
            (b"\x1b[C", Key::Right),
            (b"\x1bOD", Key::Left),
            (b"\x1b[1;5C", Key::WordRight),
            (b"\x1b[1;3D", Key::WordLeft),
            (b"\x1bb", Key::WordLeft),
            (b"\x1b\x1bf", Key::WordRight),
            (b"\x1b[H", Key::Home),
            (b"\x1bOH", Key::Home),
            (b"\x1b[1~", Key::Home),
            (b"\x1b[7~", Key::Home),
            (b"\x1b[F", Key::End),
            (b"\x1b[4~", Key::End),
            (b"\x1b[3~", Key::Delete),
            (b"\x1b\x7f", Key::KillWordLeft),
            (b"\x1bd", Key::KillWordRight),
            (b"\x7f", Key::Backspace),
            (b"\x08", Key::Backspace),
            (b"\x01", Key::Control('a')),
            (b"\x0c", Key::Control('l')),
            (b"\r\n", Key::Enter),
            (b"\n", Key::Enter),
            (b"\t", Key::Tab),
            (b"\xe6\x97\xa5", Key::Char('日')),
            (b"\xff", Key::Char('\u{fffd}')),
            (b"\x1b[24;80R", Key::CursorAt { row: 24, column: 80 }),
            (b"\x1b[99999999;1R", Key::CursorAt { row: u16::MAX, column: 1 }),
            (b"\x1b[?1;2c\x1b[5~\x1b[15~\x1bOPx", Key::Char('x')),
        ] {
            assert_eq!(keys(bytes), [key], "{bytes:?}");
        }
    }

    #[test]
    fn interrupt_works_in_the_middle_of_anything() {
        let long = [b"\x1b[".as_slice(), &[b'1'; 100]].concat();
        for start in [&b""[..], b"\x1b", b"\x1b[", b"\x1b[1;", b"\x1bO", b"\xe6\x97", b"\x1b[200~abc", &long] {
            let mut bytes = start.to_vec();
            bytes.extend(b"\x03\r");
            let decoded = keys(&bytes);
            assert!(decoded.ends_with(&[Key::Control('c'), Key::Enter]), "{start:?} gives {decoded:?}");
        }
    }

    #[test]
    fn a_paste_enters_nothing_and_obeys_nothing() {
        assert_eq!(
            keys(b"\x1b[200~a\r\nb\tc\x1b[A\x04\x1bf\x1b[201~\r"),
            [Key::Pasted('a'), Key::Pasted('\n'), Key::Pasted('b'), Key::Pasted('\t'), Key::Pasted('c'), Key::Enter]
        );
    }

    #[test]
    fn escape_then_a_letter_is_not_lost() {
        assert_eq!(keys(b"\x1byes"), [Key::Char('y'), Key::Char('e'), Key::Char('s')]);
        assert_eq!(keys(b"\x1b\xc3\xbc"), [Key::Char('ü')]);
    }

    proptest! {
        #[test]
        fn no_input_makes_it_stop_listening(bytes: Vec<u8>) {
            let mut input = bytes;
            input.extend(b"\x03");
            prop_assert_eq!(keys(&input).pop(), Some(Key::Control('c')));
        }
    }
}
