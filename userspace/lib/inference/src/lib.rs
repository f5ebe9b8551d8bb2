//! The whole path from a conversation to an answer, over one model file.
//!
//! [`LanguageModel::open`] makes a file ready: the model, its tokenizer, its chat template, the form of its calls. An
//! [`Assistant`] answers conversations with it, several at once: [`Assistant::request`] takes one, and each
//! [`Assistant::step`] is a bounded piece of work that returns its results. Likewise, an [`Embedder`] computes vectors
//! of texts, with an [`EmbeddingModel`] or a [`LanguageModel`]. Files, clocks and threads are the caller's.
//!
//! ```no_run
//! use capos_chat::{Delta, Message, Role};
//! use capos_engine::{Machine, Single, generation::Options, kernel};
//! use capos_inference::{Assistant, Event, InferenceError, LanguageModel, Request};
//!
//! fn answer(file: &[u8], question: &str) -> Result<String, InferenceError> {
//!     let model = LanguageModel::open(file, None)?;
//!     let machine = Machine { kernels: kernel::reference(), pool: &Single };
//!     let mut assistant = Assistant::new(&model, machine, Options::default());
//!     let messages = vec![Message::new(Role::User, question)];
//!     assistant.request(Request { messages, ..Request::default() })?;
//!     let mut answer = String::new();
//!     while !assistant.idle() {
//!         for (_, event) in assistant.step() {
//!             match event {
//!                 Event::Delta(Delta::Text(text)) => answer.push_str(&text),
//!                 Event::Finish(finish) => finish.error.map_or(Ok(()), Err)?,
//!                 _ => {}
//!             }
//!         }
//!     }
//!     Ok(answer)
//! }
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]
#![deny(missing_docs)]

mod assistant;
mod constraint;
mod embedder;
mod embedding_model;
mod error;
mod family;
mod language_model;
mod prompt;
mod prompt_cache;
mod repetition;
mod request;

pub use assistant::Assistant;
pub use capos_engine::RequestId;
pub use capos_grammar::Loose;
pub use embedder::{Embedder, EmbeddingId};
pub use embedding_model::EmbeddingModel;
pub use error::InferenceError;
pub use family::Family;
pub use language_model::LanguageModel;
pub use prompt::{Fitting, Prompts};
pub use prompt_cache::{beginning, prompt_cache, token_bytes};
pub use request::{Event, Finish, Grammar, Reason, Request};
