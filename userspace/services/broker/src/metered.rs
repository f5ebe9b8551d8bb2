//! A model as a session holds it. Each request is counted before it is made and each answer while it is made, whatever of
//! the session asks.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use core::cell::{Cell, RefCell};
use core::future::Future;

use capos_audit::Kind;
use capos_broker::budgets;
use capos_broker::memory_budget::{CALL, Share, Sharing};
use capos_broker::model;
use capos_broker::patience::Waiting;
use capos_broker::permit::Permit;
use capos_broker::request::Request;
use capos_broker::tally::Tally;
use capos_broker::worker::{self, Read};
use capos_budget::{Amounts, Dimension, Refused, Ticket};
use capos_keyspace::Durability;
use capos_policy::{Egress, ProfileRules, SessionPolicy, is_remote};
use capos_rt::{CancelToken, Server, select};
use capos_schema::authority::SessionInfo;
use capos_schema::cap::{CallContext, CallError, ExceptionKind, RESULTS};
use capos_schema::models::{
    FinishReason, InferenceRequest, InferenceResponse, LanguageModelClient, LanguageModelServer, ModelInfo,
    StreamChunk, StreamChunkFinish, TokenStreamClient, TokenStreamNextResults, TokenStreamServer,
};
use capos_schema::wire::memory_for;

use crate::broker::Broker;
use crate::decision::Subject;

mod part;
mod precheck;

/// Answers of one session that can be under way at once.
const ANSWERS: u32 = 4;
/// Answers that one session can hold, those among them that have ended or were cancelled.
const HELD: u32 = 16;
/// Models that one session can hold.
const MODELS: u32 = 4;
/// How long a worker has to end an answer that was cancelled, in nanoseconds. After that the answer is ended without it; when the
/// worker itself is, [`worker::UNANSWERED`] says.
const GRACE: u64 = 5_000_000_000;

/// What a session may use of models, and what it has under way.
#[derive(Clone)]
pub struct Meter {
    broker: Rc<Broker>,
    info: SessionInfo,
    /// By what name it is counted: the session's id, or that of a part of it.
    key: String,
    rules: ProfileRules,
    /// What may leave the machine.
    egress: Egress,
    /// Whether a model may be asked.
    policy: Rc<RefCell<SessionPolicy>>,
    /// When the session is over, in nanoseconds since boot.
    ends: u64,
    ended: Rc<Cell<bool>>,
    /// Of the room for what is asked of models.
    share: Rc<Share>,
    /// Answers that are under way.
    answers: Rc<Cell<u32>>,
    /// Answers that somebody holds, whether they are under way or not.
    held: Rc<Cell<u32>>,
    /// Models that somebody holds.
    models: Rc<Cell<u32>>,
}

impl Meter {
    /// Of a session with these rules, which is over when `ended` is set, or at `ends`.
    pub fn new(
        broker: Rc<Broker>,
        info: SessionInfo,
        policy: Rc<RefCell<SessionPolicy>>,
        ends: u64,
        ended: Rc<Cell<bool>>,
    ) -> Rc<Self> {
        let share = broker.models.share();
        let (rules, egress) = (policy.borrow().rules().clone(), policy.borrow().egress().clone());
        let (answers, held, models) = Default::default();
        let key = info.id.clone();
        Rc::new(Self { broker, info, key, rules, egress, policy, ends, ended, share, answers, held, models })
    }

    /// Nothing is answered once the session is over.
    ///
    /// # Errors
    /// It is.
    pub fn alive(&self) -> Result<(), CallError> {
        if self.ended.get() {
            return Err(CallError::invalid_argument("this session has ended; log in again"));
        }
        if self.broker.clock.now() >= self.ends {
            return Err(CallError::invalid_argument("this session's time is over; log in again"));
        }
        Ok(())
    }

