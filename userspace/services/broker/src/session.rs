//! A session, as its holder sees it.

use alloc::format;
use alloc::rc::{Rc, Weak};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_audit::Kind;
use capos_broker::approvals::{ApprovalObject, Asked, number_text, recorded};
use capos_broker::in_force::InForce;
use capos_broker::lease::LeaseObject;
use capos_broker::memory_budget::Share;
use capos_broker::model;
use capos_broker::permit::Permit;
use capos_broker::session_bundle;
use capos_keyspace::Durability;
use capos_policy::{Answer, Explanation, Gate, GrantedTool, Review, SessionPolicy, unagreed};
use capos_rt::{TaskGroup, log};
use capos_schema::authority::{
    ApprovalClientClient, BackupsClient, ConsentReach, Decision, LeaseClient, MachineSetupClient, NamedGrant, Profile,
    Reply, Risk, SessionInfo, SettingsClient, ToolPermission, ToolQuestion, UserSessionBeginPartResults,
    UserSessionBeginRunResults, UserSessionBudgetResults, UserSessionBundleResults, UserSessionDecideResults,
    UserSessionExplainResults, UserSessionModelResults, UserSessionPolicyResults, UserSessionRenewPolicyResults,
    UserSessionReviewResults, UserSessionServer, UserSessionStepUpResults, UserSessionUnlockResults, UsersClient,
};
use capos_schema::cap::{CallContext, CallError, Cap, Client, Rights};
use capos_schema::conversations::ConversationStoreClient;
use capos_schema::kernel::ObjectClient;
use capos_schema::models::{ModelInfo, PermissionMode};
use capos_schema::storage::DirectoryClient;
use capos_schema::store::KeyKind;
use capos_schema::system::{LauncherClient, ProgramApprovalClient};

use crate::administration::{Operator, SetupObject};
use crate::broker::Broker;
use crate::capability_pool::Part;
use crate::decision::Subject;
use crate::in_use::InUse;
use crate::metered::Meter;
use crate::run::Counter;

mod part;
mod policy;

use policy::{grant_runner_tools, grant_tools, issue, policy_info};

/// Leases that one session can hold, those that were used or are over among them.
const LEASES: u32 = 8;
/// Bytes of the longest name in a question: of a tool, a method, a call.
const NAME: usize = 256;

/// A session.
pub struct Session {
    broker: Rc<Broker>,
    info: SessionInfo,
    policy: Rc<RefCell<SessionPolicy>>,
    /// What the session was given; each derives from what the broker holds, or was made for it.
    parts: RefCell<Vec<Part>>,
    /// What those derive from that end with the policy bundle, and are given again with the next.
    given: Vec<Part>,
    /// The tools of what it was given.
    tools: Vec<GrantedTool>,
    /// When its time is over, in nanoseconds since boot.
    ends: u64,
    /// The principal's own home, which stays when the session has ended.
    home: Option<DirectoryClient>,
    asked: Rc<Asked>,
    approvals: ApprovalClientClient,
    /// What an operator manages the machine with.
    administration: Option<(UsersClient, SettingsClient, BackupsClient)>,
    /// What an operator sets the machine up with, as long as its blank disk waits.
    setup: Option<MachineSetupClient>,
    meter: Rc<Meter>,
    /// Counts what the session and its run use.
    counter: Rc<Counter>,
    /// Leases that somebody holds, and parts.
    leases: Rc<Cell<u32>>,
    held_parts: Rc<Cell<u32>>,
    /// Shared with the leases and the meter, which end with the session.
    ended: Rc<Cell<bool>>,
    /// Of the room for all that is asked but of models.
    share: Rc<Share>,
    _open: Permit,
    /// The session itself, for what outlasts a call.
    own: RefCell<Weak<Self>>,
    /// Waits for the end of the policy.
    watcher: RefCell<TaskGroup>,
    /// Until it has ended, and its end was observed.
    in_use: RefCell<Option<InUse>>,
}

