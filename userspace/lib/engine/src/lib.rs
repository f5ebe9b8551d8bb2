//! Language models in GGUF files, run on the processor.
//!
//! A file is one slice, usually a mapping, and weights are read in place. [`Model::open`] checks
//! everything that a pass relies on and rejects a file with an [`EngineError`]. A [`Forward`] takes
//! a [`Batch`] of tokens through the layers; each sequence has a [`Cache`] of its keys and values.
//! A [`Machine`] computes: a set of [`kernel`]s and the threads of a [`Pool`]. A [`Generation`]
//! serves several requests at once. An [`Encoder`] computes vectors of texts.
//!
//! ```no_run
//! use capos_engine::{Batch, Cache, EngineError, Forward, Machine, Model, Single, kernel};
//!
//! fn next_token(file: &[u8], ids: &[u32]) -> Result<u32, EngineError> {
//!     let model = Model::open(file, None)?;
//!     let machine = Machine { kernels: kernel::reference(), pool: &Single };
//!     let mut caches = [Cache::new(model.config(), model.context())];
//!     let mut forward = Forward::new();
//!     let logits = forward.pass(&model, machine, &Batch::prompt(ids), &mut caches)?;
//!     Ok(capos_engine::greedy(logits))
//! }
//! ```
//!
//! The same file, tokens, batches and kernels give the same logits to the last bit, whatever the
//! number of threads.

#![cfg_attr(not(test), no_std)]
#![cfg_attr(
    not(feature = "simd"),
    allow(dead_code, unused_imports, unused_mut, reason = "only sets with intrinsics use them")
)]
#![deny(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]
#![deny(missing_docs)]

extern crate alloc;

pub mod activations;
mod aligned;
pub mod architecture;
mod attention;
mod batch;
#[expect(clippy::arithmetic_side_effects, reason = "of numbers that the types fix, none of them the file's")]
pub mod block;
mod cache;
mod config;
mod encoder;
mod error;
mod experts;
mod feed_forward;
mod forward;
pub mod generation;
#[expect(clippy::arithmetic_side_effects, reason = "of numbers that the types fix, none of them the file's")]
pub mod kernel;
mod mask;
pub mod memory;
mod model;
mod norm;
mod pace;
mod pool;
mod product;
pub mod rope;
mod sampler;
mod tensor;
mod turns;
mod weights;

pub use batch::{Batch, BatchToken};
pub use cache::{Cache, CacheType};
pub use config::{Config, Experts, Pooling, Temperature, Window};
pub use encoder::Encoder;
pub use error::EngineError;
pub use forward::Forward;
pub use generation::{Constraint, Event, Finish, Generation, Request, RequestId, Usage};
pub use mask::Mask;
pub use model::Model;
pub use pool::{Pool, Single};
pub use product::{Machine, Product, multiply};
pub use sampler::{Sampler, Sampling, greedy};
pub use tensor::Tensor;

/// Bounds of the work and memory that a file can cause.
pub mod limits {
    /// Width of the state between layers.
    pub const WIDTH: usize = 1 << 17;
    /// Layers.
    pub const LAYERS: usize = 1024;
    /// Heads.
    pub const HEADS: usize = 4096;
    /// Values of a head.
    pub const HEAD_SIZE: usize = 4096;
    /// Width inside the feed-forward part.
    pub const FEED_FORWARD: usize = 1 << 20;
    /// Experts of a layer.
    pub const EXPERTS: usize = 4096;
    /// Tokens of a sequence.
    pub const CONTEXT: usize = 1 << 24;
    /// Tokens of the vocabulary.
    pub const VOCABULARY: usize = 1 << 24;
    /// Types of tokens.
    pub const TOKEN_TYPES: usize = 1 << 10;
}