    /// Of the room for what is asked of models.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// Where models and answers of the session are exported.
    pub fn exporter(&self) -> Sharing<'_, Rc<Server>> {
        self.broker.models.of(&self.share)
    }

    /// One more model that the session holds.
    ///
    /// # Errors
    /// It holds as many as it may.
    pub fn hold_model(&self) -> Result<Permit, CallError> {
        // A model without a holder keeps its worker no longer, even if it was not released explicitly. Nor does that
        // of a session whose holder is gone.
        self.broker.server.sweep();
        self.broker.models.sweep();
        Permit::acquire(&self.models, MODELS)
            .ok_or_else(|| CallError::overloaded(format!("this session holds {MODELS} models; release one first")))
    }

    /// One more answer that the session holds.
    ///
    /// # Errors
    /// It holds as many as it may.
    fn hold_answer(&self) -> Result<Permit, CallError> {
        Permit::acquire(&self.held, HELD)
            .ok_or_else(|| CallError::overloaded(format!("this session holds {HELD} answers; release some first")))
    }

    /// Finds the answers without a holder: they take nothing more then.
    fn sweep(&self) {
        if self.answers.get() > 0 || self.held.get() > 0 {
            self.broker.models.sweep();
        }
    }

    /// Tokens that are left of the budgets of session and principal.
    ///
    /// # Errors
    /// Which of them is used up.
    pub fn left(&self) -> Result<u64, CallError> {
        let left = self.broker.budgets.borrow_mut().tokens_left(&self.key, self.broker.moment());
        left.map_err(|refused| CallError::overloaded(budgets::refusal(&refused)))
    }

    /// The session and its principal, by which it is counted.
    fn names(&self) -> (&str, &str) {
        (&self.key, &self.info.principal)
    }

    /// Counts a request, cuts it to what may be asked for, and writes it. It waits for nothing, so no other request is
    /// read meanwhile. `answer` is the memory that the answer takes once it is read, in bytes.
    ///
    /// # Errors
    /// The session is over, a budget is used up, too many answers are in progress, memory is short, or there
    /// were too many requests. A rejected request is not counted among them.
    fn admit(
        self: &Rc<Self>,
        model: &ModelInfo,
        mut request: InferenceRequest,
        answer: usize,
    ) -> Result<Admitted, CallError> {
        let (id, at) = (self.key.as_str(), self.broker.moment());
        let refused = |refused: Refused| match refused {
            Refused::Exceeded(why) if why.dimension == Dimension::Tokens && why.used < why.limit => {
                CallError::overloaded("the answers in progress have reserved all remaining tokens")
            }
            refused => CallError::overloaded(budgets::refusal(&refused)),
        };
        let one = Amounts::of(Dimension::Tokens, 1);
        self.broker.budgets.borrow_mut().check(id, &one, at).map_err(refused)?;
        let left = self.broker.budgets.borrow_mut().left(id, at).get(Dimension::Tokens);
        let under_way = UnderWay::begin(self)?;
        let most = u32::try_from(left).unwrap_or(u32::MAX).min(self.info.limits.max_tokens_per_call);
        if request.max_tokens == 0 || request.max_tokens > most {
            request.max_tokens = most;
        }
        let tally = Tally::of(&request);
        // How long a prompt is, is known when it is read. One that is longer than what is left is finished, and no other begins.
        let tokens = tally.least_prompt().saturating_add(u64::from(request.max_tokens)).min(left);
        let leaves = if is_remote(&model.backend) { tally.sent() } else { 0 };
        let need = Amounts::of(Dimension::Tokens, tokens).with(Dimension::Egress, leaves);
        self.broker.budgets.borrow_mut().check(id, &need, at).map_err(refused)?;
        let request = Request::of(request, answer, &self.share)?;
        let session = (self.info.id.as_str(), self.info.limits.max_requests_per_minute);
        let principal = (self.info.principal.as_str(), self.rules.principal_requests);
        let counted = self.broker.rates.borrow_mut().request(session, principal, self.broker.clock.now());
        counted.map_err(|why| CallError::overloaded(why.to_string()))?;
        let ticket = self.broker.budgets.borrow_mut().reserve(id, need, at).map_err(refused)?;
        let sent = Amounts::of(Dimension::Egress, leaves);
        self.broker.budgets.borrow_mut().pay(ticket, self.names(), sent);
        Ok(Admitted { under_way: under_way.reserved(ticket), ticket, tally, request, leaves })
    }

    /// The same, when what was counted is kept.
    ///
    /// # Errors
    /// It could not be kept.
    async fn admitted(
        self: &Rc<Self>,
        model: &ModelInfo,
        request: InferenceRequest,
        answer: usize,
    ) -> Result<(Request, UnderWay, Counted), CallError> {
        self.may_ask(model, &request).await?;
        let Admitted { under_way, ticket, tally, request, leaves } = self.admit(model, request, answer)?;
        self.broker.keep(Durability::Now).await.map_err(CallError::failed)?;
        // It may have ended meanwhile.
        self.alive()?;
        let (model, began) = (model.id.clone(), self.broker.clock.now());
        let (meter, tally, whole) = (self.clone(), RefCell::new(tally), Cell::new(false));
        Ok((request, under_way, Counted { meter, ticket, model, began, leaves, tally, whole }))
    }

    /// Asks the worker of a model something in a task of its own, which outlasts its caller. A worker that does not
    /// answer in time is replaced. Returns the time when it is asked, and none if there is no room for that.
    fn watch_worker(
        &self,
        model: &str,
        (what, within): (&'static str, u64),
        question: impl Future<Output = ()> + 'static,
    ) -> Option<u64> {
        let room = self.share.take_short(CALL, what).ok()?;
        let (broker, info, model) = (self.broker.clone(), self.info.clone(), String::from(model));
        let asked = broker.deadlines.now();
        drop(capos_rt::spawn(async move {
            let answers = worker::answers(&broker.deadlines, within, question).await;
            drop(room);
            if !answers && broker.replaced.begin(&model, asked, broker.deadlines.now()) {
                let why = format!("its worker has not answered {what} for {} s", within / 1_000_000_000);
                broker.replace_worker(&Subject { session: &info.id, principal: &info.principal }, &model, &why).await;
            }
        }));
        Some(asked)
    }
}

