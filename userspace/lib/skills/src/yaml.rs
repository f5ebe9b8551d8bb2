//! The part of YAML 1.2 that skills use: mappings, lists and texts.
//!
//! A file that is read here is YAML with this meaning, if every scalar is taken for a text. Much that is YAML is rejected: anchors,
//! aliases, tags, further documents, mappings in braces, folded texts, texts over several lines. So a file of a bounded size
//! has a bounded content, and is read in one pass.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::SkillError;

/// How deep mappings lie in each other at most.
const DEPTH: usize = 3;

/// A value, and the line in which it begins, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub line: usize,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    List(Vec<Node>),
    /// Keys with their values, in the order of the file. No key is there twice.
    Map(Vec<(String, Node)>),
}

/// A line that is neither empty nor a comment.
#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    /// Spaces at its beginning.
    indent: usize,
    text: &'a str,
}

impl Line<'_> {
    fn is_item(&self) -> bool {
        self.text == "-" || self.text.starts_with("- ")
    }
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    /// Lines that are read.
    read: usize,
}

/// Reads a file that is one value.
pub fn read(text: &str) -> Result<Node, SkillError> {
    let mut reader = Reader { lines: text.lines().collect(), read: 0 };
    for (number, line) in (1..).zip(&reader.lines) {
        if line.contains(char::is_control) {
            return Err(at(number, "tabs and other control characters are not permitted; indent by spaces"));
        }
    }
    let Some(first) = reader.peek()? else { return Err(at(0, "the file is empty; a skill is a mapping")) };
    let node = reader.block(first, DEPTH)?;
    match reader.peek()? {
        Some(line) => Err(at(line.number, "this line is indented otherwise than those before it")),
        None => Ok(node),
    }
}

pub fn at(line: usize, what: impl Into<String>) -> SkillError {
    SkillError { line, what: what.into() }
}

impl<'a> Reader<'a> {
    /// The next line that says something.
    fn peek(&mut self) -> Result<Option<Line<'a>>, SkillError> {
        while let Some(line) = self.lines.get(self.read) {
            let (text, number) = (line.trim_start_matches(' '), self.read.saturating_add(1));
            let indent = line.len().saturating_sub(text.len());
            if indent == 0 && ["---", "...", "%"].iter().any(|mark| text.starts_with(mark)) {
                return Err(at(number, "a skill is one document, without `---`, `...` and `%`"));
            }
            if !text.is_empty() && !text.starts_with('#') {
                return Ok(Some(Line { number, indent, text: text.trim_end_matches(' ') }));
            }
            self.read = number;
        }
        Ok(None)
    }

    fn block(&mut self, first: Line<'a>, depth: usize) -> Result<Node, SkillError> {
        let Some(deeper) = depth.checked_sub(1) else {
            return Err(at(first.number, format!("mappings lie at most {DEPTH} deep in each other")));
        };
        let value = match first.is_item() {
            true => Value::List(self.list(first.indent)?),
            false => Value::Map(self.map(first.indent, deeper)?),
        };
        Ok(Node { line: first.number, value })
    }

    fn list(&mut self, indent: usize) -> Result<Vec<Node>, SkillError> {
        let mut list = Vec::new();
        while let Some(line) = self.peek()?.filter(|line| line.indent == indent && line.is_item()) {
            self.read = line.number;
            let text = line.text.trim_start_matches('-').trim_start_matches(' ');
            let (text, rest) = scalar(text, line.number, false)?;
            ends(rest, line.number)?;
            list.push(Node { line: line.number, value: Value::Text(text) });
        }
        Ok(list)
    }

    fn map(&mut self, indent: usize, depth: usize) -> Result<Vec<(String, Node)>, SkillError> {
        let mut map: Vec<(String, Node)> = Vec::new();
        while let Some(line) = self.peek()?.filter(|line| line.indent == indent) {
            let (key, text) = key(line)?;
            if map.iter().any(|(known, _)| known == key) {
                return Err(at(line.number, format!("the key {key:?} is there twice")));
            }
            self.read = line.number;
            let node = if text.is_empty() || text.starts_with('#') {
                // A list of a key can be indented as the key is.
                let below = |next: &Line| next.indent > indent || (next.indent == indent && next.is_item());
                let Some(next) = self.peek()?.filter(below) else {
                    return Err(at(line.number, format!("the key {key:?} has no value")));
                };
                self.block(next, depth)?
            } else {
                let value = match text.strip_prefix('|') {
                    Some(form) => Value::Text(self.literal(form, line)?),
                    None => inline(text, line.number)?,
                };
                Node { line: line.number, value }
            };
            map.push((key.to_string(), node));
        }
        Ok(map)
    }

    /// The lines behind `|`, without the ends of lines after the last of them.
    fn literal(&mut self, form: &str, line: Line<'a>) -> Result<String, SkillError> {
        ends(form.strip_prefix('-').unwrap_or(form), line.number)?;
        let spaces = |line: &str| line.len().saturating_sub(line.trim_start_matches(' ').len());
        let is_blank = |line: &str| line.trim_start_matches(' ').is_empty();
        let rest = self.lines.get(self.read..).unwrap_or_default();
        let first = rest.iter().find(|line| !is_blank(line));
        let indent = first.map_or(0, |first| spaces(first));
        if indent <= line.indent {
            return Err(at(line.number, "the lines of a text behind `|` are indented more than its key"));
        }
        let of_text = rest.iter().take_while(|line| is_blank(line) || spaces(line) >= indent);
        let texts: Vec<&str> = of_text.map(|line| line.get(indent..).unwrap_or_default()).collect();
        self.read = self.read.saturating_add(texts.len());
        Ok(texts.join("\n").trim_end_matches('\n').to_string())
    }
}

