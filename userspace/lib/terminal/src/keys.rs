//! Keyboard bytes to keys, whatever pieces they come in.

#![deny(clippy::arithmetic_side_effects)]

use crate::utf8::Utf8;

/// What was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// A character from the clipboard; a newline is one of them and enters nothing.
    Pasted(char),
    /// The end of a paste was read, also of one whose beginning was not.
    PasteEnd,
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

/// Decodes keyboard input a byte at a time. Whole sequences that are no keys are dropped: unknown sequences, control
/// strings and reports of a mouse. Control strings are OSC, DCS, APC, PM and SOS, ended by BEL or ST, with ESC or as C1
/// controls. A paste is recognised by its brackets. Only the six bytes of [`PASTE_END`] end one, not another spelling of
/// the same sequence: terminals take those bytes out of what they paste, and no others.
#[derive(Clone, Debug, Default)]
pub struct KeyDecoder {
    utf8: Utf8,
    /// While pasting: where in a sequence that is dropped.
    state: State,
    pasting: bool,
    /// How many bytes of [`PASTE_END`] have come last.
    end: usize,
    /// The last key was a carriage return: a line feed after it is the same key.
    after_return: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// After ESC O, and the digits of a modifier.
    SingleShift,
    /// After CSI, with its numbers so far and how many characters it has.
    Sequence {
        numbers: [u16; 2],
        at: usize,
        length: u8,
        private: bool,
    },
    /// After CSI and a second bracket, as the Linux console writes F1 to F5: one more character.
    Bracket,
    /// In a control string, this many characters behind its beginning or the last pause.
    Text(u8),
    /// In a mouse's report, with this many bytes to come.
    Mouse(u8),
    /// A pause came after the Escape of a sequence, or after its `[`. What has come since are the characters of a paste's
    /// bracket from `from` up to `to`: they are keys unless the rest of the bracket follows.
    Stalled {
        bracket: (&'static str, u16),
        from: usize,
        to: usize,
    },
}

/// The end of a paste.
const PASTE_END: [u8; 6] = *b"\x1b[201~";
/// What stands behind the Escape of a paste's brackets, and their number.
const BRACKETS: [(&str, u16); 2] = [("[200~", 200), ("[201~", 201)];
/// Keys that one byte can complete at most: those of a stalled bracket that was none, and two after broken UTF-8.
const KEYS: usize = 6;

/// The longest sequence that is read as one, in characters.
const SEQUENCE_LIMIT: u8 = 32;
/// Characters between two pauses from which on a control string is a terminal's, which may stall in it. A person
/// types fewer after its beginning was typed by mistake.
const STRING_OF_TERMINAL: u8 = 8;

const ESCAPE: char = '\u{1b}';
const INTERRUPT: char = '\u{3}';
const CSI: char = '\u{9b}';

impl KeyDecoder {
    /// Takes the next byte; returns the keys that are complete with it: mostly none or one.
    pub fn push(&mut self, byte: u8) -> impl Iterator<Item = Key> + use<> {
        let mut keys = [None; KEYS];
        let ends = self.ends_paste(byte);
        match self.state {
            _ if ends => {
                let [first, ..] = &mut keys;
                *first = Some(Key::PasteEnd);
            }
            // These bytes are numbers and no characters; none of them is a control.
            State::Mouse(left) if byte >= 0x20 => {
                self.state = left.checked_sub(1).filter(|left| *left > 0).map_or(State::Ground, State::Mouse);
            }
            _ => {
                let characters = match byte {
                    0x80..=0x9f if self.utf8.is_idle() => [Some(char::from(byte)), None],
                    _ => {
                        let mut characters = self.utf8.push(byte);
                        [characters.next(), characters.next()]
                    }
                };
                let mut places = keys.iter_mut();
                for character in characters.into_iter().flatten() {
                    let held = self.stalled(character);
                    let continues = matches!(self.state, State::Stalled { .. });
                    let key = if continues { None } else { self.take(character) };
                    for (key, place) in held.chain(key).zip(&mut places) {
                        *place = Some(key);
                    }
                }
            }
        }
        keys.into_iter().flatten()
    }

