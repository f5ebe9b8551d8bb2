//! The content of `schema/*.capnp`, as Rust.
//!
//! For each schema file `x.capnp` there is `x_capnp` (readers and builders, made by capnpc) and,
//! by feature:
//!
//! * `client`: module `x` with owned types, async clients and server traits;
//! * `kernel`: module `x_dispatch` with traits that objects implement synchronously;
//! * `reflect`: tables of interfaces and methods in module `x`, and all of them in `INTERFACES`.
//!
//! Generated code is built on the hand-written modules.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
extern crate self as capos_schema;

#[cfg(feature = "client")]
pub mod builder;
#[cfg(feature = "client")]
pub mod cap;
pub mod exception;
mod hook;
#[cfg(feature = "client")]
pub mod local;
#[cfg(feature = "client")]
pub mod reader;
#[cfg(feature = "reflect")]
pub mod reflection;
#[cfg(feature = "kernel")]
pub mod sync;
#[cfg(feature = "client")]
pub mod wire;

include!(concat!(env!("OUT_DIR"), "/modules.rs"));
