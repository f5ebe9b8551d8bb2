//! Splits an answer, while it arrives, into text and calls in the family's form.

use crate::CallForm;
use crate::line_reader::LineReader;
use crate::lines::Line;
use crate::message::Tool;
use crate::object_reader::ObjectReader;

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// A piece of a call. Pieces with the same index belong together.
    Call {
        /// Which call of the answer.
        index: u32,
        /// The tool's name, with the call's first piece.
        name: String,
        /// The handle of the tool of this name, with the call's first piece; empty where there is no such tool.
        handle: String,
        /// More of the arguments' JSON.
        arguments: String,
    },
}

/// What an answer comes down to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It calls tools.
    Call,
    /// It is text.
    Say,
    /// It is text that says that no tool fits. Only the built-in model tells that apart.
    None,
    /// It is text that says that a tool is forbidden. Only the built-in model tells that apart.
    Forbidden {
        /// The tool; empty where there is none such.
        tool: String,
    },
}

/// Reads an answer piece by piece.
pub struct CallReader(Reader);

enum Reader {
    Objects(ObjectReader),
    Lines(LineReader),
}

impl CallReader {
    /// A reader of an answer in this form, where calls are of these tools.
    pub fn new(form: Option<CallForm>, tools: &[Tool]) -> Self {
        if form == Some(CallForm::Lines) {
            let tools = tools.iter().map(|tool| (Line::of(tool), tool.handle.clone()));
            return Self(Reader::Lines(LineReader::new(tools.collect())));
        }
        let tools = tools.iter().map(|tool| (tool.name.clone(), tool.handle.clone()));
        Self(Reader::Objects(ObjectReader::new(form, tools.collect())))
    }

    /// The same, of an answer that keeps to a schema where it is no call: it is one only where it begins with a mark.
    pub fn with_schema(self) -> Self {
        match self.0 {
            Reader::Objects(reader) => Self(Reader::Objects(reader.with_schema())),
            lines @ Reader::Lines(_) => Self(lines),
        }
    }

    /// Takes more of the answer, and gives what is known of it now. Marks are found in it, but not those of
    /// [`CallForm::Lines`].
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        match &mut self.0 {
            Reader::Objects(reader) => reader.push(text),
            Reader::Lines(reader) => reader.push(text),
        }
    }

    /// Takes a mark of the form.
    pub fn push_mark(&mut self, mark: &str) -> Vec<Delta> {
        match &mut self.0 {
            Reader::Objects(reader) => reader.push(mark),
            Reader::Lines(reader) => {
                reader.mark(mark);
                Vec::new()
            }
        }
    }

    /// Ends the answer: gives what was held back. A call that was cut off keeps the arguments that it had.
    pub fn finish(self) -> Vec<Delta> {
        match self.0 {
            Reader::Objects(reader) => reader.finish(),
            Reader::Lines(reader) => reader.finish().into_iter().collect(),
        }
    }

    /// How many calls there were.
    pub fn calls(&self) -> u32 {
        match &self.0 {
            Reader::Objects(reader) => reader.calls(),
            Reader::Lines(reader) => reader.calls(),
        }
    }

    /// Whether what comes next is part of a call.
    pub fn in_call(&self) -> bool {
        match &self.0 {
            Reader::Objects(reader) => reader.in_call(),
            Reader::Lines(reader) => reader.in_call(),
        }
    }

    /// What the answer comes down to so far.
    pub fn decision(&self) -> Decision {
        match &self.0 {
            Reader::Objects(reader) if reader.calls() > 0 => Decision::Call,
            Reader::Objects(_) => Decision::Say,
            Reader::Lines(reader) => reader.decision(),
        }
    }
}