    /// The line has been quiet for a while; returns the keys that had waited for what could follow. What a person can have
    /// begun ends here: Escape, even with a bracket, and a control string of a few characters. A link can also stall
    /// in a longer string: what then comes of it up to the next pause is dropped. Or it stalls in a paste or in one of its brackets, and
    /// continues there: no person types in a paste, or the digit of a sequence. If it stalls before the digit
    /// of a bracket, the bracket's rest is still known when it comes without another pause.
    pub fn pause(&mut self) -> impl Iterator<Item = Key> + use<> {
        let stalled = |from| State::Stalled { bracket: BRACKETS[0], from, to: from };
        let keys = self.given_up();
        match self.state {
            _ if self.pasting => {}
            State::Sequence { numbers, .. } if numbers != [0, 0] => {}
            State::Escape => self.state = stalled(0),
            SEQUENCE => self.state = stalled(1),
            State::Text(length) if length >= STRING_OF_TERMINAL => self.state = State::Text(0),
            _ => {
                self.state = State::Ground;
                self.utf8 = Utf8::default();
                self.end = 0;
            }
        }
        keys
    }

    /// The paste is over, though its end was not read.
    pub fn give_up_paste(&mut self) {
        *self = Self::default();
    }

    /// Whether the end of a paste is complete with this byte. Then that is all that has been read.
    fn ends_paste(&mut self, byte: u8) -> bool {
        // Only its first byte is an Escape, so no end begins within another.
        self.end = match PASTE_END.get(self.end) {
            Some(next) if *next == byte => self.end.saturating_add(1),
            _ => usize::from(PASTE_END.first() == Some(&byte)),
        };
        let ends = self.end == PASTE_END.len();
        if ends {
            *self = Self::default();
        }
        ends
    }

    /// Takes a character of a paste. A sequence is dropped, as the terminal's answer to a question is that comes meanwhile: it is
    /// neither text nor a key. A control that begins one otherwise is dropped alone.
    fn pasted(&mut self, character: char) -> Option<Key> {
        self.state = match (self.state, character) {
            (_, ESCAPE) => State::Escape,
            (State::Escape, '[') => SEQUENCE,
            (State::Escape, ' '..='~') => State::Ground,
            (State::Sequence { length: SEQUENCE_LIMIT.., .. }, _) => State::Ground,
            (State::Sequence { numbers, at, length, private }, ' '..='?') => {
                State::Sequence { numbers, at, length: length.saturating_add(1), private }
            }
            (State::Sequence { .. }, '@'..='~') => State::Ground,
            _ => {
                self.state = State::Ground;
                let after_return = core::mem::replace(&mut self.after_return, character == '\r');
                return match character {
                    INTERRUPT => Some(Key::Control('c')),
                    '\n' if after_return => None,
                    '\r' | '\n' => Some(Key::Pasted('\n')),
                    '\t' => Some(Key::Pasted('\t')),
                    _ if character.is_control() => None,
                    _ => Some(Key::Pasted(character)),
                };
            }
        };
        None
    }

    /// Whether what comes is pasted.
    #[must_use]
    pub fn is_pasting(&self) -> bool {
        self.pasting
    }

    /// If a bracket has stalled and this character continues it, it is kept with it. Otherwise what came of it was keys.
    fn stalled(&mut self, character: char) -> impl Iterator<Item = Key> + use<> {
        if let State::Stalled { bracket: (text, _), from, to } = self.state {
            let seen = text.get(..to).unwrap_or_default();
            let continues = |(text, _): &(&'static str, u16)| {
                text.strip_prefix(seen).is_some_and(|rest| rest.starts_with(character))
            };
            if let Some(bracket) = BRACKETS.into_iter().find(continues) {
                let to = to.saturating_add(1);
                let whole = State::Sequence { numbers: [bracket.1, 0], at: 0, length: 3, private: false };
                self.state = if to < bracket.0.len() { State::Stalled { bracket, from, to } } else { whole };
                return None.into_iter().flatten();
            }
        }
        Some(self.given_up()).into_iter().flatten()
    }

    /// The keys that the characters of a stalled bracket were after all.
    fn given_up(&mut self) -> impl Iterator<Item = Key> + use<> {
        let held = match self.state {
            State::Stalled { bracket: (text, _), from, to } => {
                self.state = State::Ground;
                text.get(from..to).unwrap_or_default()
            }
            _ => "",
        };
        held.chars().map(Key::Char)
    }

