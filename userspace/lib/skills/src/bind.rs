//! The values of a skill's settings: checked before anything of the skill is used.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::yaml::at;
use crate::{Kind, MAX_TEXT, Setting, Skill, SkillError};

/// A skill whose settings have values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The skill.
    pub skill: Skill,
    /// What the model is taught, with the values in their places.
    pub teaching: String,
}

/// Why the values are not those that a skill requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// These have no value.
    Missing(Vec<Setting>),
    /// The skill has no such setting.
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

impl Kind {
    /// Whether a value is of this kind.
    #[must_use]
    pub fn takes(self, value: &str) -> bool {
        let is_text = !value.is_empty() && value.len() <= MAX_TEXT && !value.contains(char::is_control);
        is_text
            && match self {
                Self::Text => true,
                Self::Number => value.bytes().all(|digit| digit.is_ascii_digit()) && value.parse::<u64>().is_ok(),
                Self::Flag => matches!(value, "yes" | "no"),
                Self::Path => value.split('/').all(|part| !matches!(part, "" | "." | "..")),
            }
    }
}

impl Skill {
    /// Gives the settings these values, by their names.
    ///
    /// # Errors
    /// One is missing, unknown, given twice, or of another kind. Nothing of the skill may be used then.
    pub fn bind(&self, values: &[(&str, &str)]) -> Result<Bound, SettingError> {
        for (at, (name, value)) in values.iter().enumerate() {
            let setting = self.settings.iter().find(|setting| setting.name == *name);
            let setting = setting.ok_or_else(|| SettingError::Unknown((*name).to_string()))?;
            if values.iter().skip(at.saturating_add(1)).any(|(other, _)| other == name) {
                return Err(SettingError::Twice((*name).to_string()));
            }
            if !setting.kind.takes(value) {
                return Err(SettingError::Value(setting.clone(), (*value).to_string()));
            }
        }
        let is_given = |setting: &&Setting| values.iter().any(|(name, _)| *name == setting.name);
        let missing: Vec<Setting> = self.settings.iter().filter(|setting| !is_given(setting)).cloned().collect();
        if !missing.is_empty() {
            return Err(SettingError::Missing(missing));
        }
        let teaching = places(&self.teaching).map(|part| match part {
            Part::Text(text) => text,
            Part::Place(name) => values.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value),
        });
        Ok(Bound { skill: self.clone(), teaching: teaching.collect() })
    }

    /// Every place of the teaching text names a setting.
    pub(crate) fn check_places(&self, line: usize) -> Result<(), SkillError> {
        for part in places(&self.teaching) {
            if let Part::Place(name) = part
                && !self.settings.iter().any(|setting| setting.name == name)
            {
                let what = format!("the teaching text names the setting {{{name}}}, which the skill does not require");
                return Err(at(line, what));
            }
        }
        Ok(())
    }
}

enum Part<'a> {
    Text(&'a str),
    /// `{NAME}`.
    Place(&'a str),
}

/// A text in its parts. Braces around anything that is no name are text.
fn places(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, after)) = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'))
            && crate::is_name(name)
        {
            rest = after;
            return Some(Part::Place(name));
        }
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest.get(first..).and_then(|inner| inner.find('{')).map_or(rest.len(), |at| at.saturating_add(first));
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Part::Text(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn skill() -> Skill {
        let setting = |name: &str, kind| Setting { name: name.into(), kind };
        Skill {
            name: "tidy".into(),
            description: "Keeps notes.".into(),
            teaching: "In {folder}, {most} at most. {Not a place} {".into(),
            tools: vec!["read_file".into()],
            labels: vec![],
            settings: vec![setting("folder", Kind::Path), setting("most", Kind::Number)],
        }
    }

    #[test]
    fn j15_values_stand_in_their_places() {
        let bound = skill().bind(&[("most", "7"), ("folder", "notes/{most}")]).unwrap();
        assert_eq!(bound.teaching, "In notes/{most}, 7 at most. {Not a place} {");
    }

    #[test]
    fn j15_a_value_that_is_missing_or_of_another_kind_is_named() {
        let error = |values: &[(&str, &str)]| skill().bind(values).unwrap_err().to_string();
        assert_eq!(error(&[]), "it requires a value of folder (path), most (number)");
        assert_eq!(error(&[("folder", "notes")]), "it requires a value of most (number)");
        assert_eq!(error(&[("folder", "../x"), ("most", "1")]), "folder is a path in the home directory, not \"../x\"");
        assert_eq!(error(&[("most", "-1")]), "most is a whole number, not \"-1\"");
        assert_eq!(error(&[("most", "99999999999999999999")]), "most is a whole number, not \"99999999999999999999\"");
        assert_eq!(error(&[("least", "1")]), "it has no setting \"least\"");
        assert_eq!(error(&[("most", "1"), ("most", "2")]), "the setting \"most\" is given twice");
        assert!(error(&[("folder", "a\nb")]).contains("\"a\\nb\""));
        assert!(Kind::Flag.takes("yes") && !Kind::Flag.takes("true") && !Kind::Text.takes(""));
        assert!(Kind::Text.takes(&"x".repeat(MAX_TEXT)) && !Kind::Text.takes(&"x".repeat(MAX_TEXT + 1)));
    }
}
