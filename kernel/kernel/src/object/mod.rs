//! Kernel objects, one file each, and what they are made of.

pub mod account;
pub mod address_space;
pub mod capability;
pub mod cpu_time;
pub mod deadline;
pub mod delivery;
pub mod derivation;
pub mod device;
pub mod ending;
pub mod endpoint;
pub mod invocation;
pub mod log;
pub mod memory;
pub mod notification;
pub mod operation;
pub mod priority;
pub mod process;
pub mod reaper;
pub mod reply;
pub mod report;
pub mod ring;
pub mod thread;
pub mod thread_handle;
pub mod transfer;
pub mod words;

use capos_schema::sync::{Completion, Exception};

/// What a method gives back to dispatch.
pub type Answer = Result<Completion, Exception>;
