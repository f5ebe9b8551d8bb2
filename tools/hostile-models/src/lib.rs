//! Malformed model files, made by code.
//!
//! Each states the worst permitted outcome. Most are rejected when they are opened; others are sound files that contain
//! something to stop the program that runs them.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod bytes;
mod changes;
mod embedders;
mod numbers;
mod parts;
mod templates;
mod tokenizers;

use anyhow::{Context, Result};

pub use changes::{Random, changed};
pub use parts::{BYTES, INSIDE, Parts, TEMPLATE, TOKENS, VOCABULARY, WIDTH};

/// The expected result of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is refused when it is opened, with a reason that has this in it.
    Refused(&'static str),
    /// It is opened, and a request is refused with a reason that has this in it.
    Fails(&'static str),
    /// It is opened and answers, however useless the answer.
    Answers,
    /// It is refused, or a request is, or it answers.
    Words,
}

/// A file.
pub struct HostileModel {
    /// Its name.
    pub name: &'static str,
    /// Its expected result.
    pub end: End,
    /// Its content.
    pub file: Vec<u8>,
}

/// All of them.
///
/// # Errors
/// One of them cannot be made, which is a defect of this crate.
pub fn all() -> Result<Vec<HostileModel>> {
    let mut models = Vec::new();
    let language_models = numbers::all().into_iter().chain(tokenizers::all()).chain(templates::all());
    for (name, end, parts) in language_models.chain(embedders::all()) {
        let file = parts.with_text("general.name", name).file().with_context(|| format!("the model {name}"))?;
        models.push(HostileModel { name, end, file });
    }
    for (name, end, file) in bytes::all()? {
        models.push(HostileModel { name, end, file });
    }
    Ok(models)
}

/// One of them.
///
/// # Errors
/// There is none with that name, or it cannot be made.
pub fn named(name: &str) -> Result<HostileModel> {
    let found = all()?.into_iter().find(|model| model.name == name);
    found.with_context(|| format!("there is no hostile model {name:?}; tools/hostile-models has them"))
}
