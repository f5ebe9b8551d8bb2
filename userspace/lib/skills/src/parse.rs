//! Reads a skill's file, and says what is wrong with it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_settings::{Kind, Setting, is_name};

use crate::yaml::{Node, Value, at, read};
use crate::{MAX_ENTRIES, MAX_FILE, MAX_TEACHING, MAX_TEXT, Skill, SkillError};

const KEYS: [&str; 6] = ["name", "description", "teaching", "tools", "labels", "settings"];

impl Skill {
    /// Reads the file of the skill with this name.
    ///
    /// # Errors
    /// The first thing that is wrong with it, and the line. A file has at most [`MAX_FILE`] bytes.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, SkillError> {
        if bytes.len() > MAX_FILE {
            return Err(at(0, format!("it has {} bytes; a skill has at most {MAX_FILE}", bytes.len())));
        }
        let text = core::str::from_utf8(bytes)
            .map_err(|bad| at(0, format!("byte {} is not UTF-8", bad.valid_up_to().saturating_add(1))))?;
        let Node { value: Value::Map(map), .. } = read(text)? else {
            return Err(at(1, format!("a skill is a mapping with the keys {}", KEYS.join(", "))));
        };
        if let Some((key, node)) = map.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
            return Err(at(node.line, format!("the key {key:?} is not known; known: {}", KEYS.join(", "))));
        }
        let find = |wanted: &str| map.iter().find(|(key, _)| key == wanted).map(|(_, node)| node);
        let need = |key: &str| find(key).ok_or_else(|| at(0, format!("the key {key:?} is missing")));
        let found = word(need("name")?, "name")?;
        if found != name {
            return Err(at(
                need("name")?.line,
                format!("its name is {found:?}, and its file is called {name}{}", crate::ENDING),
            ));
        }
        let skill = Self {
            name: found,
            description: line(need("description")?, "description")?,
            teaching: teaching(need("teaching")?)?,
            tools: words(need("tools")?, "tools")?,
            labels: find("labels").map_or(Ok(Vec::new()), labels)?,
            settings: find("settings").map_or(Ok(Vec::new()), settings)?,
        };
        if skill.tools.is_empty() {
            return Err(at(need("tools")?.line, "\"tools\" names at least one tool"));
        }
        skill.check_places(need("teaching")?.line)?;
        Ok(skill)
    }
}

fn text<'a>(node: &'a Node, key: &str, most: usize) -> Result<&'a str, SkillError> {
    match &node.value {
        Value::Text(text) if text.len() > most => {
            Err(at(node.line, format!("{key:?} has {} bytes; at most {most} are permitted", text.len())))
        }
        Value::Text(text) if text.trim().is_empty() => Err(at(node.line, format!("{key:?} is empty"))),
        Value::Text(text) => Ok(text),
        Value::List(_) => Err(at(node.line, format!("{key:?} is a text, not a list"))),
        Value::Map(_) => Err(at(node.line, format!("{key:?} is a text, not a mapping"))),
    }
}

fn line(node: &Node, key: &str) -> Result<String, SkillError> {
    let text = text(node, key, MAX_TEXT)?.trim();
    if text.contains(char::is_control) {
        return Err(at(node.line, format!("{key:?} is one line without control characters")));
    }
    Ok(text.into())
}

fn teaching(node: &Node) -> Result<String, SkillError> {
    let text = text(node, "teaching", MAX_TEACHING)?.trim();
    if text.contains(|letter: char| letter.is_control() && letter != '\n') {
        return Err(at(node.line, "\"teaching\" has no control characters besides ends of lines"));
    }
    Ok(text.into())
}

fn word(node: &Node, key: &str) -> Result<String, SkillError> {
    let text = text(node, key, MAX_TEXT)?;
    if !is_name(text) {
        let what = format!("{key:?} holds names of 1 to 40 lower-case letters, digits, - and _, not {text:?}");
        return Err(at(node.line, what));
    }
    Ok(text.into())
}