/// The key of a line, and what stands behind it.
fn key<'a>(line: Line<'a>) -> Result<(&'a str, &'a str), SkillError> {
    let found = line.text.split_once(':').filter(|(_, rest)| rest.is_empty() || rest.starts_with(' '));
    let is_key = |key: &str| key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    match found {
        Some((key, rest)) if !key.is_empty() && !key.starts_with('-') && is_key(key) => {
            Ok((key, rest.trim_start_matches(' ')))
        }
        _ => Err(at(line.number, "a line of a mapping is `key: value`, with a key of letters, digits, - and _")),
    }
}

/// A value in the line of its key: a text, or a list of texts in brackets.
fn inline(text: &str, line: usize) -> Result<Value, SkillError> {
    let Some(mut rest) = text.strip_prefix('[').map(|inner| inner.trim_start_matches(' ')) else {
        let (text, rest) = scalar(text, line, false)?;
        return ends(rest, line).map(|()| Value::Text(text));
    };
    let mut list = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            return ends(after, line).map(|()| Value::List(list));
        }
        let (text, after) = scalar(rest, line, true)?;
        list.push(Node { line, value: Value::Text(text) });
        let after = after.trim_start_matches(' ');
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start_matches(' '),
            None if after.starts_with(']') => after,
            None => {
                return Err(at(line, "a list in brackets ends in its line, with `]`, and has a comma after each text"));
            }
        };
    }
}

/// Nothing but a comment is left of a line.
fn ends(rest: &str, line: usize) -> Result<(), SkillError> {
    let text = rest.trim_start_matches(' ');
    let is_comment = text.starts_with('#') && text.len() < rest.len();
    if text.is_empty() || is_comment {
        return Ok(());
    }
    Err(at(line, format!("nothing can follow here, but {text:?} does")))
}

/// The text at the beginning of the rest of a line, and what follows it.
fn scalar(text: &str, line: usize, in_brackets: bool) -> Result<(String, &str), SkillError> {
    let first = text.chars().next();
    match first {
        Some('"') => return quoted(text, line),
        Some('\'') => return single_quoted(text, line),
        Some('&' | '*') => {
            let what = "anchors (`&`) and aliases (`*`) are not permitted; write the value where it is needed";
            return Err(at(line, what));
        }
        Some('!') => return Err(at(line, "tags (`!`) are not permitted; every value is a text, a list or a mapping")),
        Some('>') => return Err(at(line, "texts behind `>` are not permitted; write `|`, which keeps the lines")),
        _ => {}
    }
    let end = |(place, letter): (usize, char)| match letter {
        '#' => text.get(..place).is_some_and(|before| before.ends_with(' ')),
        ',' | ']' => in_brackets,
        _ => false,
    };
    let (found, rest) = text.split_at(text.char_indices().find(|at| end(*at)).map_or(text.len(), |(place, _)| place));
    let found = found.trim_end_matches(' ');
    let is_special = first.is_none_or(|first| "-?:,[]{}#|@`%".contains(first));
    let in_text: &[char] = if in_brackets { &['[', '{', '}'] } else { &[] };
    if is_special || found.is_empty() || found.contains(": ") || found.ends_with(':') || found.contains(in_text) {
        return Err(at(line, format!("the text {found:?} has to stand in quotes here")));
    }
    // What is cut off begins with the comment, which needs the space before it.
    Ok((found.to_string(), text.get(found.len()..).unwrap_or(rest)))
}

fn quoted(text: &str, line: usize) -> Result<(String, &str), SkillError> {
    let mut found = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((place, letter)) = letters.next() {
        let letter = match letter {
            '"' => return Ok((found, text.get(place.saturating_add(1)..).unwrap_or_default())),
            '\\' => match letters.next().map(|(_, letter)| letter) {
                Some(letter @ ('"' | '\\' | '/')) => letter,
                Some('n') => '\n',
                Some('t') => '\t',
                Some('u') => {
                    let digits: String = letters.by_ref().take(4).map(|(_, letter)| letter).collect();
                    let is_hex = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                    let code = u32::from_str_radix(&digits, 16).ok().filter(|_| is_hex).and_then(char::from_u32);
                    code.ok_or_else(|| at(line, "four hexadecimal digits of a character follow \\u"))?
                }
                _ => return Err(at(line, "after \\ in quotes there is one of \" \\ / n t u")),
            },
            letter => letter,
        };
        found.push(letter);
    }
    Err(at(line, "the text ends in its line, with \""))
}

fn single_quoted(text: &str, line: usize) -> Result<(String, &str), SkillError> {
    let mut found = String::new();
    let mut rest = text.strip_prefix('\'').unwrap_or_default();
    while let Some((part, after)) = rest.split_once('\'') {
        found.push_str(part);
        match after.strip_prefix('\'') {
            Some(after) => {
                found.push('\'');
                rest = after;
            }
            None => return Ok((found, after)),
        }
    }
    Err(at(line, "the text ends in its line, with '"))
}
