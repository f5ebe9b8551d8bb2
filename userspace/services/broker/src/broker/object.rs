//! The broker as an object.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_audit::Kind;
use capos_broker::permit::Permit;
use capos_broker::volume::backup::Restored;
use capos_rt::log;
use capos_schema::authority::{
    AuthorityBrokerChangePassphraseResults, AuthorityBrokerProfilesResults, AuthorityBrokerRestoreResults,
    AuthorityBrokerServer, AuthorityBrokerUnlockResults, FoundBackup, Profile, SessionInfo, UserSessionClient,
    UserSessionService,
};
use capos_schema::cap::{CallContext, CallError, Client, Export};
use capos_schema::store::{BackupState, KeyKind, VolumeInfo, VolumeState};

use crate::broker::{Broker, Login};
use crate::decision::Subject;
use crate::in_use::InUse;
use crate::session::Session;

/// The longest name of a principal.
const MAX_PRINCIPAL: usize = 64;
/// Sessions that can be held at once, those that have ended among them.
const SESSIONS: u32 = 16;

/// The broker as an object.
pub struct BrokerObject(pub Rc<Broker>);

impl AuthorityBrokerServer for BrokerObject {
    async fn profiles(&self, _cx: &CallContext) -> Result<AuthorityBrokerProfilesResults, CallError> {
        let profiles = Vec::from([Profile::Operator, Profile::Guest, Profile::Anonymous]);
        Ok(AuthorityBrokerProfilesResults { profiles, initial: self.0.config().initial })
    }

    async fn login(
        &self,
        _cx: &CallContext,
        profile: Profile,
        principal: String,
        passphrase: String,
    ) -> Result<UserSessionClient, CallError> {
        let broker = &self.0;
        if principal.len() > MAX_PRINCIPAL {
            return Err(CallError::invalid_argument("a principal's name has 1 to 64 bytes"));
        }
        if broker.open.get() > 0 {
            // Those without a holder are found by a sweep.
            broker.server.sweep();
        }
        let open = Permit::acquire(&broker.open, SESSIONS)
            .ok_or_else(|| CallError::overloaded(format!("{SESSIONS} sessions are open; end one first")))?;
        let id = hex::encode(broker.random().await?);
        // The home that the passphrase opens stays open until the session is there.
        let _in_use = InUse::new(broker, &principal);
        broker.mend().await?;
        broker.apply_settings().await?;
        broker.load_budgets().await?;
        let login = if broker.needs_key(profile, &principal).await? {
            broker.user(principal, &passphrase).await
        } else {
            broker.without_key(profile, principal, &passphrase).await?
        };
        let Login { info, refused } = login;
        let (offset, offer) = (broker.config().utc_offset, broker.config().offer.clone());
        let info = SessionInfo { id, offset, offer, ..info };
        let subject = Subject { session: &info.id, principal: &info.principal };
        let outcome = refused.as_deref().unwrap_or("granted");
        let name = info.profile.name();
        let fields: &[(&str, &dyn core::fmt::Display)] =
            &[("profile", &name), ("outcome", &outcome), ("failedAttempts", &info.failed_attempts)];
        // Others have none.
        let fields = if info.user { fields } else { fields.get(..2).unwrap_or_default() };
        subject.record(&broker.blocks.writer, Kind::SessionStart, fields).await?;
        if let Some(why) = refused {
            // Without the name: people type passphrases where a name is asked.
            log::warning!("a login with the profile {name} was rejected; the audit log says why");
            return Err(CallError::invalid_argument(why));
        }
        let share = broker.server.share();
        let session = Session::open((broker.clone(), open, share.clone()), info).await?;
        // It can be told to end, so it is not among what ends with it.
        let object = share.bound(Rc::new(UserSessionService(session)));
        Ok(UserSessionClient::from_cap(broker.server.export(object)?))
    }

    async fn volume(&self, _cx: &CallContext) -> Result<VolumeInfo, CallError> {
        match &self.0.volume {
            Some(volume) => volume.info().await,
            None => {
                let details =
                    String::from("this system uses no data disk; nothing is kept when the machine is turned off");
                Ok(VolumeInfo { state: VolumeState::None, details, ..VolumeInfo::default() })
            }
        }
    }

    async fn set_up(&self, _cx: &CallContext, name: String, passphrase: String) -> Result<String, CallError> {
        self.0.set_up(&name, &passphrase).await
    }

    async fn unlock(
        &self,
        _cx: &CallContext,
        name: String,
        secret: String,
        kind: KeyKind,
    ) -> Result<AuthorityBrokerUnlockResults, CallError> {
        let why = self.0.volume()?.unlock(&name, &secret, kind).await?;
        self.0.record_key("unlock", (&name, Some(kind)), why.clone()).await;
        Ok(AuthorityBrokerUnlockResults { opened: why.is_none(), why: why.unwrap_or_default() })
    }

    async fn decline(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.0.volume()?.decline().await
    }

    async fn confirm(&self, _cx: &CallContext, state: VolumeState) -> Result<(), CallError> {
        self.0.volume()?.confirm(state).await
    }

    async fn renew(&self, _cx: &CallContext, name: String, passphrase: String) -> Result<(), CallError> {
        let done = self.0.volume()?.renew(&name, &passphrase).await;
        // Only the recovery code leads here.
        let why = done.as_ref().err().map(ToString::to_string);
        self.0.record_key("renew", (&name, Some(KeyKind::RecoveryCode)), why).await;
        done
    }

    async fn backups(&self, _cx: &CallContext) -> Result<Vec<FoundBackup>, CallError> {
        self.0.volume()?.backups(&self.0.blocks.volumes()?).await
    }

    async fn restore(
        &self,
        _cx: &CallContext,
        backup: FoundBackup,
        name: String,
        secret: String,
        kind: KeyKind,
        passphrase: String,
    ) -> Result<AuthorityBrokerRestoreResults, CallError> {
        let volumes = self.0.blocks.volumes()?;
        let done = self.0.volume()?.restore(&volumes, &backup, &name, (&secret, kind), &passphrase).await;
        let refused = match &done {
            Ok(restored) if restored.why.is_empty() => None,
            Ok(restored) => Some(restored.why.clone()),
            Err(error) => Some(error.to_string()),
        };
        self.0.record_key("restore", (&name, Some(kind)), refused).await;
        let Restored { recovery_code, why } = done?;
        Ok(AuthorityBrokerRestoreResults { recovery_code, why })
    }

    async fn set_clock(&self, _cx: &CallContext, time: String) -> Result<(), CallError> {
        if self.0.clock.wall_clock()? >= capos_setup::CLOCK_IS_SET {
            return Err(CallError::invalid_argument("the clock is set; an operator changes it with set_clock"));
        }
        self.0.set_clock("", &time, 0).await.map(drop)
    }

    async fn progress(&self, _cx: &CallContext) -> Result<BackupState, CallError> {
        self.0.volume()?.progress().await
    }

    async fn change_passphrase(
        &self,
        _cx: &CallContext,
        name: String,
        current: String,
        passphrase: String,
    ) -> Result<AuthorityBrokerChangePassphraseResults, CallError> {
        let why = self.0.volume()?.change_passphrase(&name, &current, &passphrase).await?;
        self.0.record_key("changePassphrase", (&name, Some(KeyKind::Passphrase)), why.clone()).await;
        Ok(AuthorityBrokerChangePassphraseResults { changed: why.is_none(), why: why.unwrap_or_default() })
    }
}