impl Session {
    /// Opens a session.
    ///
    /// # Errors
    /// There is no room for its capabilities.
    pub async fn open(
        (broker, open, share): (Rc<Broker>, Permit, Rc<Share>),
        info: SessionInfo,
    ) -> Result<Rc<Self>, CallError> {
        let in_use = InUse::new(&broker, &info.principal);
        let profile = info.profile;
        let config = broker.config();
        let rules = config.policy.profile(profile);
        let mut tools: Vec<GrantedTool> = Vec::new();
        let (mut parts, mut givens) = (Vec::new(), Vec::new());
        let mut home: Option<(String, DirectoryClient)> = None;
        let mut programs = None;
        let quota = broker.quota_of(&info).await?;
        let (found, notice) = broker.blocks.parts(profile, &info.principal, &quota).await;
        for part in found {
            grant_tools(&mut tools, part.interface, part.read_only);
            let given = if part.interface == LauncherClient::INTERFACE_ID {
                // The runner serves it to the programs, and no session holds it.
                grant_tools(&mut tools, ProgramApprovalClient::INTERFACE_ID, false);
                let (from, directory) = home.as_ref().map_or(("", None), |(from, home)| (from.as_str(), Some(home)));
                let launcher = LauncherClient::from_cap(part.cap.clone());
                let made = launcher.for_session(from, directory).await?;
                programs = Some(made.meter);
                made.launcher.into_cap()
            } else {
                part.cap.clone()
            };
            let cap = derive(&broker, &given, part.rights).await?;
            if part.is_home {
                home = Some((part.from.clone(), DirectoryClient::from_cap(part.cap.clone())));
            }
            givens.push(Part { cap: given, name: part.name.clone(), from: part.from.clone(), ..part });
            parts.push(Part { cap, ..part });
        }
        let asked: Rc<Asked> = Rc::default();
        let (counter, limits) = Counter::open((&broker, &share), &info, &rules, (programs, home.is_some())).await?;
        let ends = broker.clock.now().saturating_add(limits.max_seconds.saturating_mul(1_000_000_000));
        let model_allowed = rules.model != capos_policy::ModelAccess::None;
        let lock_seconds = if info.user { broker.config().lock_minutes.saturating_mul(60) } else { 0 };
        let telemetry = broker.config().telemetry;
        let info = SessionInfo { limits, model_allowed, lock_seconds, notice, telemetry, ..info };
        // Without a data volume there are no users.
        let is_operator = info.user && profile == Profile::Operator;
        if is_operator {
            grant_tools(&mut tools, UsersClient::INTERFACE_ID, false);
            grant_tools(&mut tools, SettingsClient::INTERFACE_ID, false);
            grant_tools(&mut tools, BackupsClient::INTERFACE_ID, false);
        }
        let sets_up = profile == Profile::Operator && !info.user && broker.waits_for_setup().await;
        if sets_up {
            grant_tools(&mut tools, MachineSetupClient::INTERFACE_ID, false);
        }
        if model_allowed {
            grant_runner_tools(&mut tools, profile);
        }
        let policy = issue(&broker, &info, ends, &tools)?;
        let info = SessionInfo { policy: policy_info(&policy), ..info };
        let policy = Rc::new(RefCell::new(policy));
        let in_force = InForce::new(policy.clone(), broker.clock.clone());
        let administration = if is_operator {
            let operator =
                Operator { broker: broker.clone(), name: info.principal.clone(), in_force: in_force.clone() };
            Some(operator.objects(&broker.server.of(&share))?)
        } else {
            None
        };
        let setup = if sets_up {
            let setup = SetupObject { broker: broker.clone(), principal: info.principal.clone(), in_force };
            Some(MachineSetupClient::serve(&broker.server.of(&share), Rc::new(setup))?)
        } else {
            None
        };
        let object = ApprovalObject { asked: asked.clone(), policy: policy.clone() };
        let approvals = ApprovalClientClient::serve(&broker.server.of(&share), Rc::new(object))?;
        let ended: Rc<Cell<bool>> = Rc::default();
        let meter = Meter::new(broker.clone(), info.clone(), policy.clone(), ends, ended.clone());
        let session = Rc::new(Self {
            broker,
            info,
            policy,
            parts: RefCell::new(parts),
            given: givens,
            tools,
            ends,
            home: home.map(|(_, directory)| directory),
            asked,
            approvals,
            administration,
            setup,
            meter,
            counter,
            leases: Rc::default(),
            held_parts: Rc::default(),
            ended,
            share,
            _open: open,
            own: RefCell::default(),
            watcher: RefCell::default(),
            in_use: RefCell::new(Some(in_use)),
        });
        session.own.replace(Rc::downgrade(&session));
        session.watch();
        Ok(session)
    }