/// A request that may be made.
struct Admitted {
    under_way: UnderWay,
    ticket: Ticket,
    tally: Tally,
    request: Request,
    /// Bytes that leave the machine with it.
    leaves: u64,
}

/// An answer that is under way, and what is reserved for it.
struct UnderWay {
    meter: Rc<Meter>,
    reserved: Option<Ticket>,
    _answer: Permit,
}

impl UnderWay {
    fn begin(meter: &Rc<Meter>) -> Result<Self, CallError> {
        let answer = Permit::acquire(&meter.answers, ANSWERS).ok_or_else(|| {
            CallError::overloaded(format!("{ANSWERS} answers of this session are in progress; end one first"))
        })?;
        Ok(Self { meter: meter.clone(), reserved: None, _answer: answer })
    }

    fn reserved(mut self, ticket: Ticket) -> Self {
        self.reserved = Some(ticket);
        self
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(ticket) = self.reserved {
            self.meter.broker.budgets.borrow_mut().settle(&self.meter.key, ticket);
        }
    }
}

/// What is counted of an answer. Where it is dropped before the answer's end, what was sent and what passed is counted.
struct Counted {
    meter: Rc<Meter>,
    ticket: Ticket,
    /// The id of the model.
    model: String,
    /// When it was asked, in nanoseconds since boot.
    began: u64,
    leaves: u64,
    tally: RefCell<Tally>,
    whole: Cell<bool>,
}

impl Counted {
    /// Counts tokens that have been used: the answer that uses a budget up is finished, and no other begins.
    fn used(&self, tokens: u64) {
        let amounts = Amounts::of(Dimension::Tokens, tokens);
        self.meter.broker.budgets.borrow_mut().pay(self.ticket, self.meter.names(), amounts);
    }

    /// Records the request as a step of the run.
    fn record(&self) {
        let usage = self.tally.borrow().usage();
        let (prompt, answer) = (u64::from(usage.prompt_tokens), u64::from(usage.completion_tokens));
        let time = self.meter.broker.clock.now().saturating_sub(self.began) / 1_000_000;
        let used = Amounts::of(Dimension::Tokens, prompt.saturating_add(answer))
            .with(Dimension::WallClock, time)
            .with(Dimension::Egress, self.leaves);
        self.meter.broker.budgets.borrow_mut().record(&self.meter.key, &self.model, (prompt, answer), used);
    }

    /// Counts what was sent and what has passed, of an answer that is given up; its end may still say more.
    fn give_up(&self) {
        let tokens = self.tally.borrow_mut().give_up();
        self.used(tokens);
        self.meter.broker.keep_later();
    }

    /// There is no answer: nothing is counted.
    fn nothing(&self) {
        self.whole.set(true);
    }

    /// Counts the rest of an answer that is whole, and keeps the count before its end is told.
    async fn finish(&self, tokens: u64) -> Result<(), CallError> {
        self.whole.set(true);
        self.used(tokens);
        self.record();
        self.meter.broker.keep(Durability::Later).await.map_err(CallError::failed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.whole.get() {
            self.give_up();
            self.record();
        }
    }
}

/// A model of a session.
pub struct Metered {
    meter: Rc<Meter>,
    model: RefCell<LanguageModelClient>,
    info: ModelInfo,
    /// Whether its worker is being asked whether it is there.
    probes: Rc<Cell<u32>>,
    _held: Permit,
}

impl Metered {
    /// This model for that session, which holds it.
    pub fn new((meter, held): (Rc<Meter>, Permit), model: LanguageModelClient, info: ModelInfo) -> Rc<Self> {
        Rc::new(Self { meter, model: RefCell::new(model), info, probes: Rc::default(), _held: held })
    }

