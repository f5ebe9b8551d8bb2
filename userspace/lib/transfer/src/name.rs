//! Names, in both directions.
//!
//! A name on a volume comes from outside: it is accepted by the rules that every path on this machine follows
//! ([`capos_tree::path`]), or its entry is left out. A name that goes to a FAT volume must also be one that every system
//! which reads FAT can open.

use alloc::string::String;
use core::fmt;

use capos_tree::path;

/// The longest name on a FAT volume, in UTF-16 units.
pub const MAX_UNITS: usize = 255;
/// Characters that no name on a FAT volume has, apart from control characters.
const FORBIDDEN: &[char] = &['"', '*', '/', ':', '<', '>', '?', '\\', '|'];
/// Names of devices on systems that read FAT volumes: a file of this name, with any extension, cannot be opened there.
const DEVICES: &[&str] = &["CON", "PRN", "AUX", "NUL"];
/// Devices that are numbered from 1 to 9.
const NUMBERED: &[&str] = &["COM", "LPT"];

/// Why a name cannot be written to a FAT volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It holds this character.
    Character { name: String, character: char },
    /// It ends with a dot or a space, which FAT does not keep.
    End(String),
    /// It is the name of a device on other systems.
    Device(String),
    /// It has more than [`MAX_UNITS`] UTF-16 units.
    TooLong(String),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character { name, character } => {
                write!(f, "a name on a FAT volume cannot hold `{}`: {name:?}", character.escape_debug())
            }
            Self::End(name) => write!(f, "a name on a FAT volume cannot end with a dot or a space: {name:?}"),
            Self::Device(name) => {
                write!(f, "{name:?} is a device on systems that read FAT volumes; choose another name")
            }
            Self::TooLong(name) => {
                let start: String = name.chars().take(24).collect();
                write!(f, "the name {start:?}… is longer than {MAX_UNITS} UTF-16 units")
            }
        }
    }
}

impl core::error::Error for NameError {}

/// Whether a name from a volume may be shown and opened: one component of a path of this machine.
#[must_use]
pub fn is_accepted(name: &str) -> bool {
    path::components(name).is_ok_and(|parts| parts == [name])
}

/// Checks a name that goes to a FAT volume.
///
/// # Errors
/// [`NameError`]; it says which character is forbidden.
pub fn check_fat(name: &str) -> Result<(), NameError> {
    let forbidden = |character: &char| character.is_control() || FORBIDDEN.contains(character);
    if let Some(character) = name.chars().find(forbidden) {
        return Err(NameError::Character { name: name.into(), character });
    }
    if name.is_empty() || name.ends_with(['.', ' ']) {
        return Err(NameError::End(name.into()));
    }
    if name.encode_utf16().count() > MAX_UNITS {
        return Err(NameError::TooLong(name.into()));
    }
    let base = name.split('.').next().unwrap_or(name).trim_end();
    let is_numbered = |device: &&str| {
        base.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(device))
            && matches!(base.as_bytes().get(3..), Some([b'1'..=b'9']))
    };
    if DEVICES.iter().any(|device| base.eq_ignore_ascii_case(device)) || NUMBERED.iter().any(is_numbered) {
        return Err(NameError::Device(name.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_from_a_volume_are_those_of_paths() {
        for name in ["a", "Grüße an die Welt.txt", "...", " a ", "a:b", "con"] {
            assert!(is_accepted(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "/a", "a/", "a\0", "a\u{1b}[2J", "a\nb", &"x".repeat(256)] {
            assert!(!is_accepted(name), "{name:?}");
        }
    }

    #[test]
    fn names_to_a_fat_volume_are_those_that_every_system_opens() {
        for name in ["a", "Grüße.txt", ".hidden", "CONSOLE", "com", "com10", "lpt0.txt", "a b", &"ü".repeat(255)] {
            assert_eq!(check_fat(name), Ok(()), "{name}");
        }
        for character in "\"*/:<>?\\|\u{1}\u{7f}".chars() {
            let name = alloc::format!("a{character}b");
            let error = check_fat(&name).unwrap_err();
            assert!(error.to_string().contains(&character.escape_debug().to_string()), "{error}");
        }
        for name in ["a.", "a ", ".", "..", ""] {
            assert!(matches!(check_fat(name), Err(NameError::End(_))), "{name:?}");
        }
        for name in ["con", "NUL.txt", "Com1", "lpt9.tar.gz", "aux .txt"] {
            assert!(matches!(check_fat(name), Err(NameError::Device(_))), "{name}");
        }
        assert!(matches!(check_fat(&"\u{1f512}".repeat(128)), Err(NameError::TooLong(_))));
    }
}
