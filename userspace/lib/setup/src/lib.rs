//! First boot and login: the dialog with the person, the rules for names and passphrases, and `setup.toml`.
//!
//! Everything here is pure. The shell shows what the [`Dialog`] says and calls the broker as it asks; the broker checks
//! names and passphrases by the same rules, and reads `setup.toml`. Layers, lowest first: [`disks`], [`rules`], [`unattended`], [`dialog`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

extern crate alloc;

pub mod dialog;
pub mod disks;
pub mod rules;
pub mod unattended;

pub use dialog::{CLOCK_IS_SET, Call, Dialog, Event, Facts, KEEP_THE_CODE, Next, Step, moment};
pub use unattended::Unattended;