    /// Asks the model, and waits for it within a bound. If its worker is gone, nothing was said yet, so the model is opened
    /// again and asked once more. A request that is rejected with an error message counts as nothing, and any other failure as
    /// what was sent.
    async fn ask<T>(
        &self,
        (counted, waiting): (&Counted, &RefCell<Waiting>),
        ask: impl AsyncFn(LanguageModelClient) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let asked = Asked { metered: self, answered: Cell::new(false) };
        let answered = worker::within(&self.meter.broker.deadlines, waiting, async {
            let model = self.model.borrow().clone();
            match ask(model).await {
                Err(error) if error.is_disconnected() => {
                    let model = self.open_anew().await.inspect_err(|_| counted.nothing())?;
                    ask(model).await
                }
                answered => answered,
            }
        });
        let answered = answered.await.map_err(|bound| bound.error())?;
        asked.answered.set(true);
        if let Err(CallError::Exception(exception)) = &answered
            && exception.kind != ExceptionKind::Disconnected
        {
            counted.nothing();
        }
        answered.map_err(|error| model::passing(&error).unwrap_or(error))
    }

    /// The model with another worker. The audit log takes a record of it as of each model that a session is given.
    async fn open_anew(&self) -> Result<LanguageModelClient, CallError> {
        let (broker, info) = (&self.meter.broker, &self.meter.info);
        let opened = model::open(&broker.blocks.catalog, &self.meter.rules, &self.info.id).await.map_err(of_worker);
        let outcome = match &opened {
            Ok(_) => "opened again: its worker had ended".to_string(),
            Err(why) => format!("its worker had ended: {why}"),
        };
        let subject = Subject { session: &info.id, principal: &info.principal };
        let fields: [(&str, &dyn core::fmt::Display); 2] = [("model", &self.info.id), ("outcome", &outcome)];
        subject.record(&broker.blocks.writer, Kind::BrokerDecision, &fields).await?;
        let (model, _) = opened?;
        *self.model.borrow_mut() = model.clone();
        Ok(model)
    }
}

/// A request that its worker has not answered. Where that is given up, the worker is asked whether it is there.
struct Asked<'a> {
    metered: &'a Metered,
    answered: Cell<bool>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let Metered { meter, model, info, probes, .. } = self.metered;
        // One question is enough for all requests that were given up.
        if !self.answered.get()
            && let Some(one) = Permit::acquire(probes, 1)
        {
            let model = model.borrow().clone();
            // A worker that is just starting answers nothing yet.
            let patience = u64::from(meter.rules.patience.silence_seconds).saturating_mul(1_000_000_000);
            let question = async move {
                drop(model.info().await);
                drop(one);
            };
            meter.watch_worker(&info.id, ("a request", patience), question);
        }
    }
}

/// An error of a worker, as a session hears of it.
fn of_worker(error: CallError) -> CallError {
    model::unless_gone(error, "the model's worker has ended")
}

impl LanguageModelServer for Metered {
    async fn info(&self, _cx: &CallContext) -> Result<ModelInfo, CallError> {
        Ok(self.info.clone())
    }

    async fn complete(&self, _cx: &CallContext, req: InferenceRequest) -> Result<InferenceResponse, CallError> {
        self.meter.alive()?;
        self.meter.sweep();
        let (request, _under_way, counted) = self.meter.admitted(&self.info, req, memory_for(RESULTS as usize)).await?;
        let waiting = RefCell::new(Waiting::for_whole(self.meter.rules.patience));
        let asked = (&counted, &waiting);
        let mut response = self.ask(asked, async |model| request.complete(&model).await).await?;
        let tokens = counted.tally.borrow_mut().add_whole(&mut response);
        counted.finish(tokens).await?;
        Ok(response)
    }

