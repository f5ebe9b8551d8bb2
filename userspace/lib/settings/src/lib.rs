//! Values that a program or a skill requires, checked before anything of it begins.
//!
//! The manifest names the settings of programs, and a skill's file those of the skill. Values come as texts, each with the name of
//! its setting. This crate does no input or output.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Bytes of a value at most.
pub const MAX_VALUE: usize = 200;

/// What kind of value a setting has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Printable text, of 1 to [`MAX_VALUE`] bytes.
    Text,
    /// A whole number from 0 to 2⁶⁴ − 1, in decimal digits.
    Number,
    /// `yes` or `no`.
    Flag,
    /// A path within the home directory: components that are neither empty, `.` nor `..`.
    Path,
}

impl Kind {
    /// All kinds, by their names.
    pub const NAMES: [(&'static str, Self); 4] =
        [("text", Self::Text), ("number", Self::Number), ("flag", Self::Flag), ("path", Self::Path)];

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Whether a value is of this kind.
    #[must_use]
    pub fn takes(self, value: &str) -> bool {
        let is_text = !value.is_empty() && value.len() <= MAX_VALUE && !value.contains(char::is_control);
        is_text
            && match self {
                Self::Text => true,
                Self::Number => value.bytes().all(|digit| digit.is_ascii_digit()) && value.parse::<u64>().is_ok(),
                Self::Flag => matches!(value, "yes" | "no"),
                Self::Path => value.split('/').all(|part| !matches!(part, "" | "." | "..")),
            }
    }
}

/// A value that is required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// What kind of value it has.
    pub kind: Kind,
}

/// Why the values are not those that are required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// These have no value.
    Missing(Vec<Setting>),
    /// There is no such setting.
    Unknown(String),
    /// It is given twice.
    Twice(String),
    /// The value is of another kind.
    Value(Setting, String),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(settings) => {
                let names: Vec<String> =
                    settings.iter().map(|setting| format!("{} ({})", setting.name, setting.kind.name())).collect();
                write!(f, "it requires a value of {}", names.join(", "))
            }
            Self::Unknown(name) => write!(f, "it has no setting {name:?}"),
            Self::Twice(name) => write!(f, "the setting {name:?} is given twice"),
            Self::Value(Setting { name, kind }, value) => {
                let wanted = match kind {
                    Kind::Text => "a printable text of 1 to 200 bytes",
                    Kind::Number => "a whole number",
                    Kind::Flag => "yes or no",
                    Kind::Path => "a path in the home directory",
                };
                write!(f, "{name} is {wanted}, not {value:?}")
            }
        }
    }
}

impl core::error::Error for SettingError {}

/// Checks the values of settings, by their names.
///
/// # Errors
/// One is missing, unknown, given twice, or of another kind.
pub fn check(settings: &[Setting], values: &[(&str, &str)]) -> Result<(), SettingError> {
    for (at, (name, value)) in values.iter().enumerate() {
        let setting = settings.iter().find(|setting| setting.name == *name);
        let setting = setting.ok_or_else(|| SettingError::Unknown((*name).to_string()))?;
        if values.iter().skip(at.saturating_add(1)).any(|(other, _)| other == name) {
            return Err(SettingError::Twice((*name).to_string()));
        }
        if !setting.kind.takes(value) {
            return Err(SettingError::Value(setting.clone(), (*value).to_string()));
        }
    }
    let is_given = |setting: &&Setting| values.iter().any(|(name, _)| *name == setting.name);
    let missing: Vec<Setting> = settings.iter().filter(|setting| !is_given(setting)).cloned().collect();
    if missing.is_empty() { Ok(()) } else { Err(SettingError::Missing(missing)) }
}

/// The values at the beginning of a program's arguments, each as `NAME=VALUE`, and the arguments behind them. A program without
/// settings has all of them as arguments.
///
/// # Errors
/// The values are not those that the settings require.
pub fn split(settings: &[Setting], mut arguments: Vec<String>) -> Result<(Vec<String>, Vec<String>), SettingError> {
    if settings.is_empty() {
        return Ok((Vec::new(), arguments));
    }
    let value = |argument: &String| argument.split_once('=').is_some_and(|(name, _)| is_name(name));
    let first = arguments.iter().position(|argument| !value(argument)).unwrap_or(arguments.len());
    let rest = arguments.split_off(first);
    let values: Vec<(&str, &str)> = arguments.iter().filter_map(|argument| argument.split_once('=')).collect();
    check(settings, &values)?;
    Ok((arguments, rest))
}

/// Whether a text can be a name: 1 to 40 lower-case letters, digits, `-` and `_`, a letter first.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    text.len() <= 40 && text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Vec<Setting> {
        let setting = |name: &str, kind| Setting { name: name.into(), kind };
        vec![setting("folder", Kind::Path), setting("most", Kind::Number)]
    }

    #[test]
    fn j15_a_value_that_is_missing_or_of_another_kind_is_named() {
        let error = |values: &[(&str, &str)]| check(&settings(), values).unwrap_err().to_string();
        assert_eq!(error(&[]), "it requires a value of folder (path), most (number)");
        assert_eq!(error(&[("folder", "notes")]), "it requires a value of most (number)");
        assert_eq!(error(&[("folder", "../x"), ("most", "1")]), "folder is a path in the home directory, not \"../x\"");
        assert_eq!(error(&[("most", "-1")]), "most is a whole number, not \"-1\"");
        assert_eq!(error(&[("most", "99999999999999999999")]), "most is a whole number, not \"99999999999999999999\"");
        assert_eq!(error(&[("least", "1")]), "it has no setting \"least\"");
        assert_eq!(error(&[("most", "1"), ("most", "2")]), "the setting \"most\" is given twice");
        assert!(error(&[("folder", "a\nb")]).contains("\"a\\nb\""));
        assert_eq!(check(&settings(), &[("most", "7"), ("folder", "notes/old")]), Ok(()));
        assert!(Kind::Flag.takes("yes") && !Kind::Flag.takes("true") && !Kind::Text.takes(""));
        assert!(Kind::Text.takes(&"x".repeat(MAX_VALUE)) && !Kind::Text.takes(&"x".repeat(MAX_VALUE + 1)));
    }

    #[test]
    fn j15_settings_stand_before_a_programs_arguments() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let given = texts(&["most=3", "folder=a=b", "x", "most=4"]);
        assert_eq!(split(&settings(), given.clone()), Ok((texts(&["most=3", "folder=a=b"]), texts(&["x", "most=4"]))));
        assert_eq!(split(&[], given.clone()), Ok((Vec::new(), given)));
        assert!(matches!(split(&settings(), texts(&["x", "most=3"])), Err(SettingError::Missing(_))));
        assert!(matches!(split(&settings(), texts(&["--most=3"])), Err(SettingError::Missing(_))));
    }
}
