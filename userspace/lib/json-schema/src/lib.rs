//! Normalises JSON Schemas.
//!
//! [`normalise`] rewrites a schema of any draft, so that its reader needs to know fewer keywords and one form of reference.
//! All references of the result name one of its definitions ([`Normal::definitions`]), so that it can become a part of
//! another document. The result leaves out all members that constrain nothing: annotations, unknown keywords, formats that
//! are not checked, and keywords whose value accepts everything.

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
