//! The data volume as the broker uses it: set-up, unlocking, and who its users are.

pub mod backup;
mod login;
mod mend;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_async_lock::AsyncMutex;
use capos_keyspace::{Fault, Keyspace};
use capos_rt::{Clock, log};
use capos_schema::authority::{Profile, UserInfo};
use capos_schema::cap::CallError;
use capos_schema::store::{KeyKind, VaultClient, VolumeInfo, VolumeState};
use capos_setup::Unattended;
use capos_setup::rules::{attempts, check_key_file, check_name, check_passphrase, has_plan, normalised};
use capos_setup::unattended::Key;

use crate::settings::{self, Settings};
use crate::users;

/// How long a user whose key has opened the volume may log in without telling it again, in nanoseconds.
const FRESH: u64 = 60_000_000_000;
/// How long a recovery code that has opened the volume permits a new passphrase.
const RECOVERED: u64 = 3_600_000_000_000;
/// Between two looks at a vault that is searching, in nanoseconds.
const PAUSE: u64 = 20_000_000;

/// What the last key has shown of the person at the console.
#[derive(Clone, Debug)]
struct Known {
    who: Who,
    /// On the clock of the machine.
    until: u64,
    /// Failed attempts before it.
    failed: u32,
    /// The key was made with the recovery code.
    recovered: bool,
}

#[derive(Clone, Debug)]
enum Who {
    User(String),
    /// Whoever has the recovery code may give one user another passphrase.
    Recovered,
}

/// Who logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: UserInfo,
    /// Failed attempts since the login before.
    pub failed: u32,
}

/// What `setup.toml` asks for.
pub struct Plan {
    setup: Unattended,
    /// The content of the key file, or the passphrase.
    secret: String,
}

impl Plan {
    /// The plan of a file; `key` is the content of the key file that it names.
    ///
    /// # Errors
    /// The key file does not do.
    pub fn new(setup: Unattended, key: Option<String>) -> Result<Self, String> {
        let secret = match (&setup.key, key) {
            (Key::Passphrase(passphrase), _) => passphrase.clone(),
            (Key::File(path), Some(key)) => {
                check_key_file(&key).map_err(|why| format!("{path}: {why}"))?;
                key
            }
            (Key::File(path), None) => return Err(format!("key_file: there is no {path} on the medium")),
        };
        Ok(Self { setup, secret })
    }

    /// The kind of its key.
    fn kind(&self) -> KeyKind {
        match self.setup.key {
            Key::Passphrase(_) => KeyKind::Passphrase,
            Key::File(_) => KeyKind::KeyFile,
        }
    }
}

/// The data volume and its users.
pub struct DataVolume<K> {
    vault: VaultClient,
    space: K,
    clock: Clock,
    known: RefCell<Option<Known>>,
    /// What was wrong with an unattended set-up; none while it is not done.
    notice: RefCell<Option<String>>,
    /// The first user, by `setup.toml` or by the set-up of this start, until the store has it.
    first: RefCell<Option<(String, Profile)>>,
    /// The users are read and changed by one task at a time.
    changing: Rc<AsyncMutex>,
}

/// A secret in the form in which it is a key.
fn key(secret: &str, kind: KeyKind) -> String {
    match kind {
        KeyKind::Passphrase => normalised(secret),
        KeyKind::RecoveryCode | KeyKind::KeyFile => secret.to_owned(),
    }
}

fn rejected(why: impl core::fmt::Display) -> CallError {
    CallError::invalid_argument(why.to_string())
}

fn not_kept(fault: &Fault) -> CallError {
    CallError::failed(format!("the users of the data volume: {fault}"))
}

/// Why a key does not open, with the count of attempts.
fn counted(why: &str, failed: u32) -> String {
    let attempts = attempts(failed);
    if attempts.is_empty() { why.to_owned() } else { format!("{why}; {attempts}") }
}

impl<K: Keyspace> DataVolume<K> {
    /// The volume of this vault. Before [`prepare`](Self::prepare) has returned, its state is `searching`.
    pub fn new(vault: VaultClient, space: K, clock: Clock) -> Self {
        Self {
            vault,
            space,
            clock,
            known: RefCell::default(),
            notice: RefCell::default(),
            first: RefCell::default(),
            changing: Rc::default(),
        }
    }

