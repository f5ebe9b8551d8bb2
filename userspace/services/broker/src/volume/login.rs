//! Who logs in, and who manages the machine if no operator is left.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_keyspace::Keyspace;
use capos_schema::authority::{Profile, UserInfo};
use capos_schema::cap::CallError;
use capos_schema::store::{KeyInfo, KeyKind, VolumeState};

use super::{DataVolume, FRESH, Identity, Known, Who, not_kept, rejected};
use crate::users;

/// Whether all keys are those of this user, apart from the recovery code, which belongs to no user.
pub(super) fn has_all_keys(keys: &[KeyInfo], name: &str) -> bool {
    keys.iter().filter(|key| key.kind != KeyKind::RecoveryCode).all(|key| key.name == name)
}

/// Whether a user who logs in becomes an operator, if no operator has a key. That takes the recovery code, or all keys, as after a
/// guest has restored a backup. A machine that was set up without an operator stays so. Of several users with keys none is known
/// to have been an operator, so no passphrase of a user is enough.
fn becomes_operator(users: &[UserInfo], keys: &[KeyInfo], name: &str, recovered: bool) -> bool {
    let is_operator = |user: &&UserInfo| user.profile == Profile::Operator;
    let mut operators = users.iter().filter(is_operator);
    let has_key = |user: &UserInfo| keys.iter().any(|key| key.name == user.name);
    if operators.clone().any(has_key) {
        return false;
    }
    recovered || (operators.next().is_some() && has_all_keys(keys, name))
}

impl<K: Keyspace> DataVolume<K> {
    /// Who logs in with this name and passphrase. The passphrase may be empty if a key of the name has just opened the
    /// volume, and the name if that was at the start of the machine.
    ///
    /// # Errors
    /// Why no user does.
    pub async fn identify(&self, name: &str, passphrase: &str) -> Result<Identity, String> {
        let volume = self.vault.status().await.map_err(|error| error.to_string())?;
        if volume.state != VolumeState::Open {
            return Err(volume.details);
        }
        let is_meant = |known: &Known| match &known.who {
            Who::User(user) => user == name || name.is_empty() && known.until == u64::MAX,
            Who::Recovered => false,
        };
        let fresh = if passphrase.is_empty() { self.take_known(is_meant) } else { None };
        let (name, failed, recovered) = match fresh {
            Some(Known { who: Who::User(name), failed, recovered, .. }) => (name, failed, recovered),
            _ => {
                self.verify(name, passphrase).await?;
                (name.to_owned(), volume.failed_attempts, false)
            }
        };
        let users = self.users().await.map_err(|error| error.to_string())?;
        if let Some(user) = users.iter().find(|user| user.name == name) {
            if !becomes_operator(&users, &volume.keys, &name, recovered) {
                return Ok(Identity { user: user.clone(), failed });
            }
            let user = UserInfo { profile: Profile::Operator, ..user.clone() };
            users::put(&self.space, &user).await.map_err(|fault| not_kept(&fault).to_string())?;
            return Ok(Identity { user, failed });
        }
        // The power was cut in the middle of the set-up: the volume was there, and its first user not yet.
        if !users.is_empty() {
            return Err(format!("{name} has a key and is not a user; an operator can add the name again"));
        }
        match self.put_first(&name).await {
            Ok(user) => Ok(Identity { user, failed }),
            Err(fault) => {
                // The next try needs no passphrase, as this one.
                self.know(Who::User(name), FRESH, failed);
                Err(format!("{}; free some room or attach another disk, and log in again", not_kept(&fault)))
            }
        }
    }

    /// Whether a user may stop being an operator: another one is left with a key.
    ///
    /// # Errors
    /// Nobody would be left.
    pub(super) async fn may_lose_operator(&self, users: &[UserInfo], name: &str) -> Result<(), CallError> {
        let keys = self.vault.status().await?.keys;
        let counts = |user: &&UserInfo| user.name == name || keys.iter().any(|key| key.name == user.name);
        let users: Vec<UserInfo> = users.iter().filter(counts).cloned().collect();
        users::may_lose_operator(&users, name).map_err(rejected)
    }
}
