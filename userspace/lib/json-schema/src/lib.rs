//! JSON Schemas, each brought to one form.
//!
//! A schema is a document: its references name places from its own root, in several spellings. [`normalise`] gives a
//! schema that means the same to a reader which knows less. References name definitions of the result
//! ([`Normal::definitions`]), so that it can become a part of another document. Parts that constrain nothing are left
//! out: annotations, unknown keywords, formats without a check, and keywords whose value allows everything.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]
#![deny(missing_docs)]

extern crate alloc;

mod document;
mod keyword;
mod normal;

pub use keyword::is_checked_format;
pub use normal::{Normal, Unresolved, normalise};
