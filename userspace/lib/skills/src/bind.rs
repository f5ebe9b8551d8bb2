//! The values of a skill's settings: checked before anything of the skill is used.

use alloc::format;
use alloc::string::String;

use capos_settings::{SettingError, check, is_name};

use crate::yaml::at;
use crate::{Skill, SkillError};

/// A skill whose settings have values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The skill.
    pub skill: Skill,
    /// What the model is taught, with the values in their places.
    pub teaching: String,
}

impl Skill {
    /// Gives the settings these values, by their names.
    ///
    /// # Errors
    /// One is missing, unknown, given twice, or of another kind. Nothing of the skill may be used then.
    pub fn bind(&self, values: &[(&str, &str)]) -> Result<Bound, SettingError> {
        check(&self.settings, values)?;
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
            && is_name(name)
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
    use capos_settings::{Kind, Setting};

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
}
