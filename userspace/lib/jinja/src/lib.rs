//! Jinja templates as jinja2 3.1 renders them, with Python's values.
//!
//! Every character of a text keeps who wrote it: the template, or others ([`Char`]). Conditions, slices and lengths see
//! the text unchanged, and the output still says which parts of it are foreign.
//!
//! Steps, text, memory and nesting are bounded ([`Limits`]), so that a hostile template ends with an error.

#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

mod ast;
mod checks;
mod collections;
mod error;
mod expressions;
mod filters;
mod formatting;
mod functions;
mod json;
mod lexer;
mod lists;
mod loops;
mod machine;
mod methods;
mod number;
mod operators;
mod parser;
mod printf;
mod repr;
mod statement_parser;
mod statements;
mod text;
mod value;

pub use error::{Error, ErrorKind};
pub use machine::Limits;
pub use text::{Char, Text};
pub use value::Value;

use machine::Machine;

/// A template that was read.
#[derive(Debug)]
pub struct Template {
    body: Vec<ast::Statement>,
}

impl Template {
    /// Reads a template, with the settings that chat templates are written for: the line break behind a block and the
    /// blanks before it are left out.
    ///
    /// # Errors
    /// The source is no template; says why and where.
    pub fn new(source: &str) -> Result<Self, Error> {
        let tokens = lexer::tokens(source)?;
        Ok(Self { body: parser::Parser::new(&tokens).template()? })
    }

    /// What the template makes of these values.
    ///
    /// # Errors
    /// The template raises an exception, asks for what values do not have, or reaches a limit.
    pub fn render(&self, values: Vec<(&str, Value)>, host: Host, limits: Limits) -> Result<Vec<Char>, Error> {
        Machine::new(values, host, limits).run(&self.body)
    }
}

/// What templates may ask the host for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host {
    /// Seconds since 1970; `strftime_now` is not defined without it.
    pub now: Option<i64>,
}