    /// Waits until the disks are known, and sets up or unlocks as `setup.toml` says, where there is one. Returns whose key
    /// file was tried at a locked volume, and why it did not open.
    pub async fn prepare(&self, plan: Option<Result<Plan, String>>) -> Option<(String, Option<String>)> {
        let mut tried = None;
        let notice = match plan {
            None => Ok(()),
            Some(Err(why)) => Err(why),
            Some(Ok(plan)) => self.unattended(plan, &mut tried).await,
        };
        *self.notice.borrow_mut() = Some(notice.err().unwrap_or_default());
        tried
    }

    async fn unattended(&self, plan: Plan, tried: &mut Option<(String, Option<String>)>) -> Result<(), String> {
        let volume = loop {
            match self.vault.status().await {
                Ok(volume) if volume.state != VolumeState::Searching => break volume,
                // It is still at work, or starts again.
                _ => self.clock.sleep(PAUSE).await,
            }
        };
        let (name, kind) = (plan.setup.name.clone(), plan.kind());
        *self.first.borrow_mut() = Some((name.clone(), plan.setup.profile));
        let done = match (volume.state, kind) {
            (VolumeState::Blank, _) => {
                let made = self.create(&volume, &name, &plan.secret, kind, plan.setup.profile).await;
                made.map(drop).map_err(|why| why.to_string())
            }
            (VolumeState::Locked, KeyKind::KeyFile) => {
                let opened = match self.unlock(&name, &plan.secret, kind).await {
                    Ok(None) => Ok(()),
                    Ok(Some(why)) => Err(why),
                    Err(error) => Err(error.to_string()),
                };
                *tried = Some((name, opened.clone().err()));
                opened
            }
            // An earlier instance of the broker has unlocked it.
            (VolumeState::Older, KeyKind::KeyFile) => Ok(()),
            _ => return Ok(()),
        };
        let mut migrated = Ok(());
        if plan.setup.migrate && self.vault.status().await.is_ok_and(|volume| volume.state == VolumeState::Older) {
            migrated = self.confirm(VolumeState::Older).await.map_err(|error| error.to_string());
        }
        if let Some(known) = self.known.borrow_mut().as_mut() {
            // The console opens a session when it is there.
            known.until = u64::MAX;
        }
        done.and(migrated)
    }

    /// What the volume is, with what was wrong with `setup.toml`.
    ///
    /// # Errors
    /// The vault does not answer.
    pub async fn info(&self) -> Result<VolumeInfo, CallError> {
        let Some(notice) = self.notice.borrow().clone() else { return Ok(VolumeInfo::default()) };
        let mut info = self.vault.status().await?;
        if !notice.is_empty() && info.state != VolumeState::Open && !notice.contains(&info.details) {
            info.details = format!("{notice}; {}", info.details);
        }
        Ok(info)
    }

    /// Whether logins are those of the volume's users: it is there, and locked or open. Waits until that is known.
    ///
    /// # Errors
    /// The vault does not answer.
    pub async fn has_users(&self) -> Result<bool, CallError> {
        loop {
            let info = self.info().await?;
            match info.state {
                // The search ends soon, and so does an unattended set-up.
                VolumeState::Searching => self.clock.sleep(PAUSE).await,
                VolumeState::Locked | VolumeState::Open | VolumeState::Older => return Ok(true),
                _ => return Ok(has_plan(&info)),
            }
        }
    }

    /// Whether a key of this name opens the volume: nobody else may use the name.
    ///
    /// # Errors
    /// The vault does not answer.
    pub async fn has_key(&self, name: &str) -> Result<bool, CallError> {
        Ok(!name.is_empty() && self.vault.status().await?.keys.iter().any(|key| key.name == name))
    }

    /// Makes the volume on the blank disk, with its first user, an operator. Returns the recovery code.
    ///
    /// # Errors
    /// There is no blank disk, the name or the passphrase does not do, or the disk fails.
    pub async fn set_up(&self, name: &str, passphrase: &str) -> Result<String, CallError> {
        let volume = self.vault.status().await?;
        self.create(&volume, name, passphrase, KeyKind::Passphrase, Profile::Operator).await
    }

