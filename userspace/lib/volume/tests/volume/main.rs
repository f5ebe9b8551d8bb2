//! The volume against a plain model, over a disk that crashes and that somebody changes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

mod attempts;
mod common;
mod copies;
mod corruption;
mod crash;
mod flush;
mod headers;
mod model;
mod slots;
mod unreadable;
