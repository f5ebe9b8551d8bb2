//! Holding a model's answer to the tools and schemas of a turn.
//!
//! A [`Grammar`] returns at each step which tokens can follow, so that calls name tools of this turn, with arguments
//! that conform to their schemas. Its tests are those of `capos-chat`, with those of reading and writing.

#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

mod grammar;
mod held_tool;
mod line_grammar;
mod numbers;
mod paths;
mod repetition;
mod said;

pub use grammar::{Allowed, Grammar, Grammars, Loose, Rules};
