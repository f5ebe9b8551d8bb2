//! The scripted model: a deterministic backend that plays back a JSON-lines file.
//!
//! A script states, request by request, the model's answers: text and tool-call deltas, malformed pieces, delays,
//! usage, how the response ends, or that the worker dies. It can send anything that a hostile model could, and it sends
//! the same bytes each time. The file's format is described in `docs/scripted-model.md`.
//!
//! This crate does no I/O. The function [`Script::parse`] reads the bytes of the file, and [`Player::respond`] selects
//! the line that answers a request. The [`Response`] that it returns is an iterator of [`Event`]s, which the worker
//! carries out.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod condition;
mod event;
mod parse;
mod player;
mod request;
mod response;
mod schema;
mod tokens;
mod turn;

pub use condition::Condition;
pub use event::{CallDelta, Crash, ErrorKind, Event, Finish, Usage, weights_text};
pub use parse::{ScriptError, summarises};
pub use player::Player;
pub use request::{MessageView, RequestView, Role, ToolView};
pub use response::{Collected, CollectedCall, Response};
pub use schema::Schema;
pub use tokens::count_tokens;
pub use turn::{Arguments, Handle, Id, NONCE_ID, Script, Selection, Step, Turn};
