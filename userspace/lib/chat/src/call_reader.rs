//! Parsing an answer while it arrives: text, and calls in the form of the model's family.

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
        /// The handle of the tool of this name, with the call's first piece; empty if the request has no such tool.
        handle: String,
        /// More of the arguments' JSON.
        arguments: String,
    },
}

/// What kind of answer it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It calls tools.
    Call,
    /// It is text.
    Say,
    /// It is text that says that no tool fits. Only the built-in model marks such text.
    None,
    /// It is text that says that a tool is forbidden. Only the built-in model marks such text.
    Forbidden {
        /// The tool's name; empty if the request has no such tool.
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
    /// Creates a reader of an answer in this form, whose calls use these tools.
    pub fn new(form: Option<CallForm>, tools: &[Tool]) -> Self {
        if form == Some(CallForm::Lines) {
            let tools = tools.iter().map(|tool| (Line::of(tool), tool.handle.clone()));
            return Self(Reader::Lines(LineReader::new(tools.collect())));
        }
        Self(Reader::Objects(ObjectReader::new(form, tools)))
    }

    /// Makes this the reader of an answer that follows a schema unless it is a call. Such an answer is a call only if it
    /// begins with the mark.
    pub fn with_schema(self) -> Self {
        match self.0 {
            Reader::Objects(reader) => Self(Reader::Objects(reader.with_schema())),
            lines @ Reader::Lines(_) => Self(lines),
        }
    }

    /// Takes more of the answer, and returns the text and the calls that are certain now. It finds the marks in the text,
    /// except those of [`CallForm::Lines`].
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

    /// Returns the text that is held back outside of calls: text that follows can no longer make it part of a mark.
    pub fn flush(&mut self) -> Vec<Delta> {
        match &mut self.0 {
            Reader::Objects(reader) => reader.flush(),
            // It holds back nothing outside of calls.
            Reader::Lines(_) => Vec::new(),
        }
    }

    /// Ends the answer: returns the text that was held back. A call that was cut off keeps the arguments that it had.
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

    /// Whether the next character is part of a call.
    pub fn in_call(&self) -> bool {
        match &self.0 {
            Reader::Objects(reader) => reader.in_call(),
            Reader::Lines(reader) => reader.in_call(),
        }
    }

    /// What kind of answer it is so far.
    pub fn decision(&self) -> Decision {
        match &self.0 {
            Reader::Objects(reader) if reader.calls() > 0 => Decision::Call,
            Reader::Objects(_) => Decision::Say,
            Reader::Lines(reader) => reader.decision(),
        }
    }
}
