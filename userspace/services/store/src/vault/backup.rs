//! Backups of the open volume, and a volume that is made from one.

use alloc::format;
use alloc::string::{String, ToString};

use capos_backup::store::{StoreSource, copy};
use capos_backup::{Files, Repository};
use capos_policy::Attempts;
use capos_schema::store::{KeyKind, VolumeState};
use capos_store::{ASIDE, Random, Store, StoreError};
use capos_volume::{RecoveryCode, Secret, SlotKind, SlotSecret, Volume};
use zeroize::Zeroizing;

use super::blank::make_blank;
use super::keys::Entered;
use super::{Made, Place, Stage, Tried, Vault};
use crate::base::{Base, DataDisk};
use crate::homes::{self, Homes};
use crate::names::check_secret;
use crate::sealed::Sealed;
use crate::spaces::Spaces;
use crate::waiting::{Looked, look};

/// What a backup is made from: the store as it is now.
pub struct BackUp {
    pub repository: Repository,
    pub source: StoreSource,
    /// Bytes of all records, about.
    pub total: u64,
    pub random: Random,
}

/// A volume that is being filled from a backup.
pub struct Restore<D: DataDisk> {
    pub store: Store<Base<D>>,
    place: Place<D>,
    code: Zeroizing<String>,
    secrets: NewSecrets,
}

/// Whose a new volume is, and what the first secret and the recovery code give.
#[derive(Clone)]
pub struct NewSecrets {
    name: String,
    first: SlotSecret,
    recovery: SlotSecret,
}

impl<D: DataDisk> Restore<D> {
    /// For [`Vault::rekey`].
    #[must_use]
    pub fn secrets(&self) -> NewSecrets {
        self.secrets.clone()
    }
}

/// The secret of a backup, and what memory its key may take.
pub struct BackupKey {
    pub name: String,
    pub secret: Zeroizing<String>,
    pub kind: KeyKind,
    pub memory: u64,
}

