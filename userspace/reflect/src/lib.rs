//! Calls by reflection: the parameters of any method from JSON, and its results as JSON.
//!
//! A model's output is data. The function [`parse`] takes its text (no duplicate names, limited
//! size and depth). A message with exactly the text's content is made by [`encode_params`], which
//! rejects other texts with the path of the error. The answer becomes JSON with [`decode_results`].
//! Values are checked against a JSON Schema by [`validate`].
//!
//! # The JSON form
//!
//! | Cap'n Proto | JSON |
//! |---|---|
//! | `Void` | `null` |
//! | `Bool`, integers, floats, `Text` | boolean, integer in the type's range, number, string |
//! | a float that is not finite | `"NaN"`, `"Infinity"`, `"-Infinity"`, in results only |
//! | `Data` | base64 with padding; with `$text` UTF-8 text |
//! | enum | its enumerant's name |
//! | list | array |
//! | struct, group | object; of a union's fields exactly one |
//! | capability | refused in parameters; `"<capability>"` in results |
//!
//! A field is required unless it has an explicit default, is `$optional` or is `Void`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod amount;
mod base64;
mod canonical;
mod decode;
mod encode;
mod error;
mod parse;
mod people;
mod pointer;
mod validate;

pub use amount::{duration, size};
pub use canonical::canonical;
pub use decode::{decode, decode_results};
pub use encode::{encode, encode_call, encode_params};
pub use error::ReflectError;
pub use parse::{MAX_TEXT, parse};
pub use people::{Shown, Table, show, words};
pub use validate::{check_schema, validate};

/// Deepest nesting of JSON that is read, written or checked.
pub const MAX_DEPTH: usize = 64;
/// Most values in one JSON text that is written: a message of a few words can claim to hold more.
pub const MAX_VALUES: usize = 1 << 18;
/// The placeholder of a capability in results.
pub const CAPABILITY: &str = "<capability>";
