//! The facts of a model file, in the form of the models' contract.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod backend;
mod info;
pub mod memory;

/// What follows a model's path and a dot in the path of its prompt cache.
pub const PROMPTS: &str = "prompts";
/// Bytes of the prompt cache of a model whose file has this many, at most: what a worker reads of it takes memory, and it is
/// meant to be small in comparison.
pub const fn most_prompt_bytes(model: u64) -> u64 {
    let part = model / 4;
    if part > LEAST_PROMPTS { part } else { LEAST_PROMPTS }
}

/// Bytes that the prompt cache of a small model may have.
const LEAST_PROMPTS: u64 = 8 << 20;

pub use backend::{Backend, BackendError, LOCAL_EMBEDDER, LOCAL_ENGINE, LOCAL_RETRIEVAL, LOCAL_SCRIPTED, SCRIPTED};
pub use info::{describe, difference, embeds, id, output_tokens, writes};
