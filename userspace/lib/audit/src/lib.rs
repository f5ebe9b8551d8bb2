//! The audit log's records, their chain, and questions about them.
//!
//! A chain is an append-only list of [`Record`]s. [`Stored`] keeps it in tables that last, a [`Chain`] in memory, with
//! the same rules. Each record is one line of canonical JSON that holds the hash of the line
//! before it. So [`verify_lines`] finds every change, removal, reordering and repetition, and with the [`Head`] a cut
//! at the end as well. A chain that is full refuses; it never forgets.
//!
//! Records are the schema's `ToolEvent` and `GeneralEvent`.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod archive;
mod calls;
mod canonical;
mod chain;
mod damage;
mod general;
mod journal;
mod keys;
mod moment;
mod query;
mod reading;
mod record;
mod replay;
mod rules;
mod scan;
mod state;
mod stored;
mod story;
mod tables;
mod verify;
mod walk;
pub mod words;

pub use archive::{Copier, FEW, NotCopied, Survey, Target, Written, survey};
pub use chain::Chain;
pub use damage::{Lost, lost_in};
pub use general::{Kind, message};
pub use journal::{Journal, Life};
pub use keys::{KEY_KINDS, KeyUse, key_uses};
pub use moment::{at, clock, date, local, offset, offset_text, shifted, since};
pub use query::Filter;
pub use reading::{Page, Reader, Verified};
pub use record::{Event, Head, Record};
pub use replay::{Call, Replay, Replayed, RunName, Step, Told};
pub use rules::{ARGUMENTS_LIMIT, AppendError, ERROR_LIMIT, RECORD_OVERHEAD};
pub use stored::{Opened, Room, Stored};
pub use story::{Deed, Tally, story};
pub use verify::{Broken, Checker, Summary, verify_lines};
