//! What stands behind `/run`: programs with their arguments, pipes between them, and what they are given.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::iter::Peekable;

/// Programs of one line.
const MOST_STAGES: usize = 8;
/// Bytes of one line's words.
const MOST_BYTES: usize = 16 << 10;

/// A directory that a program is given besides what it asks for, or in its place: `--with NAME=/PATH[:ro]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct With {
    /// Its name in the program.
    pub name: String,
    /// A grant of the session, and a path in it.
    pub path: String,
    /// `:ro`.
    /// As the program asks for it, where the line does not say.
    pub read_only: Option<bool>,
}

/// One program of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    pub program: String,
    pub arguments: Vec<String>,
    pub with: Vec<With>,
    /// What it is not given although it asks: `--without NAME`.
    pub without: Vec<String>,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub stages: Vec<Stage>,
    /// It ends with `&`.
    pub background: bool,
}

/// Where a line is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The character, from 1.
    pub at: usize,
    pub why: String,
}

impl core::fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "at character {} after /run: {}", self.at, self.why)
    }
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Pipe,
    Background,
}

fn mistake<T>(at: usize, why: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake { at: at.saturating_add(1), why: why.into() })
}

/// Reads a word up to the white space or the sign behind it.
fn word(letters: &mut Peekable<impl Iterator<Item = (usize, char)>>) -> Result<String, Mistake> {
    let mut word = String::new();
    while let Some((at, letter)) = letters.peek().copied() {
        match letter {
            _ if letter.is_whitespace() || matches!(letter, '|' | '&') => break,
            '<' | '>' | ';' => {
                let why = format!("`{letter}` is not supported here; put it in quotes to pass it to the program");
                return mistake(at, why);
            }
            '\'' | '"' => {
                letters.next();
                loop {
                    match letters.next() {
                        None => return mistake(at, format!("the quote {letter} is not closed")),
                        Some((_, end)) if end == letter => break,
                        Some((_, '\\')) if letter == '"' => match letters.next() {
                            Some((_, escaped @ ('"' | '\\'))) => word.push(escaped),
                            Some((_, other)) => word.extend(['\\', other]),
                            None => return mistake(at, format!("the quote {letter} is not closed")),
                        },
                        Some((_, inside)) => word.push(inside),
                    }
                }
            }
            '\\' => {
                letters.next();
                match letters.next() {
                    Some((_, escaped)) => word.push(escaped),
                    None => return mistake(at, "nothing follows the backslash"),
                }
            }
            _ => {
                word.push(letter);
                letters.next();
            }
        }
    }
    Ok(word)
}

/// The pieces of a line with the places where they begin, in characters.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Mistake> {
    let mut letters = text.chars().enumerate().peekable();
    let mut tokens = Vec::new();
    while let Some((at, letter)) = letters.peek().copied() {
        let token = match letter {
            _ if letter.is_whitespace() => {
                letters.next();
                continue;
            }
            '|' => Token::Pipe,
            '&' => Token::Background,
            _ => Token::Word(word(&mut letters)?),
        };
        if !matches!(token, Token::Word(_)) {
            letters.next();
        }
        tokens.push((at, token));
    }
    Ok(tokens)
}

/// `NAME=/PATH`, `NAME=/PATH:ro` or `NAME=/PATH:rw`.
fn with(at: usize, text: &str) -> Result<With, Mistake> {
    let (name, path) = text.split_once('=').unwrap_or((text, ""));
    let (path, read_only) = match path.strip_suffix(":ro") {
        Some(path) => (path, Some(true)),
        None => path.strip_suffix(":rw").map_or((path, None), |path| (path, Some(false))),
    };
    let plain =
        |name: &str| !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "-_.".contains(letter));
    if !plain(name) || name.starts_with('.') || !path.starts_with('/') {
        return mistake(at, "--with takes NAME=/PATH, NAME=/PATH:ro (read only) or NAME=/PATH:rw (read and write)");
    }
    if path.split('/').any(|part| part == "..") {
        return mistake(at, "a path of --with must not contain `..`");
    }
    Ok(With { name: name.to_string(), path: path.to_string(), read_only })
}

