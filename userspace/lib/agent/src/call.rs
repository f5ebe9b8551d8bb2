//! One proposed call, from look-up to outcome.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::convert::Infallible;

use capos_async_lock::AsyncMutex;
use capos_plural::count;
use capos_run_state::Event;
use capos_schema::annotations::Category;
use capos_schema::audit::{Phase, ToolEvent};
use capos_schema::authority::{ConsentReach, Decision, Label, Reply, Risk, SessionLimits, ToolQuestion};
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::{ModelInfo, Outcome, PermissionMode, ToolCall, ToolDescriptor, ToolResult};
use capos_schema::system::LauncherClient;

use crate::agent::Session;
use crate::agent::known::given;
use crate::asking::{Asks, decided};
use crate::backlog::Backlog;
use crate::budget::{Failures, Reserved};
use crate::course::Course;
use crate::curtain::{Curtain, Line};
use crate::delegate::{Given, Order, delegates};
use crate::evidence::{Allowance, Unexamined, Whole, excerpt, ruling_size, size};
use crate::limits::Bounds;
use crate::race::{Either, race};
use crate::record::Traces;
use crate::result::{Brought, MAX_ERROR, Why, answered, call_of, ended, hash, taken, text, truncate};
use crate::signal::Signal;
use crate::snapshot::{Snapshot, Tool, quote};
use crate::world::{Gate, Review, Ruling, World, field};

pub const NANOSECONDS: u64 = 1_000_000;
/// Bytes of what is wrong with arguments, which quotes them: the parameters that stand behind it are to be read as well.
const QUOTED: usize = 700;

/// What all calls of one response share.
pub struct Context<W: World> {
    pub world: Rc<W>,
    pub session: Rc<Session>,
    pub conversation: String,
    pub turn: u32,
    pub model: ModelInfo,
    pub nonce: Vec<u8>,
    /// Names of the tools that the model saw.
    pub advertised: Vec<String>,
    /// Label of what the model saw, and how many tool results of it were untrusted.
    pub label: Label,
    pub untrusted: usize,
    /// The person wants the turn to end.
    pub cancel: Signal,
    /// What the audit log has not got yet, and calls that still run although their turn is over.
    pub backlog: Rc<Backlog>,
    /// What this turn may still leave in the audit log without the person's word.
    pub allowance: Rc<Allowance>,
    /// Calls of this response that are not looked at.
    pub unexamined: Unexamined,
    /// What is shown when no question is open any more.
    pub curtain: Curtain,
    /// Held while a question of this agent is open.
    pub questions: Rc<AsyncMutex>,
    /// Calls for which a step of the run is reserved.
    pub reserved: Reserved,
    /// How often each tool has failed in this run.
    pub failures: Failures,
    /// Kept elsewhere of its calls.
    pub traces: Traces,
    /// The course of the run.
    pub course: Rc<Course>,
    /// Of a child run: its task.
    pub task: Option<String>,
    /// What the calls of this response may give child runs.
    pub given: Option<Rc<Given>>,
}

/// A proposed call, its id made unique in the conversation.
pub struct Proposal {
    pub call: ToolCall,
    /// Why it is no valid call at all.
    pub flaw: Option<(Outcome, Why)>,
    /// What its arguments were in full, where `call` has only their beginning.
    pub whole: Option<Whole>,
    /// How many calls of the answer follow it of which nothing is kept.
    pub dropped: u64,
}

/// What came of checking a call.
pub enum Checked<W: World> {
    /// It will not run.
    Refused(Refusal),
    /// The person pressed Ctrl-C at a prompt.
    Interrupted(Refusal),
    /// It may run now.
    Ready(Box<Ready<W>>),
    /// The person has to be asked about it.
    Asks(Box<Asks<W>>),
    /// It is decided when the calls before it have ended.
    Waits(Box<Asks<W>>),
}

/// A call that does not run, and why.
pub struct Refusal {
    pub descriptor: ToolDescriptor,
    pub call: ToolCall,
    /// None if the call was refused before the broker decided.
    pub decision: Option<Decision>,
    pub reason: String,
    pub result: ToolResult,
    /// What its arguments were in full, where `call` has only their beginning.
    pub whole: Option<Whole>,
}

