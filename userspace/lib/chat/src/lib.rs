//! Conversations as a model file writes them.
//!
//! A file carries a chat template that turns messages and tools into text ([`Template`]). What people, tools and
//! documents say stays known as theirs, so that it never becomes one of the marks that tell the model who speaks. The
//! model answers with text and with calls in its family's form, which [`AnswerReader`] takes apart as its tokens come.

#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

mod again;
mod answer;
mod asked;
mod call_reader;
mod error;
mod format;
mod guard;
mod history;
mod line_reader;
pub mod lines;
mod message;
mod nesting;
mod object_reader;
mod prompt;
mod sample;
mod stop;
mod template;
pub mod unmarked;

pub use answer::AnswerReader;
pub use asked::{ASKED_WITH, FUNCTION_WORDS, NOT_NAMES};
pub use call_reader::{CallReader, Decision, Delta};
pub use capos_call_form::{CALL_ID, CallForm};
pub use error::ChatError;
pub use format::ChatFormat;
pub use message::{Call, Conversation, Message, Role, Tool};
pub use prompt::{Prompt, SaidText};
pub use template::Template;
