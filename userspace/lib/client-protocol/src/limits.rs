//! Limits on what one side takes from the other, in bytes if nothing else is said.

use alloc::format;
use alloc::string::String;

/// A line, without its end.
pub const LINE: usize = 256 << 10;
/// Objects and lists inside each other.
pub const NESTING: usize = 32;
/// An id of a request, if it is a string.
pub const ID: usize = 128;
/// A name: of a client, a user, a method, a tool.
pub const NAME: usize = 256;
/// A passphrase.
pub const PASSPHRASE: usize = 1024;
/// A prompt.
pub const PROMPT: usize = 128 << 10;
/// A reason that a person gives.
pub const REASON: usize = 2048;
/// Conversations of one answer of `ListSessions`.
pub const CONVERSATIONS: u32 = 100;

/// Checks one text.
pub(crate) fn text(name: &str, text: &str, most: usize) -> Result<(), String> {
    if text.len() <= most {
        return Ok(());
    }
    Err(format!("{name} has {} bytes, and at most {most} are taken: shorten it", text.len()))
}
