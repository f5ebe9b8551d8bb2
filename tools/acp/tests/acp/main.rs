//! The bridge between a simulated machine and an editor that the test plays.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::field_reassign_with_default,
    reason = "tests"
)]

#[path = "../simulated/mod.rs"]
mod simulated;

mod fuzz;
mod pair;
mod permissions;
mod prompts;
mod sessions;
mod streams;
