//! The loop in a simulated world.

mod hostile;
mod interrupt;
mod limits;
mod outcomes;
mod property;
mod world;
