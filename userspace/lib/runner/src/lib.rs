//! What runs a session of the agent: its capabilities as tools, the broker and the audit log as its gate, its model, and
//! its conversation in the store.
//!
//! A program that runs sessions gives a [`Surface`]: what shows a turn and asks the person. The console is one, and a
//! client of the agent host is another. Whatever the surface is, a tool is called by one path, and only after the broker's
//! decision and the audit record.
#![cfg_attr(capos_guest, no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod asking;
pub mod attachments;
mod beside;
pub mod budget;
pub mod change;
pub mod cut_off;
pub mod escape;
pub mod gate;
pub mod grants;
pub mod history;
pub mod invoke;
pub mod keeper;
pub mod loss;
mod missing;
pub mod model;
mod runner;
mod session;
pub mod skills;
mod surface;
pub mod table;
mod telemetry;
mod writes;

pub use beside::{Begun, Beside};
pub use runner::{Base, Capabilities, Runner};
pub use session::{Kept, OPENED, Session};
pub use surface::{Form, OwnCall, Surface};
pub use telemetry::ToLog;
pub use writes::Writes;
