//! What a volume holds is looked at before it is written: parts of other formats wait for a person.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use capos_schema::store::VolumeState;
use capos_store::{MemoryBlocks, OnVolume};
use capos_volume::{Access, Key, Locked, Options};

use super::keys::Entered;
use super::{CACHE_NODES, Stage, Vault};
use crate::base::{Base, DataDisk};
use crate::spaces::Spaces;
use crate::waiting::{Looked, READERS, Waiting, look, open_for_writing};

impl<D: DataDisk> Vault<D> {
    /// Opens the volume with a key that is right. It is read first: one of another format is not written.
    pub(super) fn unlocked(&mut self, locked: Locked<D>, key: Key, disk: D) {
        let slot = key.slot().and_then(|slot| locked.header()?.slots().find(|(number, _)| *number == slot));
        let whose = slot.map(|(_, slot)| (slot.label.clone(), slot.kind));
        self.entered = whose.zip(key.own().cloned()).map(|((label, kind), secret)| Entered { label, kind, secret });
        let options = Options { access: Access::Read, cache_nodes: CACHE_NODES };
        let again = disk.clone();
        let volume = match OnVolume::open(locked, key, disk, options, (self.means.random)()) {
            Ok(volume) => volume,
            Err(error) => return self.broken(VolumeState::Damaged, &error),
        };
        match look(Base::Volume(Box::new(volume)), self.formats) {
            Ok(looked) if looked.is_unfinished() => {
                drop(looked);
                self.wipe(again, self.bytes, "a restore onto it was cut off");
            }
            Ok(Looked::Known(mut store)) => {
                let opened = if self.read_only { Ok(()) } else { open_for_writing(&mut store) };
                self.opened(opened.map(|()| Spaces::new(store, self.shares.0.clone())));
            }
            Ok(Looked::Waiting(waiting)) => self.wait(waiting),
            Err(error) => self.opened(Err(error)),
        }
    }

    /// It waits for a person, or for what `setup.toml` says.
    pub(super) fn wait(&mut self, waiting: Waiting<D>) {
        self.state = waiting.state();
        self.details = format!("the data volume on {} {}", self.place, waiting.details());
        self.stage = Stage::Waiting(Box::new(waiting));
    }

    /// Migrates the store, or opens it for reading alone, if that is what it waits for; `blocks` are those of a store in
    /// memory.
    ///
    /// # Errors
    /// It waits for something else, or the disk fails. Nothing has changed then.
    pub fn confirm(&mut self, state: VolumeState, blocks: MemoryBlocks) -> Result<(), String> {
        let mut waiting = match core::mem::replace(&mut self.stage, Stage::Broken) {
            Stage::Waiting(waiting) if waiting.state() == state && !waiting.sentences().is_empty() => *waiting,
            other => {
                self.stage = other;
                return Err(format!("there is nothing of this to confirm: {}", self.details));
            }
        };
        let shares = self.shares.clone();
        if state == VolumeState::Older {
            if let Err(why) = waiting.migrate() {
                self.wait(waiting);
                return Err(format!("the data volume was not migrated, and is as it was: {why}"));
            }
            self.opened(Ok(Spaces::new(waiting.into_store(), shares.0)));
            return Ok(());
        }
        let others = match Spaces::open(Base::Memory(blocks), shares.1) {
            Ok(others) => others,
            Err(error) => {
                self.wait(waiting);
                return Err(error.to_string());
            }
        };
        let why =
            format!("the data volume on {} is open for reading alone: a newer version of capOS wrote it", self.place);
        let spaces = Spaces::new(waiting.into_store(), shares.0).read_by(READERS, why.clone(), others);
        self.opened(Ok(spaces));
        self.details = why;
        Ok(())
    }
}
