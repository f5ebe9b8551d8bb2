//! Templates, calls and grammars, with the vocabularies and templates in tests/infer and the built-in model's.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

mod answers;
mod calls;
mod fixture;
mod format;
mod grammar;
mod lines;
mod template;
