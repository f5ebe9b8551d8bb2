//! The client protocol: how a client outside the machine and the agent host inside it talk.
//!
//! Both sides write [JSON-RPC 2.0](https://www.jsonrpc.org/specification), one object per line, in UTF-8. The client
//! sends requests; the agent host answers each and sends [`SessionEvent`]s, which are notifications.
//!
//! | side | reads | writes |
//! |---|---|---|
//! | agent host | [`Lines`], [`decode_request`] | [`encode_result`], [`encode_error`], [`encode_event`] |
//! | client | [`Lines`], [`decode_from_host`], [`Answer::result`] | [`encode_request`] |
//!
//! What either side reads may be hostile. [`Lines`] keeps at most one line of [`LINE`](limits::LINE) bytes. Decoding
//! takes memory in proportion to the members that it knows: others are skipped, however long and deep they are. Each
//! known string has a limit of its own.
//!
//! Layers, lowest first: `limits`, `secret`, `rpc`, `lines`, `request`, `result`, `event`, `envelope`, `host`, `client`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod client;
mod envelope;
pub mod event;
mod host;
pub mod limits;
mod lines;
pub mod request;
pub mod result;
mod rpc;
mod secret;

pub use client::{Answer, AnswerError, FromHost, Malformed, decode_from_host, encode_request};
pub use event::{Event, SessionEvent};
pub use host::{Incoming, Rejected, decode_request, encode_error, encode_event, encode_result};
pub use lines::{BEGINNING, Line, Lines};
pub use request::Request;
pub use rpc::{Id, RpcError, TooLong, code};
pub use secret::Secret;

/// The version of this protocol. A client names it in `CreateSession`; the host takes no other.
pub const VERSION: u32 = 1;