    async fn create(
        &self,
        volume: &VolumeInfo,
        name: &str,
        secret: &str,
        kind: KeyKind,
        profile: Profile,
    ) -> Result<String, CallError> {
        check_name(name).map_err(rejected)?;
        match kind {
            KeyKind::KeyFile => check_key_file(secret),
            KeyKind::Passphrase | KeyKind::RecoveryCode => check_passphrase(secret),
        }
        .map_err(rejected)?;
        let code = self.vault.create(&volume.disk, name, &key(secret, kind), kind).await?;
        *self.first.borrow_mut() = Some((name.to_owned(), profile));
        self.know(Who::User(name.to_owned()), FRESH, 0);
        // The volume is there, and whoever made it is told its recovery code. If the store does not take the user, the login tries
        // again, and says why.
        if let Err(fault) = self.put_first(name).await {
            log::warning!("the first user of the data volume is not written yet: {fault}");
        }
        Ok(code)
    }

    /// The profile of the first user: as the set-up says, or operator.
    fn first_profile(&self, name: &str) -> Profile {
        let first = self.first.borrow().clone().filter(|(first, _)| first == name);
        first.map_or(Profile::Operator, |(_, profile)| profile)
    }

    /// Writes the first user.
    async fn put_first(&self, name: &str) -> Result<UserInfo, Fault> {
        let profile = self.first_profile(name);
        let user = UserInfo { name: name.to_owned(), profile, created_unix: self.now(), ..UserInfo::default() };
        users::put(&self.space, &user).await?;
        Ok(user)
    }

    /// Does what the volume's plan says, if this is its state. The user who has unlocked it logs in afterwards.
    ///
    /// # Errors
    /// It has another state, or the disk fails.
    pub async fn confirm(&self, state: VolumeState) -> Result<(), CallError> {
        let began = self.clock.now();
        self.vault.confirm(state).await?;
        // A migration takes its time. Who had left before it has to give the passphrase again.
        if let Some(known) = self.known.borrow_mut().as_mut().filter(|known| known.until > began) {
            known.until = known.until.max(self.clock.now().saturating_add(FRESH));
        }
        Ok(())
    }

    /// Leaves a blank disk unchanged.
    ///
    /// # Errors
    /// The vault does not answer.
    pub async fn decline(&self) -> Result<(), CallError> {
        self.vault.decline().await
    }

    /// Opens the volume; where the key is wrong, returns why.
    ///
    /// # Errors
    /// The volume cannot be opened, whatever the key is.
    pub async fn unlock(&self, name: &str, secret: &str, kind: KeyKind) -> Result<Option<String>, CallError> {
        if kind != KeyKind::RecoveryCode && name.is_empty() {
            return Err(rejected("a name is missing: whose key is it?"));
        }
        let failed = self.vault.status().await?.failed_attempts;
        let tried = self.vault.open(name, &key(secret, kind), kind).await?;
        if !tried.opened {
            let failed = self.vault.status().await?.failed_attempts;
            return Ok(Some(counted(&tried.why, failed)));
        }
        match kind {
            KeyKind::RecoveryCode => self.know(Who::Recovered, RECOVERED, failed),
            KeyKind::Passphrase | KeyKind::KeyFile => self.know(Who::User(name.to_owned()), FRESH, failed),
        }
        Ok(None)
    }

    fn know(&self, who: Who, nanoseconds: u64, failed: u32) {
        let until = self.clock.now().saturating_add(nanoseconds);
        *self.known.borrow_mut() = Some(Known { who, until, failed, recovered: false });
    }

    /// Seconds since 1970; 0 if the clock cannot be read.
    fn now(&self) -> i64 {
        self.clock.wall_clock().ok().and_then(|now| i64::try_from(now / 1000).ok()).unwrap_or_default()
    }

    /// What the last key has shown, if it is fresh and is what is wanted: once.
    fn take_known(&self, wanted: impl Fn(&Known) -> bool) -> Option<Known> {
        let now = self.clock.now();
        self.known.borrow_mut().take_if(|known| wanted(known) && now < known.until)
    }

