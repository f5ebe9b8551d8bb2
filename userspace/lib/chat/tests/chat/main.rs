//! Templates, calls and grammars, with the vocabularies and templates in tests/infer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

mod calls;
mod fixture;
mod grammar;
mod template;
