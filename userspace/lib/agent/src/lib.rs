//! The tool-use loop, its limits and its outcomes.
//!
//! In a turn, the agent appends the person's message and asks the model with this turn's snapshot of tools. It shows
//! the answer as it arrives. It checks the proposed calls one after the other (look-up, arguments, gate, person), runs
//! each when its capability is free, and appends the results in the order of the calls. That repeats until the model
//! proposes nothing more, or a limit or the person ends it.
//!
//! The crate holds no capability and does no input or output: everything outside is behind the traits of [`world`].
//! What it guarantees, whatever the model says:
//!
//! * Only a structured call that names an entry of the snapshot by exact bytes can have an effect.
//! * No effect begins before its audit record is written; every such record is followed by exactly one about its end.
//!   What the log could not take is kept, and written before anything else runs.
//! * Every call gets exactly one of the nine outcomes, keyed to its id. The record of a call holds the broker's
//!   decision, one of six, if there was one, whenever the person interrupts.
//! * Each message is saved before anything comes of it; what cannot be saved stops nothing. So a turn that was cut off can be
//!   continued: no call is repeated, and the model learns which calls had their effect, as far as the audit log knows.
//! * The person's Ctrl-C ends the turn at once, wherever it is.
//! * A child run has a part of its parent's tools and budget, and ends with it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod agent;
mod answer;
mod asking;
mod backlog;
mod budget;
mod call;
mod conversation;
mod course;
mod curtain;
mod delegate;
mod direct;
mod evidence;
mod execute;
mod going;
mod handle;
mod lanes;
mod limits;
mod piece;
mod race;
mod record;
mod result;
mod signal;
mod snapshot;
mod steps;
mod turn_end;
mod until;
pub mod world;

pub use agent::lessons::Lesson;
pub use agent::window::{Part, Window};
pub use agent::wishes::{Called, undone, wishes};
pub use agent::{Agent, Session};
pub use answer::facts::unsupported;
pub use answer::response::{Draft, Response};
pub use backlog::Backlog;
pub use call::time_limit;
pub use capos_redact::redact;
pub use conversation::fate::Fate;
pub use conversation::{Conversation, ConversationError, Entry};
pub use course::Course;
pub use delegate::ChildRun;
pub use direct::DirectCall;
pub use going::Going;
pub use handle::{HANDLE_PREFIX, Handles, handle_text};
pub use limits::Bounds;
pub use piece::Piece;
pub use race::{Either, race};
pub use result::{Brought, Patch, hash, truncate};
pub use signal::Signal;
pub use snapshot::{Mark, Snapshot, Tool};
pub use turn_end::TurnEnd;
pub use until::Condition;
pub use world::World;