/// A call that may run.
pub struct Ready<W: World> {
    pub tool: Tool,
    pub call: ToolCall,
    pub(crate) prepared: W::Prepared,
    pub(crate) question: ToolQuestion,
    pub(crate) ruling: Ruling<<W as Gate>::Lease>,
}

impl<W: World> Context<W> {
    /// Looks the call up, checks its arguments, and asks the broker. Has no effect; what it found is
    /// recorded by [`refuse`](Self::refuse) or [`run`](Self::run). With `waits`, a call before it may still change what the
    /// decision depends on, such as the size of a file: then it is not decided now.
    pub async fn check(&self, snapshot: &Snapshot, proposal: &Proposal, waits: bool) -> Checked<W> {
        let mut call = proposal.call.clone();
        let found = snapshot.find(&call.name, &call.handle);
        if let Some((outcome, why)) = &proposal.flaw {
            let descriptor = found.map_or_else(|_| unknown(&call), |tool| tool.descriptor.clone());
            let refusal = refusal(descriptor, call, None, "not a valid call", *outcome, why.clone());
            return Checked::Refused(Refusal { whole: proposal.whole, ..refusal });
        }
        let tool = match found {
            Ok(tool) => tool,
            Err(why) => {
                let descriptor = unknown(&call);
                return Checked::Refused(refusal(descriptor, call, None, "not advertised", Outcome::UnknownTool, why));
            }
        };
        let prepared = match self.arguments(tool, &mut call) {
            Ok(prepared) => prepared,
            Err(why) => {
                let (why, found) = (truncate(&why, QUOTED), &tool.descriptor);
                let why = format!("{why}; the parameters of {} are {}", found.name, found.param_schema);
                let descriptor = tool.descriptor.clone();
                return Checked::Refused(refusal(descriptor, call, None, "invalid", Outcome::InvalidArguments, why));
            }
        };
        let why = self.limited(tool, &call);
        if !why.is_empty() {
            let descriptor = tool.descriptor.clone();
            return Checked::Refused(refusal(descriptor, call, None, "limit", Outcome::RefusedByPolicy, Why::own(why)));
        }
        if tool.descriptor.permission == PermissionMode::Auto && !self.allowance.take(self.cost(tool, &call)) {
            let why = "what the calls of this turn or session leave in the audit log without the person's word has come to \
                       its limit; the person may ask again";
            let descriptor = tool.descriptor.clone();
            return Checked::Refused(refusal(descriptor, call, None, "limit", Outcome::RefusedByPolicy, why));
        }
        let question = self.question(tool, &call);
        let asks = Asks { tool: tool.clone(), call, prepared, question };
        let review = match self.reviewed(&asks.tool, &asks.question).await {
            Ok(review) => review,
            Err(closed) => return decided(asks, closed),
        };
        if waits && needed(&review).is_ok_and(|wanted| wanted.is_some()) {
            return Checked::Waits(Box::new(asks));
        }
        match self.ruled(&asks.tool, &asks.question, review).await {
            Ok(gated) => decided(asks, gated),
            Err(_) => Checked::Asks(Box::new(asks)),
        }
    }

    /// What the broker is asked about a call.
    pub(crate) fn question(&self, tool: &Tool, call: &ToolCall) -> ToolQuestion {
        ToolQuestion {
            interface_id: tool.descriptor.interface_id,
            method_name: tool.descriptor.method_name.clone(),
            tool: tool.descriptor.name.clone(),
            category: tool.descriptor.category.clone(),
            arguments: call.arguments.clone(),
            conversation: self.conversation.clone(),
            turn: self.turn,
            call_id: call.id.clone(),
            labels: self.label.clone(),
            descriptor: tool.hash().to_vec(),
        }
    }

    /// Bytes of the records of a call that runs: the broker's, that before the effect and that after it.
    fn cost(&self, tool: &Tool, call: &ToolCall) -> usize {
        let event = self.event(Phase::Before, &tool.descriptor, call);
        size(&event).saturating_mul(2).saturating_add(ruling_size(&event))
    }

