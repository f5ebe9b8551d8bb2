//! A model as a session holds it. Each request is counted before it is made and each answer while it is made, whatever of
//! the session asks.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::ToString;
use core::cell::{Cell, RefCell};

use capos_audit::Kind;
use capos_broker::model;
use capos_broker::tally::Tally;
use capos_policy::{ProfileRules, Spent};
use capos_rt::{TaskGroup, log};
use capos_schema::authority::SessionInfo;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::models::{
    InferenceRequest, InferenceResponse, LanguageModelClient, LanguageModelServer, ModelInfo, TokenStreamClient,
    TokenStreamNextResults, TokenStreamServer,
};

use crate::broker::Broker;
use crate::decision::Subject;

/// Answers of one session that can be under way at once.
const ANSWERS: u32 = 4;
/// Answers that one session can hold, those among them that have ended or were cancelled.
const HELD: u32 = 16;

/// What a session may use of models, and what it has under way.
pub struct Meter {
    broker: Rc<Broker>,
    info: SessionInfo,
    rules: ProfileRules,
    /// When the session is over, in nanoseconds since boot.
    ends: u64,
    ended: Rc<Cell<bool>>,
    answers: Cell<u32>,
    /// Answers that somebody holds, whether they are under way or not.
    held: Cell<u32>,
    /// Tokens that answers under way may still take.
    reserved: Cell<u64>,
}

impl Meter {
    /// Of a session with these rules, which is over when `ended` is set, or at `ends`.
    pub fn new(
        broker: Rc<Broker>,
        info: SessionInfo,
        rules: ProfileRules,
        ends: u64,
        ended: Rc<Cell<bool>>,
    ) -> Rc<Self> {
        let (answers, held, reserved) = (Cell::new(0), Cell::new(0), Cell::new(0));
        Rc::new(Self { broker, info, rules, ends, ended, answers, held, reserved })
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

    /// Counts tokens against the budgets of session and principal: how many are left, or which is used up. Of 0 tokens
    /// it only tells.
    ///
    /// # Errors
    /// The budget that is used up.
    pub fn count(&self, tokens: u64) -> Result<u64, Spent> {
        let session = (self.info.id.as_str(), self.info.limits.max_tokens);
        let principal = (self.info.principal.as_str(), self.rules.principal_tokens);
        self.broker.budgets.borrow_mut().charge(session, principal, tokens)
    }

    /// The same, for tokens that have been used: the answer that uses a budget up is finished, and no other begins.
    fn used(&self, tokens: u64) {
        let _ = self.count(tokens);
    }

    /// Keeps what was counted, without anybody who waits for that.
    fn keep_later(self: &Rc<Self>) {
        let meter = self.clone();
        drop(capos_rt::spawn(async move {
            if let Err(why) = meter.broker.keep().await {
                log::warning!("session {}: {why}", meter.info.id);
            }
        }));
    }

    /// Counts a request, and cuts it to what may be asked for.
    ///
    /// # Errors
    /// The session is over, a budget is used up, there were too many requests, too many answers are under way, or what
    /// was counted could not be kept.
    async fn admit(self: &Rc<Self>, request: &mut InferenceRequest) -> Result<UnderWay, CallError> {
        self.alive()?;
        let spent = |spent: Spent| CallError::overloaded(spent.to_string());
        self.count(0).map_err(spent)?;
        let session = (self.info.id.as_str(), self.info.limits.max_requests_per_minute);
        let principal = (self.info.principal.as_str(), self.rules.principal_requests);
        let counted = self.broker.budgets.borrow_mut().request(session, principal, self.broker.clock.now());
        counted.map_err(spent)?;
        let mut under_way = UnderWay::begin(self)?;
        self.broker.keep().await.map_err(CallError::failed)?;
        // From the look at what is left to the reservation nothing waits.
        let left = self.count(0).map_err(spent)?.saturating_sub(self.reserved.get());
        let most = u32::try_from(left).unwrap_or(u32::MAX).min(self.info.limits.max_tokens_per_call);
        if most == 0 {
            return Err(CallError::overloaded("the answers that are under way may take all tokens that are left"));
        }
        if request.max_tokens == 0 || request.max_tokens > most {
            request.max_tokens = most;
        }
        under_way.reserve(u64::from(request.max_tokens));
        Ok(under_way)
    }
}

/// An answer that is under way, and the tokens that are reserved for it.
struct UnderWay {
    meter: Rc<Meter>,
    reserved: u64,
}

impl UnderWay {
    fn begin(meter: &Rc<Meter>) -> Result<Self, CallError> {
        if meter.answers.get() > 0 || meter.held.get() > 0 {
            // Those that nobody holds any more are found when somebody looks, and take nothing more then.
            meter.broker.models.sweep();
        }
        if meter.held.get() >= HELD {
            return Err(CallError::overloaded(format!("this session holds {HELD} answers; let go of some first")));
        }
        let answers = meter.answers.get();
        if answers >= ANSWERS {
            return Err(CallError::overloaded(format!(
                "{ANSWERS} answers of this session are under way; end one first"
            )));
        }
        meter.answers.set(answers.saturating_add(1));
        Ok(Self { meter: meter.clone(), reserved: 0 })
    }

