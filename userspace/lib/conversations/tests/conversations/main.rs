//! Conversations over a store in the same process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests may fail the test")]

mod attachments;
mod bounds;
mod crash;
mod limits;
mod model;
mod runs;
mod world;
