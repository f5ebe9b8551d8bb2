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

/// The words of a schema node, from their bytes: 8 for each word.
#[doc(hidden)]
#[must_use]
#[expect(clippy::indexing_slicing, reason = "only the compiler calls this: a place outside is an error of the build")]
pub const fn words<const N: usize>(bytes: &[u8]) -> [capnp::Word; N] {
    let (parts, rest) = bytes.as_chunks::<8>();
    assert!(parts.len() == N && rest.is_empty(), "the bytes of a schema node are not its words");
    let mut words = [capnp::word(0, 0, 0, 0, 0, 0, 0, 0); N];
    let mut at = 0;
    while at < N {
        let [a, b, c, d, e, f, g, h] = parts[at];
        words[at] = capnp::word(a, b, c, d, e, f, g, h);
        at += 1;
    }
    words
}

include!(concat!(env!("OUT_DIR"), "/modules.rs"));