fn list<'a>(node: &'a Node, key: &str) -> Result<&'a [Node], SkillError> {
    match &node.value {
        Value::List(list) if list.len() > MAX_ENTRIES => {
            Err(at(node.line, format!("{key:?} has {} entries; at most {MAX_ENTRIES} are permitted", list.len())))
        }
        Value::List(list) => Ok(list),
        _ => Err(at(node.line, format!("{key:?} is a list"))),
    }
}

/// A list without repetitions.
fn distinct(
    node: &Node,
    key: &str,
    read: impl Fn(&Node, &str) -> Result<String, SkillError>,
) -> Result<Vec<String>, SkillError> {
    let mut found: Vec<String> = Vec::new();
    for entry in list(node, key)? {
        let name = read(entry, key)?;
        if found.contains(&name) {
            return Err(at(entry.line, format!("{key:?} has {name:?} twice")));
        }
        found.push(name);
    }
    Ok(found)
}

fn words(node: &Node, key: &str) -> Result<Vec<String>, SkillError> {
    distinct(node, key, word)
}

/// Classes of data: words that are joined by points, such as `pii.log`.
fn labels(node: &Node) -> Result<Vec<String>, SkillError> {
    distinct(node, "labels", |entry, key| {
        let text = text(entry, key, MAX_TEXT)?;
        if !text.split('.').all(is_name) {
            return Err(at(entry.line, format!("a class is made of names and points, such as pii.log, not {text:?}")));
        }
        Ok(text.into())
    })
}