    async fn stream(&self, _cx: &CallContext, req: InferenceRequest) -> Result<TokenStreamClient, CallError> {
        self.meter.alive()?;
        self.meter.sweep();
        let held = self.meter.hold_answer()?;
        // Before the worker has it: a request that was sent has used its prompt, even if its caller gives up.
        let (request, under_way, counted) = self.meter.admitted(&self.info, req, 0).await?;
        let waiting = RefCell::new(Waiting::new(self.meter.rules.patience));
        let stream = self.ask((&counted, &waiting), async |model| request.stream(&model).await).await?;
        waiting.borrow_mut().piece(true);
        let answer = Answer {
            counted,
            waiting,
            model: self.info.id.clone(),
            stream: RefCell::new(Some(stream)),
            under_way: RefCell::new(Some(under_way)),
            _held: held,
            reading: Cell::new(false),
            lost: CancelToken::new(),
            over: CancelToken::new(),
        };
        self.meter.alive()?;
        TokenStreamClient::serve(&self.meter.exporter(), Rc::new(answer))
    }
}

/// An answer of a session.
struct Answer {
    counted: Counted,
    /// How long its worker was waited for.
    waiting: RefCell<Waiting>,
    /// The id of its model.
    model: String,
    /// None once it has ended.
    stream: RefCell<Option<TokenStreamClient>>,
    /// None once it has ended or was cancelled.
    under_way: RefCell<Option<UnderWay>>,
    _held: Permit,
    /// Whether a piece is waited for: a second reader is refused meanwhile.
    reading: Cell<bool>,
    /// Whether it was cancelled, and its worker has not ended it in time.
    lost: CancelToken,
    /// Whether it has ended, so that its worker need not end it.
    over: CancelToken,
}

impl Answer {
    /// Nothing more comes of it.
    fn over(&self) {
        self.over.cancel();
        drop((self.stream.take(), self.under_way.take()));
    }

    /// Its end, which the worker does not say.
    async fn end(&self, reason: FinishReason) -> Result<TokenStreamNextResults, CallError> {
        self.over();
        let usage = self.counted.tally.borrow().usage();
        self.counted.finish(0).await?;
        Ok(TokenStreamNextResults { chunk: StreamChunk::Finish(StreamChunkFinish { usage, reason }), done: true })
    }

    /// Tells the worker once that no more of it is wanted. A worker that does not answer keeps no caller waiting,
    /// neither the reader of this answer nor that of the session's next one.
    fn give_up(&self) {
        let stream = self.stream.borrow().clone();
        let (Some(_), Some(stream)) = (self.under_way.take(), stream) else { return };
        self.counted.give_up();
        let cancel = async move { drop(stream.cancel().await) };
        let meter = &self.counted.meter;
        let Some(asked) = meter.watch_worker(&self.model, ("a cancel", worker::UNANSWERED), cancel) else {
            // The answer ends at once: its worker continues none that has no reader.
            self.lost.cancel();
            return;
        };
        let (deadlines, lost, over) = (meter.broker.deadlines.clone(), self.lost.clone(), self.over.clone());
        drop(capos_rt::spawn(async move {
            let grace = deadlines.at(asked.saturating_add(GRACE));
            select(grace.passed(), over.cancelled()).await;
            lost.cancel();
        }));
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.give_up();
        self.over();
    }
}

/// A read that is under way, until it has ended or was dropped.
struct Reading<'a>(&'a Cell<bool>);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl TokenStreamServer for Answer {
    async fn next(&self, _cx: &CallContext) -> Result<TokenStreamNextResults, CallError> {
        self.counted.meter.alive()?;
        let stream = self.stream.borrow().clone();
        let stream = stream.ok_or_else(|| CallError::invalid_argument("this response has ended"))?;
        if self.reading.replace(true) {
            return Err(CallError::overloaded("the stream is being read by another call"));
        }
        let _reading = Reading(&self.reading);
        let counts = (&self.counted.tally, &self.waiting);
        let (piece, tokens) =
            match worker::read(&stream, counts, &self.counted.meter.broker.deadlines, &self.lost).await {
                Read::Piece(piece, tokens) => (piece, tokens),
                Read::Failed(error) => {
                    let Some(passing) = model::passing(&error) else { return Err(error) };
                    self.counted.give_up();
                    self.over();
                    return Err(passing);
                }
                Read::Lost => return self.end(FinishReason::Cancelled).await,
                Read::Overdue(bound) => {
                    self.give_up();
                    self.over();
                    return Err(bound.error());
                }
            };
        let too_much = self.counted.tally.borrow().is_too_much();
        if piece.done {
            self.over();
            self.counted.finish(tokens).await?;
            return Ok(piece);
        }
        self.counted.used(tokens);
        if too_much {
            // A worker that says more than it may be asked for is not listened to.
            self.give_up();
            return self.end(FinishReason::Length).await;
        }
        Ok(piece)
    }

    async fn cancel(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.give_up();
        Ok(())
    }
}
