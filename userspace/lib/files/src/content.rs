//! Operations on what is in files.

use alloc::vec::Vec;

use capos_keyspace::{Keyspace, Range};
use capos_policy::join;
use capos_schema::authority::Label;
use capos_tree::{NodeId, TreeError};

use crate::MAX_FILE;
use crate::change::{Change, Node};
use crate::files::malformed;
use crate::key::{self, CHUNK};

/// The chunk of an offset, and where in the chunk it is.
fn locate(offset: u64) -> (u64, usize) {
    let (chunk, within) = (offset.checked_div(CHUNK), offset.checked_rem(CHUNK));
    (chunk.unwrap_or(0), within.and_then(|within| usize::try_from(within).ok()).unwrap_or(0))
}

/// Where bytes end, if a file can be so long.
fn end(offset: u64, bytes: usize) -> Result<u64, TreeError> {
    let end = offset.checked_add(bytes as u64).filter(|end| *end <= MAX_FILE);
    end.ok_or(TreeError::TooLarge)
}

impl<K: Keyspace> Change<'_, K> {
    /// At most `count` bytes of a file.
    pub async fn read(&mut self, file: &Node, offset: u64, count: usize) -> Result<Vec<u8>, TreeError> {
        let count = usize::try_from(file.record.bytes.saturating_sub(offset)).unwrap_or(usize::MAX).min(count);
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut data = Vec::with_capacity(count);
        let last = offset.saturating_add(count as u64).saturating_sub(1);
        let mut first = locate(offset).0;
        // Right behind the last chunk: so the store need not look at the next one.
        let to = [key::chunk(file.record.id, locate(last).0).as_slice(), &[0]].concat();
        loop {
            let from = key::chunk(file.record.id, first);
            let found = self.files.range(Range { from: &from, to: &to, ..Range::all(key::CONTENT) }).await?;
            for (key, chunk) in &found.entries {
                let (_, number) = key::chunk_of(key).ok_or_else(|| malformed("a chunk"))?;
                append(number.saturating_mul(CHUNK), chunk, (offset, count), &mut data);
                first = number.saturating_add(1);
            }
            if !found.more {
                // What was never written.
                data.resize(count, 0);
                return Ok(data);
            }
        }
    }

    async fn chunk(&self, id: NodeId, number: u64) -> Result<Vec<u8>, TreeError> {
        Ok(self.files.get(key::CONTENT, &key::chunk(id, number)).await?.unwrap_or_default())
    }

    /// Writes into a file. A change writes or cuts a file once at most.
    pub async fn write(
        &mut self,
        file: &mut Node,
        offset: u64,
        data: &[u8],
        label: &Label,
        now: i64,
    ) -> Result<(), TreeError> {
        let end = end(offset, data.len())?;
        let id = file.record.id;
        let (mut at, mut left) = (offset, data);
        while !left.is_empty() {
            let (number, within) = locate(at);
            let room = usize::try_from(CHUNK).unwrap_or(0).saturating_sub(within);
            let (piece, rest) = left.split_at(room.min(left.len()));
            let next = at.saturating_add(piece.len() as u64);
            // Nothing of the old chunk stays.
            let replaces = within == 0 && (piece.len() == room || next >= file.record.bytes);
            if replaces {
                self.batch.put(key::CONTENT, &key::chunk(id, number), piece);
            } else {
                let mut chunk = self.chunk(id, number).await?;
                let length = chunk.len().max(within.saturating_add(piece.len()));
                chunk.resize(length, 0);
                if let Some(place) = chunk.get_mut(within..within.saturating_add(piece.len())) {
                    place.copy_from_slice(piece);
                }
                self.batch.put(key::CONTENT, &key::chunk(id, number), &chunk);
            }
            (at, left) = (next, rest);
        }
        file.record.bytes = file.record.bytes.max(end);
        self.touch(file, label, now);
        Ok(())
    }

    /// Cuts a file, or extends it with zeros.
    pub async fn truncate(&mut self, file: &mut Node, length: u64, label: &Label, now: i64) -> Result<(), TreeError> {
        end(length, 0)?;
        if length < file.record.bytes {
            let id = file.record.id;
            let (number, within) = locate(length);
            let first = if within == 0 { number } else { number.saturating_add(1) };
            self.batch.remove_range(key::CONTENT, &key::chunk(id, first), &key::after(id));
            if within > 0 {
                let mut chunk = self.chunk(id, number).await?;
                if chunk.len() > within {
                    chunk.truncate(within);
                    self.batch.put(key::CONTENT, &key::chunk(id, number), &chunk);
                }
            }
        }
        file.record.bytes = length;
        self.touch(file, label, now);
        Ok(())
    }

    /// Replaces all that is in a file, or writes at its end.
    pub async fn store(
        &mut self,
        base: NodeId,
        path: &str,
        data: &[u8],
        append: bool,
        label: &Label,
        now: i64,
    ) -> Result<Node, TreeError> {
        let mut file = self.create(base, path, now).await?;
        if !append && file.record.bytes > 0 {
            let id = file.record.id;
            self.batch.remove_range(key::CONTENT, &key::node(id), &key::after(id));
            file.record.bytes = 0;
        }
        let offset = file.record.bytes;
        self.write(&mut file, offset, data, label, now).await?;
        Ok(file)
    }

    fn touch(&mut self, file: &mut Node, label: &Label, now: i64) {
        file.record.label = join(&file.record.label, label);
        file.record.modified = now;
        self.save(file);
    }
}

/// Appends a chunk's part of a range to `data`. The range has this offset in the file and `count` bytes, and `data` holds its beginning.
/// The chunk begins at `start`. Zeros stand for what was never written before it.
fn append(start: u64, chunk: &[u8], (offset, count): (u64, usize), data: &mut Vec<u8>) {
    let at = usize::try_from(start.saturating_sub(offset)).unwrap_or(usize::MAX).min(count);
    if data.len() < at {
        data.resize(at, 0);
    }
    let next = offset.saturating_add(data.len() as u64);
    let skip = usize::try_from(next.saturating_sub(start)).unwrap_or(usize::MAX);
    let from = chunk.get(skip..).unwrap_or_default();
    let room = count.saturating_sub(data.len()).min(from.len());
    data.extend_from_slice(from.get(..room).unwrap_or_default());
}
