//! Conversations that last, in a [`Keyspace`](capos_keyspace::Keyspace).
//!
//! Each principal has their own. A message is durable when [`Conversations::append`] answers, and the same append can be
//! repeated. A fork has the messages of its parent by reference, and keeps them when the parent is removed. Nothing is
//! read as a whole: lists, messages and results of a search come in pages.
//!
//! Layers: [`limits`], [`error`], `record`, `keys`, `account` (what a principal has used), `conversations` (make, list,
//! rename, expire), then `messages`, `attachments`, `runs`, `fork`, `remove` and `search`.
//!
//! | table | key | value |
//! |---|---|---|
//! | `format` | `version` | 4 bytes, little-endian |
//! | `principals` | name | owner, 4 bytes |
//! | `accounts` | owner | what the principal has used |
//! | `conversations` | owner, inverted time of the last change, id | the conversation's record |
//! | `places` | owner, id | time of the last change |
//! | `messages` | owner, segment, message, part | a part of a message |
//! | `sizes` | owner, segment, message | bytes of the segment up to and with this message |
//! | `uses` | owner, segment, id | how many messages the conversation needs of the segment |
//! | `expiries` | time, owner, id | nothing |
//! | `runs` | owner, id, turn | the run's record, and where it is |
//! | `heads` | owner, id, turn | what does not change of a run that can be continued |
//! | `steps` | owner, id, turn, step | what the step used |
//! | `attachments` | owner, id, name | the attachment's record |
//! | `pieces` | owner, id, name, 0, part | a part of an attachment |
//!
//! A segment is the messages that one conversation has added. It has a number, which no later segment of the owner has.
//! Numbers in keys are big-endian, so that they are in order.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod account;
mod attachments;
mod conversations;
mod error;
mod fork;
mod keys;
mod limits;
mod messages;
mod record;
mod remove;
mod runs;
mod search;

pub use attachments::{Attachment, Pieces};
pub use conversations::{Conversations, Listed};
pub use error::Error;
pub use keys::Owner;
pub use limits::*;
pub use messages::Pages;
pub use record::{Info, Part};
pub use runs::{Point, Run, Runs, Step};
pub use search::{Found, Results};
