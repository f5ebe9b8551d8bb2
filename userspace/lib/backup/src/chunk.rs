//! Cutting records into chunks.

use alloc::vec::Vec;

use crate::Record;

/// A chunk does not end before it has this many bytes.
const LEAST: usize = 64 << 10;
/// A chunk ends where it has this many bytes. The last record may be longer than what was left.
const MOST: usize = 512 << 10;
/// One record in as many may be the last of a chunk that has the least.
const ONE_IN: u8 = 16;
/// Bytes of a chunk at most: a record more, with a value of 1 MiB.
pub(crate) const LIMIT: usize = 2 << 20;

/// Cuts records into chunks. Where a chunk ends is decided by keys, so that a change in one place changes few chunks.
#[derive(Debug, Default)]
pub(crate) struct Chunker {
    bytes: Vec<u8>,
    records: u64,
}

impl Chunker {
    /// Takes a record; gives the chunk that ends with it, and its number of records.
    pub(crate) fn push(&mut self, record: &Record) -> Option<(Vec<u8>, u64)> {
        record.encode(&mut self.bytes);
        self.records = self.records.saturating_add(1);
        let ends = self.bytes.len() >= MOST
            || (self.bytes.len() >= LEAST && record.mark().checked_rem(ONE_IN).is_some_and(|rest| rest == 0));
        ends.then(|| self.take())
    }

    /// What is left at the end.
    pub(crate) fn finish(&mut self) -> Option<(Vec<u8>, u64)> {
        (!self.bytes.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> (Vec<u8>, u64) {
        (core::mem::take(&mut self.bytes), core::mem::take(&mut self.records))
    }
}
