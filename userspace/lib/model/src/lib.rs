//! The facts of a model file, in the form of the models' contract.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod backend;
mod info;
pub mod memory;

pub use backend::{Backend, BackendError, LOCAL_EMBEDDER, LOCAL_ENGINE, LOCAL_RETRIEVAL, LOCAL_SCRIPTED, SCRIPTED};
pub use info::{describe, difference, embeds, output_tokens, writes};
