//! The facts of a model file, in the form of the models' contract.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod backend;
mod info;
pub mod memory;

/// What follows a model's path and a dot in the path of its prompt cache.
pub const PROMPTS: &str = "prompts";
/// Bytes of all prompt caches of an image at most: each is in memory as long as its model is offered, besides a header that the
/// loader reads.
pub const MAX_PROMPTS: u64 = 8 << 20;

pub use backend::{Backend, BackendError, LOCAL_EMBEDDER, LOCAL_ENGINE, LOCAL_RETRIEVAL, LOCAL_SCRIPTED, SCRIPTED};
pub use info::{describe, difference, embeds, id, output_tokens, writes};