    fn subject(&self) -> Subject<'_> {
        Subject { session: &self.info.id, principal: &self.info.principal }
    }

    /// Adds the principal's conversations to what the session was given, once they can be had: not while the volume is locked.
    async fn add_conversations(&self) -> Result<(), CallError> {
        let interface = ConversationStoreClient::INTERFACE_ID;
        if self.parts.borrow().iter().any(|part| part.interface == interface) {
            return Ok(());
        }
        let SessionInfo { profile, principal, .. } = &self.info;
        let Some(part) = self.broker.blocks.conversations(*profile, principal).await else { return Ok(()) };
        let cap = derive(&self.broker, &part.cap, part.rights).await?;
        // It may have ended meanwhile.
        self.alive()?;
        self.parts.borrow_mut().push(Part { cap, ..part });
        Ok(())
    }

    /// Nothing is answered once the session is over.
    fn alive(&self) -> Result<(), CallError> {
        self.meter.alive()
    }

    /// One more lease that the session holds.
    ///
    /// # Errors
    /// It holds as many as it may.
    fn hold_lease(&self) -> Result<Permit, CallError> {
        if self.leases.get() > 0 {
            // Those without a holder are found by a sweep.
            self.broker.server.sweep();
        }
        Permit::acquire(&self.leases, LEASES)
            .ok_or_else(|| CallError::overloaded(format!("this session holds {LEASES} leases; release one first")))
    }

    /// Records a decision and remembers what the person was asked, if the question has a number.
    async fn settle(
        &self,
        question: &ToolQuestion,
        mode: PermissionMode,
        risk: Risk,
        (decision, reason, number): (Decision, &str, u64),
    ) -> Result<(), CallError> {
        let version = self.policy.borrow().bundle().0.to_string();
        let writer = &self.broker.blocks.writer;
        let subject = self.subject();
        let record = subject.decided(writer, question, (mode, risk, &version), decision, reason);
        recorded(&self.policy, number, record).await?;
        // A call that an earlier consent covers is no question of its own.
        if number > 0 {
            self.asked.add(number, question, risk, (decision, reason), &self.policy.borrow());
        }
        Ok(())
    }

    /// Ends all objects that were made for the session. Their callers learn that it has ended.
    fn end_objects(&self) {
        for id in self.meter.share().take_exported() {
            self.broker.models.unexport_id(id);
        }
        for id in self.share.take_exported() {
            self.broker.server.unexport_id(id);
        }
    }

    /// Begins the end, which a caller has asked for or which follows from the loss of its holder: true once.
    fn begin_end(&self, is_lost: bool) -> bool {
        if self.ended.replace(true) {
            return false;
        }
        self.policy.borrow_mut().end();
        drop(self.watcher.take());
        self.broker.rates.borrow_mut().end_session(&self.info.id);
        if is_lost {
            self.broker.budgets.borrow_mut().lose_session(&self.info.id);
        } else {
            self.broker.budgets.borrow_mut().close_session(&self.info.id);
        }
        self.end_objects();
        true
    }
}

/// Revokes what a session was given.
async fn revoke(broker: &Broker, session: &str, parts: Vec<Part>) {
    for part in &parts {
        if let Err(why) = broker.blocks.table.revoke(part.cap.id()).await {
            log::warning!("a capability of session {session} could not be revoked: {why}");
        }
    }
}

