//! Tokenizers, against reference libraries' results for the same vocabularies.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

mod byte_pair;
mod fixture;
mod llama_cpp;
mod refusals;
mod sentence_piece;
mod word_piece;