    /// Gives a user another passphrase, once after the recovery code.
    ///
    /// # Errors
    /// There was no recovery code, the passphrase does not do, or the volume does not allow it.
    pub async fn renew(&self, name: &str, passphrase: &str) -> Result<(), CallError> {
        check_passphrase(passphrase).map_err(rejected)?;
        let known = self.take_known(|known| matches!(known.who, Who::Recovered));
        let known = known.ok_or_else(|| rejected("the recovery code has not been entered; start the machine again"))?;
        if let Err(error) = self.set_passphrase(name, passphrase).await {
            *self.known.borrow_mut() = Some(known);
            return Err(error);
        }
        self.know(Who::User(name.to_owned()), FRESH, known.failed);
        if let Some(known) = self.known.borrow_mut().as_mut() {
            known.recovered = true;
        }
        Ok(())
    }

    /// Replaces a user's passphrase, or gives the first one to a user who has none.
    async fn set_passphrase(&self, name: &str, passphrase: &str) -> Result<(), CallError> {
        let keys = self.vault.status().await?.keys;
        let passphrase = normalised(passphrase);
        if keys.iter().any(|key| key.name == name && key.kind == KeyKind::Passphrase) {
            return self.vault.replace(name, &passphrase).await;
        }
        users::find(&self.users().await?, name).map_err(rejected)?;
        self.vault.add(name, &passphrase).await
    }

    /// Whether a passphrase of this name opens the volume. The user of a key file has none at first.
    async fn has_passphrase(&self, name: &str) -> Result<bool, CallError> {
        let keys = self.vault.status().await?.keys;
        Ok(keys.iter().any(|key| key.name == name && key.kind == KeyKind::Passphrase))
    }

    /// Gives a user another passphrase in place of the one so far; where that is another, returns why. The first one of a user
    /// who has none takes no other.
    ///
    /// # Errors
    /// The new one does not do, or the volume does not allow it.
    pub async fn change_passphrase(
        &self,
        name: &str,
        current: &str,
        passphrase: &str,
    ) -> Result<Option<String>, CallError> {
        check_passphrase(passphrase).map_err(rejected)?;
        if !self.has_passphrase(name).await? {
            self.set_passphrase(name, passphrase).await?;
            return Ok(None);
        }
        if let Err(why) = self.verify(name, current).await {
            return Ok(Some(why));
        }
        if normalised(current) == normalised(passphrase) {
            return Ok(Some("this is your passphrase already; choose another".to_owned()));
        }
        self.vault.replace(name, &normalised(passphrase)).await?;
        Ok(None)
    }

    /// Whether this is the user's passphrase. The vault counts the attempt.
    ///
    /// # Errors
    /// Why it is not.
    pub async fn verify(&self, name: &str, passphrase: &str) -> Result<(), String> {
        // An empty name would try the keys of everybody.
        if name.is_empty() || passphrase.is_empty() {
            return Err("no passphrase was entered".into());
        }
        if !self.has_passphrase(name).await.map_err(|error| error.to_string())? {
            return Err(format!(
                "no passphrase is set for {name:?} on this machine: check the name, or set one at the console with /passphrase"
            ));
        }
        let tried = self.vault.verify(name, &normalised(passphrase)).await.map_err(|error| error.to_string())?;
        if tried.valid {
            return Ok(());
        }
        let failed = self.vault.status().await.map_err(|error| error.to_string())?.failed_attempts;
        Err(counted(&tried.why, failed))
    }

    /// The settings of this machine; none while the volume is not open.
    ///
    /// # Errors
    /// The store has none to give.
    pub async fn settings(&self) -> Result<Settings, CallError> {
        if self.info().await?.state != VolumeState::Open {
            return Ok(Settings::new());
        }
        settings::read(&self.space).await.map_err(|fault| CallError::failed(format!("reading the settings: {fault}")))
    }

    /// Keeps a setting, which was checked.
    ///
    /// # Errors
    /// The store does not keep it.
    pub async fn set(&self, name: &str, value: &str) -> Result<(), CallError> {
        let kept = settings::put(&self.space, name, value).await;
        kept.map_err(|fault| CallError::failed(format!("the setting is not kept: {fault}")))
    }

    /// Removes a setting.
    ///
    /// # Errors
    /// The store does not keep that.
    pub async fn reset(&self, name: &str) -> Result<(), CallError> {
        let kept = settings::remove(&self.space, name).await;
        kept.map_err(|fault| CallError::failed(format!("the setting is not reset: {fault}")))
    }

    /// The users.
    ///
    /// # Errors
    /// The store has none to give.
    pub async fn users(&self) -> Result<Vec<UserInfo>, CallError> {
        users::list(&self.space).await.map_err(|fault| not_kept(&fault))
    }