    fn reserve(&mut self, tokens: u64) {
        self.reserved = tokens;
        self.meter.reserved.set(self.meter.reserved.get().saturating_add(tokens));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.meter.reserved.set(self.meter.reserved.get().saturating_sub(self.reserved));
        self.meter.answers.set(self.meter.answers.get().saturating_sub(1));
    }
}

/// An answer that somebody holds.
struct Held(Rc<Meter>);

impl Held {
    fn of(meter: &Rc<Meter>) -> Self {
        meter.held.set(meter.held.get().saturating_add(1));
        Self(meter.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.set(self.0.held.get().saturating_sub(1));
    }
}

/// What is counted of an answer. Where it is dropped before the answer's end, what was sent and what passed is counted.
struct Counted {
    meter: Rc<Meter>,
    tally: RefCell<Tally>,
    whole: Cell<bool>,
}

impl Counted {
    fn of(meter: &Rc<Meter>, request: &InferenceRequest) -> Self {
        Self { meter: meter.clone(), tally: RefCell::new(Tally::of(request)), whole: Cell::new(false) }
    }

    /// There is no answer: nothing is counted.
    fn nothing(&self) {
        self.whole.set(true);
    }

    /// Counts the rest of an answer that is whole, and keeps the count before its end is told.
    async fn finish(&self, tokens: u64) -> Result<(), CallError> {
        self.whole.set(true);
        self.meter.used(tokens);
        self.meter.broker.keep().await.map_err(CallError::failed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.whole.get() {
            self.meter.used(self.tally.borrow_mut().give_up());
            self.meter.keep_later();
        }
    }
}

/// A model of a session.
pub struct Metered {
    meter: Rc<Meter>,
    model: RefCell<LanguageModelClient>,
    info: ModelInfo,
}

impl Metered {
    /// This model for that session.
    pub fn new(meter: Rc<Meter>, model: LanguageModelClient, info: ModelInfo) -> Rc<Self> {
        Rc::new(Self { meter, model: RefCell::new(model), info })
    }

    /// Asks the model. Where its worker is gone nothing was said yet, so the model is opened anew and asked once more.
    async fn ask<T>(&self, ask: impl AsyncFn(LanguageModelClient) -> Result<T, CallError>) -> Result<T, CallError> {
        let model = self.model.borrow().clone();
        match ask(model).await {
            Err(error) if error.is_disconnected() => {}
            answered => return answered,
        }
        let model = self.open_anew().await?;
        ask(model).await.map_err(of_worker)
    }

