//! The run of a session, as its runner holds it.

mod child;
mod gauges;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt::Display;

use capos_audit::Kind;
use capos_broker::budgets::{self, Line, Opening, Starting, notice};
use capos_broker::memory_budget::Share;
use capos_budget::{
    Amounts, Crossed, Dimension, Estimate, Exceeded, Judged, OnExceed, Plan, Refused, ScopeId, ScopeKind, Ticket,
    UNLIMITED,
};
use capos_keyspace::Durability;
use capos_policy::{ProfileRules, SessionPolicy, dimension as dimension_of};
use capos_rt::log;
use capos_schema::authority::{
    BudgetAnswer, BudgetDimension, BudgetLine, BudgetPolicy, BudgetStep, Profile, Reply, RunClient, RunExtendResults,
    RunServer, RunSplitResults, RunUsedResults, SessionInfo, SessionLimits,
};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::system::ProgramMeterClient;

use crate::broker::Broker;
use crate::decision::Subject;
use gauges::Gauges;

/// Calls of a run that can be in progress at one time.
const CALLS: usize = 256;
/// Bytes of the longest name of a tool.
const NAME: usize = 256;
/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

fn to_schema(dimension: Dimension) -> BudgetDimension {
    BudgetDimension::ALL.iter().copied().find(|known| dimension_of(*known) == dimension).unwrap_or_default()
}

/// What the budgets of one session are counted by.
pub struct Counter {
    pub broker: Rc<Broker>,
    pub info: SessionInfo,
    pub gauges: Rc<Gauges>,
    /// Of the room for what the session is asked, in which its runs are.
    pub share: Rc<Share>,
    /// Of each run: that of the login, whatever policy the session takes later.
    runs: Plan,
    /// By what name it is counted: the session's id, or that of a part of it.
    key: String,
    is_part: bool,
}

impl Counter {
    /// Begins the budget of a session with these rules, which has this meter of programs, and a home of its own perhaps. Returns
    /// the session's limits too: one that continues a lost one has the rest of its time.
    ///
    /// # Errors
    /// There is such a session already.
    pub async fn open(
        (broker, share): (&Rc<Broker>, &Rc<Share>),
        info: &SessionInfo,
        rules: &ProfileRules,
        (programs, has_home): (Option<ProgramMeterClient>, bool),
    ) -> Result<(Rc<Self>, SessionLimits), CallError> {
        let at = broker.moment();
        let opening = Opening {
            id: &info.id,
            principal: &info.principal,
            profile: info.profile,
            plan: rules.budgets.session(&rules.limits),
            principal_tokens: rules.principal_tokens,
        };
        let opened = broker.budgets.borrow_mut().open_session(&opening, at);
        opened.map_err(|refused| CallError::failed(budgets::refusal(&refused)))?;
        let mut limits = rules.limits.clone();
        limits.max_seconds = limits.max_seconds.saturating_sub(broker.budgets.borrow().age(&info.id, at) / 1000);
        let homes = broker.blocks.homes.clone().filter(|_| has_home);
        let volumes = broker.blocks.volumes().ok().filter(|_| info.profile == Profile::Operator);
        let gauges = Gauges::new(programs, (homes, &info.principal), volumes);
        let (share, runs) = (share.clone(), rules.budgets.run());
        let (key, is_part) = (info.id.clone(), false);
        let counter = Rc::new(Self { broker: broker.clone(), info: info.clone(), gauges, share, runs, key, is_part });
        counter.look().await;
        counter.bind().await;
        Ok((counter, limits))
    }

    /// Begins a part of the session with this number, which is counted for itself. Its services are counted together with the
    /// session's.
    ///
    /// # Errors
    /// The session has ended, or has a part with this number.
    pub fn part(&self, number: u32) -> Result<Rc<Self>, Refused> {
        let key = self.broker.budgets.borrow_mut().begin_part(&self.key, number, self.broker.moment())?;
        let (broker, info, gauges, share) =
            (self.broker.clone(), self.info.clone(), self.gauges.clone(), self.share.clone());
        Ok(Rc::new(Self { broker, info, gauges, share, runs: self.runs, key, is_part: true }))
    }

