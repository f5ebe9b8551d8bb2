//! The states of sessions and runs, and the events that tell of them.
//!
//! A session consists of runs, and a run of steps. A run is what one request of the person begins: a turn with its model
//! calls and tool calls. [`Session`] and [`Run`] are tables: each pair of a state and an event either has a next state or
//! is an error. [`Checkpoint`] is what is kept of a run, so that it continues after a restart. [`Event`] is what telemetry and clients are told, through a [`Sink`] that never waits.
//!
//! Nothing here does input or output.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]
#![deny(missing_docs)]

extern crate alloc;

mod buffer;
mod checkpoint;
mod child;
mod event;
mod line;
mod predicate;
mod run;
mod session;
mod table;

pub use buffer::Buffer;
pub use checkpoint::{CHECKPOINT_VERSION, Checkpoint, Declared, Progress, check_conditions, read_progress, read_step};
pub use child::{Child, Children};
pub use event::{Approval, Event, Ids, Nowhere, Record, Risk, Sink};
pub use line::line;
pub use predicate::{Predicate, USAGE};
pub use run::{Run, RunEvent, RunState};
pub use session::{Session, SessionEvent, SessionState};
pub use table::NotPermitted;
