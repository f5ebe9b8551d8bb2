//! The two interfaces, over the vault.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_keyspace::Range;
use capos_rt::log;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::store::{
    Change, KeyKind, KeyValue, NamespaceCommitResults, NamespaceGetResults, NamespaceInfoResults,
    NamespaceRangeResults, NamespaceServer, NamespaceSyncResults, StoreFault, VaultOpenResults, VaultServer,
    VaultVerifyResults, VolumeInfo, VolumeState,
};
use capos_store_service::disks::is_usable;
use capos_store_service::spaces::{Refusal, Spaces};
use capos_store_service::vault::Tried;

use crate::disk::GuestDisk;
use crate::holder::Holder;
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

    async fn watch(&self, _cx: &CallContext) -> Result<(), CallError> {
        core::future::pending().await
    }
}

/// The volume and its keys.
pub struct VaultObject(pub Rc<Holder>);

impl VaultObject {
    /// An answer of the vault, whose state may have changed.
    fn settled<T>(&self, answer: Result<T, String>) -> Result<T, CallError> {
        self.0.settle();
        answer.map_err(CallError::failed)
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
        // What the disk holds by now counts, and not what it held when the machine was started.
        let Some((seen, disk)) = search::look_again(&self.0, &disk).await? else {
            return Err(CallError::invalid_argument(alloc::format!("there is no disk `{disk}` that can be written")));
        };
        if !is_usable(&seen) {
            let why = alloc::format!("{} is not blank, or cannot be used; it was not written", seen.info.place);
            return Err(CallError::failed(why));
        }
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
        Ok(match tried.map_err(CallError::failed)? {
            Tried::Right => VaultVerifyResults { valid: true, why: String::new() },
            Tried::Wrong(why) => VaultVerifyResults { valid: false, why },
        })
    }

    async fn add(&self, _cx: &CallContext, name: String, passphrase: String) -> Result<(), CallError> {
        self.0.vault.borrow_mut().add(&name, &passphrase).map_err(CallError::failed)
    }

    async fn replace(&self, _cx: &CallContext, name: String, passphrase: String) -> Result<(), CallError> {
        self.0.vault.borrow_mut().replace(&name, &passphrase).map_err(CallError::failed)
    }

    async fn remove(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        self.0.vault.borrow_mut().remove(&name).map_err(CallError::failed)
    }

    async fn renew_recovery_code(&self, _cx: &CallContext) -> Result<String, CallError> {
        let code = self.0.vault.borrow_mut().renew_recovery_code().map_err(CallError::failed)?;
        Ok(code.to_string())
    }

    async fn decline(&self, _cx: &CallContext) -> Result<(), CallError> {
        let declined = self.0.vault.borrow_mut().decline(self.0.memory());
        self.settled(declined)
    }

    async fn confirm(&self, _cx: &CallContext, state: VolumeState) -> Result<(), CallError> {
        let confirmed = self.0.vault.borrow_mut().confirm(state, self.0.memory());
        if confirmed.is_ok() {
            log::info!("{}", self.0.vault.borrow().details());
        }
        self.settled(confirmed)
    }
}
