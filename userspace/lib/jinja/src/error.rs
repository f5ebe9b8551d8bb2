//! Why a template cannot be read or rendered.

use std::fmt;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The source is no template.
    Syntax,
    /// The template called `raise_exception`.
    Raised,
    /// The template asked for what a value does not have or a function does not take.
    Failed,
    /// A limit was reached.
    Limit,
}

/// An error, with the line of the template where it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind it is.
    pub kind: ErrorKind,
    /// What is wrong.
    pub message: String,
    /// The line of the template, from 1 on.
    pub line: Option<u32>,
}

impl Error {
    pub(crate) fn syntax(message: impl Into<String>, line: u32) -> Self {
        Self { kind: ErrorKind::Syntax, message: message.into(), line: Some(line) }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Failed, message: message.into(), line: None }
    }

    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Limit, message: message.into(), line: None }
    }

    /// The error with its line, if none is known yet.
    pub(crate) fn at(mut self, line: u32) -> Self {
        self.line.get_or_insert(line);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.line.map_or(Ok(()), |line| write!(f, " (line {line} of the template)"))
    }
}

impl std::error::Error for Error {}
