//! One backup in a repository.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::record::Sum;
use crate::seal::Name;

/// One backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// When it was begun, in milliseconds since 1970.
    pub time: u64,
    pub sum: Sum,
    /// Chunks of names, each of which names chunks of records.
    pub(crate) lists: Vec<Name>,
    pub(crate) chunks: u64,
}

/// Bytes of the state's file at most.
pub(crate) const LIMIT: usize = 1 << 20;

const VERSION: u32 = 1;

impl State {
    /// How many chunks it consists of.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Its file. The order of names is the order of times.
    pub(crate) fn path(time: u64) -> String {
        format!("states/{time:020}")
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::from(VERSION.to_le_bytes());
        for number in [self.time, self.sum.records, self.sum.bytes, self.chunks] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.sum.hash);
        bytes.extend(self.lists.iter().flatten());
        bytes
    }

    /// None if the bytes are not a state.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION {
            return None;
        }
        let mut rest = rest;
        let mut number = || {
            let (number, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Some(u64::from_le_bytes(*number))
        };
        let (time, records, bytes, chunks) = (number()?, number()?, number()?, number()?);
        let (hash, lists) = rest.split_first_chunk::<32>()?;
        let (lists, left) = lists.as_chunks::<32>();
        let sum = Sum { records, bytes, hash: *hash };
        left.is_empty().then(|| Self { time, sum, lists: lists.to_vec(), chunks })
    }
}
