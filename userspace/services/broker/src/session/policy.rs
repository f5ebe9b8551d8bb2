//! The policy bundle of a session: its issue, its end and its renewal.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_audit::Kind;
use capos_policy::{At, GrantedTool, Holder, Measured, PolicyBundle, SessionPolicy};
use capos_rt::{TaskGroup, log};
use capos_schema::authority::{
    ChildRunsClient, PolicyInfo, Profile, RemindersClient, SessionInfo, SettingsClient, ToolQuestion,
    UserSessionPolicyResults, UserSessionRenewPolicyResults,
};
use capos_schema::cap::{CallError, Client as _};
use capos_schema::conversations::ConversationStoreClient;
use capos_schema::models::PermissionMode;
use capos_schema::reflection;
use capos_schema::storage::{DirectoryClient, FileError};
use capos_schema::transfer::TransferVolumesClient;

use super::{Session, derive, revoke};
use crate::administration::consequence;
use crate::broker::Broker;
use crate::capability_pool::Part;

/// How long a file's server may take to tell its size, in nanoseconds.
const LOOK: u64 = 2_000_000_000;

/// Whether a part stays when the policy has expired. Conversations are saved all the same: they are no authority over anything
/// else.
fn is_kept(part: &Part) -> bool {
    part.interface == ConversationStoreClient::INTERFACE_ID
}

impl Session {
    /// What a call that changes a setting or the clock means. Nothing for other calls.
    ///
    /// # Errors
    /// The call will be rejected.
    pub(super) async fn consequence(&self, question: &ToolQuestion) -> Result<String, String> {
        if question.interface_id != SettingsClient::INTERFACE_ID {
            return Ok(String::new());
        }
        consequence(&self.broker, &self.info.principal, &self.tools, question).await
    }

    /// A review with what the call means: its mode, the reason if it is forbidden, and the note. A call that will be
    /// rejected is forbidden, so that the person is not asked to allow it.
    pub(super) async fn foreseen(
        &self,
        question: &ToolQuestion,
        (mode, reason, note): (PermissionMode, String, String),
    ) -> (PermissionMode, String, String) {
        if mode == PermissionMode::Forbidden {
            return (mode, reason, note);
        }
        match self.consequence(question).await {
            Err(why) => (PermissionMode::Forbidden, why, String::new()),
            Ok(told) if note.is_empty() => (mode, reason, told),
            Ok(_) => (mode, reason, note),
        }
    }
}

/// The policy of a session with these tools, by the configuration in force.
///
/// # Errors
/// The bundle is not accepted.
pub(super) fn issue(
    broker: &Broker,
    info: &SessionInfo,
    ends: u64,
    tools: &[GrantedTool],
) -> Result<SessionPolicy, CallError> {
    let (config, now) = (broker.config(), broker.clock.now());
    let policy = &config.policy;
    let holder = Holder { session: info.id.clone(), principal: info.principal.clone(), profile: info.profile };
    let valid = policy.profile(info.profile).policy_seconds.saturating_mul(1_000_000_000);
    let times = (now, now.saturating_add(valid).min(ends));
    let bundle = PolicyBundle::issue(policy, holder.clone(), times, tools.to_vec());
    SessionPolicy::load(policy, bundle, &holder, now).map_err(|why| CallError::failed(why.to_string()))
}

pub(super) fn policy_info(policy: &SessionPolicy) -> PolicyInfo {
    let (version, issued, expires) = policy.bundle();
    PolicyInfo { version: version.to_string(), issued, expires }
}

/// The tools of a capability; their categories are the schema's. A read-only form has none that changes anything.
pub(super) fn grant_tools(tools: &mut Vec<GrantedTool>, interface: u64, read_only: bool) {
    let Some(found) = reflection::interface(interface) else { return };
    for method in found.methods {
        if let (Some(name), Some(category)) = (method.tool, method.category)
            && !(read_only && method.changes())
        {
            tools.push(GrantedTool {
                interface_id: interface,
                method: method.name.to_string(),
                name: name.to_string(),
                category,
                pattern: method.pattern,
                paths: method.paths,
                trees: method.trees,
            });
        }
    }
}

/// The tools of what no object serves, in sessions that may use a model: the runner begins child runs, and the console keeps an
/// operator's reminders.
pub(super) fn grant_runner_tools(tools: &mut Vec<GrantedTool>, profile: Profile) {
    grant_tools(tools, ChildRunsClient::INTERFACE_ID, false);
    if profile == Profile::Operator {
        grant_tools(tools, RemindersClient::INTERFACE_ID, false);
    }
}

