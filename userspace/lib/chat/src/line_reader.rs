//! Taking an answer of the built-in model apart: its marks come by themselves, so that no text is taken for one.

use crate::call_reader::{Decision, Delta};
use crate::lines::{AS, FORBIDDEN, INVOKE, Line, NONE, SAY};
use crate::nesting::Nesting;

/// Reads text, calls and refusals.
pub struct LineReader {
    tools: Vec<(Line, String)>,
    place: Place,
    decision: Decision,
    calls: u32,
}

enum Place {
    /// Before all else.
    Start,
    Text,
    /// In what a tool does.
    Head(String),
    /// In a tool's name.
    Name(String),
    Arguments(Nesting),
    /// Behind a call.
    Between,
}

impl LineReader {
    /// A reader of answers to a request with these lines, each with its tool's handle.
    pub fn new(tools: Vec<(Line, String)>) -> Self {
        Self { tools, place: Place::Start, decision: Decision::Say, calls: 0 }
    }

    pub fn calls(&self) -> u32 {
        self.calls
    }

    pub fn in_call(&self) -> bool {
        matches!(self.place, Place::Head(_) | Place::Name(_) | Place::Arguments(_))
    }

    pub fn decision(&self) -> Decision {
        if self.calls > 0 { Decision::Call } else { self.decision.clone() }
    }

    /// Takes a mark. One that cannot be where it is has no meaning.
    pub fn mark(&mut self, mark: &str) {
        let place = std::mem::replace(&mut self.place, Place::Start);
        self.place = match (place, mark) {
            (Place::Start, SAY) => Place::Text,
            (Place::Start, NONE) => {
                self.decision = Decision::None;
                Place::Text
            }
            (Place::Start | Place::Between, INVOKE) => Place::Head(String::new()),
            (Place::Head(_), AS) => Place::Name(String::new()),
            (Place::Head(head), FORBIDDEN) => {
                let line = self.tools.iter().find(|(line, _)| line.forbidden && line.head == head);
                let tool = line.map_or(String::new(), |(line, _)| line.name.clone());
                self.decision = Decision::Forbidden { tool };
                Place::Text
            }
            (place, _) => place,
        };
    }

    /// Takes text, and gives what is known of it now.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = match &mut self.place {
                Place::Start | Place::Text | Place::Between => {
                    if matches!(self.place, Place::Start) {
                        self.place = Place::Text;
                    }
                    deltas.push(Delta::Text(rest.into()));
                    ""
                }
                Place::Head(head) => {
                    head.push_str(rest);
                    ""
                }
                Place::Name(_) => self.read_name(rest, &mut deltas),
                Place::Arguments(_) => self.read_arguments(rest, &mut deltas),
            };
        }
        deltas
    }

    /// What was held back at the end of the answer. A call that was cut off keeps the arguments that it had.
    pub fn finish(self) -> Option<Delta> {
        match self.place {
            Place::Head(text) | Place::Name(text) if !text.is_empty() => Some(Delta::Text(text)),
            _ => None,
        }
    }

    /// Reads a name up to the brace behind it; gives the rest.
    fn read_name<'t>(&mut self, text: &'t str, deltas: &mut Vec<Delta>) -> &'t str {
        let Place::Name(name) = &mut self.place else { return text };
        let Some((more, _)) = text.split_once('{') else {
            name.push_str(text);
            return "";
        };
        name.push_str(more);
        let name = std::mem::take(name);
        let tool = self.tools.iter().find(|(line, _)| line.name == name);
        let handle = tool.map_or(String::new(), |(_, handle)| handle.clone());
        deltas.push(Delta::Call { index: self.calls, name, handle, arguments: String::new() });
        self.calls = self.calls.saturating_add(1);
        self.place = Place::Arguments(Nesting::default());
        text.get(more.len()..).unwrap_or("")
    }

    /// Reads arguments up to their end; gives the rest.
    fn read_arguments<'t>(&mut self, text: &'t str, deltas: &mut Vec<Delta>) -> &'t str {
        let Place::Arguments(nesting) = &mut self.place else { return text };
        let closed = text.char_indices().find(|(_, character)| nesting.take(*character) && nesting.depth() == 0);
        let end = closed.map_or(text.len(), |(at, character)| at.saturating_add(character.len_utf8()));
        let (arguments, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        let index = self.calls.saturating_sub(1);
        let (name, handle) = (String::new(), String::new());
        deltas.push(Delta::Call { index, name, handle, arguments: arguments.into() });
        if closed.is_some() {
            self.place = Place::Between;
        }
        rest
    }
}
