//! Conversations as a model file writes them.
//!
//! A file carries a chat template that turns messages and tools into text ([`Template`]). What people, tools and
//! documents say is guarded on the way, so that it never becomes one of the marks that tell the model who speaks. The
//! model answers with text and with calls in its family's form, which [`AnswerReader`] takes apart as its tokens come.
//! [`Grammar`] tells at each step which tokens can follow, so that calls name tools of this turn, with arguments that
//! keep to their schemas.

#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

mod answer;
mod call_form;
mod call_reader;
mod error;
mod grammar;
mod guard;
mod json;
mod line_grammar;
mod line_reader;
mod lines;
mod message;
mod nesting;
mod object_reader;
mod said;
mod stop;
mod template;

pub use answer::AnswerReader;
pub use call_form::CallForm;
pub use call_reader::{CallReader, Decision, Delta};
pub use error::ChatError;
pub use grammar::{Allowed, Grammar, Grammars, Rules};
pub use message::{Call, Conversation, Message, Role, Tool};
pub use template::{Prompt, Template};
