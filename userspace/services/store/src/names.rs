//! Names of people, and their passphrases.

use alloc::format;
use alloc::string::String;

/// Bytes of a name at most: the label of a key slot.
pub const MAX_NAME: usize = capos_volume::LABEL;
/// Characters of a new passphrase at least.
pub const MIN_PASSPHRASE: usize = 8;
/// Bytes of a secret at most.
pub const MAX_SECRET: usize = 1024;

/// Checks the name of a key's owner.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(format!("a name has 1 to {MAX_NAME} bytes, and this one has {}", name.len()));
    }
    if name.chars().any(char::is_control) || name.trim() != name {
        return Err("a name has no control characters, and no space at its ends".into());
    }
    Ok(())
}

/// Checks a passphrase that is to be set.
///
/// # Errors
/// What is wrong with it.
pub fn check_passphrase(passphrase: &str) -> Result<(), String> {
    check_secret(passphrase)?;
    let characters = passphrase.chars().count();
    if characters < MIN_PASSPHRASE {
        return Err(format!("a passphrase has at least {MIN_PASSPHRASE} characters, and this one has {characters}"));
    }
    Ok(())
}

/// Checks a secret before it is tried.
///
/// # Errors
/// It is empty or too long.
pub fn check_secret(secret: &str) -> Result<(), String> {
    if secret.is_empty() || secret.len() > MAX_SECRET {
        return Err(format!("a secret has 1 to {MAX_SECRET} bytes, and this one has {}", secret.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passphrases_have_bounds() {
        for name in ["ada", "Ada Lovelace", "\u{e9}mile", &"x".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", " ada", "ada ", "a\nb", "a\u{7}", &"x".repeat(65)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_passphrase("seven77").is_err() && check_passphrase("eight888").is_ok());
        assert!(check_passphrase("\u{e9}\u{e9}\u{e9}\u{e9}").is_err(), "bytes are no characters");
        assert!(check_passphrase(&"x".repeat(1024)).is_ok() && check_passphrase(&"x".repeat(1025)).is_err());
        assert!(check_secret("").is_err() && check_secret("x").is_ok());
    }
}
