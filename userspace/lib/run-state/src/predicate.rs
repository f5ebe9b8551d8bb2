//! When a run is done: what a person declares about it before it begins.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde_json::{Value, json};

/// Bytes of a predicate, as it is typed.
const MOST_BYTES: usize = 4096;
/// Arguments of a program that checks.
const MOST_ARGUMENTS: usize = 64;

/// A condition that has to hold before a run is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Predicate {
    /// A file or folder is there.
    Exists {
        /// Its path in the home directory.
        path: String,
    },
    /// A program ends with exit code 0.
    Check {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// A text is JSON that conforms to a JSON Schema.
    Matches {
        /// Path of the schema, which is read when the condition is declared.
        schema: String,
        /// Path of the text; none: the model's answer.
        file: Option<String>,
    },
}

/// How it is typed.
pub const USAGE: &str = "exists PATH, check PROGRAM ARGS, matches SCHEMA, or matches SCHEMA in PATH";

impl Predicate {
    /// Reads one from the words `exists PATH`, `check PROGRAM ARGS…`, `matches SCHEMA` or `matches SCHEMA in PATH`. Quotes hold
    /// a word with white space together; within `"`, a backslash takes the next letter as it is.
    ///
    /// # Errors
    /// What is wrong with it, and how it is typed.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MOST_BYTES {
            return Err(format!("a condition has at most {MOST_BYTES} bytes"));
        }
        let all = words(text)?;
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        match all.as_slice() {
            ["exists", path] => Ok(Self::Exists { path: path.to_string() }),
            ["check", _, arguments @ ..] if arguments.len() > MOST_ARGUMENTS => {
                Err(format!("a program that checks has at most {MOST_ARGUMENTS} arguments"))
            }
            ["check", program, arguments @ ..] => Ok(Self::Check {
                program: program.to_string(),
                arguments: arguments.iter().map(ToString::to_string).collect(),
            }),
            ["matches", schema] => Ok(Self::Matches { schema: schema.to_string(), file: None }),
            ["matches", schema, "in", file] => {
                Ok(Self::Matches { schema: schema.to_string(), file: Some(file.to_string()) })
            }
            _ => Err(format!("a condition is {USAGE}")),
        }
    }

    /// The tool and the arguments of the call that tells whether it holds; none if it is about the model's answer.
    #[must_use]
    pub fn call(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::Exists { path } => Some(("file_info", json!({ "path": path }))),
            Self::Check { program, arguments } => {
                Some(("run_program", json!({ "program": program, "arguments": arguments })))
            }
            Self::Matches { file: Some(path), .. } => Some(("read_file", json!({ "path": path }))),
            Self::Matches { file: None, .. } => None,
        }
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists { path } => write!(formatter, "exists {}", quoted(path)),
            Self::Check { program, arguments } => {
                write!(formatter, "check {}", quoted(program))?;
                arguments.iter().try_for_each(|argument| write!(formatter, " {}", quoted(argument)))
            }
            Self::Matches { schema, file: None } => write!(formatter, "matches {}", quoted(schema)),
            Self::Matches { schema, file: Some(file) } => {
                write!(formatter, "matches {} in {}", quoted(schema), quoted(file))
            }
        }
    }
}

/// A word as it may be typed.
fn quoted(word: &str) -> String {
    let is_plain =
        |letter: char| !letter.is_whitespace() && !letter.is_control() && !matches!(letter, '"' | '\'' | '\\');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    let mut text = String::from("\"");
    for letter in word.chars() {
        if matches!(letter, '"' | '\\') {
            text.push('\\');
        }
        text.push(letter);
    }
    text.push('"');
    text
}

fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut open: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match open {
            Some(quote) if letter == quote => open = None,
            Some('"') if letter == '\\' => {
                let next = letters.next().ok_or("a \\ stands at the end")?;
                word.get_or_insert_default().push(next);
            }
            Some(_) => word.get_or_insert_default().push(letter),
            None if letter.is_whitespace() => words.extend(word.take()),
            None if matches!(letter, '"' | '\'') => {
                word.get_or_insert_default();
                open = Some(letter);
            }
            None => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(quote) = open {
        return Err(format!("a {quote} is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn i02_conditions_are_read_with_their_call() {
        let exists = Predicate::parse("exists notes/report.md").unwrap();
        assert_eq!(exists.call(), Some(("file_info", json!({ "path": "notes/report.md" }))));
        let check = Predicate::parse("check  grep -q 'all done' \"to \\\"do\\\".txt\" ''").unwrap();
        let arguments = json!({ "program": "grep", "arguments": ["-q", "all done", "to \"do\".txt", ""] });
        assert_eq!(check.call(), Some(("run_program", arguments)));
        let answer = Predicate::parse("matches s.json").unwrap();
        assert_eq!((answer.call(), answer.to_string().as_str()), (None, "matches s.json"));
        let file = Predicate::parse("matches s.json in 'my report.json'").unwrap();
        assert_eq!(file.call(), Some(("read_file", json!({ "path": "my report.json" }))));
        assert_eq!(file.to_string(), "matches s.json in \"my report.json\"");
    }

    #[test]
    fn i02_what_is_no_condition_is_rejected_with_the_usage() {
        for wrong in
            ["", "exists", "exists a b", "check", "matches", "matches a b c", "matches a in", "done", "Exists a"]
        {
            let why = Predicate::parse(wrong).unwrap_err();
            assert_eq!(why, format!("a condition is {USAGE}"), "{wrong}");
        }
        assert_eq!(Predicate::parse("exists 'a").unwrap_err(), "a ' is not closed");
        assert_eq!(Predicate::parse("exists \"a\\").unwrap_err(), "a \\ stands at the end");
        assert!(Predicate::parse(&format!("exists {}", "x".repeat(5000))).unwrap_err().contains("4096"));
        assert!(Predicate::parse(&format!("check a{}", " x".repeat(65))).unwrap_err().contains("64"));
        // As long as it may be.
        assert!(Predicate::parse(&format!("exists {}", "x".repeat(4096 - 7))).is_ok());
        assert!(Predicate::parse(&format!("check a{}", " x".repeat(64))).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(words in prop::collection::vec("[^\0-\x1f]{0,9}", 2..6), kind in 0..4) {
            let first = words[0].clone();
            let predicate = match kind {
                0 => Predicate::Exists { path: first },
                1 => Predicate::Check { program: first, arguments: words[1..].to_vec() },
                2 => Predicate::Matches { schema: first, file: None },
                _ => Predicate::Matches { schema: first, file: Some(words[1].clone()) },
            };
            prop_assert_eq!(Predicate::parse(&predicate.to_string()).unwrap(), predicate);
        }

        #[test]
        fn no_text_is_too_much(text in "\\PC{0,60}") {
            if let Ok(predicate) = Predicate::parse(&text) {
                prop_assert_eq!(Predicate::parse(&predicate.to_string()).unwrap(), predicate);
            }
        }
    }
}
