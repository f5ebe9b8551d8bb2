//! The terminal without the wires: line editing, styles, and the one sanitiser of output.
//!
//! Bytes that come from the keyboard go in, events and bytes for the screen come out; nothing here does I/O.
//! [`Console`] joins the parts and is what the terminal service drives. Text from anywhere else reaches the screen only
//! as [`Clean`], which only the [`Sanitiser`] makes; only the [`Painter`], the editor and the console emit control sequences.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod buffer;
mod completion;
mod console;
mod editor;
mod escape;
mod history;
mod keys;
mod layout;
mod probe;
mod sanitise;
mod style;
mod utf8;
mod view;
mod wrap;

pub use console::{Console, Echo, Event, Question, Read, Settings};
pub use escape::{count_spaces, escape_bytes_for_prompt, escape_for_prompt, escape_json, is_clear, quote, quote_ascii};
pub use history::History;
pub use keys::{Key, KeyDecoder};
pub use sanitise::{Clean, Sanitiser, log_line, sanitise};
pub use style::{Painter, Style};
pub use wrap::{CONTINUED, Wrap, wrap};