    /// By what name it is counted.
    pub fn key(&self) -> &str {
        &self.key
    }

    fn names(&self) -> (&str, &str) {
        (&self.key, &self.info.principal)
    }

    async fn record(&self, kind: Kind, fields: &[(&str, &dyn Display)]) -> Result<(), CallError> {
        let subject = Subject { session: &self.info.id, principal: &self.info.principal };
        subject.record(&self.broker.blocks.writer, kind, fields).await
    }

    /// The same for what has happened already.
    async fn note(&self, kind: Kind, fields: &[(&str, &dyn Display)]) {
        if let Err(why) = self.record(kind, fields).await {
            log::warning!("session {}: {why}", self.info.id);
        }
    }

    /// Counts what services have counted since the last look. Returns it.
    pub async fn look(&self) -> Amounts {
        let used = self.gauges.look().await;
        if !used.is_nothing() {
            self.broker.budgets.borrow_mut().charge(self.names(), used);
        }
        used
    }

    /// Has programs end when the budgets are used up.
    pub async fn bind(&self) {
        let left = self.broker.budgets.borrow_mut().left_together(&self.key, self.broker.moment());
        self.gauges.bind(left).await;
    }

    /// Records the thresholds that were reached, and returns what the person is told of them.
    async fn tell(&self, crossed: Vec<(ScopeKind, Crossed)>) -> Vec<String> {
        let mut notices = Vec::new();
        for (kind, crossed) in crossed {
            let Crossed { dimension, percent, used, limit, on_exceed } = crossed;
            let fields: [(&str, &dyn Display); 6] = [
                ("scope", &kind.name()),
                ("dimension", &dimension.name()),
                ("percent", &percent),
                ("used", &used),
                ("limit", &limit),
                ("onExceed", &on_exceed.name()),
            ];
            self.note(Kind::BudgetWarning, &fields).await;
            notices.extend(notice(kind, &crossed));
        }
        notices
    }

    async fn told(&self) -> Vec<String> {
        let crossed = self.broker.budgets.borrow_mut().crossed(&self.key);
        self.tell(crossed).await
    }

    /// What a step is told that may not begin.
    async fn refuse(&self, refused: Refused) -> BudgetAnswer {
        let exceeded = budgets::refusal(&refused);
        let Refused::Exceeded(why) = refused else { return BudgetAnswer { exceeded, ..BudgetAnswer::default() } };
        if self.broker.budgets.borrow_mut().is_news(&self.key, &why) {
            let Exceeded { kind, dimension, used, limit, need, on_exceed, .. } = &why;
            let code = if *dimension == Dimension::Tokens { "LLM_BUDGET_EXCEEDED" } else { "BUDGET_EXCEEDED" };
            let fields: [(&str, &dyn Display); 7] = [
                ("code", &code),
                ("scope", &kind.name()),
                ("dimension", &dimension.name()),
                ("used", used),
                ("limit", limit),
                ("need", need),
                ("onExceed", &on_exceed.name()),
            ];
            self.note(Kind::BudgetExceeded, &fields).await;
        }
        let is_child = self.broker.budgets.borrow().child_of(&self.key).is_some();
        let asks = why.on_exceed == OnExceed::Ask && why.kind != ScopeKind::Principal && !is_child && !self.is_part;
        BudgetAnswer {
            number: 0,
            notices: self.told().await,
            exceeded: if asks { budgets::question(&why) } else { exceeded },
            asks,
            session: why.kind == ScopeKind::Session,
            dimension: to_schema(why.dimension),
            suggested: why.suggested(),
        }
    }