    fn take(&mut self, character: char) -> Option<Key> {
        if self.pasting {
            return self.pasted(character);
        }
        if character == INTERRUPT {
            self.state = State::Ground;
            self.after_return = false;
            return Some(Key::Control('c'));
        }
        if character == ESCAPE {
            // Whatever has begun ends here, so that the beginning of a paste is always seen.
            self.state = State::Escape;
            return None;
        }
        match self.state {
            State::Ground => self.ground(character),
            State::Text(length) => {
                self.text(character, length);
                None
            }
            // Controls work in the middle of a sequence.
            _ if character < ' ' => self.ground(character),
            State::Escape => self.escape(character),
            State::SingleShift if character.is_ascii_digit() => None,
            State::SingleShift => {
                self.state = State::Ground;
                letter(character, [0, 0])
            }
            State::Bracket | State::Mouse(_) => {
                self.state = State::Ground;
                None
            }
            State::Sequence { numbers, at, length, private } => self.sequence(character, numbers, at, length, private),
            // It was continued or given up before.
            State::Stalled { .. } => None,
        }
    }

    fn ground(&mut self, character: char) -> Option<Key> {
        self.state = match character {
            CSI => SEQUENCE,
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => State::Text(0),
            '\u{8f}' => State::SingleShift,
            _ => {
                self.state = State::Ground;
                return self.character(character);
            }
        };
        None
    }

    /// A character of a control string, which is dropped however long it is.
    fn text(&mut self, character: char, length: u8) {
        self.state = match character {
            '\u{7}' | '\u{9c}' | '\u{18}' | '\u{1a}' => State::Ground,
            _ => State::Text(length.saturating_add(1)),
        };
    }

