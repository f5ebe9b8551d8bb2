//! The audit log's records, their chain, and questions about them.
//!
//! A [`Chain`] is an append-only list of [`Record`]s. Each is one line of canonical JSON that holds the hash of the line
//! before it. So [`verify_lines`] finds every change, removal, reordering and repetition, and with the [`Head`] a cut
//! at the end as well. A chain that is full refuses; it never forgets.
//!
//! Records are the schema's `ToolEvent` and `GeneralEvent`.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod calls;
mod canonical;
mod chain;
mod general;
mod moment;
mod query;
mod record;
mod story;
mod verify;

pub use chain::{ARGUMENTS_LIMIT, AppendError, Chain, ERROR_LIMIT};
pub use general::{Kind, message};
pub use moment::{clock, date, since};
pub use query::Filter;
pub use record::{Event, Head, Record};
pub use story::{Deed, Tally, story};
pub use verify::{Broken, Summary, verify_lines};
