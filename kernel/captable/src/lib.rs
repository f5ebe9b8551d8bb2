//! The capability table and related structures, as pure logic.
//!
//! [`Table`] maps identifiers with generations to capabilities: one per process. The [`Forest`] is the derivation tree
//! over all processes, so that revoking a capability finds all that derive from it. A [`KeyedList`] is the queue of an
//! endpoint: first in first out, with removal from the middle. A [`Pool`] stores short-lived elements. Every operation
//! on one element costs the same however many there are; only [`Queues`], which keeps queues by key, costs the
//! logarithm of their number.
//!
//! Nothing here knows what a capability designates; the kernel supplies the types. Counts are of existing elements,
//! each of which takes memory: no counter comes near its end, and none is decremented below its increments.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![forbid(unsafe_code)]

extern crate alloc;

mod forest;
mod list;
mod pool;
mod queues;
mod table;

pub use forest::{Forest, ForestError, Found, NodeId};
pub use list::{KeptPlace, KeyedList, ListKey};
pub use pool::{Pool, shrink};
pub use queues::{QueueKey, Queues};
pub use table::{Full, Table};
