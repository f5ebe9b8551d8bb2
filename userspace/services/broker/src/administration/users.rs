//! The users of the data volume, as an operator's session holds them.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_broker::users::first_passphrase;
use capos_rt::log;
use capos_schema::authority::{Profile, UserInfo, UsersServer};
use capos_schema::cap::{CallContext, CallError};

use super::Operator;

/// The users, for this operator.
pub struct UsersObject(pub Rc<Operator>);

impl UsersObject {
    async fn passphrase(&self) -> Result<String, CallError> {
        Ok(first_passphrase(&self.0.broker.random().await?))
    }
}

impl UsersServer for UsersObject {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<UserInfo>, CallError> {
        let mut users = self.0.volume().await?.users().await?;
        for user in &mut users {
            match self.0.broker.blocks.usage(&user.name, &self.0.broker.quota(user)).await {
                Ok(usage) => (user.used_bytes, user.quota_bytes) = (usage.used_bytes, usage.quota_bytes),
                // The others are shown all the same.
                Err(why) => log::warning!("what the home of a user takes is not known: {why}"),
            }
        }
        Ok(users)
    }

    async fn add(&self, _cx: &CallContext, name: String, profile: Profile, quota: String) -> Result<String, CallError> {
        let passphrase = self.passphrase().await?;
        let volume = self.0.volume().await?;
        if !volume.users().await?.iter().any(|user| user.name == name) {
            // What is left of an earlier user of this name is not for this one.
            self.0.broker.blocks.forget(&name).await?;
        }
        volume.add_user(&name, profile, &quota, &passphrase).await?;
        Ok(passphrase)
    }

    async fn remove(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        if name == self.0.name {
            return Err(CallError::invalid_argument("you cannot remove yourself; another operator can"));
        }
        self.0.volume().await?.remove_user(&name).await?;
        self.0.broker.blocks.forget(&name).await.map_err(|error| {
            CallError::failed(format!(
                "the user is removed; what is kept for them is deleted when the name is added again: {error}"
            ))
        })
    }

    async fn set_profile(&self, _cx: &CallContext, name: String, profile: Profile) -> Result<(), CallError> {
        self.0.volume().await?.set_profile(&name, profile).await
    }

    async fn set_quota(&self, _cx: &CallContext, name: String, quota: String) -> Result<(), CallError> {
        let volume = self.0.volume().await?;
        volume.set_quota(&name, &quota).await?;
        let users = volume.users().await?;
        let Some(user) = users.iter().find(|user| user.name == name) else { return Ok(()) };
        self.0.broker.blocks.limit(&name, &self.0.broker.quota(user)).await.map_err(|error| {
            CallError::failed(format!("the quota is kept, and holds from the user's next login on: {error}"))
        })
    }

    async fn reset_passphrase(&self, _cx: &CallContext, name: String) -> Result<String, CallError> {
        let passphrase = self.passphrase().await?;
        self.0.volume().await?.reset_passphrase(&name, &passphrase).await?;
        Ok(passphrase)
    }

    async fn renew_recovery_code(&self, _cx: &CallContext) -> Result<String, CallError> {
        self.0.volume().await?.renew_recovery_code().await
    }
}
