//! What names and passphrases may be.

use alloc::format;
use alloc::string::String;

use capos_plural::count;
use capos_schema::store::{VolumeInfo, VolumeState};
use unicode_normalization::UnicodeNormalization;

/// Bytes of a name at most: the label of a key slot.
pub const MAX_NAME: usize = 64;
/// Characters of a passphrase at least.
pub const MIN_PASSPHRASE: usize = 8;
/// Bytes of a secret at most.
pub const MAX_SECRET: usize = 1024;
/// Bytes of a key file at least.
pub const MIN_KEY_FILE: usize = 32;
/// Names with a meaning at the login.
pub const RESERVED: [&str; 4] = ["guest", "anonymous", "forgot", "restore"];

/// Whether a volume is unlocked and waits for a person to confirm what its plan says.
#[must_use]
pub fn has_plan(volume: &VolumeInfo) -> bool {
    matches!(volume.state, VolumeState::Older | VolumeState::OtherVersion) && !volume.plan.is_empty()
}

/// Checks the name of a user who is to be made.
///
/// # Errors
/// What is wrong with it, and what a name may be.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(format!("a name has 1 to {MAX_NAME} bytes, and this one has {}", name.len()));
    }
    // Names stand in lists, in prompts and in commands.
    if name.chars().any(|letter| letter.is_control() || letter.is_whitespace() || letter == ',') {
        return Err("a name has no spaces, no commas and no control characters".into());
    }
    if name.starts_with('/') {
        return Err("a name does not begin with `/`".into());
    }
    if RESERVED.contains(&name) {
        return Err(format!("`{name}` has a meaning at the login; choose another name"));
    }
    Ok(())
}

/// Checks a passphrase that is to be set.
///
/// # Errors
/// What is wrong with it.
pub fn check_passphrase(passphrase: &str) -> Result<(), String> {
    let characters = passphrase.nfc().count();
    if characters < MIN_PASSPHRASE {
        return Err(format!("a passphrase has at least {MIN_PASSPHRASE} characters, and this one has {characters}"));
    }
    let bytes = normalised(passphrase).len();
    if bytes > MAX_SECRET {
        return Err(format!("a passphrase has at most {MAX_SECRET} bytes, and this one has {bytes}"));
    }
    let first = passphrase.chars().next();
    if passphrase.chars().all(|letter| Some(letter) == first) {
        return Err("a passphrase has more than one character repeated; choose several words".into());
    }
    Ok(())
}

/// Checks the content of a key file.
///
/// # Errors
/// What is wrong with it.
pub fn check_key_file(content: &str) -> Result<(), String> {
    if !(MIN_KEY_FILE..=MAX_SECRET).contains(&content.len()) {
        return Err(format!(
            "a key file has {MIN_KEY_FILE} to {MAX_SECRET} bytes of text, and this one has {}",
            content.len()
        ));
    }
    Ok(())
}

/// The passphrase in Unicode's form NFC, whose bytes are the key's: two keyboards that compose a letter differently
/// give the same key.
#[must_use]
pub fn normalised(passphrase: &str) -> String {
    passphrase.nfc().collect()
}

/// A count of failed attempts as a text; empty if there were none.
#[must_use]
pub fn attempts(failed: u32) -> String {
    if failed == 0 {
        return String::new();
    }
    format!("{} since the last login", count(failed, "failed attempt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_bounds() {
        for name in ["ada", "Ada.Lovelace", "\u{e9}mile", &"x".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "x".repeat(65);
        for (name, why) in [
            ("", "has 0"),
            (long.as_str(), "has 65"),
            ("a b", "no spaces"),
            ("a,b", "commas"),
            ("a\u{7}", "control"),
            ("a\n", "control"),
            ("/ada", "does not begin with `/`"),
            ("guest", "choose another name"),
            ("anonymous", "choose another name"),
            ("forgot", "choose another name"),
        ] {
            let error = check_name(name).unwrap_err();
            assert!(error.contains(why), "{name:?}: {error}");
        }
    }

    #[test]
    fn passphrases_have_bounds_in_characters_of_their_normal_form() {
        for good in ["eight888", "correct horse", &"xy".repeat(512)] {
            assert_eq!(check_passphrase(good), Ok(()));
        }
        for (bad, why) in [
            ("", "has 0"),
            ("seven77", "has 7"),
            // Eight code points, four characters.
            ("e\u{301}e\u{301}e\u{301}e\u{301}", "has 4"),
            (&"xy".repeat(513), "at most 1024 bytes"),
            ("aaaaaaaaa", "repeated"),
        ] {
            assert!(check_passphrase(bad).unwrap_err().contains(why), "{bad}");
        }
    }

    #[test]
    fn composed_and_decomposed_letters_are_one_passphrase() {
        assert_eq!(normalised("caf\u{e9} au lait"), normalised("cafe\u{301} au lait"));
        assert_eq!(normalised("plain words"), "plain words");
        assert_ne!(normalised("\u{fb01}ve"), "five", "ligatures are other letters");
    }

    #[test]
    fn key_files_have_bounds() {
        assert!(check_key_file(&"k".repeat(31)).unwrap_err().contains("has 31"));
        assert!(check_key_file(&"k".repeat(32)).is_ok() && check_key_file(&"k".repeat(1025)).is_err());
    }
}
