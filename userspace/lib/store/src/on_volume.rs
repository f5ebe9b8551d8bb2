//! An encrypted volume as the store's blocks.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use core::fmt;

use capos_volume::{Access, Disk, Error, Fault, KEY, Key, Locked, Operation, Options, Volume};
use zeroize::Zeroizing;

use crate::{BLOCK_BYTES, BlockError, Blocks};

/// Fills bytes with random ones that no one can predict.
pub type Random = Box<dyn FnMut(&mut [u8]) + Send>;

/// A volume as blocks. After an error it is opened again with the key that it had; if the disk cannot be written then, for
/// reading alone.
///
/// Of a volume that is open for reading alone, what is written stays in memory: the database changes a few blocks when it is
/// opened. A sync is rejected.
pub struct OnVolume<D> {
    /// None after an error, until it is opened again.
    volume: Option<Volume<D>>,
    /// The disk below. All clones are the same disk.
    disk: D,
    key: Zeroizing<[u8; KEY]>,
    options: Options,
    random: Random,
    blocks: u64,
    /// Why it is open for reading alone although it is to be written.
    failure: Option<Error>,
    /// Blocks that were written to a volume that is open for reading alone.
    held: BTreeMap<u64, Box<[u8; BLOCK_BYTES]>>,
}

impl<D> fmt::Debug for OnVolume<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnVolume").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

fn failed(error: Error) -> BlockError {
    match error {
        Error::Block { block, fault, .. } => BlockError::Damaged { block, unreadable: fault == Fault::Unreadable },
        other => BlockError::Medium(other.to_string()),
    }
}

impl<D: Disk + Clone> OnVolume<D> {
    /// Opens a volume as blocks. `disk` is the one below it, and `options` are those with which it is opened again.
    ///
    /// # Errors
    /// The headers were changed, the root of the tree is damaged, or the disk cannot be read.
    pub fn open(locked: Locked<D>, key: Key, disk: D, options: Options, random: Random) -> Result<Self, Error> {
        let held = BTreeMap::new();
        let mut new = Self { volume: None, disk, key: key.bytes(), options, random, blocks: 0, failure: None, held };
        new.unlock(locked, key)?;
        new.blocks = new.volume()?.len();
        Ok(new)
    }

    /// An open volume as blocks.
    pub fn new(volume: Volume<D>, disk: D, options: Options, random: Random) -> Self {
        let (key, blocks) = (volume.key(), volume.len());
        Self { volume: Some(volume), disk, key, options, random, blocks, failure: None, held: BTreeMap::new() }
    }

    /// The volume.
    ///
    /// # Errors
    /// It could not be opened again after an error.
    pub fn volume(&mut self) -> Result<&mut Volume<D>, Error> {
        if self.volume.is_none() {
            self.open_again()?;
        }
        self.volume.as_mut().ok_or(Error::Failed)
    }

    /// How often the volume was opened for writing; 0 if it is not open.
    #[must_use]
    pub fn mounts(&self) -> u32 {
        self.volume.as_ref().map_or(0, |volume| volume.header().mount)
    }

    /// Whether it is open for reading alone.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.options.access == Access::Read || self.failure.is_some()
    }

    /// How it is opened from now on; [`Blocks::forget`] opens it again.
    pub fn set_access(&mut self, access: Access) {
        self.options.access = access;
    }

    /// Why it is open for reading alone although it is to be written: a write that failed. [`Blocks::forget`] tries again.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.failure
    }

    fn open_again(&mut self) -> Result<(), Error> {
        let locked = Locked::read(self.disk.clone())?;
        let key = locked.resume(&self.key)?;
        self.unlock(locked, key)
    }

    fn unlock(&mut self, locked: Locked<D>, key: Key) -> Result<(), Error> {
        self.failure = None;
        let opened = locked.open(key, self.options, &mut self.random);
        self.volume = Some(match opened {
            Err(error @ Error::Disk { operation: Operation::Write | Operation::Flush, .. }) => {
                self.failure = Some(error);
                let locked = Locked::read(self.disk.clone())?;
                let key = locked.resume(&self.key)?;
                locked.open(key, Options { access: Access::Read, ..self.options }, &mut self.random)?
            }
            other => other?,
        });
        Ok(())
    }
}

impl<D: Disk + Clone + Send + 'static> Blocks for OnVolume<D> {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, block: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        if let Some(held) = self.held.get(&block) {
            out.copy_from_slice(&held[..]);
            return Ok(());
        }
        self.volume().and_then(|volume| volume.read(block, out)).map_err(failed)
    }

    fn write(&mut self, block: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        if self.is_read_only() {
            self.held.insert(block, Box::new(*data));
            return Ok(());
        }
        self.volume().and_then(|volume| volume.write(block, data)).map_err(failed)
    }

    fn read_run(&mut self, first: u64, out: &mut [u8]) -> Result<(), BlockError> {
        if self.held.is_empty() {
            return self.volume().and_then(|volume| volume.read(first, out)).map_err(failed);
        }
        (first..).zip(out.as_chunks_mut().0).try_for_each(|(block, out)| self.read(block, out))
    }

    fn write_run(&mut self, first: u64, data: &[u8]) -> Result<(), BlockError> {
        if self.is_read_only() {
            return (first..).zip(data.as_chunks().0).try_for_each(|(block, data)| self.write(block, data));
        }
        self.volume().and_then(|volume| volume.write(first, data)).map_err(failed)
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        match self.failure {
            Some(failure) => Err(failed(failure)),
            None => self.volume().and_then(Volume::sync).map_err(failed),
        }
    }

    fn settle(&mut self) -> Result<(), BlockError> {
        if self.is_read_only() {
            return Ok(());
        }
        self.volume().and_then(Volume::settle).map_err(failed)
    }

    fn forget(&mut self) -> Result<(), BlockError> {
        self.held.clear();
        // Its changes since the last sync are lost with it.
        self.volume = None;
        self.open_again().map_err(failed)
    }
}
