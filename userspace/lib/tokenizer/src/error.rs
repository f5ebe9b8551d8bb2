//! What can be wrong with a file's vocabulary, with the message.

use alloc::string::String;
use core::fmt;

/// Why no tokenizer comes out of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenizerError {
    /// A metadata entry that is needed and not there.
    Missing {
        /// Its key.
        key: &'static str,
        /// Its purpose.
        what: &'static str,
    },
    /// A metadata entry that must be of another type or value.
    Entry {
        /// Its key.
        key: &'static str,
        /// The problem, as the rest of a sentence.
        why: String,
    },
    /// A tokenizer that is not known here.
    Unsupported {
        /// The key that names it.
        key: &'static str,
        /// Its name.
        found: String,
        /// The names that are known.
        known: &'static str,
    },
    /// An impossible token.
    Token {
        /// Its number.
        id: usize,
        /// The problem, as the rest of a sentence.
        why: String,
    },
    /// A merge that is not a pair of texts with a space between them.
    Merge {
        /// Its place in the list.
        index: usize,
    },
    /// The splitting rules could not be prepared; a defect of this program, not of the file.
    Rules {
        /// The message of the regular expressions' library.
        why: String,
    },
}

impl fmt::Display for TokenizerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { key, what } => {
                write!(f, "the file has no metadata entry '{key}', {what}; convert the model again")
            }
            Self::Entry { key, why } => write!(f, "the metadata entry '{key}' {why}; convert the model again"),
            Self::Unsupported { key, found, known } => {
                write!(
                    f,
                    "the metadata entry '{key}' is '{found}', which is not known here; use a model with one of these: {known}"
                )
            }
            Self::Token { id, why } => write!(f, "token {id} of the vocabulary {why}; convert the model again"),
            Self::Merge { index } => {
                write!(
                    f,
                    "merge {index} in 'tokenizer.ggml.merges' is not two texts with a space between them; convert the model \
                     again"
                )
            }
            Self::Rules { why } => {
                write!(f, "the rules that split text into words could not be prepared: {why}; use another model")
            }
        }
    }
}

impl core::error::Error for TokenizerError {}
