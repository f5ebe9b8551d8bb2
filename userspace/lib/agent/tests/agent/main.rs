//! The loop in a simulated world.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod asking;
mod broken;
mod budget;
mod changes;
mod children;
mod direct;
mod going;
mod hostile;
mod interrupt;
mod kills;
mod lessons;
mod limits;
mod machine;
mod outcomes;
mod property;
mod records;
mod resume;
mod runs;
mod services;
mod summary;
mod until;
mod world;
