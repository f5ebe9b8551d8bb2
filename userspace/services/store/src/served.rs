//! The two interfaces, over the vault.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_backup::{Progress, write};
use capos_keyspace::Range;
use capos_rt::log;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::storage::DirectoryClient;
use capos_schema::store::{
    BackupState, Change, KeyKind, KeyValue, NamespaceCommitResults, NamespaceGetResults, NamespaceInfoResults,
    NamespaceProtectResults, NamespaceRangeResults, NamespaceServer, NamespaceSetAsideResults, NamespaceSyncResults,
    RestoreRequest, StoreFault, VaultOpenResults, VaultRestoreResults, VaultServer, VaultVerifyResults, VolumeInfo,
    VolumeState,
};
use capos_store_service::disks::{Seen, is_usable};
use capos_store_service::sealed::Part;
use capos_store_service::spaces::{Refusal, Spaces};
use capos_store_service::vault::Tried;
use capos_store_service::vault::backup::BackUp;

use crate::disk::GuestDisk;
use crate::folder::Folder;
use crate::holder::{Copying, Holder};
use crate::search;

/// The namespace of one client.
pub struct NamespaceObject {
    pub holder: Rc<Holder>,
    /// Its name in the manifest.
    pub client: String,
}

/// What an answer says beside its fault: whether it was done.
type Answer<T> = Result<Result<T, (StoreFault, String)>, CallError>;

impl NamespaceObject {
    async fn with<T>(&self, work: impl FnOnce(&mut Spaces<GuestDisk>, &str) -> Result<T, Refusal>) -> Answer<T> {
        self.holder.searched().await;
        let mut vault = self.holder.vault.borrow_mut();
        let fault = vault.fault();
        let why = vault.details().to_string();
        let Some(spaces) = vault.spaces() else { return Ok(Err((fault, why))) };
        let done = work(spaces, &self.client);
        self.holder.keep(spaces);
        match done {
            Ok(done) => Ok(Ok(done)),
            Err(Refusal::Fault(fault, why)) => Ok(Err((fault, why))),
            Err(Refusal::Invalid(why)) => Err(CallError::invalid_argument(why)),
        }
    }
}

impl NamespaceServer for NamespaceObject {
    async fn info(&self, _cx: &CallContext) -> Result<NamespaceInfoResults, CallError> {
        Ok(match self.with(|spaces, client| spaces.info(client)).await? {
            Ok(info) => NamespaceInfoResults { info, ..NamespaceInfoResults::default() },
            Err((fault, why)) => NamespaceInfoResults { fault, why, ..NamespaceInfoResults::default() },
        })
    }

    async fn get(&self, _cx: &CallContext, table: String, key: Vec<u8>) -> Result<NamespaceGetResults, CallError> {
        let none = NamespaceGetResults::default();
        Ok(match self.with(|spaces, client| spaces.get(client, &table, &key)).await? {
            Ok(Some(value)) => NamespaceGetResults { found: true, value, ..none },
            Ok(None) => none,
            Err((fault, why)) => NamespaceGetResults { fault, why, ..none },
        })
    }

    async fn range(
        &self,
        _cx: &CallContext,
        table: String,
        from: Vec<u8>,
        to: Vec<u8>,
        reverse: bool,
        most: u32,
        keys_only: bool,
    ) -> Result<NamespaceRangeResults, CallError> {
        let none = NamespaceRangeResults::default();
        let range = Range { table: &table, from: &from, to: &to, reverse, most, keys_only };
        Ok(match self.with(|spaces, client| spaces.range(client, range)).await? {
            Ok(found) => {
                let entries = found.entries.into_iter().map(|(key, value)| KeyValue { key, value }).collect();
                NamespaceRangeResults { entries, more: found.more, ..none }
            }
            Err((fault, why)) => NamespaceRangeResults { fault, why, ..none },
        })
    }

    async fn commit(
        &self,
        _cx: &CallContext,
        changes: Vec<Change>,
        durable: bool,
        based: u64,
    ) -> Result<NamespaceCommitResults, CallError> {
        let none = NamespaceCommitResults::default();
        Ok(match self.with(|spaces, client| spaces.commit(client, &changes, durable, based)).await? {
            Ok(version) => NamespaceCommitResults { version, ..none },
            Err((fault, why)) => NamespaceCommitResults { fault, why, ..none },
        })
    }

    async fn sync(&self, _cx: &CallContext) -> Result<NamespaceSyncResults, CallError> {
        Ok(match self.with(Spaces::sync).await? {
            Ok(()) => NamespaceSyncResults::default(),
            Err((fault, why)) => NamespaceSyncResults { fault, why },
        })
    }

    async fn opened(&self, _cx: &CallContext) -> Result<bool, CallError> {
        let open = || self.holder.vault.borrow_mut().spaces().map(|spaces| spaces.is_lasting_for(&self.client));
        Ok(self.holder.changed.until(open).await)
    }

