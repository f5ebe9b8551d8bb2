//! Keys of the tables.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::Error;
use crate::limits::MIN_DIGITS;

pub use capos_formats::{KEY as VERSION_KEY, TABLE as FORMAT};
pub const PRINCIPALS: &str = "principals";
pub const ACCOUNTS: &str = "accounts";
pub const CONVERSATIONS: &str = "conversations";
pub const PLACES: &str = "places";
pub const MESSAGES: &str = "messages";
pub const SIZES: &str = "sizes";
pub const USES: &str = "uses";
pub const EXPIRIES: &str = "expiries";
pub const RUNS: &str = "runs";
pub const HEADS: &str = "heads";
pub const STEPS: &str = "steps";
pub const ATTACHMENTS: &str = "attachments";
pub const PIECES: &str = "pieces";

/// A principal, by the number of their part of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(pub u32);

/// The id of a conversation.
pub type Id = [u8; 16];

/// An id's 32 digits.
pub fn digits(id: &Id) -> String {
    hex::encode(id)
}

/// The id with these digits.
pub fn id(text: &str) -> Result<Id, Error> {
    let mut id = Id::default();
    let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    match hex::decode_to_slice(text, &mut id) {
        Ok(()) if lower => Ok(id),
        _ => {
            Err(Error::Invalid(format!("{:?} is no id of a conversation: it has 32 digits of 0-9 and a-f", cut(text))))
        }
    }
}

/// The first and the last id that begin with these digits.
pub fn ids(text: &str) -> Result<(Id, Id), Error> {
    if !(MIN_DIGITS..=32).contains(&text.len()) {
        return Err(Error::Invalid(format!(
            "{:?} is no id of a conversation: give its first {MIN_DIGITS} digits or more",
            cut(text)
        )));
    }
    Ok((id(&format!("{text:0<32}"))?, id(&format!("{text:f<32}"))?))
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(40)).unwrap_or_default()
}

fn join<const N: usize>(parts: [&[u8]; N]) -> Vec<u8> {
    parts.concat()
}

/// The beginning of all keys of an owner.
pub fn owner(owner: Owner) -> Vec<u8> {
    owner.0.to_be_bytes().to_vec()
}

/// Key of an owner's conversation, the last changed first.
pub fn conversation(owner: Owner, changed: u64, id: &Id) -> Vec<u8> {
    join([&owner.0.to_be_bytes(), &(!changed).to_be_bytes(), id])
}

/// Key of the place of a conversation.
pub fn place(owner: Owner, id: &Id) -> Vec<u8> {
    join([&owner.0.to_be_bytes(), id])
}

/// The beginning of all keys of a segment.
pub fn segment(owner: Owner, segment: u64) -> Vec<u8> {
    join([&owner.0.to_be_bytes(), &segment.to_be_bytes()])
}

/// Key of a message of a segment.
pub fn message(owner: Owner, segment: u64, index: u32) -> Vec<u8> {
    join([&owner.0.to_be_bytes(), &segment.to_be_bytes(), &index.to_be_bytes()])
}

/// Key of a part of a message.
pub fn part(owner: Owner, segment: u64, index: u32, part: u32) -> Vec<u8> {
    join([&owner.0.to_be_bytes(), &segment.to_be_bytes(), &index.to_be_bytes(), &part.to_be_bytes()])
}

/// Key of the use of a segment by a conversation.
pub fn usage(owner: Owner, segment: u64, id: &Id) -> Vec<u8> {
    join([&owner.0.to_be_bytes(), &segment.to_be_bytes(), id])
}

/// Key of the run of a conversation's turn.
pub fn run(owner: Owner, id: &Id, turn: u32) -> Vec<u8> {
    join([&owner.0.to_be_bytes(), id, &turn.to_be_bytes()])
}

/// Key of a step of a run.
pub fn step(owner: Owner, id: &Id, turn: u32, step: u32) -> Vec<u8> {
    join([&owner.0.to_be_bytes(), id, &turn.to_be_bytes(), &step.to_be_bytes()])
}

/// Key of an attachment of a conversation. No name has a character 0.
pub fn attachment(owner: Owner, id: &Id, name: &str) -> Vec<u8> {
    join([&owner.0.to_be_bytes(), id, name.as_bytes()])
}

/// Key of a part of an attachment.
pub fn piece(owner: Owner, id: &Id, name: &str, part: u32) -> Vec<u8> {
    join([&owner.0.to_be_bytes(), id, name.as_bytes(), &[0], &part.to_be_bytes()])
}

/// Key of the end of a conversation.
pub fn expiry(at: u64, owner: Owner, id: &Id) -> Vec<u8> {
    join([&at.to_be_bytes(), &owner.0.to_be_bytes(), id])
}

/// The first key that does not begin so; empty, which is the table's end, if every later one does.
pub fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    end
}

/// The last `N` bytes of a key.
pub fn tail<const N: usize>(key: &[u8]) -> Result<[u8; N], Error> {
    key.last_chunk::<N>().copied().ok_or_else(|| Error::damaged("a key", "it is too short"))
}

/// A big-endian number at the end of a key, or as a value.
pub fn number(bytes: &[u8]) -> Result<u32, Error> {
    Ok(u32::from_be_bytes(tail(bytes)?))
}

/// The same with 8 bytes.
pub fn long(bytes: &[u8]) -> Result<u64, Error> {
    Ok(u64::from_be_bytes(tail(bytes)?))
}