/// Reads a line.
///
/// # Errors
/// Where it is wrong.
pub fn parse(text: &str) -> Result<Line, Mistake> {
    if text.len() > MOST_BYTES {
        return mistake(0, format!("the line is longer than {MOST_BYTES} bytes"));
    }
    let mut line = Line::default();
    let mut stage = Stage::default();
    let mut tokens = tokens(text)?.into_iter().peekable();
    let mut end = 0;
    while let Some((at, token)) = tokens.next() {
        end = at;
        match token {
            Token::Word(option) if stage.program.is_empty() && (option == "--with" || option == "--without") => {
                let Some((at, Token::Word(value))) = tokens.next_if(|(_, next)| matches!(next, Token::Word(_))) else {
                    return mistake(at, format!("a value must follow {option}"));
                };
                if option == "--with" {
                    stage.with.push(with(at, &value)?);
                } else {
                    stage.without.push(value);
                }
            }
            Token::Word(option) if stage.program.is_empty() && option.starts_with('-') => {
                return mistake(at, format!("there is no option {option}; the options are --with and --without"));
            }
            Token::Word(name) if stage.program.is_empty() && name.is_empty() => {
                return mistake(at, "the name of the program is empty");
            }
            Token::Word(name) if stage.program.is_empty() => stage.program = name,
            Token::Word(argument) => stage.arguments.push(argument),
            Token::Pipe if stage.program.is_empty() => return mistake(at, "there is no program before `|`"),
            Token::Pipe => line.stages.push(core::mem::take(&mut stage)),
            Token::Background if tokens.peek().is_some() => {
                return mistake(
                    at,
                    "`&` is permitted only at the end of a line; put it in quotes to pass it to the program",
                );
            }
            Token::Background => line.background = true,
        }
    }
    if stage.program.is_empty() {
        return mistake(
            end,
            if line.stages.is_empty() { "no program is given" } else { "there is no program after `|`" },
        );
    }
    line.stages.push(stage);
    if line.stages.len() > MOST_STAGES {
        return mistake(0, format!("a line has at most {MOST_STAGES} programs"));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let line = parse(text).unwrap();
        let stage = line.stages.first().unwrap();
        core::iter::once(&stage.program).chain(&stage.arguments).cloned().collect()
    }

    fn wrong(text: &str) -> (usize, String) {
        let found = parse(text).unwrap_err();
        (found.at, found.why)
    }

    #[test]
    fn words_are_quoted_as_in_a_shell() {
        assert_eq!(words("cat a  b"), ["cat", "a", "b"]);
        assert_eq!(words(r#"cat 'a  "b' "c \"d\" \n" e\ f '' é"#), ["cat", "a  \"b", "c \"d\" \\n", "e f", "", "é"]);
        assert_eq!(words("cat a'b'\"c\"d"), ["cat", "abcd"]);
        assert_eq!(words("cat '|' \"&\" \\| --with -x"), ["cat", "|", "&", "|", "--with", "-x"]);
        assert_eq!(words("cat $HOME `x` *"), ["cat", "$HOME", "`x`", "*"]);
    }

    #[test]
    fn programs_stand_between_pipes() {
        let line = parse("cat notes|head -n 3 | wc&").unwrap();
        let names: Vec<&str> = line.stages.iter().map(|stage| stage.program.as_str()).collect();
        assert_eq!((names, line.background), (vec!["cat", "head", "wc"], true));
        assert_eq!(line.stages[1].arguments, ["-n", "3"]);
        assert!(!parse("cat").unwrap().background);
    }

    #[test]
    fn grants_stand_before_the_name() {
        let line = parse("--with notes=/home/notes:ro --without timer --with all=/home --with b=/b:rw cat x").unwrap();
        let with = |name: &str, path: &str, read_only| With { name: name.into(), path: path.into(), read_only };
        let expected =
            [with("notes", "/home/notes", Some(true)), with("all", "/home", None), with("b", "/b", Some(false))];
        assert_eq!(line.stages[0].with, expected);
        assert_eq!(line.stages[0].without, ["timer"]);
    }

    #[test]
    fn mistakes_say_where_they_are() {
        assert_eq!(wrong("cat 'abc"), (5, "the quote ' is not closed".into()));
        assert_eq!(wrong("é \"abc\\"), (3, "the quote \" is not closed".into()));
        assert_eq!(wrong("cat a\\"), (6, "nothing follows the backslash".into()));
        assert_eq!(wrong("| wc"), (1, "there is no program before `|`".into()));
        assert_eq!(wrong("cat | | wc"), (7, "there is no program before `|`".into()));
        assert_eq!(wrong("cat |"), (5, "there is no program after `|`".into()));
        assert_eq!(wrong("&"), (1, "no program is given".into()));
        assert_eq!(wrong("cat & wc").0, 5);
        assert_eq!(wrong("cat a > b").0, 7);
        assert_eq!(wrong("--with x cat").0, 8);
        assert_eq!(wrong("--with x=/home/../etc cat").0, 8);
        assert_eq!(wrong("--with | cat"), (1, "a value must follow --with".into()));
        assert_eq!(wrong("--wiht x cat").0, 1);
        assert_eq!(wrong(&["cat"; 9].join("|")).1, "a line has at most 8 programs");
        assert!(wrong(&"x".repeat(20_000)).1.contains("longer"));
    }
}