impl Drop for Session {
    /// It has no holder, and was not ended: its holder is gone.
    fn drop(&mut self) {
        if !self.begin_end(true) {
            // What was given behind its end.
            self.end_objects();
            return;
        }
        let (broker, info, parts) = (self.broker.clone(), self.info.clone(), self.parts.take());
        let in_use = self.in_use.take();
        broker.keep_later();
        drop(capos_rt::spawn(async move {
            revoke(&broker, &info.id, parts).await;
            drop(in_use);
            let subject = Subject { session: &info.id, principal: &info.principal };
            let fields: [(&str, &dyn core::fmt::Display); 1] = [("outcome", &"its last holder ended")];
            // No caller is left to tell.
            if let Err(why) = subject.record(&broker.blocks.writer, Kind::SessionEnd, &fields).await {
                log::warning!("session {}: {why}", info.id);
            }
        }));
    }
}

/// A name is told and recorded, with marks for what cannot be shown: one that is too long is refused before that.
fn named(what: &str, name: &str) -> Result<(), CallError> {
    if name.len() > NAME {
        return Err(CallError::invalid_argument(format!("{what} has at most {NAME} bytes, and not {}", name.len())));
    }
    Ok(())
}

/// Whether all names in a question are short enough; its arguments may be long.
fn bounded(question: &ToolQuestion) -> Result<(), CallError> {
    let ToolQuestion { tool, method_name, conversation, call_id, category, .. } = question;
    named("a tool's name", tool)?;
    named("a method's name", method_name)?;
    named("a conversation's name", conversation)?;
    named("a call's name", call_id)?;
    named("a category's name", category)
}

/// A copy of a capability for one session: revoking it takes it from the session alone.
async fn derive(broker: &Broker, cap: &Cap, rights: Rights) -> Result<Cap, CallError> {
    let id = broker.blocks.table.derive(cap.id(), rights.0).await?;
    Ok(capos_rt::adopt::<ObjectClient>(id).into_cap())
}

/// A grant that was made for the session.
fn made<C: Client>(name: &str, client: C) -> NamedGrant {
    NamedGrant {
        name: name.to_string(),
        capability: ObjectClient::from_cap(client.into_cap()),
        interface: C::INTERFACE_ID,
        from: String::new(),
        read_only: false,
    }
}

impl UserSessionServer for Session {
    async fn info(&self, _cx: &CallContext) -> Result<SessionInfo, CallError> {
        Ok(SessionInfo { policy: policy_info(&self.policy.borrow()), ..self.info.clone() })
    }

    async fn bundle(&self, _cx: &CallContext, from: u16) -> Result<UserSessionBundleResults, CallError> {
        self.alive()?;
        if from == 0 {
            self.add_conversations().await?;
        }
        let mut grants: Vec<NamedGrant> = self
            .parts
            .borrow()
            .iter()
            .map(|part| NamedGrant {
                name: part.name.clone(),
                capability: ObjectClient::from_cap(part.cap.clone()),
                interface: part.interface,
                from: part.from.clone(),
                read_only: part.read_only,
            })
            .collect();
        grants.push(made("approvals", self.approvals.clone()));
        if let Some((users, settings, backups)) = self.administration.clone() {
            grants.extend([made("users", users), made("settings", settings), made("backups", backups)]);
        }
        grants.extend(self.setup.clone().map(|setup| made("setup", setup)));
        let (mut grants, next, total) = session_bundle::from(grants, from);
        if from > 0 {
            return Ok(UserSessionBundleResults { grants, next, total });
        }
        // A log that restarted knows no earlier writer, so each bundle brings one of its own. Without a writer the
        // session continues and runs no tool.
        match self.broker.blocks.audit.writer(&self.info.id).await {
            Ok(writer) => grants.push(made("audit_writer", writer)),
            Err(why) => log::warning!("session {} has no audit writer: {why}", self.info.id),
        }
        Ok(UserSessionBundleResults { grants, next, total })
    }

