//! Conversations as a model file writes them.
//!
//! A file carries a chat template that turns messages and tools into text ([`Template`]). What people, tools and
//! documents say is guarded on the way, so that it never becomes one of the marks that tell the model who speaks. The
//! model answers with text and with calls in its family's form, which [`CallReader`] takes apart as it comes.
//! [`Grammar`] tells at each step which tokens can follow, so that calls name tools of this turn, with arguments that
//! keep to their schemas.

#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

mod call_form;
mod call_reader;
mod error;
mod grammar;
mod guard;
mod json;
mod message;
mod template;

pub use call_form::CallForm;
pub use call_reader::{CallReader, Delta};
pub use error::ChatError;
pub use grammar::{Allowed, Grammar, Grammars};
pub use message::{Call, Conversation, Message, Role, Tool};
pub use template::{Prompt, Template};