    fn arguments(&self, tool: &Tool, call: &mut ToolCall) -> Result<W::Prepared, String> {
        let (prepared, canonical) = self.world.prepare(tool, given(call), &self.label)?;
        // From here on the call is exactly what was read, whatever the model's spelling hid.
        call.arguments = canonical;
        if delegates(tool) {
            Order::read(&call.arguments, self.given.as_deref())?;
        }
        Ok(prepared)
    }

    /// The permission that applies to a call, and what the person is told about it. It is the tool's mode or a stricter
    /// one from the broker, so the person is not asked about a call that the broker forbids.
    pub(crate) async fn reviewed(
        &self,
        tool: &Tool,
        question: &ToolQuestion,
    ) -> Result<Review, Gated<<W as Gate>::Lease>> {
        let own = tool.descriptor.permission;
        // A call that only reads and needs no consent needs no review; a forbidden one stays forbidden.
        let only_reads = tool.descriptor.category == Category::ReadOnly.name();
        if own == PermissionMode::Forbidden || (own == PermissionMode::Auto && only_reads) {
            return Ok(Review { mode: own, note: String::new(), approval: String::new(), risk: Risk::Low });
        }
        match self.world.review(question).await {
            Ok(review) => Ok(Review { mode: capos_policy::stricter(own, review.mode), ..review }),
            Err(why) => {
                let why = format!("the authority broker gave no decision: {why}");
                Err(Gated::Closed(None, why.into(), Outcome::RefusedByPolicy))
            }
        }
    }

    /// The decision on a call about which nobody is asked; what to ask about otherwise.
    pub(crate) async fn unasked(
        &self,
        tool: &Tool,
        question: &ToolQuestion,
    ) -> Result<Gated<<W as Gate>::Lease>, Review> {
        match self.reviewed(tool, question).await {
            Ok(review) => self.ruled(tool, question, review).await,
            Err(closed) => Ok(closed),
        }
    }

    /// The decision on a call that was reviewed; the review itself if somebody is to be asked.
    async fn ruled(
        &self,
        tool: &Tool,
        question: &ToolQuestion,
        review: Review,
    ) -> Result<Gated<<W as Gate>::Lease>, Review> {
        let Ok(wanted) = needed(&review) else { return Err(review) };
        let exactly = ConsentReach::default();
        let gated = judge(self.world.decide(question, review.mode, Reply::NotAsked, &exactly).await, wanted);
        if wanted == Some(Decision::Consented) && matches!(gated, Gated::Open(_)) {
            let (name, approval) = (&tool.descriptor.name, &review.approval);
            let text = format!("{name} runs by your answer {approval}; `/approvals revoke {approval}` ends that");
            self.tell(Line::Notice(text)).await;
        }
        Ok(gated)
    }

    /// Records a call that does not run, and shows it.
    pub async fn refuse(&self, refusal: Refusal) -> ToolResult {
        let Refusal { descriptor, call, decision, reason, result, whole } = refusal;
        let mut event = self.event(Phase::Refused, &descriptor, &call);
        event.decided = decision.is_some();
        event.decision = decision.unwrap_or_default();
        event.reason = reason;
        close(&mut event, &result);
        excerpt(&mut event, whole);
        self.allowance.count(size(&event));
        if event.decided {
            self.allowance.count(ruling_size(&event));
        }
        self.write(&event).await;
        self.show_end(&call, &result).await;
        result
    }

    pub(crate) async fn show_end(&self, call: &ToolCall, result: &ToolResult) {
        let text = text(result);
        let (name, call_id, outcome) = (&call.name, &call.id, result.outcome);
        if let Some(proposed) = self.course.settle(call_id) {
            let (tool, status, now) = (name.clone(), outcome.name().to_string(), self.world.now());
            let (latency, call_id, text) = (now.saturating_sub(proposed), call_id.clone(), text.clone());
            self.course.emit(now, Event::ToolCompleted { call_id, tool, status, latency, text });
        }
        let (name, arguments, call_id) = (name.clone(), call.arguments.clone(), call_id.clone());
        self.tell(Line::Finished { name, arguments, call_id, outcome, text }).await;
    }