impl Session {
    /// Has what the session was given end with its policy bundle, which ends with the session at the latest. One task waits for that,
    /// as long as there is the session.
    pub(super) fn watch(self: &Rc<Self>) {
        let expires = self.policy.borrow().bundle().2;
        let (session, clock) = (Rc::downgrade(self), self.broker.clock.clone());
        let watcher = TaskGroup::new();
        watcher.spawn(async move {
            clock.sleep_until(expires).await;
            if let Some(session) = session.upgrade() {
                // What has begun to end ends, whoever ends the session meanwhile.
                drop(capos_rt::spawn(session.expire()));
            }
        });
        drop(self.watcher.replace(watcher));
    }

    /// Revokes what the session was given, once its policy has expired.
    async fn expire(self: Rc<Self>) {
        if self.policy.borrow().valid(self.broker.clock.now()).is_ok() || self.ended.get() {
            return;
        }
        self.policy.borrow_mut().approvals().revoke(None);
        let (kept, over) = self.parts.take().into_iter().partition(is_kept);
        self.parts.replace(kept);
        revoke(&self.broker, &self.info.id, over).await;
        let profile = self.info.profile.name();
        log::info!(
            "session {}: the policy of the {profile} session has expired, and its grants are revoked",
            self.info.id
        );
        let outcome = "the policy has expired: what the session was given is revoked";
        let version = self.policy.borrow().bundle().0.to_string();
        let fields: [(&str, &dyn core::fmt::Display); 2] = [("policy", &version), ("outcome", &outcome)];
        // It has happened.
        if let Err(why) = self.subject().record(&self.broker.blocks.writer, Kind::BrokerDecision, &fields).await {
            log::warning!("session {}: {why}", self.info.id);
        }
    }

    /// What a check of this call needs to know besides it. The size of a file is looked up only if a rule takes it.
    pub(super) async fn at(&self, question: &ToolQuestion) -> At {
        let measured = self.policy.borrow().measures(question);
        let file_bytes = match measured {
            Some(measured) => self.file_bytes(measured).await,
            None => None,
        };
        At { now: self.broker.clock.now(), file_bytes }
    }

    /// Bytes of a file: 0 if there is none, and nothing if that could not be looked up.
    async fn file_bytes(&self, measured: Measured) -> Option<u64> {
        // A guest's directory is no home of its own, so it is looked for among what the session was given.
        let held = |interface| self.given.iter().find(|part| part.interface == interface).map(|part| part.cap.clone());
        let look = async {
            let (directory, path) = match measured {
                Measured::Home(path) => (DirectoryClient::from_cap(held(DirectoryClient::INTERFACE_ID)?), path),
                Measured::Volume(volume, path) => {
                    let volumes = TransferVolumesClient::from_cap(held(TransferVolumesClient::INTERFACE_ID)?);
                    (volumes.open(&volume).await.ok()?, path)
                }
            };
            directory.status(&path, true).await.ok()
        };
        match capos_rt::timeout(LOOK, look).await {
            Ok(Ok(Some(found))) if found.error == FileError::None => Some(found.status.bytes),
            // There is no such file, or the call itself says what is wrong with its path.
            Ok(Ok(Some(_))) => Some(0),
            _ => None,
        }
    }

    /// Takes a bundle of the present settings in place of the one so far.
    ///
    /// # Errors
    /// The session's time is over, its person may have no such session any more, or there is no record.
    pub(super) async fn renew(&self) -> Result<UserSessionRenewPolicyResults, CallError> {
        self.alive()?;
        self.broker.apply_settings().await?;
        self.broker.still(&self.info).await?;
        let renewed = issue(&self.broker, &self.info, self.ends, &self.tools)?;
        let changes = capos_policy::changes(&self.policy.borrow(), &renewed);
        let version = renewed.bundle().0.to_string();
        let fields: [(&str, &dyn core::fmt::Display); 2] = [("policy", &version), ("outcome", &"renewed")];
        self.subject().record(&self.broker.blocks.writer, Kind::BrokerDecision, &fields).await?;
        let mut parts = Vec::new();
        for given in &self.given {
            let cap = derive(&self.broker, &given.cap, given.rights).await?;
            parts.push(Part { cap, name: given.name.clone(), from: given.from.clone(), ..*given });
        }
        // It may have ended meanwhile.
        self.alive()?;
        *self.policy.borrow_mut() = renewed;
        let (kept, over): (Vec<Part>, Vec<Part>) = self.parts.take().into_iter().partition(is_kept);
        parts.extend(kept);
        self.parts.replace(parts);
        revoke(&self.broker, &self.info.id, over).await;
        if let Some(session) = self.own.borrow().upgrade() {
            session.watch();
        }
        Ok(UserSessionRenewPolicyResults { policy: policy_info(&self.policy.borrow()), changes })
    }

    /// What the policy permits.
    pub(super) fn rules(&self) -> UserSessionPolicyResults {
        let policy = self.policy.borrow();
        let valid = policy.bundle().2.saturating_sub(self.broker.clock.now());
        let (valid_seconds, rules) = (valid / 1_000_000_000, capos_policy::listed(&policy));
        UserSessionPolicyResults { policy: policy_info(&policy), valid_seconds, rules }
    }
}
