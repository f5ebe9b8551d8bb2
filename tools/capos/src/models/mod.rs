//! Model files for images and tests.

pub(crate) mod chain;
pub mod extra;
pub mod gguf;
pub mod handbook;
pub mod packed;
pub mod prompts;
pub(crate) mod random;
pub(crate) mod vocabulary;
