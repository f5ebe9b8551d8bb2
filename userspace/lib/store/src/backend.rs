//! Blocks as the database's file.
//!
//! The first block says how long the file is. It is written with the rest, so a crash leaves a file of the right length.
//! The database's own syncs do nothing while a transaction is committed: the store syncs the blocks once, after it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use core::fmt;
use core::ops::Bound;

use redb::{BackendError, StorageBackend};
use spin::Mutex;

use crate::{BLOCK_BYTES, BlockError, Blocks};

/// The beginning of the first block.
const MAGIC: [u8; 8] = *b"CAPOSTOR";
/// Blocks before the file.
const BEFORE: u64 = 1;

/// The blocks, and the file on them.
#[derive(Debug)]
pub(crate) struct File<B> {
    blocks: B,
    length: u64,
    /// The first error since the file was opened. The database only says that there was one.
    failed: Option<BlockError>,
}

impl<B: Blocks> File<B> {
    /// The file on these blocks; an empty one on blocks of zeros.
    ///
    /// # Errors
    /// The blocks fail, or hold something else, which is told by `None`.
    pub fn open(mut blocks: B) -> Result<Option<Self>, BlockError> {
        let length = read_length(&mut blocks)?;
        Ok(length.map(|length| Self { blocks, length, failed: None }))
    }

    /// The blocks.
    pub fn blocks(&self) -> &B {
        &self.blocks
    }

    /// The blocks, to work on.
    pub fn blocks_mut(&mut self) -> &mut B {
        &mut self.blocks
    }

    /// The blocks, without the file.
    pub fn into_blocks(self) -> B {
        self.blocks
    }

    /// Bytes that can be used in the file.
    pub fn capacity(&self) -> u64 {
        capacity(&self.blocks)
    }

