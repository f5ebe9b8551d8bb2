//! Text to tokens and back, by a model file's rules.
//!
//! [`Tokenizer::new`] takes the vocabulary out of a file's metadata and rejects inconsistent ones with an error
//! message. The file is not needed afterwards. Marks such as `<|im_end|>`, which show a model who speaks, are found in
//! text only if the caller asks for that: text of a person or a tool never becomes one ([`Marks`]).
//!
//! ```
//! # use capos_gguf::{Header, Writer, WriterValue};
//! # use capos_tokenizer::*;
//! # let mut writer = Writer::new();
//! # let bytes = (33..=126u8).chain(161..=172).chain(174..=255).map(|byte| char::from(byte).to_string());
//! # let tokens = bytes.chain((256..324).map(|code| char::from_u32(code).unwrap().to_string())).chain(["hi".into()]);
//! # writer.text("tokenizer.ggml.model", "gpt2");
//! # writer.text("tokenizer.ggml.pre", "gpt-2");
//! # writer.entry("tokenizer.ggml.tokens", WriterValue::Texts(tokens.collect()));
//! # writer.entry("tokenizer.ggml.merges", WriterValue::Texts(vec!["h i".into()]));
//! # let file = writer.header();
//! # let header = Header::parse(&file, file.len() as u64)?;
//! let tokenizer = Tokenizer::new(&header)?;
//! let ids = tokenizer.encode("hi ü", Marks::Text);
//! assert_eq!(ids.len(), 4); // `hi`, a space, and the two bytes of `ü`.
//! let mut decoder = Decoder::new(&tokenizer);
//! let texts: Vec<String> = ids.iter().map(|id| decoder.push(*id)).collect();
//! assert_eq!(texts, ["hi", " ", "", "ü"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod byte_alphabet;
mod byte_pair;
mod decoder;
mod error;
mod families;
mod parts;
mod pre_tokenizer;
mod sentence_piece;
mod special;
mod tokenizer;
mod vocabulary;
mod word_piece;

pub use decoder::Decoder;
pub use error::TokenizerError;
pub use special::{Marks, Piece};
pub use tokenizer::Tokenizer;
use vocabulary::flag;
pub use vocabulary::{TokenKind, Vocabulary};

/// Bounds of the work and memory that a file can cause.
pub mod limits {
    /// Tokens of a vocabulary.
    pub const TOKENS: u64 = 1 << 20;
    /// Merges.
    pub const MERGES: u64 = 1 << 21;
    /// Bytes of one token.
    pub const TOKEN_BYTES: usize = 4096;
    /// Bytes of all tokens together.
    pub const TEXT_BYTES: usize = 64 * 1024 * 1024;
    /// Bytes of all marks together: tokens that are looked for in text as they are.
    pub const MARK_BYTES: usize = 1024 * 1024;
    /// Bytes of templates, times the tokens that are looked for in them. Families' templates have some ten thousand, and their
    /// vocabularies at most some thousand such tokens.
    pub const SEARCHED_BYTES: usize = 1 << 30;
    /// Bytes of text that are merged at once: a longer word is taken in parts, and so is, without a pre-tokenizer, a
    /// longer text, at its spaces. No text for people has such words.
    pub const MERGED_BYTES: usize = 64 * 1024;
}
