//! Why a file cannot be run, or a pass cannot be made, with the message.

use alloc::string::{String, ToString};
use core::fmt;

use capos_gguf::GgufError;

/// The problem, and its place.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineError {
    /// The container is inconsistent.
    File(GgufError),
    /// An architecture that the engine does not know.
    Architecture {
        /// The value of `general.architecture`.
        found: String,
    },
    /// A metadata entry that is not there.
    MissingEntry {
        /// Its key.
        key: String,
    },
    /// A metadata entry with an impossible type or value.
    Entry {
        /// Its key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// A tensor that is not there.
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// A tensor that is of another shape or type than the model needs.
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A kernel set that cannot run here.
    Kernels {
        /// Its name.
        name: String,
        /// The missing feature of the processor or the program.
        why: &'static str,
    },
    /// A token that the vocabulary does not have.
    Token {
        /// Its id.
        id: u32,
        /// Tokens in the vocabulary.
        vocabulary: usize,
    },
    /// A batch that cannot pass through the model.
    Batch {
        /// What is wrong with it.
        why: &'static str,
    },
    /// Keys and values from a file that are not of this model.
    Stored {
        /// What is wrong with them.
        why: &'static str,
    },
    /// A prompt that is longer than the context.
    Prompt {
        /// Its tokens.
        tokens: usize,
        /// Tokens that the context holds.
        positions: usize,
    },
    /// More tokens than the cache was made for.
    Full {
        /// Tokens that the cache was made for.
        positions: usize,
    },
    /// A setting of the sampler that is out of range.
    Sampling {
        /// Its name.
        setting: &'static str,
        /// Its value.
        value: f32,
        /// The smallest that is accepted.
        least: f32,
        /// The largest that is accepted.
        most: f32,
    },
    /// A constraint that cannot continue.
    Constraint {
        /// The problem, as a sentence that begins with "the constraint".
        why: String,
    },
    /// No token that may be next has a logit that is a number.
    NoLogits,
    /// Tokens were requested from a model that makes none.
    WritesNothing,
    /// A vector was requested from a model that makes none.
    EmbedsNothing,
    /// The vector of a text contains NaN or infinity.
    NoVector,
    /// There is no memory for this.
    Memory {
        /// Its purpose.
        what: &'static str,
    },
}

impl EngineError {
    /// An entry with an impossible type or value.
    pub(crate) fn entry(key: &str, why: impl Into<String>) -> Self {
        Self::Entry { key: key.to_string(), why: why.into() }
    }

    /// A tensor of another shape or type.
    pub(crate) fn tensor(name: &str, why: impl Into<String>) -> Self {
        Self::Tensor { name: name.to_string(), why: why.into() }
    }
}

impl From<GgufError> for EngineError {
    fn from(error: GgufError) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "{error}"),
            Self::Architecture { found } => {
                write!(f, "the architecture '{found}' is not known here; known are {}", crate::architecture::known())
            }
            Self::MissingEntry { key } => write!(f, "the metadata entry '{key}' is missing"),
            Self::Entry { key, why } => write!(f, "the metadata entry '{key}' {why}"),
            Self::MissingTensor { name } => write!(f, "the tensor '{name}' is missing"),
            Self::Tensor { name, why } => write!(f, "the tensor '{name}' {why}"),
            Self::Kernels { name, why } => write!(f, "the kernels '{name}' cannot run here: {why}"),
            Self::Token { id, vocabulary } => {
                write!(f, "the token {id} is not in the vocabulary, whose ids end at {}", vocabulary.saturating_sub(1))
            }
            Self::Batch { why } => write!(f, "the batch {why}"),
            Self::Stored { why } => write!(f, "stored keys and values cannot be used: {why}; make their file again"),
            Self::Prompt { tokens, positions } => write!(
                f,
                "the prompt has {tokens} tokens, and the context holds {positions}; shorten it or make the context longer"
            ),
            Self::Full { positions } => {
                write!(f, "the context is full: it holds {positions} tokens; begin a new one or make it longer")
            }
            Self::Sampling { setting, value, least, most } => {
                write!(f, "the {setting} is {value}; {least} to {most} is accepted")
            }
            Self::Constraint { why } => write!(f, "the constraint {why}"),
            Self::NoLogits => {
                f.write_str("the model gives no token that may be next a number; its weights may be damaged")
            }
            Self::WritesNothing => {
                f.write_str("this model embeds texts and writes none; choose a language model, or have texts embedded")
            }
            Self::EmbedsNothing => f.write_str("this model ranks texts and does not embed them; choose an embedder"),
            Self::NoVector => {
                f.write_str("the model gives a text a vector that is not of numbers; its weights may be damaged")
            }
            Self::Memory { what } => write!(f, "there is not enough memory for {what}"),
        }
    }
}

impl core::error::Error for EngineError {}
