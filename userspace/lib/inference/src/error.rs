//! Why there is no answer, with the message.

use std::fmt;

use capos_chat::ChatError;
use capos_engine::EngineError;
use capos_gguf::GgufError;
use capos_tokenizer::TokenizerError;

/// Errors of a model file or a request.
#[derive(Clone, Debug, PartialEq)]
pub enum InferenceError {
    /// The file is inconsistent.
    File(GgufError),
    /// The model cannot be run, or the request was more than it can take.
    Engine(EngineError),
    /// The file's vocabulary cannot be used.
    Tokenizer(TokenizerError),
    /// The template, a message, a tool or a schema.
    Chat(ChatError),
    /// A file of a family's wording is none.
    Family {
        /// What is wrong.
        why: String,
    },
    /// Not even the latest turn fits.
    TooLong {
        /// Tokens of that turn, with the instructions and tools.
        tokens: usize,
        /// Tokens that the context holds.
        context: usize,
    },
    /// A text to embed has more bytes than are read.
    TextBytes {
        /// Its place among the texts, from 1 on.
        place: usize,
        /// Its bytes.
        bytes: usize,
        /// Most that are accepted.
        most: usize,
    },
    /// A text to embed does not fit into the context, or has no tokens.
    TextTokens {
        /// Its place among the texts, from 1 on.
        place: usize,
        /// Its tokens, with those that the model puts around each text.
        tokens: usize,
        /// Tokens that the context holds.
        context: usize,
    },
}

impl fmt::Display for InferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::Tokenizer(error) => error.fmt(f),
            Self::Chat(error) => error.fmt(f),
            Self::Family { why } => write!(f, "the wording of a family: {why}"),
            Self::TooLong { tokens, context } => write!(
                f,
                "the last message, with the instructions, the tools and what came of calls, has {tokens} tokens, and \
                 the model takes {context} with its answer; say less or offer fewer tools"
            ),
            Self::TextBytes { place, bytes, most } => {
                write!(f, "text {place} has {bytes} bytes, and this model takes texts of {most}; divide it")
            }
            Self::TextTokens { place, tokens: 0, .. } => write!(f, "text {place} has no tokens; leave it out"),
            Self::TextTokens { place, tokens, context } => {
                write!(f, "text {place} has {tokens} tokens, and the model takes {context}; divide it")
            }
        }
    }
}

impl std::error::Error for InferenceError {}

impl From<GgufError> for InferenceError {
    fn from(error: GgufError) -> Self {
        Self::File(error)
    }
}

impl From<EngineError> for InferenceError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<TokenizerError> for InferenceError {
    fn from(error: TokenizerError) -> Self {
        Self::Tokenizer(error)
    }
}

impl From<ChatError> for InferenceError {
    fn from(error: ChatError) -> Self {
        Self::Chat(error)
    }
}
