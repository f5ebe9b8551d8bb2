//! The users of the data volume, and its backups, as an operator's session holds them.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_broker::users::first_passphrase;
use capos_broker::volume::DataVolume;
use capos_rt::log;
use capos_schema::audit::AuditFile;
use capos_schema::authority::{BackupsServer, LogFile, Profile, UserInfo, UsersServer};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::storage::DirectoryClient;
use capos_schema::store::{BackupState, NamespaceClient};

use crate::broker::Broker;

/// The users, for this operator.
pub struct UsersObject {
    pub broker: Rc<Broker>,
    pub operator: String,
}

impl UsersObject {
    async fn volume(&self) -> Result<&DataVolume<NamespaceClient>, CallError> {
        self.broker.volume_of(&self.operator).await
    }

    /// The top of a transfer volume, and the name of a new file there for the audit log.
    async fn log_file(&self, volume: &str, file: String) -> Result<(DirectoryClient, String), CallError> {
        // Somebody else may have become an operator meanwhile.
        self.volume().await?;
        let folder = self.broker.blocks.volumes()?.open(volume).await?;
        if !file.is_empty() {
            return Ok((folder, file));
        }
        let now = self.broker.clock.wall_clock().unwrap_or_default().saturating_mul(1_000_000);
        let time = capos_audit::clock(now).replace(':', "");
        Ok((folder, format!("audit-{}-{time}.jsonl", capos_audit::date(now))))
    }

    async fn passphrase(&self) -> Result<String, CallError> {
        Ok(first_passphrase(&self.broker.random().await?))
    }
}

impl BackupsServer for UsersObject {
    async fn back_up(&self, _cx: &CallContext, volume: String) -> Result<BackupState, CallError> {
        self.volume().await?.back_up(&self.broker.blocks.volumes()?, &volume).await
    }

    async fn progress(&self, _cx: &CallContext) -> Result<BackupState, CallError> {
        self.broker.volume()?.progress().await
    }

    async fn export_log(&self, _cx: &CallContext, volume: String, file: String) -> Result<LogFile, CallError> {
        let (folder, name) = self.log_file(&volume, file).await?;
        Ok(log_file(self.broker.blocks.audit.export_to(&folder, &name).await?))
    }

    async fn archive_log(&self, _cx: &CallContext, volume: String, file: String) -> Result<LogFile, CallError> {
        let (folder, name) = self.log_file(&volume, file).await?;
        Ok(log_file(self.broker.blocks.audit.archive(&folder, &name).await?))
    }
}

fn log_file(written: AuditFile) -> LogFile {
    let AuditFile { name, first, records, bytes, head } = written;
    let last = first.saturating_add(records).saturating_sub(1);
    LogFile { name, first, records, bytes, head: format!("{last}:{}", hex::encode(head)) }
}

impl UsersServer for UsersObject {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<UserInfo>, CallError> {
        let mut users = self.volume().await?.users().await?;
        for user in &mut users {
            match self.broker.blocks.usage(&user.name, &self.broker.quota(user)).await {
                Ok(usage) => (user.used_bytes, user.quota_bytes) = (usage.used_bytes, usage.quota_bytes),
                // The others are shown all the same.
                Err(why) => log::warning!("what the home of a user takes is not known: {why}"),
            }
        }
        Ok(users)
    }

    async fn add(&self, _cx: &CallContext, name: String, profile: Profile, quota: String) -> Result<String, CallError> {
        let passphrase = self.passphrase().await?;
        let volume = self.volume().await?;
        if !volume.users().await?.iter().any(|user| user.name == name) {
            // What is left of an earlier user of this name is not for this one.
            self.broker.blocks.forget(&name).await?;
        }
        volume.add_user(&name, profile, &quota, &passphrase).await?;
        Ok(passphrase)
    }

    async fn remove(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        if name == self.operator {
            return Err(CallError::invalid_argument("you cannot remove yourself; another operator can"));
        }
        self.volume().await?.remove_user(&name).await?;
        self.broker.blocks.forget(&name).await.map_err(|error| {
            CallError::failed(format!(
                "the user is removed; what is kept for them is deleted when the name is added again: {error}"
            ))
        })
    }

    async fn set_profile(&self, _cx: &CallContext, name: String, profile: Profile) -> Result<(), CallError> {
        self.volume().await?.set_profile(&name, profile).await
    }

    async fn set_quota(&self, _cx: &CallContext, name: String, quota: String) -> Result<(), CallError> {
        let volume = self.volume().await?;
        volume.set_quota(&name, &quota).await?;
        let users = volume.users().await?;
        let Some(user) = users.iter().find(|user| user.name == name) else { return Ok(()) };
        self.broker.blocks.limit(&name, &self.broker.quota(user)).await.map_err(|error| {
            CallError::failed(format!("the quota is kept, and holds from the user's next login on: {error}"))
        })
    }

    async fn reset_passphrase(&self, _cx: &CallContext, name: String) -> Result<String, CallError> {
        let passphrase = self.passphrase().await?;
        self.volume().await?.reset_passphrase(&name, &passphrase).await?;
        Ok(passphrase)
    }

    async fn renew_recovery_code(&self, _cx: &CallContext) -> Result<String, CallError> {
        self.volume().await?.renew_recovery_code().await
    }
}
