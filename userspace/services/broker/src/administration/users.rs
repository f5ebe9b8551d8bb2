//! The users of the data volume, as an operator's session holds them.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_broker::users::first_passphrase;
use capos_broker::volume::DataVolume;
use capos_rt::log;
use capos_schema::authority::{Profile, UserInfo, UsersServer};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::store::NamespaceClient;

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

    async fn passphrase(&self) -> Result<String, CallError> {
        Ok(first_passphrase(&self.broker.random().await?))
    }
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