    /// Runs a call that may run: record, effect, record.
    pub async fn run(self: Rc<Self>, ready: Ready<W>) -> ToolResult {
        let Ready { tool, call, prepared, question, mut ruling } = ready;
        let decision = Some(ruling.decision);
        let turned_away = |outcome: Outcome, why: Why| {
            refusal(tool.descriptor.clone(), call.clone(), decision, &ruling.reason, outcome, why)
        };
        if self.cancel.is_set() {
            return self
                .refuse(turned_away(Outcome::Cancelled, "cancelled by the person before it began".into()))
                .await;
        }
        if self.session.has_expired(self.world.now()) {
            let why = "the session's policy has expired; nothing runs until the person resumes the session";
            return self.refuse(turned_away(Outcome::RefusedByPolicy, why.into())).await;
        }
        if let Some(lease) = ruling.lease.take()
            && let Err(why) = self.world.redeem(lease, &question).await
        {
            // The step-up was granted and is recorded so; what it gave could not be used.
            return self.refuse(turned_away(Outcome::StepUpFailed, why.into())).await;
        }
        if self.cancel.is_set() {
            return self
                .refuse(turned_away(Outcome::Cancelled, "cancelled by the person before it began".into()))
                .await;
        }
        let mut event = self.before(&tool, &call, (ruling.decision, &ruling.reason));
        match self.begin(&event).await {
            Ok(sequence) => event.before = sequence,
            Err(result) => {
                self.show_end(&call, &result).await;
                return result;
            }
        }
        event.phase = Phase::After;
        let result = self.clone().effect(&tool, &call, prepared, &event).await;
        self.failures.known.ended(&tool, &call, &result);
        self.show_end(&call, &result).await;
        self.settle(&call.id).await;
        result
    }

    /// The effect itself and the record of its end.
    async fn effect(
        self: Rc<Self>,
        tool: &Tool,
        call: &ToolCall,
        prepared: W::Prepared,
        event: &ToolEvent,
    ) -> ToolResult {
        let looked = race(self.world.observe(tool, call, prepared), self.cancel.wait()).await;
        let (Either::Left(prepared), false) = (looked, self.cancel.is_set()) else {
            let result = answered(&call.id, Outcome::Cancelled, "cancelled by the person; it did not start");
            return self.after(event, result).await;
        };
        if delegates(tool) {
            return self.delegate(tool, call, event).await;
        }
        let limit = time_limit(&tool.descriptor, &self.session.limits);
        let own_end = self.world.now().saturating_add(u64::from(limit).saturating_mul(NANOSECONDS));
        let deadline = own_end.min(self.session.end());
        let asker = self.asker(call);
        let mut effect = self.world.invoke(tool, prepared, Some(asker.clone()));
        // The effect begins first; that it runs is shown while it does, by a screen that may have to wait.
        let told = async {
            self.course.emit(self.world.now(), Event::ToolStarted { call_id: call.id.clone() });
            self.tell(Line::Started { tool: tool.clone(), call_id: call.id.clone() }).await;
            core::future::pending::<Infallible>().await
        };
        let late = asker.out_of_time(deadline, self.session.end());
        let stop = race(race(self.cancel.wait(), late), told);
        let cause = match race(effect.as_mut(), stop).await {
            Either::Left(mut outcome) => {
                let patch = taken(&mut outcome);
                asker.settled().await;
                let result = self.after(event, self.ended(tool, call, outcome).await).await;
                // That the call has ended is recorded first.
                self.keep_patch(tool, call, patch).await;
                return result;
            }
            Either::Right(Either::Left(cause)) => cause,
            Either::Right(Either::Right(never)) => match never {},
        };
        let abortable = tool.descriptor.abortable;
        match cause {
            Either::Left(()) if abortable => {
                drop(effect);
                asker.settled().await;
                self.after(event, answered(&call.id, Outcome::Cancelled, "cancelled by the person")).await
            }
            Either::Left(()) => {
                self.clone().finish_beside(tool.clone(), effect, deadline, event.clone());
                let why = "cancelled by the person; it cannot be aborted and finishes in the background";
                answered(&call.id, Outcome::Cancelled, why)
            }
            Either::Right(()) => {
                let why = if self.world.now() >= self.session.end() {
                    "the session's time was over before it ended".to_string()
                } else {
                    format!("it did not end within {limit} ms")
                };
                let why = if abortable {
                    drop(effect);
                    asker.settled().await;
                    why
                } else {
                    self.clone().note_late(tool.clone(), effect, event.clone());
                    format!("{why}; it cannot be aborted and may still be running")
                };
                self.after(event, answered(&call.id, Outcome::TimedOut, Why::own(why))).await
            }
        }
    }