    /// Begins a run.
    ///
    /// # Errors
    /// The session has ended, or the audit log takes no record.
    pub async fn begin(
        self: &Rc<Self>,
        (conversation, turn): (&str, u32),
        (least, most): (u64, u64),
        (used, policy): (&[u64], &Rc<RefCell<SessionPolicy>>),
    ) -> Result<(Option<Rc<RunObject>>, BudgetAnswer), CallError> {
        // What the person has done by hand counts for the session.
        self.look().await;
        let (id, at, plan) = (&self.key, self.broker.moment(), self.runs);
        let tokens = |amount| Amounts::of(Dimension::Tokens, amount);
        let estimate = Estimate { least: tokens(least), most: tokens(most) };
        let name = format!("{conversation}-{turn}");
        let starting = Starting { name: &name, plan, estimate, used: amounts(used) };
        let begun = self.broker.budgets.borrow_mut().begin_run(id, &starting, at);
        begun.map_err(CallError::invalid_argument)?;
        let scope = self.broker.budgets.borrow().run_of(id);
        let left = self.broker.budgets.borrow_mut().left(id, at);
        let judged = estimate.judge(left);
        let limits = text(plan.limits());
        let verdict = match judged {
            Judged::Fits => "fits",
            Judged::Tight(_) => "may exceed what is left",
            Judged::Blocked(_) => "exceeds what is left",
        };
        let fields: [(&str, &dyn Display); 6] = [
            ("conversation", &conversation),
            ("turn", &turn),
            ("limits", &limits),
            ("left", &text(left)),
            ("estimate", &format_args!("tokens={least}..{most}")),
            ("judged", &verdict),
        ];
        if let Err(why) = self.record(Kind::BudgetBegin, &fields).await {
            // A later run of the session has begun if this took long.
            if self.broker.budgets.borrow().run_of(id) == scope {
                self.broker.budgets.borrow_mut().end_run(id, false, self.broker.moment());
            }
            return Err(why);
        }
        self.bind().await;
        let checked = self.broker.budgets.borrow_mut().check(id, &tokens(least), at);
        let mut answer = match checked {
            Ok(()) => BudgetAnswer::default(),
            Err(refused) => self.refuse(refused).await,
        };
        if let Judged::Tight(dimension) = judged {
            let (least, most) = (dimension.text(least), dimension.text(most));
            let left = dimension.text(left.get(dimension));
            answer.notices.push(format!(
                "the next request takes {least} to {most} {}, and {left} are left; /budget shows all",
                dimension.title()
            ));
        }
        if !self.is_part {
            policy.borrow_mut().approvals().begin_turn(conversation, turn);
        }
        let consents = Consents { policy: policy.clone(), conversation: conversation.to_string(), turn };
        let mut run = RunObject::new(self.clone(), scope, (least, most), consents);
        run.beside = self.is_part.then(|| conversation.to_string());
        if !answer.exceeded.is_empty() && !answer.asks {
            if let Some((_, fields)) = run.finish("not begun", false) {
                record_end(self, &fields).await;
            }
            return Ok((None, answer));
        }
        Ok((Some(Rc::new(run)), answer))
    }

    /// What `/budget` shows.
    pub async fn lines(&self) -> (Vec<BudgetLine>, Vec<BudgetStep>) {
        self.look().await;
        let mut budgets = self.broker.budgets.borrow_mut();
        let found = budgets.lines(&self.key, self.broker.moment());
        let line = |line: Line| BudgetLine {
            scope: match line.child.as_str() {
                "" => line.scope.name().to_string(),
                number => format!("{} {number}", line.scope.name()),
            },
            dimension: to_schema(line.dimension),
            used: line.used,
            reserved: line.reserved,
            limit: line.limit,
            policy: match line.on_exceed {
                OnExceed::Stop => BudgetPolicy::Stop,
                OnExceed::Ask => BudgetPolicy::Ask,
                OnExceed::Warn => BudgetPolicy::Warn,
            },
            unmeasured: self.gauges.unmeasured(line.dimension).to_string(),
        };
        let amounts = |amounts: Amounts| amounts.iter().map(|(_, amount)| amount).collect();
        let steps = budgets.steps(&self.key).iter().map(|step| BudgetStep {
            number: step.number,
            name: step.name.clone(),
            prompt_tokens: step.prompt_tokens,
            answer_tokens: step.answer_tokens,
            used: amounts(step.used),
            remaining: amounts(step.remaining),
        });
        (found.into_iter().map(line).collect(), steps.collect())
    }
}