    async fn permissions(
        &self,
        _cx: &CallContext,
        tools: Vec<ToolPermission>,
    ) -> Result<Vec<ToolPermission>, CallError> {
        self.alive()?;
        let policy = self.policy.borrow();
        Ok(tools
            .into_iter()
            .map(|mut tool| {
                policy.fill_in(&mut tool);
                tool
            })
            .collect())
    }

    async fn review(&self, _cx: &CallContext, question: ToolQuestion) -> Result<UserSessionReviewResults, CallError> {
        self.alive()?;
        bounded(&question)?;
        let at = self.at(&question).await;
        let Review { mode, reason, note, approved, risk } = self.policy.borrow().review(&question, &at);
        let approval = approved.map(number_text).unwrap_or_default();
        let (mode, reason, note) = self.foreseen(&question, (mode, reason, note)).await;
        Ok(UserSessionReviewResults { mode, reason, note, approval, risk })
    }

    async fn decide(
        &self,
        _cx: &CallContext,
        question: ToolQuestion,
        mode: PermissionMode,
        reply: Reply,
        reach: ConsentReach,
    ) -> Result<UserSessionDecideResults, CallError> {
        self.alive()?;
        bounded(&question)?;
        named("a consent's pattern", &reach.pattern)?;
        let answer = Answer::of(reply, reach);
        let at = self.at(&question).await;
        let Review { mode: permitted, risk, .. } = self.policy.borrow().review(&question, &at);
        let number = self.asked.number(reply != Reply::NotAsked);
        let (decision, mut reason) = self.policy.borrow_mut().decide(&question, (mode, &at), &answer, number);
        if reply != Reply::Agreed && matches!(decision, Decision::Denied | Decision::StepUpFailed) {
            reason = unagreed(reply, mode).to_string();
        }
        // The reason that the review gave. If the policy itself forbids the call, that is the reason.
        if mode == PermissionMode::Forbidden
            && permitted != PermissionMode::Forbidden
            && let Err(why) = self.consequence(&question).await
        {
            reason = why;
        }
        self.settle(&question, mode, risk, (decision, &reason, number)).await?;
        Ok(UserSessionDecideResults { decision, reason })
    }

    async fn unlock(&self, _cx: &CallContext, passphrase: String) -> Result<UserSessionUnlockResults, CallError> {
        self.alive()?;
        let why = self.broker.try_passphrase_of(&self.info, &passphrase).await.err();
        self.broker.record_key("unlockTerminal", (&self.info.principal, Some(KeyKind::Passphrase)), why.clone()).await;
        Ok(UserSessionUnlockResults { valid: why.is_none(), why: why.unwrap_or_default() })
    }

    async fn step_up(
        &self,
        _cx: &CallContext,
        question: ToolQuestion,
        passphrase: String,
    ) -> Result<UserSessionStepUpResults, CallError> {
        self.alive()?;
        bounded(&question)?;
        let held = self.hold_lease()?;
        let mode = PermissionMode::StepUp;
        let at = self.at(&question).await;
        let risk = self.policy.borrow().review(&question, &at).risk;
        let gate = self.policy.borrow().gate_at_least(&question, mode, &at);
        let (decision, reason) = match gate {
            Gate::Shut { reason } => (Decision::Forbidden, reason),
            _ => match self.broker.try_passphrase_of(&self.info, &passphrase).await {
                // A key takes its time, and the policy may have expired meanwhile.
                Ok(()) => match self.policy.borrow().valid(self.broker.clock.now()) {
                    Ok(()) => (Decision::StepUpSucceeded, String::new()),
                    Err(why) => (Decision::Forbidden, why),
                },
                Err(why) => (Decision::StepUpFailed, why),
            },
        };
        self.settle(&question, mode, risk, (decision, &reason, self.asked.number(true))).await?;
        // It may have ended meanwhile.
        self.alive()?;
        let lease = if decision == Decision::StepUpSucceeded {
            let lease = LeaseObject::new(
                &self.info.id,
                &question,
                self.broker.clock.clone(),
                self.ended.clone(),
                self.policy.borrow().bundle().2,
            );
            let lease = lease.held(held);
            Some(LeaseClient::serve(&self.broker.server.of(&self.share), Rc::new(lease))?)
        } else {
            None
        };
        Ok(UserSessionStepUpResults { decision, reason, lease })
    }

