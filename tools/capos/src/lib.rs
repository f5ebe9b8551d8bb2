//! The host command line `capos`: one module for each subcommand, and the parts that they share.
//!
//! Lowest layer first; a module imports only from its own folder and from those before it:
//! `sign`, `models`, `manifest`, `build`, `session_tools`, `scenario`, `measure`, `suites`; `run` and `scaffold` stand on `build`.
//! Below them are three crates: `capos-host` (files and programs of the host), `capos-image` (bootable images) and `capos-vm`
//! (a virtual machine that is driven by its console).
#![forbid(unsafe_code)]

pub mod build;
pub mod manifest;
pub mod measure;
pub mod models;
pub mod run;
pub mod scaffold;
pub mod scenario;
pub mod session_tools;
pub mod sign;
pub mod suites;
