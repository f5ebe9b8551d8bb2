//! capOS as the agent of an editor.
//!
//! The editor speaks the [Agent Client Protocol](https://agentclientprotocol.com), version 1, over standard input and
//! output. The machine speaks capOS's own client protocol over a socket. [`Bridge`] translates: a state machine that
//! takes lines of both sides and the time, and returns lines for both sides. It does no input or output and holds no
//! authority of the machine. Nothing that either side sends makes it panic or grow without bound.
//! [`serve`] runs it between two pairs of streams.
//!
//! Layers, lowest first: `wire`, `content`, `calls`, `bridge`, `hub`, `serve`.
#![forbid(unsafe_code)]

mod bridge;
mod calls;
mod content;
mod hub;
mod serve;
mod wire;

pub use bridge::{Bridge, End, Login, Output};
pub use serve::serve;
pub use wire::LINE;