    async fn model(&self, _cx: &CallContext, id: String) -> Result<UserSessionModelResults, CallError> {
        self.alive()?;
        let (model, info) = self.open_model(&self.meter, id).await?;
        Ok(UserSessionModelResults { model, info })
    }

    async fn models(&self, _cx: &CallContext) -> Result<Vec<ModelInfo>, CallError> {
        self.alive()?;
        let rules = self.policy.borrow().rules().clone();
        model::allowed(&self.broker.blocks.catalog, &rules).await
    }

    async fn remaining(&self, _cx: &CallContext) -> Result<u64, CallError> {
        self.alive()?;
        self.meter.left()
    }

    async fn begin_run(
        &self,
        _cx: &CallContext,
        conversation: String,
        turn: u32,
        least_tokens: u64,
        most_tokens: u64,
        used: Vec<u64>,
    ) -> Result<UserSessionBeginRunResults, CallError> {
        self.alive()?;
        let (run, answer) =
            self.begin_counted(&self.counter, (&conversation, turn), (least_tokens, most_tokens), &used).await?;
        Ok(UserSessionBeginRunResults { run, answer })
    }

    async fn budget(&self, _cx: &CallContext) -> Result<UserSessionBudgetResults, CallError> {
        self.alive()?;
        let (lines, steps) = self.counter.lines().await;
        Ok(UserSessionBudgetResults { lines, steps })
    }

    async fn renew_policy(&self, _cx: &CallContext) -> Result<UserSessionRenewPolicyResults, CallError> {
        self.renew().await
    }

    async fn policy(&self, _cx: &CallContext) -> Result<UserSessionPolicyResults, CallError> {
        Ok(self.rules())
    }

    async fn begin_part(&self, _cx: &CallContext, number: u32) -> Result<UserSessionBeginPartResults, CallError> {
        self.alive()?;
        self.part(number).await
    }

    async fn explain(&self, _cx: &CallContext, question: ToolQuestion) -> Result<UserSessionExplainResults, CallError> {
        self.alive()?;
        bounded(&question)?;
        let at = self.at(&question).await;
        let Explanation { steps, review, .. } = self.policy.borrow().explain(&question, &at);
        self.subject().checked(&self.broker, &question, &review).await?;
        let Review { mode, reason, risk, .. } = review;
        Ok(UserSessionExplainResults { steps, mode, reason, risk })
    }

    async fn end(&self, _cx: &CallContext) -> Result<(), CallError> {
        if !self.begin_end(false) {
            return Ok(());
        }
        revoke(&self.broker, &self.info.id, self.parts.take()).await;
        let recorded = self.subject().record(&self.broker.blocks.writer, Kind::SessionEnd, &[]).await;
        // The next session of this principal begins with a budget of its own.
        if let Err(why) = self.broker.keep(Durability::Now).await {
            log::warning!("{why}");
        }
        let in_use = self.in_use.take();
        if let Some(observer) = self.broker.blocks.observer.clone() {
            let (session, home) = (self.info.id.clone(), self.home.clone());
            // The session has ended whatever the observer does with it; no caller waits for that.
            drop(capos_rt::spawn(async move {
                let home = match home {
                    Some(home) => home.read_only().await.ok(),
                    None => None,
                };
                match observer.ended(&session, home.as_ref()).await {
                    Ok(()) => {}
                    // The exporter is there in a scenario only.
                    Err(error) if error.is_disconnected() => {
                        log::debug!("the ends of sessions are not observed: {error}")
                    }
                    Err(error) => log::info!("the observer rejected the end of session {session}: {error}"),
                }
                drop(in_use);
            }));
        }
        recorded
    }
}
