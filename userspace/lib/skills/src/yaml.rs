//! The part of YAML that skills use: mappings, lists and texts. Anchors, aliases, tags, directives and further documents are
//! rejected, so a file of a bounded size has a bounded content.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use saphyr_parser::{Event, Parser, Span, StrInput};

use crate::SkillError;

/// How deep values lie in each other at most.
const DEPTH: usize = 4;

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

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

/// Reads a file that is one value.
pub fn read(text: &str) -> Result<Node, SkillError> {
    let mut reader = Reader { parser: Parser::new_from_str(text) };
    let (mut event, mut line) = reader.next()?;
    while matches!(event, Event::StreamStart | Event::DocumentStart(_)) {
        (event, line) = reader.next()?;
    }
    let node = reader.node((event, line), DEPTH)?;
    loop {
        match reader.next()? {
            (Event::DocumentEnd, _) => {}
            (Event::StreamEnd, _) => return Ok(node),
            (_, line) => return Err(at(line, "a skill is one document; nothing can follow it")),
        }
    }
}

pub fn at(line: usize, what: impl Into<String>) -> SkillError {
    SkillError { line, what: what.into() }
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize), SkillError> {
        match self.parser.next_event() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, start.line())),
            Some(Err(error)) => Err(at(error.marker().line(), format!("not YAML: {}", error.info()))),
            None => Err(at(0, "the file ends too early")),
        }
    }

    fn node(&mut self, (event, line): (Event<'a>, usize), depth: usize) -> Result<Node, SkillError> {
        let Some(deeper) = depth.checked_sub(1) else {
            return Err(at(line, format!("values lie at most {DEPTH} deep in each other")));
        };
        let value = match event {
            Event::Alias(_)
            | Event::Scalar(_, _, 1.., _)
            | Event::SequenceStart(1.., _)
            | Event::MappingStart(1.., _) => {
                return Err(at(
                    line,
                    "anchors (`&`) and aliases (`*`) are not permitted; write the value where it is needed",
                ));
            }
            Event::Scalar(_, _, _, Some(_)) | Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                return Err(at(line, "tags (`!`) are not permitted; every value is a text, a list or a mapping"));
            }
            Event::Scalar(text, ..) => Value::Text(text.to_string()),
            Event::SequenceStart(..) => {
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        next => list.push(self.node(next, deeper)?),
                    }
                }
                Value::List(list)
            }
            Event::MappingStart(..) => {
                let mut map: Vec<(String, Node)> = Vec::new();
                loop {
                    let (event, line) = self.next()?;
                    if event == Event::MappingEnd {
                        break;
                    }
                    let Node { value: Value::Text(key), line } = self.node((event, line), deeper)? else {
                        return Err(at(line, "a key is a text"));
                    };
                    if map.iter().any(|(known, _)| *known == key) {
                        return Err(at(line, format!("the key {key:?} is there twice")));
                    }
                    let next = self.next()?;
                    let value = self.node(next, deeper)?;
                    map.push((key, value));
                }
                Value::Map(map)
            }
            _ => return Err(at(line, "a skill is a mapping of keys to values")),
        };
        Ok(Node { line, value })
    }
}