    fn character(&mut self, character: char) -> Option<Key> {
        let after_return = core::mem::replace(&mut self.after_return, character == '\r');
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

    fn escape(&mut self, character: char) -> Option<Key> {
        self.state = match character {
            '[' => SEQUENCE,
            'O' => State::SingleShift,
            ']' | 'P' | 'X' | '^' | '_' => State::Text(0),
            _ => State::Ground,
        };
        match character {
            'b' => Some(Key::WordLeft),
            'f' => Some(Key::WordRight),
            'd' => Some(Key::KillWordRight),
            '\u{7f}' => Some(Key::KillWordLeft),
            // The end of a control string.
            '\\' => None,
            // Escape and then a key: the key counts as itself.
            _ if self.state == State::Ground => self.ground(character),
            _ => None,
        }
    }

    fn sequence(
        &mut self,
        character: char,
        mut numbers: [u16; 2],
        mut at: usize,
        length: u8,
        mut private: bool,
    ) -> Option<Key> {
        self.state = State::Ground;
        match character {
            '[' if length == 0 => {
                self.state = State::Bracket;
                return None;
            }
            'M' if length == 0 => {
                self.state = State::Mouse(3);
                return None;
            }
            '@'..='~' if private || length >= SEQUENCE_LIMIT => return None,
            '~' => return self.numbered(numbers),
            'R' => {
                let [row, column] = numbers;
                return Some(Key::CursorAt { row, column });
            }
            '@'..='}' => return letter(character, numbers),
            '0'..='9' => {
                if let Some(number) = numbers.get_mut(at) {
                    let digit = character.to_digit(10).and_then(|digit| u16::try_from(digit).ok()).unwrap_or_default();
                    *number = number.saturating_mul(10).saturating_add(digit);
                }
            }
            ';' => at = at.saturating_add(1),
            ' '..='?' => private = true,
            _ => return self.ground(character),
        }
        self.state = State::Sequence { numbers, at, length: length.saturating_add(1).min(SEQUENCE_LIMIT), private };
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
            // Its end is known by its bytes.
            _ => None,
        }
    }
}

/// The beginning of a sequence.
const SEQUENCE: State = State::Sequence { numbers: [0, 0], at: 0, length: 0, private: false };

/// A key that is known by a final letter, with modifiers in the second number.
fn letter(character: char, [_, modifier]: [u16; 2]) -> Option<Key> {
    let by_word = matches!(modifier, 3 | 5);
    match character {
        'A' => Some(Key::Up),
        'B' => Some(Key::Down),
        'C' if by_word => Some(Key::WordRight),
        'D' if by_word => Some(Key::WordLeft),
        'C' => Some(Key::Right),
        'D' => Some(Key::Left),
        'H' => Some(Key::Home),
        'F' => Some(Key::End),
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

    /// What terminals answer or report without being asked, each of which leaves nothing.
    const REPORTS: [&[u8]; 32] = [
        b"\x1b]11;rgb:0/0/0\x07",
        b"\x1b]11;rgb:0000/0000/0000\x1b\\",
        b"\x1b]52;c;cm0gLXJmIC8=\x07",
        b"\x1b]l\rsecond line\nthird\x1b\\",
        b"\x1bP>|XTerm(390)\x1b\\",
        b"\x1bP1$r0m\x1b\\",
        b"\x1bP1$r0m\x07",
        b"\x1b_Gi=31;OK\x1b\\",
        b"\x1b^private\x1b\\",
        b"\x1bXstring\x1b\\",
        b"\x9d11;rgb:0/0/0\x07",
        b"\x9d11;rgb:0/0/0\x9c",
        b"\xc2\x9d11;rgb:0/0/0\xc2\x9c",
        "\u{9d}l\u{41c}\u{1b}\\".as_bytes(),
        b"\x90>|XTerm(390)\x9c",
        b"\x9fGi=31;OK\x1b\\",
        b"\x9eprivate\x9c",
        b"\x98string\x9c",
        b"\x9b5~",
        b"\xc2\x9b?1;2c",
        b"\x1b[M #!",
        b"\x1b[M \xf0\xff",
        b"\x1b[<0;10;20M",
        b"\x1b[<0;10;20m",
        b"\x1b[32;10;20M",
        b"\x1b[I\x1b[O",
        b"\x1b[?1;2c",
        b"\x1b[>41;390;0c",
        b"\x1b[0n",
        b"\x1b[8;24;80t",
        b"\x1b[?2026;2$y",
        b"\x1b[[A\x1b[[E\x1bO5P",
    ];

    #[test]
    fn what_a_terminal_reports_is_no_key() {
        for report in REPORTS {
            let text = String::from_utf8_lossy(report);
            assert_eq!(keys(&[report, b"x"].concat()), [Key::Char('x')], "{text:?}");
            let twice = [report, report, b"\r"].concat();
            assert_eq!(keys(&twice), [Key::Enter], "{text:?}");
        }
    }

    #[test]
    fn a_string_is_dropped_to_its_end_and_a_typed_beginning_to_a_pause() {
        for start in [&b"\x1b]"[..], b"\x1bP", b"\x1b_", b"\x1b^", b"\x1bX", b"\x9d"] {
            assert_eq!(keys(&[start, &vec![b'\r'; 200_000], b"\x07x"].concat()), [Key::Char('x')]);
            assert_eq!(keys(&[start, b"abc\r\x03x"].concat()), [Key::Control('c'), Key::Char('x')]);
            // A terminal that stalls in it: what comes then is dropped, too.
            let mut decoder = KeyDecoder::default();
            assert_eq!(start.iter().chain(b"52;c;QUFB").flat_map(|&byte| decoder.push(byte)).count(), 0);
            assert_eq!(decoder.pause().count(), 0);
            assert_eq!(b"y\r\x07".iter().flat_map(|&byte| decoder.push(byte)).count(), 0);
            assert_eq!(decoder.push(b'x').collect::<Vec<_>>(), [Key::Char('x')]);
            // If nothing more comes, a person's keys count after the next pause.
            assert_eq!(start.iter().chain(b"52;c;QUFB").flat_map(|&byte| decoder.push(byte)).count(), 0);
            assert_eq!(decoder.pause().chain(decoder.push(b'y')).chain(decoder.pause()).count(), 0);
            assert_eq!(decoder.push(b'x').collect::<Vec<_>>(), [Key::Char('x')]);
            let mut decoder = KeyDecoder::default();
            assert_eq!(start.iter().chain(b"abc").flat_map(|&byte| decoder.push(byte)).count(), 0);
            assert_eq!(decoder.pause().count(), 0);
            assert_eq!(decoder.push(b'x').collect::<Vec<_>>(), [Key::Char('x')]);
        }
    }

    /// Whatever stands before it, the end of a paste ends it, and its beginning begins one.
    #[test]
    fn brackets_of_a_paste_are_always_seen() {
        for cut in [
            &b"\x1b"[..],
            b"\x1b[",
            b"\x1b[1;",
            b"\x1b[[",
            b"\x1bO",
            b"\x1b[M",
            b"\x1b[M !",
            b"\x1b]52;",
            b"\x90",
            b"\xe6\x97",
        ] {
            let mut decoder = KeyDecoder::default();
            let typed = [cut, b"\x1b[200~a\r", cut].concat();
            let decoded: Vec<Key> = typed.iter().flat_map(|&byte| decoder.push(byte)).collect();
            assert!(decoder.is_pasting(), "{cut:?} before the beginning");
            assert!(!decoded.contains(&Key::Enter), "{cut:?} {decoded:?}");
            let decoded: Vec<Key> = b"\x1b[201~\r".iter().flat_map(|&byte| decoder.push(byte)).collect();
            assert!(!decoder.is_pasting(), "{cut:?} before the end");
            assert_eq!(decoded.last(), Some(&Key::Enter));
        }
    }

    /// What is decoded with a pause at this place.
    fn with_pause(bytes: &[u8], at: usize) -> Vec<Key> {
        let mut decoder = KeyDecoder::default();
        let mut keys: Vec<Key> = bytes[..at].iter().flat_map(|&byte| decoder.push(byte)).collect();
        keys.extend(decoder.pause());
        keys.extend(bytes[at..].iter().flat_map(|&byte| decoder.push(byte)));
        keys.extend(decoder.pause());
        keys
    }

    #[test]
    fn a_pause_does_not_lose_a_bracket_of_a_paste() {
        for bytes in [&b"\x1b[200~y\rz\x1b[201~\r"[..], b"\x9b200~y\rz\x1b[201~\r", b"\x1b[201~\r", b"x\x1b[200~"] {
            for at in 0..=bytes.len() {
                assert_eq!(with_pause(bytes, at), keys(bytes), "{bytes:?} {at}");
            }
        }
    }

    /// What could have been the rest of a bracket and is not is keys, at once or after the next pause.
    #[test]
    fn what_follows_a_pause_is_not_lost() {
        let chars = |text: &str| text.chars().map(Key::Char).collect::<Vec<_>>();
        for (bytes, at, typed) in [
            (&b"\x1b["[..], 1, "["),
            (b"\x1b[2", 1, "[2"),
            (b"\x1b[2", 2, "2"),
            (b"\x1b[200", 1, "[200"),
            (b"\x1b[[x", 1, "[[x"),
            (b"\x1b[20a", 1, "[20a"),
            (b"\x1b[20a", 2, "20a"),
            (b"\x1b[202~", 1, "[202~"),
            (b"\x1b[20\xe6\x97\xa5", 1, "[20日"),
            (b"\x1b[20\xe6a", 1, "[20\u{fffd}a"),
        ] {
            assert_eq!(with_pause(bytes, at), chars(typed), "{bytes:?} {at}");
        }
        assert_eq!(with_pause(b"\x1b[20\x03", 1), [chars("[20"), vec![Key::Control('c')]].concat());
        assert_eq!(with_pause(b"\x1b[20\x1b[A", 1), [chars("[20"), vec![Key::Up]].concat());
    }

    /// A person types Escape, even with a bracket, and the key after a pause is that key.
    #[test]
    fn a_pause_ends_what_a_person_can_have_begun() {
        for begun in [&b"\x1b"[..], b"\x1b[", b"\x1bO", b"\x1b[[", b"\x1b[M", b"\x1b]", b"\xe6\x97"] {
            let mut decoder = KeyDecoder::default();
            assert_eq!(begun.iter().flat_map(|&byte| decoder.push(byte)).count(), 0, "{begun:?}");
            assert_eq!(decoder.pause().count(), 0);
            assert_eq!(decoder.push(b'A').collect::<Vec<_>>(), [Key::Char('A')], "{begun:?}");
        }
    }

    #[test]
    fn interrupt_works_in_the_middle_of_anything() {
        let long = [b"\x1b[".as_slice(), &[b'1'; 100]].concat();
        let starts = [&b""[..], b"\x1b", b"\x1b[", b"\x1b[1;", b"\x1bO", b"\xe6\x97", &long];
        for start in starts.into_iter().chain([&b"\x1b[M"[..], b"\x1b[M a", b"\x1b]52;", b"\x1bP", b"\x98", b"\x1b[["])
        {
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
            [
                Key::Pasted('a'),
                Key::Pasted('\n'),
                Key::Pasted('b'),
                Key::Pasted('\t'),
                Key::Pasted('c'),
                Key::PasteEnd,
                Key::Enter
            ]
        );
    }

    /// Every other spelling of the end of a paste is text of it, or dropped.
    #[test]
    fn nothing_else_ends_a_paste() {
        for spelling in [
            &b"\xc2\x9b201~"[..],
            b"\x9b201~",
            b"\xff\x9b201~",
            b"\x80\x9b201~",
            b"\x1b\x9b201~",
            b"\x1b[0201~",
            b"\x1b[201;1~",
            b"\x1b[;201~",
            b"\x1b[201$~",
            b"\x1b[2\x0001~",
            b"\x1b[\x1b[20\x1b1~",
            b"\x1b[201\x03~",
        ] {
            let mut decoder = KeyDecoder::default();
            let paste = [b"\x1b[200~", spelling, b"y\r"].concat();
            let decoded: Vec<Key> = paste.iter().flat_map(|&byte| decoder.push(byte)).collect();
            assert!(decoder.is_pasting(), "{spelling:?}");
            assert!(decoded.iter().all(|key| matches!(key, Key::Pasted(_) | Key::Control('c'))), "{decoded:?}");
            assert_eq!(decoder.pause().count(), 0);
            assert!(decoder.is_pasting(), "{spelling:?}");
            // Nor does it count as an end outside of a paste.
            assert!(!keys(spelling).contains(&Key::PasteEnd), "{spelling:?}");
        }
    }

    #[test]
    fn an_interrupt_does_not_end_a_paste() {
        let mut decoder = KeyDecoder::default();
        let decoded: Vec<Key> = b"\x1b[200~a\x03b\r".iter().flat_map(|&byte| decoder.push(byte)).collect();
        assert_eq!(decoded, [Key::Pasted('a'), Key::Control('c'), Key::Pasted('b'), Key::Pasted('\n')]);
        assert!(decoder.is_pasting());
    }

    #[test]
    fn escape_then_a_letter_is_not_lost() {
        assert_eq!(keys(b"\x1byes"), [Key::Char('y'), Key::Char('e'), Key::Char('s')]);
        assert_eq!(keys(b"\x1b\xc3\xbc"), [Key::Char('ü')]);
    }

    /// Of them an end can be put together, and what looks like one.
    const PARTS: &[&[u8]] =
        &[b"\x1b", b"[", b"\x1b[20", b"1", b"201~", b"~", b"\x9b", b"\xc2\x9b", b"0", b";", b"\x03", b"\r"];

    proptest! {
        /// A paste that a pause cuts anywhere is the same paste.
        #[test]
        fn a_paste_is_one_wherever_the_link_stalls(text in "[ -~\\r\\n\\té日]{0,20}", at: prop::sample::Index) {
            let bytes = format!("\x1b[200~{text}\x1b[201~y\r");
            prop_assert_eq!(with_pause(bytes.as_bytes(), at.index(bytes.len())), keys(bytes.as_bytes()));
        }

        /// Only these six bytes end a paste, whatever else comes and wherever the link stalls.
        #[test]
        fn only_its_end_ends_a_paste(
            pieces in prop::collection::vec(prop_oneof![
                any::<u8>().prop_map(|byte| vec![byte]),
                prop::sample::select(PARTS).prop_map(<[u8]>::to_vec),
            ], 0..40),
            stalls: Vec<bool>,
        ) {
            let bytes = pieces.concat();
            prop_assume!(!bytes.windows(PASTE_END.len()).any(|part| part == PASTE_END));
            let mut decoder = KeyDecoder::default();
            prop_assert_eq!(b"\x1b[200~".iter().flat_map(|&byte| decoder.push(byte)).count(), 0);
            for (byte, stalls) in bytes.into_iter().zip(stalls.into_iter().chain(core::iter::repeat(false))) {
                let decoded: Vec<Key> = decoder.push(byte).collect();
                prop_assert!(decoder.is_pasting());
                prop_assert!(decoded.iter().all(|key| matches!(key, Key::Pasted(_) | Key::Control('c'))), "{:?}", decoded);
                if stalls {
                    prop_assert_eq!(decoder.pause().count(), 0);
                }
            }
        }

        #[test]
        fn no_input_makes_it_stop_listening(bytes: Vec<u8>) {
            let mut input = bytes;
            input.extend(b"\x03");
            prop_assert_eq!(keys(&input).pop(), Some(Key::Control('c')));
        }
    }
}