    /// Adds a user with this first passphrase.
    ///
    /// # Errors
    /// The name does not do or is taken, or the volume has no room for one more key.
    pub async fn add_user(&self, name: &str, profile: Profile, quota: &str, passphrase: &str) -> Result<(), CallError> {
        let _turn = self.changing.lock().await;
        check_name(name).map_err(rejected)?;
        let quota = users::quota(quota).map_err(rejected)?;
        capos_setup::unattended::user_profile(profile.name()).map_err(rejected)?;
        // One without a key was being added when the power was cut, and is added now.
        if self.users().await?.iter().any(|user| user.name == name) && self.has_key(name).await? {
            return Err(rejected(format!("there is a user {name:?} already")));
        }
        let user = UserInfo { name: name.to_owned(), profile, created_unix: self.now(), quota, ..UserInfo::default() };
        users::put(&self.space, &user).await.map_err(|fault| not_kept(&fault))?;
        let added = self.set_passphrase(name, passphrase).await;
        if added.is_err()
            && let Err(fault) = users::remove(&self.space, name).await
        {
            return Err(not_kept(&fault));
        }
        added
    }

    /// Removes a user and their keys.
    ///
    /// # Errors
    /// There is none of this name, it is the last operator, or the volume does not allow it.
    pub async fn remove_user(&self, name: &str) -> Result<(), CallError> {
        let _turn = self.changing.lock().await;
        let users = self.users().await?;
        let has_key = self.vault.status().await?.keys.iter().any(|key| key.name == name);
        if !has_key {
            users::find(&users, name).map_err(rejected)?;
        }
        self.may_lose_operator(&users, name).await?;
        if has_key {
            self.vault.remove(name).await?;
        }
        users::remove(&self.space, name).await.map_err(|fault| not_kept(&fault))
    }

    /// Gives a user another profile.
    ///
    /// # Errors
    /// There is none of this name, or it is the last operator.
    pub async fn set_profile(&self, name: &str, profile: Profile) -> Result<(), CallError> {
        let _turn = self.changing.lock().await;
        capos_setup::unattended::user_profile(profile.name()).map_err(rejected)?;
        let users = self.users().await?;
        let user = users::find(&users, name).map_err(rejected)?;
        if profile != Profile::Operator {
            self.may_lose_operator(&users, name).await?;
        }
        let user = UserInfo { profile, ..user.clone() };
        users::put(&self.space, &user).await.map_err(|fault| not_kept(&fault))
    }

    /// Gives a user's home another quota; the default if it is empty.
    ///
    /// # Errors
    /// There is no user of this name, or it is no quota.
    pub async fn set_quota(&self, name: &str, quota: &str) -> Result<(), CallError> {
        let _turn = self.changing.lock().await;
        let quota = users::quota(quota).map_err(rejected)?;
        let users = self.users().await?;
        let user = UserInfo { quota, ..users::find(&users, name).map_err(rejected)?.clone() };
        users::put(&self.space, &user).await.map_err(|fault| not_kept(&fault))
    }

    /// Gives a user who has forgotten the passphrase another one.
    ///
    /// # Errors
    /// There is none of this name, or the volume does not allow it.
    pub async fn reset_passphrase(&self, name: &str, passphrase: &str) -> Result<(), CallError> {
        users::find(&self.users().await?, name).map_err(rejected)?;
        self.set_passphrase(name, passphrase).await
    }

    /// Makes a new recovery code.
    ///
    /// # Errors
    /// The volume does not allow it.
    pub async fn renew_recovery_code(&self) -> Result<String, CallError> {
        self.vault.renew_recovery_code().await
    }

    /// Forgets the key of a user's home until the user's next login.
    ///
    /// # Errors
    /// The vault does not answer.
    pub async fn lock(&self, name: &str) -> Result<(), CallError> {
        self.vault.lock(name).await
    }

    /// Whether a user is an operator now.
    ///
    /// # Errors
    /// The store does not tell.
    pub async fn is_operator(&self, name: &str) -> Result<bool, CallError> {
        let users = self.users().await?;
        Ok(users.iter().any(|user| user.name == name && user.profile == Profile::Operator))
    }
}

#[cfg(test)]
mod tests;
