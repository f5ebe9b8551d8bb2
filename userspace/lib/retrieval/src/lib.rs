//! A model that answers from a handbook: it compares a request with the questions of its entries, and answers with the
//! nearest entry's text and tool calls.
//!
//! A [`Handbook`] is read from text and written as a GGUF file, which is signed and loaded like any other model. Its
//! method [`Handbook::respond`] plays an answer as [`capos_script::Response`], so its tokens, limits and stop sequences
//! are those of every backend of the worker. The format is described in `docs/retrieval-model.md`.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
mod file;
mod handbook;
mod parse;

pub use file::{ARCHITECTURE, FileError, Title};
pub use handbook::{Call, Entry, Handbook};
pub use parse::HandbookError;