    /// The model with another worker. The audit log takes a record of it as of each model that a session is given.
    async fn open_anew(&self) -> Result<LanguageModelClient, CallError> {
        let (broker, info) = (&self.meter.broker, &self.meter.info);
        let opened = model::open(&broker.blocks.catalog, &self.meter.rules, &self.info.id).await.map_err(of_worker);
        let outcome = match &opened {
            Ok(_) => "opened anew, its worker was gone".to_string(),
            Err(why) => format!("its worker was gone: {why}"),
        };
        let subject = Subject { session: &info.id, principal: &info.principal };
        let fields: [(&str, &dyn core::fmt::Display); 2] = [("model", &self.info.id), ("outcome", &outcome)];
        subject.record(&broker.blocks.writer, Kind::BrokerDecision, &fields).await?;
        let (model, _) = opened?;
        *self.model.borrow_mut() = model.clone();
        Ok(model)
    }
}

/// An error of a worker, as a session hears of it.
fn of_worker(error: CallError) -> CallError {
    model::unless_gone(error, "the model's worker is gone")
}

impl LanguageModelServer for Metered {
    async fn info(&self, _cx: &CallContext) -> Result<ModelInfo, CallError> {
        Ok(self.info.clone())
    }

    async fn complete(&self, _cx: &CallContext, mut req: InferenceRequest) -> Result<InferenceResponse, CallError> {
        let _under_way = self.meter.admit(&mut req).await?;
        let counted = Counted::of(&self.meter, &req);
        let response = self.ask(async |model| model.complete(&req).await).await?;
        let tokens = {
            let mut tally = counted.tally.borrow_mut();
            let calls = response.message.tool_calls.iter();
            tally.receive([response.message.content.len()]);
            tally.receive(calls.flat_map(|call| [call.id.len(), call.name.len(), call.arguments.len()]));
            tally.finish(&response.usage)
        };
        counted.finish(tokens).await?;
        Ok(response)
    }

    async fn stream(&self, _cx: &CallContext, mut req: InferenceRequest) -> Result<TokenStreamClient, CallError> {
        let under_way = self.meter.admit(&mut req).await?;
        // Before the worker has it: whoever gives up a request that was sent has used its prompt.
        let counted = Counted::of(&self.meter, &req);
        let stream = self.ask(async |model| model.stream(&req).await).await.inspect_err(|_| counted.nothing())?;
        let answer = Answer {
            counted,
            stream: RefCell::new(Some(stream)),
            under_way: RefCell::new(Some(under_way)),
            _held: Held::of(&self.meter),
            reading: Cell::new(false),
            cancels: TaskGroup::new(),
        };
        TokenStreamClient::serve(&self.meter.broker.models, Rc::new(answer))
    }
}

/// An answer of a session.
struct Answer {
    counted: Counted,
    /// None once it has ended.
    stream: RefCell<Option<TokenStreamClient>>,
    /// None once it has ended or was cancelled.
    under_way: RefCell<Option<UnderWay>>,
    _held: Held,
    /// Whether a piece is waited for: nobody else waits here meanwhile.
    reading: Cell<bool>,
    /// The worker is told so; where it does not hear of it, not for longer than somebody holds the answer.
    cancels: TaskGroup,
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
        let piece = stream.next().await.map_err(of_worker)?;
        let tokens = self.counted.tally.borrow_mut().add(&piece.chunk);
        if piece.done {
            self.stream.take();
            self.under_way.take();
            self.counted.finish(tokens).await?;
        } else {
            self.counted.meter.used(tokens);
        }
        Ok(piece)
    }

    async fn cancel(&self, _cx: &CallContext) -> Result<(), CallError> {
        let stream = self.stream.borrow().clone();
        // Nobody waits here for a worker that does not answer, nor does the session's next answer.
        if let (Some(_), Some(stream)) = (self.under_way.take(), stream) {
            self.cancels.spawn(async move { drop(stream.cancel().await) });
        }
        Ok(())
    }
}