    /// Makes everything durable.
    pub fn sync(&mut self) -> Result<(), BlockError> {
        self.blocks.sync().inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// Takes back what was not synced. The database is closed: snapshots of it can read nothing any more.
    pub fn forget(&mut self) -> Result<(), BlockError> {
        self.failed = None;
        self.blocks.forget()?;
        let length = read_length(&mut self.blocks)?;
        self.length =
            length.ok_or_else(|| BlockError::Medium("the first block is not that of a store any more".into()))?;
        Ok(())
    }

    /// The error that the database met, if the blocks made one.
    pub fn take_error(&mut self) -> Option<BlockError> {
        self.failed.take()
    }

    fn set_length(&mut self, length: u64) -> Result<(), BlockError> {
        if length > longest(&self.blocks) {
            return Err(BlockError::Full);
        }
        // What lies behind the new end is zeros if the file grows again.
        let old = self.length;
        self.length = length;
        if length < old {
            let zeros = vec![0; BLOCK_BYTES];
            let mut there = zeros.clone();
            let mut at = length;
            while at < old {
                let until = at.saturating_add(1).next_multiple_of(BLOCK_BYTES as u64).min(old);
                let bytes = usize::try_from(until.saturating_sub(at)).unwrap_or(BLOCK_BYTES);
                let (zeros, there) =
                    (zeros.get(..bytes).unwrap_or_default(), there.get_mut(..bytes).unwrap_or_default());
                self.read(at, there)?;
                // A block of zeros may have never been written, and takes no room then.
                if there != zeros {
                    self.write(at, zeros)?;
                }
                at = until;
            }
        }
        let mut first = [0; BLOCK_BYTES];
        let bytes = MAGIC.into_iter().chain(length.to_le_bytes());
        first.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        self.blocks.write(0, &first)
    }

    /// The blocks that a range of the file touches: whole blocks that follow each other together, others one by one. Of each
    /// piece, the first block, where the range begins in it, and the part of the caller's bytes.
    fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, core::ops::Range<usize>)> {
        let mut done = 0usize;
        core::iter::from_fn(move || {
            if done >= bytes {
                return None;
            }
            let at = offset.checked_add(done as u64)?;
            let within = usize::try_from(at.checked_rem(BLOCK_BYTES as u64)?).ok()?;
            let rest = bytes.saturating_sub(done);
            let taken = if within == 0 && rest >= BLOCK_BYTES {
                rest.saturating_sub(rest % BLOCK_BYTES)
            } else {
                rest.min(BLOCK_BYTES.saturating_sub(within))
            };
            let part = done..done.saturating_add(taken);
            done = done.saturating_add(taken);
            Some((at.checked_div(BLOCK_BYTES as u64)?.saturating_add(BEFORE), within, part))
        })
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), BlockError> {
        let mut block = [0; BLOCK_BYTES];
        for (number, within, part) in Self::pieces(offset, out.len()) {
            let to = out.get_mut(part).unwrap_or_default();
            if to.len() >= BLOCK_BYTES {
                self.blocks.read_run(number, to)?;
                continue;
            }
            self.blocks.read(number, &mut block)?;
            to.copy_from_slice(block.get(within..within.saturating_add(to.len())).unwrap_or_default());
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockError> {
        let mut block = [0; BLOCK_BYTES];
        for (number, within, part) in Self::pieces(offset, data.len()) {
            let from = data.get(part).unwrap_or_default();
            if from.len() >= BLOCK_BYTES {
                self.blocks.write_run(number, from)?;
                continue;
            }
            self.blocks.read(number, &mut block)?;
            if let Some(to) = block.get_mut(within..within.saturating_add(from.len())) {
                to.copy_from_slice(from);
            }
            self.blocks.write(number, &block)?;
        }
        Ok(())
    }
}

/// The length of the file, from the first block: 0 on blocks of zeros, none if they hold something else.
fn read_length(blocks: &mut impl Blocks) -> Result<Option<u64>, BlockError> {
    let mut first = [0; BLOCK_BYTES];
    blocks.read(0, &mut first)?;
    let Some((magic, rest)) = first.split_first_chunk::<8>() else { return Ok(None) };
    let length = rest.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let is_blank = first.iter().all(|byte| *byte == 0);
    let is_ours = *magic == MAGIC && length <= longest(blocks);
    Ok((is_ours || is_blank).then_some(length))
}

fn capacity(blocks: &impl Blocks) -> u64 {
    blocks.blocks().saturating_sub(BEFORE).saturating_mul(BLOCK_BYTES as u64)
}

/// Bytes that the file may have. It need not have as many blocks.
fn longest(blocks: &impl Blocks) -> u64 {
    blocks.numbers().saturating_sub(BEFORE).saturating_mul(BLOCK_BYTES as u64)
}

/// The file, as the database and the store share it.
pub(crate) type Shared<B> = Arc<Mutex<File<B>>>;

/// What the database is given.
pub(crate) struct Backend<B> {
    file: Shared<B>,
}

impl<B> fmt::Debug for Backend<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

impl<B: Blocks> Backend<B> {
    /// The file with its current contents.
    pub fn new(file: &Shared<B>) -> Self {
        Self { file: file.clone() }
    }

    fn with<T>(&self, work: impl FnOnce(&mut File<B>) -> Result<T, BlockError>) -> Result<T, BackendError> {
        let mut file = self.file.lock();
        work(&mut file).map_err(|error| {
            let told = error.to_string();
            file.failed.get_or_insert(error);
            BackendError::Other(Box::new(BlockError::Medium(told)))
        })
    }
}

impl<B: Blocks> StorageBackend for Backend<B> {
    fn len(&self) -> Result<u64, BackendError> {
        self.with(|file| Ok(file.length))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), BackendError> {
        self.with(|file| {
            let end = offset.saturating_add(out.len() as u64);
            if end > file.length {
                return Err(BlockError::Medium(format!("the database's file ends at {}, not at {end}", file.length)));
            }
            file.read(offset, out)
        })
    }

    fn set_len(&self, length: u64) -> Result<(), BackendError> {
        self.with(|file| file.set_length(length))
    }

    fn sync_data(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), BackendError> {
        self.with(|file| file.write(offset, data))
    }

    // One process has the blocks.
    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }
}
