//! `setup.toml`: the set-up of a machine without a person.

use alloc::format;
use alloc::string::{String, ToString};

use capos_schema::authority::Profile;
use serde::Deserialize;

use crate::rules::{check_name, check_passphrase};

/// What `setup.toml` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unattended {
    /// The first user.
    pub name: String,
    pub key: Key,
    /// An operator, if nothing else is said.
    pub profile: Profile,
    /// Whether a disk of an older version of capOS is migrated without a question.
    pub migrate: bool,
}

/// What opens the volume.
#[derive(Clone, PartialEq, Eq)]
pub enum Key {
    /// Used once, on a blank disk. Whoever reads the medium knows it.
    Passphrase(String),
    /// The path of a key file on the medium. It opens the volume at every start.
    File(String),
}

/// Reveals no passphrase.
impl core::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Passphrase(_) => formatter.write_str("Passphrase"),
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: toml::Spanned<String>,
    passphrase: Option<toml::Spanned<String>>,
    key_file: Option<toml::Spanned<String>>,
    profile: Option<toml::Spanned<String>>,
    #[serde(default)]
    migrate: bool,
}

/// The profile of a user, by its name.
///
/// # Errors
/// Users do not have it.
pub fn user_profile(name: &str) -> Result<Profile, String> {
    Profile::from_name(name)
        .filter(|profile| *profile != Profile::Anonymous)
        .ok_or_else(|| format!("a user's profile is operator or guest, and not {name:?}"))
}

/// The line of a byte, counted from 1.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count().saturating_add(1)
}

impl Unattended {
    /// Reads the file.
    ///
    /// # Errors
    /// The line, the field, and what is wrong. No passphrase is quoted.
    pub fn read(text: &str) -> Result<Self, String> {
        // The parser's own text quotes the line, which may hold the passphrase.
        let file: File = toml::from_str(text).map_err(|bad| {
            let at = line(text, bad.span().map_or(0, |span| span.start));
            match bad.message() {
                // It continues with the value.
                wrong if wrong.starts_with("invalid type") && wrong.ends_with("a boolean") => {
                    format!("line {at}: write true or false here")
                }
                wrong if wrong.starts_with("invalid type") => format!("line {at}: write a text in quotes here"),
                other => format!("line {at}: {other}"),
            }
        })?;
        let wrong = |field: &str, at: usize, why: &str| format!("line {}: {field}: {why}", line(text, at));
        let name = file.name;
        check_name(name.as_ref()).map_err(|why| wrong("name", name.span().start, &why))?;
        let profile = match &file.profile {
            None => Profile::Operator,
            Some(named) => user_profile(named.as_ref()).map_err(|why| wrong("profile", named.span().start, &why))?,
        };
        let key = match (file.passphrase, file.key_file) {
            (Some(passphrase), None) => {
                check_passphrase(passphrase.as_ref())
                    .map_err(|why| wrong("passphrase", passphrase.span().start, &why))?;
                Key::Passphrase(passphrase.into_inner())
            }
            (None, Some(path)) if path.as_ref().is_empty() => {
                return Err(wrong("key_file", path.span().start, "it is empty; give the path of a file on the medium"));
            }
            (None, Some(path)) => Key::File(path.into_inner().trim_start_matches('/').to_string()),
            (Some(_), Some(path)) => {
                return Err(wrong("key_file", path.span().start, "give either a passphrase or a key file"));
            }
            (None, None) => {
                return Err(wrong("name", name.span().start, "a passphrase or a key_file is missing in this file"));
            }
        };
        Ok(Self { name: name.into_inner(), key, profile, migrate: file.migrate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_a_user_and_a_key() {
        let read = Unattended::read("# a site\nname = \"ada\"\npassphrase = \"correct horse\"\n").unwrap();
        let key = Key::Passphrase("correct horse".into());
        assert_eq!(read, Unattended { name: "ada".into(), key, profile: Profile::Operator, migrate: false });
        let read =
            Unattended::read("name = 'kiosk'\nkey_file = '/etc/key'\nprofile = 'guest'\nmigrate = true").unwrap();
        assert_eq!(
            read,
            Unattended {
                name: "kiosk".into(),
                key: Key::File("etc/key".into()),
                profile: Profile::Guest,
                migrate: true
            }
        );
        assert!(!format!("{:?}", Key::Passphrase("correct horse".into())).contains("horse"));
    }

    #[test]
    fn mistakes_are_named_with_line_and_field_and_quote_no_passphrase() {
        for (text, words) in [
            ("", "line 1: missing field `name`"),
            ("name = 'ada'", "line 1: name: a passphrase or a key_file is missing"),
            ("name = 'ada'\npassphrase = 'swordfi'", "line 2: passphrase: a passphrase has at least 8 characters"),
            ("name = 'ada'\n\npassphrase = 'swordfish", "line 3: "),
            ("name = 'ada'\npassphrase = 'swordfish1'\nkey_file = 'x'", "line 3: key_file: give either"),
            ("name = 'ada'\nkey_file = ''", "line 2: key_file: it is empty"),
            ("name = 'guest'\nkey_file = 'x'", "line 1: name: `guest` has a meaning"),
            ("name = 'ada'\npassword = 'swordfish1'", "line 2: unknown field `password`"),
            (
                "name = 'ada'\nkey_file = 'k'\nprofile = 'root'",
                "line 3: profile: a user's profile is operator or guest",
            ),
            ("name = 'ada'\nkey_file = 'k'\nprofile = 'anonymous'", "line 3: profile: a user's profile"),
            ("name = 5\nkey_file = 'k'", "line 1: write a text in quotes"),
            ("name = 'ada'\nkey_file = 'k'\nmigrate = 'yes'", "line 3: write true or false"),
            ("name = 'ada'\npassphrase = 123454321", "line 2: write a text in quotes"),
        ] {
            let error = Unattended::read(text).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
            assert!(!error.contains("swordfi") && !error.contains("123454321"), "{error}");
        }
    }
}