fn settings(node: &Node) -> Result<Vec<Setting>, SkillError> {
    let Value::Map(map) = &node.value else {
        return Err(at(node.line, "\"settings\" is a mapping of names to types"));
    };
    if map.len() > MAX_ENTRIES {
        return Err(at(
            node.line,
            format!("\"settings\" has {} entries; at most {MAX_ENTRIES} are permitted", map.len()),
        ));
    }
    let setting = |(name, node): &(String, Node)| {
        if !is_name(name) {
            return Err(at(node.line, format!("{name:?} is no name of a setting")));
        }
        let kind = text(node, name, MAX_TEXT)?;
        let kind = Kind::from_name(kind).ok_or_else(|| {
            let known: Vec<&str> = Kind::NAMES.iter().map(|(name, _)| *name).collect();
            at(node.line, format!("the type of {name:?} is one of {}, not {kind:?}", known.join(", ")))
        })?;
        Ok(Setting { name: name.clone(), kind })
    };
    map.iter().map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::prelude::*;

    const GOOD: &str = "# A skill.\nname: tidy\ndescription: Keeps notes in order.\nteaching: |\n  Read {folder} first.\n  \
                        Ask before you delete.\ntools: [read_file, write_file]\nlabels:\n  - pii.notes\nsettings:\n  \
                        folder: path\n  most: number\n";

    fn error(text: &str) -> String {
        Skill::parse("tidy", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn m27_a_skill_is_read() {
        let expected = Skill {
            name: "tidy".into(),
            description: "Keeps notes in order.".into(),
            teaching: "Read {folder} first.\nAsk before you delete.".into(),
            tools: vec!["read_file".into(), "write_file".into()],
            labels: vec!["pii.notes".into()],
            settings: vec![
                Setting { name: "folder".into(), kind: Kind::Path },
                Setting { name: "most".into(), kind: Kind::Number },
            ],
        };
        assert_eq!(Skill::parse("tidy", GOOD.as_bytes()), Ok(expected));
        assert_eq!(crate::name_of_file("tidy.skill.yaml"), Some("tidy"));
        assert_eq!([crate::name_of_file("Tidy.skill.yaml"), crate::name_of_file("tidy.yaml")], [None, None]);
    }

    #[test]
    fn m27_what_is_no_skill_is_rejected_with_its_line() {
        for (from, to, why) in [
            ("name: tidy", "name: other", "line 2: its name is \"other\", and its file is called tidy.skill.yaml"),
            ("name: tidy\n", "", "the key \"name\" is missing"),
            ("description: Keeps", "about: x\ndescription: Keeps", "line 3: the key \"about\" is not known"),
            ("description: Keeps", "name: tidy\ndescription: Keeps", "line 3: the key \"name\" is there twice"),
            ("[read_file, write_file]", "[]", "line 7: \"tools\" names at least one tool"),
            ("[read_file, write_file]", "[read_file, read_file]", "\"tools\" has \"read_file\" twice"),
            ("[read_file, write_file]", "read_file", "line 7: \"tools\" is a list"),
            ("[read_file, write_file]", "[../x]", "line 7: \"tools\" holds names"),
            ("pii.notes", "pii..notes", "line 9: a class is made of names and points"),
            ("folder: path", "folder: file", "line 11: the type of \"folder\" is one of text, number, flag, path"),
            (
                "{folder}",
                "{file}",
                "line 5: the teaching text names the setting {file}, which the skill does not require",
            ),
            ("name: tidy", "name: &a tidy", "line 2: anchors (`&`) and aliases (`*`) are not permitted"),
            ("name: tidy", "name: !!str tidy", "line 2: tags (`!`) are not permitted"),
            ("most: number\n", "most: number\n--- more\n", "a skill is one document"),
            ("pii.notes", "[[[pii.notes]]]", "values lie at most 4 deep"),
            ("[read_file, write_file]", "[read_file", "not YAML"),
            ("name: tidy", "name: \"tidy", "not YAML"),
            ("Keeps notes", "\"Keeps\\u001b notes", "line 3: "),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = error(&GOOD.replacen(from, to, 1));
            assert!(error.contains(why), "{to}: {error}");
        }
        assert!(error(&format!("{GOOD}# {}", "x".repeat(MAX_FILE))).contains("a skill has at most 16384"));
        let long = GOOD.replace("Ask before", &"x".repeat(MAX_TEACHING));
        assert!(error(&long).contains("\"teaching\" has"));
        assert!(Skill::parse("tidy", b"\xff").unwrap_err().to_string().contains("byte 1 is not UTF-8"));
        // Quotes, comments and another form of lists change nothing.
        let other = GOOD
            .replace("name: tidy", "name: 'tidy' # it's")
            .replace("Keeps notes", "\"Keeps\\u0020notes")
            .replace("in order.", "in order.\"")
            .replace("[read_file, write_file]", "\n- read_file # one\n# none\n- 'write_file'");
        assert_eq!(Skill::parse("tidy", other.as_bytes()), Skill::parse("tidy", GOOD.as_bytes()));
        assert!(error("- a\n- b\n").contains("a skill is a mapping"));
        assert!(error("").contains("a skill is"));
    }

    /// Files that grow when aliases are replaced are rejected at the first anchor.
    #[test]
    fn m27_a_file_that_would_grow_is_rejected() {
        let mut bomb = String::from("name: &a0 x\n");
        for level in 1..20 {
            let before = level - 1;
            bomb.push_str(&format!("k{level}: &a{level} [*a{before}, *a{before}, *a{before}]\n"));
        }
        assert!(error(&bomb).contains("line 1: anchors"), "{}", error(&bomb));
        for opening in ["[", "{a: "] {
            let error = error(&opening.repeat(4000));
            assert!(error.contains("recursion limit") || error.contains("values lie at most 4 deep"), "{error}");
        }
        let deep: String = (0..100).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
        assert!(error(&deep).contains("line 4: values lie at most 4 deep"), "{}", error(&deep));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

        /// Whatever a file holds, it is a skill within the bounds or an error, and no panic.
        #[test]
        fn m27_damaged_skills_never_panic(
            cuts in proptest::collection::vec((0_usize..400, "[-:{}\\[\\]&*!|>'\"#%@,? \n\tax]{0,3}"), 0..6),
        ) {
            let mut text = GOOD.to_string();
            for (place, new) in cuts {
                let place = place.min(text.len());
                text.replace_range(place..(place + 2).min(text.len()), &new);
            }
            if let Ok(skill) = Skill::parse("tidy", text.as_bytes()) {
                prop_assert!(!skill.tools.is_empty() && skill.tools.len() <= MAX_ENTRIES);
                prop_assert!(skill.teaching.len() <= MAX_TEACHING && skill.description.len() <= MAX_TEXT);
            }
        }
    }
}