impl Drop for Counter {
    /// A session that could not be opened has ended, too.
    fn drop(&mut self) {
        self.broker.budgets.borrow_mut().lose_session(&self.key);
    }
}

/// Amounts as text for a record: those that are not nothing and not unlimited, by the dimensions' names.
fn text(amounts: Amounts) -> String {
    let parts = amounts.iter().filter(|(_, amount)| *amount > 0 && *amount != UNLIMITED);
    parts.map(|(dimension, amount)| format!("{}={amount}", dimension.name())).collect::<Vec<_>>().join(" ")
}

/// Amounts as a caller gives them, in the order of the dimensions.
fn amounts(given: &[u64]) -> Amounts {
    let mut amounts = Amounts::default();
    for (dimension, amount) in Dimension::ALL.into_iter().zip(given) {
        amounts.set(dimension, *amount);
    }
    amounts
}

/// Fields of a record.
type Fields = Vec<(&'static str, String)>;

/// A tool call in progress.
struct Call {
    tool: String,
    began: u64,
}

/// Where a session's consents are, and the turn of its run.
struct Consents {
    policy: Rc<RefCell<SessionPolicy>>,
    conversation: String,
    turn: u32,
}

impl Consents {
    /// The turn has ended.
    fn end(&self) {
        self.policy.borrow_mut().approvals().end_turn(&self.conversation, self.turn);
    }
}

/// A run.
pub struct RunObject {
    counter: Rc<Counter>,
    consents: Consents,
    calls: RefCell<BTreeMap<u64, Call>>,
    over: Cell<bool>,
    /// In the budgets. A later run of the session has another.
    scope: Option<ScopeId>,
    /// Tokens that it was expected to take.
    estimated: (u64, u64),
    /// Of a child run: its conversation.
    child: Option<String>,
    /// Of the run of a part: its conversation, which the record of its end names.
    beside: Option<String>,
}

impl RunObject {
    fn new(counter: Rc<Counter>, scope: Option<ScopeId>, estimated: (u64, u64), consents: Consents) -> Self {
        let (calls, over) = (RefCell::default(), Cell::new(false));
        Self { counter, consents, calls, over, scope, estimated, child: None, beside: None }
    }

    /// A child run, whose turn has these consents.
    fn child(counter: Rc<Counter>, scope: Option<ScopeId>, estimated: (u64, u64), consents: Consents) -> Self {
        let child = Some(consents.conversation.clone());
        let mut run = Self::new(counter, scope, estimated, consents);
        run.child = child;
        run
    }

    /// Whether the session's run, or the child run of that, is this one.
    fn is_current(&self) -> bool {
        let Counter { broker, key, .. } = &*self.counter;
        let budgets = broker.budgets.borrow();
        let current = if self.child.is_some() { budgets.child_of(key) } else { budgets.run_of(key) };
        current == self.scope
    }

    fn alive(&self) -> Result<(), CallError> {
        if self.over.get() || !self.is_current() {
            return Err(CallError::invalid_argument("this run has ended"));
        }
        Ok(())
    }

    /// Whether a step of this run may begin.
    fn steps(&self) -> Result<(), CallError> {
        self.alive()?;
        let Counter { broker, key, .. } = &*self.counter;
        if self.child.is_none() && broker.budgets.borrow().child_of(key).is_some() {
            return Err(CallError::invalid_argument("a child run of this run is in progress"));
        }
        Ok(())
    }

    /// Ends the run; what is recorded of its end.
    fn finish(&self, outcome: &str, over: bool) -> Option<(Vec<(ScopeKind, Crossed)>, Fields)> {
        if self.over.replace(true) {
            return None;
        }
        // One that is not over may continue, and its turn with it.
        if over || self.child.is_some() {
            self.consents.end();
        }
        let Counter { broker, key, .. } = &*self.counter;
        if !self.is_current() {
            return None;
        }
        let ended = match self.child {
            None => broker.budgets.borrow_mut().end_run(key, over, broker.moment())?,
            Some(_) => broker.budgets.borrow_mut().end_child(key, broker.moment())?,
        };
        let (least, most) = self.estimated;
        let mut fields = Vec::from([
            ("outcome", outcome.chars().take(NAME).collect()),
            ("used", text(ended.used)),
            ("estimate", format!("tokens={least}..{most}")),
        ]);
        fields.extend(
            self.child.as_ref().or(self.beside.as_ref()).cloned().map(|conversation| ("conversation", conversation)),
        );
        Some((ended.crossed, fields))
    }
}

async fn record_end(counter: &Counter, fields: &[(&'static str, String)]) {
    let fields: Vec<(&str, &dyn Display)> = fields.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
    counter.note(Kind::BudgetEnd, &fields).await;
    counter.bind().await;
}

impl Drop for RunObject {
    fn drop(&mut self) {
        let Some((_, fields)) = self.finish("its holder is gone", false) else { return };
        let counter = self.counter.clone();
        counter.broker.keep_later();
        drop(capos_rt::spawn(async move { record_end(&counter, &fields).await }));
    }
}

impl RunServer for RunObject {
    async fn look(&self, _cx: &CallContext) -> Result<BudgetAnswer, CallError> {
        self.steps()?;
        let Counter { broker, key, .. } = &*self.counter;
        let need = Amounts::of(Dimension::Tokens, 1);
        let checked = broker.budgets.borrow_mut().check(key, &need, broker.moment());
        match checked {
            Ok(()) => Ok(BudgetAnswer { notices: self.counter.told().await, ..BudgetAnswer::default() }),
            Err(refused) => Ok(self.counter.refuse(refused).await),
        }
    }

    async fn reserve(
        &self,
        _cx: &CallContext,
        tool: String,
        _call_id: String,
        writes: u64,
    ) -> Result<BudgetAnswer, CallError> {
        self.steps()?;
        if tool.len() > NAME {
            return Err(CallError::invalid_argument(format!("a tool's name has at most {NAME} bytes")));
        }
        if self.calls.borrow().len() >= CALLS {
            return Err(CallError::overloaded(format!("{CALLS} calls of this run are in progress")));
        }
        let Counter { broker, key, .. } = &*self.counter;
        let need = Amounts::of(Dimension::Steps, 1).with(Dimension::Writes, writes);
        let reserved = broker.budgets.borrow_mut().reserve(key, need, broker.moment());
        let ticket = match reserved {
            Ok(ticket) => ticket,
            Err(refused) => return Ok(self.counter.refuse(refused).await),
        };
        if let Err(why) = broker.keep(Durability::Now).await {
            broker.budgets.borrow_mut().settle(key, ticket);
            return Err(CallError::failed(why));
        }
        let began = broker.clock.now();
        self.calls.borrow_mut().insert(ticket.number(), Call { tool, began });
        Ok(BudgetAnswer { number: ticket.number(), notices: self.counter.told().await, ..BudgetAnswer::default() })
    }

    async fn settle(&self, _cx: &CallContext, number: u64, began: bool) -> Result<Vec<String>, CallError> {
        let call = self.calls.borrow_mut().remove(&number);
        let call = call.ok_or_else(|| CallError::invalid_argument("there is no such reservation"))?;
        let (counter, ticket) = (&*self.counter, Ticket::of(number));
        let Counter { broker, key, .. } = counter;
        if began {
            let step = Amounts::of(Dimension::Steps, 1);
            broker.budgets.borrow_mut().pay(ticket, counter.names(), step);
            let used = counter.look().await;
            let time = broker.clock.now().saturating_sub(call.began) / MILLISECOND;
            let used = used.plus(step).with(Dimension::WallClock, time);
            let mut budgets = broker.budgets.borrow_mut();
            budgets.settle(key, ticket);
            budgets.record(key, &call.tool, (0, 0), used);
        } else {
            broker.budgets.borrow_mut().settle(key, ticket);
        }
        broker.keep(Durability::Later).await.map_err(CallError::failed)?;
        Ok(counter.told().await)
    }

    async fn extend(
        &self,
        _cx: &CallContext,
        session: bool,
        dimension: BudgetDimension,
        more: u64,
        reply: Reply,
    ) -> Result<RunExtendResults, CallError> {
        self.alive()?;
        if self.child.is_some() || self.counter.is_part {
            let which = if self.child.is_some() { "child" } else { "background" };
            return Err(CallError::invalid_argument(format!("the budget of a {which} run is not extended")));
        }
        let (Counter { broker, key, .. }, dimension) = (&*self.counter, dimension_of(dimension));
        let scope = if session { "session" } else { "run" };
        let agreed = reply == Reply::Agreed && more > 0;
        // Recorded first: what cannot be recorded is not granted.
        let fields: [(&str, &dyn Display); 5] = [
            ("scope", &scope),
            ("dimension", &dimension.name()),
            ("more", &more),
            ("reply", &reply.name()),
            ("decision", &if agreed { "granted" } else { "denied" }),
        ];
        self.counter.record(Kind::BudgetExtension, &fields).await?;
        if !agreed {
            return Ok(RunExtendResults { granted: false, why: String::new() });
        }
        let extended = broker.budgets.borrow_mut().extend(key, session, dimension, more);
        match extended {
            Ok(_) => {
                broker.keep(Durability::Now).await.map_err(CallError::failed)?;
                self.counter.bind().await;
                Ok(RunExtendResults { granted: true, why: String::new() })
            }
            Err(why) => {
                let fields: [(&str, &dyn Display); 4] =
                    [("scope", &scope), ("dimension", &dimension.name()), ("more", &more), ("decision", &why)];
                self.counter.note(Kind::BudgetExtension, &fields).await;
                Ok(RunExtendResults { granted: false, why })
            }
        }
    }

    async fn used(&self, _cx: &CallContext) -> Result<RunUsedResults, CallError> {
        self.alive()?;
        self.counter.look().await;
        let Counter { broker, key, .. } = &*self.counter;
        let list = |amounts: Amounts| amounts.iter().map(|(_, amount)| amount).collect();
        if self.child.is_some() {
            let found = broker.budgets.borrow_mut().child_use(key, broker.moment()).unwrap_or_default();
            return Ok(RunUsedResults { used: list(found.1), granted: list(Amounts::default()) });
        }
        let kept = broker.budgets.borrow_mut().run_use(key, broker.moment()).unwrap_or_default();
        Ok(RunUsedResults { used: list(kept.used), granted: list(kept.granted) })
    }

    async fn split(
        &self,
        _cx: &CallContext,
        conversation: String,
        shares: Vec<u64>,
        least_tokens: u64,
        most_tokens: u64,
    ) -> Result<RunSplitResults, CallError> {
        self.alive()?;
        if self.child.is_some() {
            return Err(CallError::invalid_argument("a child run has no child runs"));
        }
        if conversation.len() > NAME {
            return Err(CallError::invalid_argument(format!("a conversation's name has at most {NAME} bytes")));
        }
        let tokens = (least_tokens, most_tokens);
        let (run, answer) = self.counter.begin_child(&conversation, &shares, tokens, &self.consents.policy).await?;
        let server = self.counter.broker.server.of(&self.counter.share);
        let run = run.map(|run| RunClient::serve(&server, run)).transpose()?;
        Ok(RunSplitResults { run, answer })
    }

    async fn end(&self, _cx: &CallContext, outcome: String, over: bool) -> Result<Vec<String>, CallError> {
        self.alive()?;
        self.counter.look().await;
        let Some((crossed, fields)) = self.finish(&outcome, over) else { return Ok(Vec::new()) };
        let notices = self.counter.tell(crossed).await;
        record_end(&self.counter, &fields).await;
        self.counter.broker.keep(Durability::Later).await.map_err(CallError::failed)?;
        Ok(notices)
    }
}
