//! Programs and their arguments in rules.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use hashbrown::{HashMap, HashSet};

/// Which programs may be run, and with which arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandRules {
    /// If there are any, no other program is allowed.
    pub allow: HashSet<String>,
    /// Beats `allow`.
    pub block: HashSet<String>,
    /// By program.
    pub arguments: HashMap<String, ArgumentRules>,
}

/// Which arguments a program may have. Each is a pattern in which `*` stands for any text, and the rest for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentRules {
    /// If there are any, each argument has to match one of them.
    pub allow: Vec<String>,
    /// Beats `allow`.
    pub block: Vec<String>,
}

/// The name of the program that a text runs: its first word, without the folders before it.
fn base(program: &str) -> &str {
    let word = program.split_whitespace().next().unwrap_or_default();
    word.rsplit('/').next().unwrap_or(word)
}

/// Whether a text matches a pattern, in which each `*` stands for any letters.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part);
        }
        // The earliest place leaves the most for the parts after it.
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    true
}

impl CommandRules {
    /// Whether there is nothing in them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.block.is_empty() && self.arguments.is_empty()
    }

    /// Whether a program may be run with these arguments. A blocked program stays blocked with a folder before its name or an
    /// argument behind it; an allowed one has exactly its name.
    ///
    /// # Errors
    /// Which rule is against it.
    pub fn check(&self, program: &str, arguments: &[String]) -> Result<(), String> {
        if self.block.contains(program) || self.block.contains(base(program)) {
            return Err(format!("the program {program:?} is blocked"));
        }
        if !self.allow.is_empty() && !self.allow.contains(program) {
            return Err(format!("the program {program:?} is not among those that are allowed"));
        }
        let Some(ArgumentRules { allow, .. }) = self.arguments_of(program) else { return Ok(()) };
        for argument in arguments {
            self.check_blocked(program, argument)?;
            if !allow.is_empty() && !allow.iter().any(|pattern| matches(pattern, argument)) {
                return Err(format!("{program} may not have the argument {argument:?}: no pattern allows it"));
            }
        }
        Ok(())
    }

    fn arguments_of(&self, program: &str) -> Option<&ArgumentRules> {
        self.arguments.get(program).or_else(|| self.arguments.get(base(program)))
    }

    /// Whether no pattern blocks a text that a program gets: an argument, or the path of a directory that it is given.
    ///
    /// # Errors
    /// Which pattern does.
    pub(crate) fn check_blocked(&self, program: &str, text: &str) -> Result<(), String> {
        let mut block = self.arguments_of(program).into_iter().flat_map(|rules| &rules.block);
        match block.find(|pattern| matches(pattern, text)) {
            Some(pattern) => Err(format!("{program} may not have the argument {text:?}: {pattern:?} is blocked")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn a_pattern_matches_whole_arguments() {
        for (pattern, text, expected) in [
            ("-l", "-l", true),
            ("-l", "-la", false),
            ("*", "", true),
            ("-*", "-rf", true),
            ("-*", "x-rf", false),
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt.sh", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*b", "ab", false),
            ("a**b", "ab", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn d17_commands_are_allowed_and_blocked_by_name_and_argument() {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let rules = CommandRules {
            allow: set(&["ls", "grep", "rm"]),
            block: set(&["rm", "sh"]),
            arguments: [
                ("grep".to_string(), ArgumentRules { allow: list(&["-*", "*.txt"]), block: list(&["--include*"]) }),
                ("ls".to_string(), ArgumentRules { allow: Vec::new(), block: list(&["-R", "/*"]) }),
            ]
            .into(),
        };
        for (program, arguments, why) in [
            ("ls", &["-l"][..], ""),
            ("ls", &[], ""),
            ("ls", &["-l", "-R"], "\"-R\" is blocked"),
            ("ls", &["/etc"], "\"/*\" is blocked"),
            ("grep", &["-n", "a.txt"], ""),
            ("grep", &["-n", "secret.key"], "no pattern allows it"),
            ("grep", &["--include=*"], "is blocked"),
            ("rm", &["a"], "is blocked"),
            ("bin/rm", &["a"], "is blocked"),
            ("rm -rf", &[], "is blocked"),
            ("  rm", &[], "is blocked"),
            ("cat", &[], "not among those that are allowed"),
            ("x/ls", &[], "not among those that are allowed"),
            ("l\u{455}", &[], "not among those that are allowed"),
            ("LS", &[], "not among those that are allowed"),
            ("", &[], "not among those that are allowed"),
        ] {
            let found = rules.check(program, &list(arguments));
            match found {
                Ok(()) => assert_eq!(why, "", "{program} {arguments:?}"),
                Err(found) => assert!(!why.is_empty() && found.contains(why), "{program} {arguments:?}: {found}"),
            }
        }
        assert_eq!(CommandRules::default().check("anything", &[]), Ok(()));
        assert!(CommandRules::default().is_empty() && !rules.is_empty());
    }

    proptest! {
        /// As by trying every place for each `*`.
        #[test]
        fn patterns_match_as_by_trying_all(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
            fn slow(pattern: &[u8], text: &[u8]) -> bool {
                match pattern.split_first() {
                    None => text.is_empty(),
                    Some((b'*', rest)) => (0..=text.len()).any(|at| slow(rest, &text[at..])),
                    Some((letter, rest)) => text.first() == Some(letter) && slow(rest, &text[1..]),
                }
            }
            prop_assert_eq!(matches(&pattern, &text), slow(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
