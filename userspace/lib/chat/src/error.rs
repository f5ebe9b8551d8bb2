//! Errors of templates, conversations and schemas, with their messages.

use std::fmt;

/// The reason why there is no prompt or no grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatError {
    /// The file has no template.
    NoTemplate,
    /// The template cannot be read.
    Syntax {
        /// What is wrong and where.
        why: String,
    },
    /// The template refuses the conversation, or fails.
    Rendering {
        /// What it says, where, and of which message.
        why: String,
        /// The number of the message that it means, from 1 on, where one can be told.
        message: Option<usize>,
    },
    /// Messages or tools that are not as they should be.
    Message {
        /// Which, and what is wrong.
        why: String,
    },
    /// A schema that decoding cannot be held to, or a state that allows no token.
    Grammar {
        /// What is wrong.
        why: String,
    },
}

impl fmt::Display for ChatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTemplate => f.write_str(
                "the model file has no chat template ('tokenizer.chat_template'): it completes text and was not made \
                 for conversations; choose a model with one",
            ),
            Self::Syntax { why } => write!(f, "the model file's chat template cannot be read: {why}"),
            Self::Rendering { why, .. } => {
                write!(f, "the model file's chat template does not take this conversation: {why}")
            }
            Self::Message { why } => f.write_str(why),
            Self::Grammar { why } => write!(f, "the answer cannot be held to the schemas: {why}"),
        }
    }
}

impl std::error::Error for ChatError {}