    pub(crate) async fn after(&self, event: &ToolEvent, result: ToolResult) -> ToolResult {
        let mut event = event.clone();
        close(&mut event, &result);
        self.write(&event).await;
        result
    }

    /// Lets a cancelled call that cannot be aborted come to its end, which is recorded and goes nowhere else.
    fn finish_beside(
        self: Rc<Self>,
        tool: Tool,
        effect: LocalBoxFuture<'static, Result<Brought, String>>,
        deadline: u64,
        mut event: ToolEvent,
    ) {
        let world = self.world.clone();
        self.backlog.begin();
        world.spawn(Box::pin(async move {
            let (how, patch) = match race(effect, self.world.sleep_until(deadline)).await {
                Either::Left(mut outcome) => {
                    let patch = taken(&mut outcome);
                    let result = ended(&tool, &call_of(&event), outcome);
                    close(&mut event, &result);
                    (result.outcome, patch)
                }
                Either::Right(()) => (Outcome::TimedOut, None),
            };
            event.outcome = Outcome::Cancelled;
            event.error = format!(
                "cancelled by the person; it could not be aborted and ended later: {}; its result was not sent to the model",
                how.name()
            );
            self.write(&event).await;
            self.keep_patch(&tool, &call_of(&event), patch).await;
            self.backlog.end();
        }));
    }

    /// Records the end of a call that ran over its time and could not be aborted.
    fn note_late(
        self: Rc<Self>,
        tool: Tool,
        effect: LocalBoxFuture<'static, Result<Brought, String>>,
        event: ToolEvent,
    ) {
        let (world, late) = (self.world.clone(), self.course.outlasts());
        self.backlog.begin();
        world.spawn(Box::pin(async move {
            let mut outcome = effect.await;
            let (call, patch) = (call_of(&event), taken(&mut outcome));
            let result = ended(&tool, &call, outcome);
            drop(late);
            let general = capos_schema::audit::GeneralEvent {
                kind: "tool.late".to_string(),
                session: event.session,
                principal: event.principal,
                fields: Vec::from([
                    field("before", event.before.to_string()),
                    field("callId", event.call_id),
                    field("tool", tool.descriptor.name.clone()),
                    field("outcome", result.outcome.name()),
                    field("resultHash", crate::conversation::hex(&hash(&text(&result)))),
                ]),
            };
            self.note(general).await;
            self.keep_patch(&tool, &call, patch).await;
            self.backlog.end();
        }));
    }
}

/// How long a call of a tool may take, in milliseconds: as long as the tool says, or as tools of its kind may.
#[must_use]
pub fn time_limit(tool: &ToolDescriptor, limits: &SessionLimits) -> u32 {
    match tool.timeout_ms {
        0 if tool.interface_id == LauncherClient::INTERFACE_ID => limits.program_timeout_ms,
        0 if tool.category == Category::Outbound.name() => limits.outbound_timeout_ms,
        0 => limits.tool_timeout_ms,
        own => own,
    }
}

/// The decision by which a call runs without a question; none if no decision does.
///
/// # Errors
/// Somebody is to be asked.
fn needed(review: &Review) -> Result<Option<Decision>, ()> {
    match review.mode {
        PermissionMode::Auto => Ok(Some(Decision::Auto)),
        PermissionMode::Forbidden => Ok(None),
        PermissionMode::Consent if !review.approval.is_empty() => Ok(Some(Decision::Consented)),
        PermissionMode::Consent | PermissionMode::StepUp => Err(()),
    }
}