impl BackupKey {
    /// Opens a repository: with a passphrase the one of this name, or with the recovery code.
    ///
    /// # Errors
    /// There is no repository, or the files fail. With it comes what else the secret gives. `Ok(Err)` is a secret that is not one of it.
    pub async fn open(&self, files: &impl Files) -> Result<Result<(Repository, SlotSecret), Tried>, String> {
        check_secret(&self.secret)?;
        let opened = match self.kind {
            KeyKind::Passphrase => {
                let secret = Secret::Passphrase(self.secret.as_bytes());
                Repository::open_as(files, &self.name, &secret, self.memory).await
            }
            KeyKind::RecoveryCode => match RecoveryCode::parse(&self.secret) {
                Ok(code) => Repository::open_as(files, "", &Secret::Recovery(&code), self.memory).await,
                Err(error) => return Ok(Err(Tried::Wrong(error.to_string()))),
            },
            KeyKind::KeyFile => return Err("a backup is opened with a passphrase or the recovery code".into()),
        };
        match opened {
            Ok((repository, own)) if repository.has_user(&self.name) => Ok(Ok((repository, own))),
            // With the recovery code any name can be given.
            Ok(_) => Ok(Err(Tried::Wrong(format!("the backup has no user `{}`", self.name)))),
            Err(capos_backup::Error::Key(capos_volume::Error::WrongKey)) => {
                let what = match self.kind {
                    KeyKind::RecoveryCode => "this is not the recovery code of the backup".into(),
                    _ => format!("the backup has no user `{}` with this passphrase", self.name),
                };
                Ok(Err(Tried::Wrong(what)))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

impl<D: DataDisk> Vault<D> {
    /// What a backup of the open volume is made from.
    ///
    /// # Errors
    /// No volume is open, or it fails.
    pub fn back_up(&mut self) -> Result<BackUp, String> {
        let repository = self.with_volume(|volume| Ok(Repository::of(volume)))?;
        let spaces = self.spaces().ok_or("no volume is open")?;
        let (source, total) = spaces.with_store(|store| {
            let total = store
                .usage()
                .iter()
                .filter(|(_, usage)| !usage.name.starts_with(ASIDE))
                .map(|(_, usage)| usage.used)
                .sum();
            (StoreSource::new(store), total)
        });
        let source = source.map_err(|error| error.to_string())?;
        Ok(BackUp { repository, source, total, random: (self.means.random)() })
    }

    /// The key of a backup, to be tried with the memory that there is.
    pub fn backup_key(&mut self, name: &str, secret: &str, kind: KeyKind) -> BackupKey {
        let memory = (self.means.memory)();
        BackupKey { name: name.into(), secret: Zeroizing::new(secret.into()), kind, memory }
    }

    /// Makes a volume on a blank disk, to be filled from a backup. Until then nothing else can be done with it.
    ///
    /// # Errors
    /// The state, the name or the passphrase does not allow it, or the disk fails.
    pub fn begin_restore(&mut self, place: Place<D>, name: &str, passphrase: &str) -> Result<Restore<D>, String> {
        self.may_create(name, passphrase, KeyKind::Passphrase)?;
        if self.state != VolumeState::Blank {
            return Err("a backup is restored at the start of the machine, before anything is kept in memory".into());
        }
        let Made { volume, code, first, recovery } = self.format(&place, name, passphrase, KeyKind::Passphrase)?;
        let base = self.blocks(volume, place.disk.clone());
        match Store::open(base) {
            Ok(store) => {
                self.stage = Stage::Restoring;
                self.details = format!("a backup is being restored onto {}", place.name);
                Ok(Restore { store, place, code, secrets: NewSecrets { name: name.into(), first, recovery } })
            }
            Err(error) => {
                let why = error.to_string();
                self.wipe(place.disk, place.bytes, &why);
                Err(why)
            }
        }
    }

    /// Opens the volume that a backup has filled. Returns the recovery code.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn end_restore(&mut self, restore: Restore<D>) -> Result<Zeroizing<String>, String> {
        let Restore { store, place, code, secrets: NewSecrets { name, first, .. } } = restore;
        self.entered = Some(Entered { label: name, kind: SlotKind::Passphrase, secret: first });
        match store.close().and_then(|base| look(base, self.formats)).and_then(Looked::unwritten) {
            Ok(looked) => {
                (self.place, self.bytes, self.read_only) = (place.name, place.bytes, false);
                self.attempts = Attempts::default();
                match looked {
                    Looked::Known(store) => self.opened(Ok(Spaces::new(store, self.shares.0.clone()))),
                    // Of an older version, or of a newer one.
                    Looked::Waiting(waiting) => self.wait(waiting),
                }
                Ok(code)
            }
            Err(error) => {
                let why = error.to_string();
                self.wipe(place.disk, place.bytes, &why);
                Err(why)
            }
        }
    }

    /// The store on a new volume, with what was in memory before.
    ///
    /// # Errors
    /// The disk does not take it. What is in memory stays there.
    pub(super) fn copied(
        &mut self,
        volume: Volume<D>,
        place: &Place<D>,
    ) -> Result<Result<Store<Base<D>>, StoreError>, String> {
        let mut store = Store::open(self.blocks(volume, place.disk.clone()));
        let (Ok(made), Some(memory)) = (&mut store, self.spaces()) else { return Ok(store) };
        let Err(error) = memory.with_store(|memory| copy(memory, made)) else { return Ok(store) };
        drop(store);
        let wiped = make_blank(&mut place.disk.clone(), place.bytes, &mut (self.means.random)());
        let left = wiped.map_or_else(|error| format!("it is not blank now: {error}"), |()| "it is blank again".into());
        Err(format!("{} could not take what is in memory: {error}; {left}", place.name))
    }

    /// Gives the homes of a backup the secrets of the new volume, before it counts as restored. `old` is what the backup's
    /// secret gives: it opens homes.
    ///
    /// # Errors
    /// The records of the homes are malformed, or the disk fails. The disk holds no restored backup then.
    pub fn rekey(&mut self, store: &mut Store<Base<D>>, old: &SlotSecret, new: &NewSecrets) -> Result<(), String> {
        let slots = |base: &mut Base<D>| match base {
            Base::Volume(base) => base.volume().map(|volume| homes::slots(volume.header())).ok(),
            Base::Memory(_) => None,
        };
        let Some((slots, cipher)) = store.with_blocks_mut(slots) else { return Ok(()) };
        let mut sealed = Sealed::default();
        let random = (self.means.random)();
        let mut homes = Homes { store, sealed: &mut sealed, random, slots, cipher };
        let (pair, by_code) = homes.restored(&new.name, old, &new.first, &new.recovery)?;
        self.code = by_code.then_some(pair);
        Ok(())
    }

    /// Gives up a restore: the disk is blank again.
    pub fn abandon_restore(&mut self, restore: Restore<D>, why: &str) {
        let Restore { store, place, .. } = restore;
        drop(store);
        self.wipe(place.disk, place.bytes, why);
    }

    /// Removes the keys of a volume that no backup has filled whole: the disk is blank again.
    pub(super) fn wipe(&mut self, mut disk: D, bytes: u64, why: &str) {
        match make_blank(&mut disk, bytes, &mut (self.means.random)()) {
            Ok(()) => {
                self.stage = Stage::Blank;
                self.state = VolumeState::Blank;
                self.details = format!("{} is blank again ({why}), and can be set up", self.place);
            }
            Err(error) => self.broken(VolumeState::Damaged, &error),
        }
    }
}
