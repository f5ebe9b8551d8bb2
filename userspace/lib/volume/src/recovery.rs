//! Recovery codes: eight groups of five letters, the last letter of each a check of the group.

use alloc::string::String;
use core::fmt;

use zeroize::Zeroizing;

use crate::Random;

/// 23 letters, a prime number of them: without I, O and U, which are misread most.
const LETTERS: &[u8; 23] = b"ABCDEFGHJKLMNPQRSTVWXYZ";
const COUNT: u32 = 23;
const GROUPS: usize = 8;
/// Random letters of a group; the check letter follows.
const RANDOM: usize = 4;

/// A secret of 144 bits that a person writes down once.
pub struct RecoveryCode(Zeroizing<[[u8; RANDOM]; GROUPS]>);

/// Why a typed code is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeError {
    /// It does not have 40 letters.
    Length { letters: usize },
    /// The character is not one of the code's letters.
    Letter { letter: char },
    /// The group of this number, from 1 on, has a wrong letter or is in the wrong place.
    Group { group: usize },
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { letters } => write!(f, "a recovery code has 40 letters, and this one has {letters}"),
            Self::Letter { letter } => write!(f, "{letter:?} is no letter of a recovery code"),
            Self::Group { group } => write!(f, "group {group} of the recovery code has a wrong letter"),
        }
    }
}

/// The check letter's number. It changes with any one letter, with two neighbours exchanged, and with the group's place.
fn check(group: usize, letters: &[u8; RANDOM]) -> u8 {
    let place = u32::try_from(group).unwrap_or_default().wrapping_mul(7);
    let sum = letters
        .iter()
        .zip(1_u32..)
        .fold(place, |sum, (letter, weight)| sum.wrapping_add(u32::from(*letter).wrapping_mul(weight)));
    u8::try_from(sum % COUNT).unwrap_or_default()
}

impl RecoveryCode {
    /// Draws a new code.
    pub fn new(random: Random<'_>) -> Self {
        let mut code = Zeroizing::new([[0; RANDOM]; GROUPS]);
        for letter in code.iter_mut().flatten() {
            // 253 is the largest multiple of 23 in a byte: above it some letters would be likelier.
            *letter = loop {
                let mut byte = [0];
                random(&mut byte);
                if byte[0] < 253 {
                    break byte[0] % 23;
                }
            };
        }
        Self(code)
    }

    /// Reads a typed code: spaces, hyphens and the case of letters do not matter.
    ///
    /// # Errors
    /// The error names the group that has a wrong letter.
    pub fn parse(text: &str) -> Result<Self, CodeError> {
        let mut code = Zeroizing::new([[0; RANDOM]; GROUPS]);
        let mut typed = Zeroizing::new([0_u8; GROUPS * (RANDOM + 1)]);
        let mut letters = 0_usize;
        for letter in text.chars().filter(|letter| !letter.is_whitespace() && *letter != '-') {
            let upper = letter.to_ascii_uppercase();
            let number = LETTERS.iter().zip(0_u8..).find(|(known, _)| char::from(**known) == upper);
            let (_, number) = number.ok_or(CodeError::Letter { letter })?;
            if let Some(place) = typed.get_mut(letters) {
                *place = number;
            }
            letters = letters.saturating_add(1);
        }
        if letters != typed.len() {
            return Err(CodeError::Length { letters });
        }
        for ((group, typed), letters) in typed.chunks(RANDOM + 1).enumerate().zip(code.iter_mut()) {
            crate::entry::put(letters, 0, typed);
            if typed.last() != Some(&check(group, letters)) {
                return Err(CodeError::Group { group: group.saturating_add(1) });
            }
        }
        Ok(Self(code))
    }

    /// The text that a person writes down: `ABCDE-FGHJK-…`.
    pub fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(48));
        for (group, letters) in self.0.iter().enumerate() {
            if group > 0 {
                text.push('-');
            }
            for number in letters.iter().copied().chain([check(group, letters)]) {
                text.push(LETTERS.get(usize::from(number)).map_or('?', |letter| char::from(*letter)));
            }
        }
        text
    }

    /// The bytes from which the slot's key is derived.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_flattened()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> RecoveryCode {
        let mut next = 0_u8;
        RecoveryCode::new(&mut |bytes| {
            for byte in bytes {
                next = next.wrapping_mul(29).wrapping_add(77);
                *byte = next;
            }
        })
    }

    #[test]
    fn a_code_is_read_as_it_was_shown() {
        let text = code().text();
        assert_eq!(text.len(), 47);
        for typed in [text.to_string(), text.to_lowercase(), text.replace('-', " "), text.replace('-', "")] {
            assert_eq!(RecoveryCode::parse(&typed).ok().unwrap().text(), text);
        }
    }

    #[test]
    fn every_wrong_letter_and_every_exchange_is_found_in_its_group() {
        let text = code().text();
        for at in (0..text.len()).filter(|at| at % 6 != 5) {
            for letter in LETTERS.iter().filter(|letter| **letter != text.as_bytes()[at]) {
                let mut typed = text.as_bytes().to_vec();
                typed[at] = *letter;
                let typed = String::from_utf8(typed).unwrap();
                assert_eq!(RecoveryCode::parse(&typed).err(), Some(CodeError::Group { group: at / 6 + 1 }));
            }
            let mut typed = text.as_bytes().to_vec();
            if at % 6 < 4 && typed[at] != typed[at + 1] {
                typed.swap(at, at + 1);
                assert!(RecoveryCode::parse(&String::from_utf8(typed).unwrap()).is_err());
            }
        }
        let mut groups: Vec<_> = text.split('-').collect();
        groups.swap(2, 5);
        assert_eq!(RecoveryCode::parse(&groups.join("-")).err(), Some(CodeError::Group { group: 3 }));
        assert_eq!(RecoveryCode::parse("AB").err(), Some(CodeError::Length { letters: 2 }));
        assert_eq!(RecoveryCode::parse("ABI").err(), Some(CodeError::Letter { letter: 'I' }));
    }
}
