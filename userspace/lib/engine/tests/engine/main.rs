//! The tests of this crate through its public interface, in one program.

mod blocks;
mod embedders;
mod generation;
mod hostile;
mod kernels;
mod llama_cpp;
mod memory;
mod models;
mod sampler;
mod support;