    async fn protect(
        &self,
        _cx: &CallContext,
        part: String,
        owner: String,
        tables: Vec<String>,
        named: Vec<String>,
    ) -> Result<NamespaceProtectResults, CallError> {
        self.holder.searched().await;
        let mut vault = self.holder.vault.borrow_mut();
        let part = Part { name: &part, owner: &owner, tables: &tables, named: &named };
        let done = vault.protect(&self.client, part);
        if let Some(spaces) = vault.spaces() {
            self.holder.keep(spaces);
        }
        let none = NamespaceProtectResults::default();
        Ok(match done {
            Ok((sealed, why)) => NamespaceProtectResults { sealed, why, ..none },
            Err(Refusal::Fault(fault, why)) => NamespaceProtectResults { fault, why, ..none },
            Err(Refusal::Invalid(why)) => return Err(CallError::invalid_argument(why)),
        })
    }

    async fn set_aside(&self, _cx: &CallContext) -> Result<NamespaceSetAsideResults, CallError> {
        Ok(match self.with(|spaces, client| spaces.set_aside(client)).await? {
            Ok(number) => {
                log::warning!("a damaged part of what `{}` keeps was set aside, as part {number}", self.client);
                NamespaceSetAsideResults { number, ..NamespaceSetAsideResults::default() }
            }
            Err((fault, why)) => NamespaceSetAsideResults { fault, why, ..NamespaceSetAsideResults::default() },
        })
    }

    async fn watch(&self, _cx: &CallContext) -> Result<(), CallError> {
        core::future::pending().await
    }
}

/// The volume and its keys.
pub struct VaultObject(pub Rc<Holder>);

impl VaultObject {
    /// An answer of the vault, whose state may have changed.
    fn settled<T>(&self, answer: Result<T, String>) -> Result<T, CallError> {
        let without = self.0.vault.borrow_mut().go_without(|| self.0.memory());
        self.0.settle();
        without.map_err(|error| CallError::failed(error.to_string()))?;
        answer.map_err(CallError::failed)
    }

    /// A disk that a volume can be made on. What it holds by now counts, and not what it held when the machine was started.
    async fn usable(&self, disk: &str) -> Result<(Seen, GuestDisk), CallError> {
        let Some((seen, found)) = search::look_again(&self.0, disk).await? else {
            return Err(CallError::invalid_argument(alloc::format!("there is no disk `{disk}` that can be written")));
        };
        if !is_usable(&seen) {
            let why = alloc::format!("{} is not blank, or cannot be used; it was not written", seen.info.place);
            return Err(CallError::failed(why));
        }
        Ok((seen, found))
    }
}

impl VaultServer for VaultObject {
    async fn status(&self, _cx: &CallContext) -> Result<VolumeInfo, CallError> {
        Ok(self.0.vault.borrow_mut().status())
    }

    async fn create(
        &self,
        _cx: &CallContext,
        disk: String,
        name: String,
        secret: String,
        kind: KeyKind,
    ) -> Result<String, CallError> {
        self.0.searched().await;
        self.0.vault.borrow().may_create(&name, &secret, kind).map_err(CallError::failed)?;
        let (seen, disk) = self.usable(&disk).await?;
        let created = self.0.vault.borrow_mut().create(search::place(&seen, disk), &name, &secret, kind);
        self.settled(created.map(|code| code.to_string()))
    }

    async fn open(
        &self,
        _cx: &CallContext,
        name: String,
        secret: String,
        kind: KeyKind,
    ) -> Result<VaultOpenResults, CallError> {
        self.0.searched().await;
        let tried = self.0.vault.borrow_mut().open(&name, &secret, kind);
        Ok(match self.settled(tried)? {
            Tried::Right => VaultOpenResults { opened: true, why: String::new() },
            Tried::Wrong(why) => VaultOpenResults { opened: false, why },
        })
    }

    async fn verify(&self, _cx: &CallContext, name: String, secret: String) -> Result<VaultVerifyResults, CallError> {
        let tried = self.0.vault.borrow_mut().verify(&name, &secret);
        self.0.settle();
        Ok(match tried.map_err(CallError::failed)? {
            Tried::Right => VaultVerifyResults { valid: true, why: String::new() },
            Tried::Wrong(why) => VaultVerifyResults { valid: false, why },
        })
    }

    async fn add(&self, _cx: &CallContext, name: String, passphrase: String) -> Result<(), CallError> {
        let done = self.0.vault.borrow_mut().add(&name, &passphrase);
        self.0.settle();
        done.map_err(CallError::failed)
    }

    async fn replace(&self, _cx: &CallContext, name: String, passphrase: String) -> Result<(), CallError> {
        let done = self.0.vault.borrow_mut().replace(&name, &passphrase);
        self.0.settle();
        done.map_err(CallError::failed)
    }