/// What came of asking.
pub enum Gated<L> {
    Open(Ruling<L>),
    Closed(Option<Decision>, Why, Outcome),
    Interrupted(Option<Decision>),
}

/// Only exactly the decision that the mode asks for lets a call through.
pub fn judge<L>(ruling: Result<Ruling<L>, String>, wanted: Option<Decision>) -> Gated<L> {
    let ruling = match ruling {
        Ok(ruling) => ruling,
        Err(why) => {
            let why = format!("the authority broker gave no decision: {why}");
            return Gated::Closed(None, why.into(), Outcome::RefusedByPolicy);
        }
    };
    let leased = ruling.decision != Decision::StepUpSucceeded || ruling.lease.is_some();
    if wanted == Some(ruling.decision) && leased {
        return Gated::Open(ruling);
    }
    let outcome = match ruling.decision {
        Decision::StepUpFailed => Outcome::StepUpFailed,
        _ => Outcome::RefusedByPolicy,
    };
    // A ruling that does not fit the mode lets nothing through. It is recorded as the broker recorded it.
    let why = match ruling.decision {
        _ if ruling.reason.is_empty() => "not permitted in this session".into(),
        // What the broker says of a passphrase is made of its constants and of numbers.
        Decision::StepUpFailed => Why::own(ruling.reason),
        _ => Why::Quoted(ruling.reason),
    };
    Gated::Closed(Some(ruling.decision), why, outcome)
}

pub fn refusal(
    descriptor: ToolDescriptor,
    call: ToolCall,
    decision: Option<Decision>,
    reason: &str,
    outcome: Outcome,
    why: impl Into<Why>,
) -> Refusal {
    let result = answered(&call.id, outcome, why);
    Refusal { descriptor, call, decision, reason: truncate(reason, MAX_ERROR), result, whole: None }
}

pub fn close(event: &mut ToolEvent, result: &ToolResult) {
    event.outcome = result.outcome;
    event.error.clone_from(&result.error);
    event.result_hash = hash(&text(result)).to_vec();
    event.label = capos_policy::join(&event.label, &result.label);
}

/// What a record says of a tool that is none of the snapshot: it may not run.
fn unknown(call: &ToolCall) -> ToolDescriptor {
    let (name, handle, permission) = (call.name.clone(), call.handle.clone(), PermissionMode::Forbidden);
    ToolDescriptor { name, handle, permission, ..ToolDescriptor::default() }
}

/// A call that is answered as cancelled because the turn ends.
pub fn cancelled(snapshot: &Snapshot, proposal: &Proposal) -> Refusal {
    let call = &proposal.call;
    let found = snapshot.find(&call.name, &call.handle);
    let descriptor = found.map_or_else(|_| unknown(call), |tool| tool.descriptor.clone());
    let why = "cancelled by the person before it was checked";
    let refusal = refusal(descriptor, call.clone(), None, why, Outcome::Cancelled, why);
    Refusal { whole: proposal.whole, ..refusal }
}

/// What is wrong with a call before anybody looks at its tool.
pub fn flaw(draft: &crate::answer::response::Draft, doubled: bool, bounds: &Bounds) -> Option<(Outcome, Why)> {
    if doubled {
        let why = format!("another call of this response has the id {}; ids must be unique", quote(&draft.id));
        return Some((Outcome::UnknownTool, why.into()));
    }
    if draft.is_cut() {
        let why = format!(
            "the arguments are longer than {}, or those of all calls of this answer than {}; do it in several calls",
            count(bounds.arguments, "byte"),
            bounds.all_arguments
        );
        return Some((Outcome::InvalidArguments, Why::own(why)));
    }
    (draft.dropped > 0).then(|| {
        let why = format!("its name, id or handle is longer than {}", count(bounds.name, "byte"));
        (Outcome::UnknownTool, Why::own(why))
    })
}