    async fn remove(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        let done = self.0.vault.borrow_mut().remove(&name);
        self.0.settle();
        done.map_err(CallError::failed)
    }

    async fn renew_recovery_code(&self, _cx: &CallContext) -> Result<String, CallError> {
        let code = self.0.vault.borrow_mut().renew_recovery_code();
        self.0.settle();
        Ok(code.map_err(CallError::failed)?.to_string())
    }

    async fn lock(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        self.0.vault.borrow_mut().lock(&name);
        self.0.settle();
        Ok(())
    }

    async fn decline(&self, _cx: &CallContext) -> Result<(), CallError> {
        let declined = self.0.vault.borrow_mut().decline(self.0.memory());
        self.settled(declined)
    }

    async fn back_up(&self, _cx: &CallContext, folder: DirectoryClient, time: u64) -> Result<BackupState, CallError> {
        let copying = Copying::begin(&self.0, BackupState { time, ..BackupState::default() })?;
        let begun = self.0.vault.borrow_mut().back_up().map_err(CallError::failed)?;
        let BackUp { repository, mut source, total, mut random } = begun;
        copying.tell(|state| state.total = total);
        let folder = Folder { directory: folder, name: "the folder of the backup".into() };
        let mut done = BackupState { time, total, ..BackupState::default() };
        let progress = |progress: Progress| {
            (done.bytes, done.chunks, done.kept) = (progress.bytes, progress.chunks, progress.kept);
            copying.tell(|state| state.clone_from(&done));
            true
        };
        let written = write(&repository, &folder, &mut source, time, &mut random, progress).await;
        let written = written.map_err(|error| CallError::failed(error.to_string()))?;
        Ok(BackupState {
            time: written.time,
            records: written.sum.records,
            sha256: hex::encode(written.sum.hash),
            ..done
        })
    }

    async fn restore(
        &self,
        _cx: &CallContext,
        disk: String,
        folder: DirectoryClient,
        request: RestoreRequest,
    ) -> Result<VaultRestoreResults, CallError> {
        let RestoreRequest { folder: shown, time, name, secret, kind, passphrase } = request;
        self.0.searched().await;
        let may = self.0.vault.borrow().may_create(&name, &passphrase, KeyKind::Passphrase);
        may.map_err(CallError::failed)?;
        let copying = Copying::begin(&self.0, BackupState { time, ..BackupState::default() })?;
        let folder = Folder { directory: folder, name: shown };
        let failed = |error: capos_backup::Error| CallError::failed(error.to_string());
        let key = self.0.vault.borrow_mut().backup_key(&name, &secret, kind);
        let (repository, old) = match key.open(&folder).await.map_err(CallError::failed)? {
            Ok(opened) => opened,
            Err(tried) => {
                let why = if let Tried::Wrong(why) = tried { why } else { String::new() };
                return Ok(VaultRestoreResults { why, ..VaultRestoreResults::default() });
            }
        };
        let sum = capos_backup::of(&repository, &folder, time).await.map_err(failed)?.sum;
        copying.tell(|state| state.total = sum.bytes);
        let (place, disk) = self.usable(&disk).await?;
        let place = search::place(&place, disk);
        let begun = self.0.vault.borrow_mut().begin_restore(place, &name, &passphrase);
        let mut restore = begun.map_err(CallError::failed)?;
        let progress = |bytes| copying.tell(|state| state.bytes = bytes);
        let secrets = restore.secrets();
        let rekey = |store: &mut _| self.0.vault.borrow_mut().rekey(store, &old, &secrets);
        let restored =
            capos_backup::store::restore(&repository, &folder, time, &mut restore.store, progress, rekey).await;
        let ended = match restored {
            Ok(_) => self.0.vault.borrow_mut().end_restore(restore),
            Err(error) => {
                let why = error.to_string();
                self.0.vault.borrow_mut().abandon_restore(restore, &why);
                Err(why)
            }
        };
        let code = self.settled(ended)?.to_string();
        let bytes = sum.bytes;
        let sha256 = hex::encode(sum.hash);
        let state = BackupState { time, bytes, total: bytes, records: sum.records, sha256, ..BackupState::default() };
        Ok(VaultRestoreResults { recovery_code: code, why: String::new(), state })
    }

    async fn progress(&self, _cx: &CallContext) -> Result<BackupState, CallError> {
        Ok(self.0.copying.borrow().clone().unwrap_or_default())
    }

    async fn confirm(&self, _cx: &CallContext, state: VolumeState) -> Result<(), CallError> {
        let confirmed = self.0.vault.borrow_mut().confirm(state, self.0.memory());
        if confirmed.is_ok() {
            log::info!("{}", self.0.vault.borrow().details());
        }
        self.settled(confirmed)
    }
}
