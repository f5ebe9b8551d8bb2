//! Parts of a session: each has a budget of its own, and the session's decisions and tools.

use alloc::rc::{Rc, Weak};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_audit::Kind;
use capos_broker::model;
use capos_broker::permit::Permit;
use capos_keyspace::Durability;
use capos_schema::authority::{
    BudgetAnswer, RunClient, SessionPartBeginRunResults, SessionPartClient, SessionPartModelResults, SessionPartServer,
    UserSessionBeginPartResults,
};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::models::{LanguageModelClient, ModelInfo};

use super::{Session, named};
use crate::metered::{Meter, Metered};
use crate::run::Counter;

/// Parts of one session at one time.
const PARTS: u32 = 2;

impl Session {
    /// Opens a model, of which this meter counts the use.
    ///
    /// # Errors
    /// The session may not use it, holds too many, or has used up its tokens; or the audit log takes no record.
    pub(super) async fn open_model(
        &self,
        meter: &Rc<Meter>,
        id: String,
    ) -> Result<(LanguageModelClient, ModelInfo), CallError> {
        named("a model's name", &id)?;
        let held = meter.hold_model()?;
        let wanted = if id.is_empty() { self.broker.config().model.clone() } else { id };
        let rules = self.policy.borrow().rules().clone();
        let opened = match meter.left() {
            Ok(_) => model::open(&self.broker.blocks.catalog, &rules, &wanted).await,
            Err(spent) => Err(spent),
        };
        let (found, outcome) = match &opened {
            Ok((_, info)) => (info.id.clone(), "granted".to_string()),
            Err(why) => (wanted, why.to_string()),
        };
        let fields: [(&str, &dyn core::fmt::Display); 2] = [("model", &found), ("outcome", &outcome)];
        self.subject().record(&self.broker.blocks.writer, Kind::BrokerDecision, &fields).await?;
        let (model, info) = opened?;
        // It may have ended meanwhile.
        self.alive()?;
        let metered = Metered::new((meter.clone(), held), model, info.clone());
        // A holder of the last one may still use it: what both take is counted together.
        let model = LanguageModelClient::serve(&meter.exporter(), metered)?;
        Ok((model, info))
    }

    /// Begins the run of a turn of a conversation, whose use this counter counts. `tokens` are the fewest and the most that are
    /// expected.
    ///
    /// # Errors
    /// The name is too long, the run could not be kept, or the session has ended meanwhile.
    pub(super) async fn begin_counted(
        &self,
        counter: &Rc<Counter>,
        (conversation, turn): (&str, u32),
        tokens: (u64, u64),
        used: &[u64],
    ) -> Result<(Option<RunClient>, BudgetAnswer), CallError> {
        named("a conversation's name", conversation)?;
        let (run, answer) = counter.begin((conversation, turn), tokens, (used, &self.policy)).await?;
        // It may have ended meanwhile.
        self.alive()?;
        let run = run.map(|run| RunClient::serve(&self.broker.server.of(&self.share), run)).transpose()?;
        Ok((run, answer))
    }

    /// Begins a part of the session with this number. It is kept before this returns.
    ///
    /// # Errors
    /// The session holds as many parts as it may, or the part could not be kept.
    pub(super) async fn part(&self, number: u32) -> Result<UserSessionBeginPartResults, CallError> {
        if self.held_parts.get() > 0 {
            self.broker.server.sweep();
        }
        let held = Permit::acquire(&self.held_parts, PARTS)
            .ok_or_else(|| CallError::overloaded("this session has two background runs; end one first".to_string()))?;
        self.counter.look().await;
        let counter = match self.counter.part(number) {
            Ok(counter) => counter,
            Err(refused) => {
                let exceeded = capos_broker::budgets::refusal(&refused);
                return Ok(UserSessionBeginPartResults {
                    part: None,
                    answer: BudgetAnswer { exceeded, ..BudgetAnswer::default() },
                });
            }
        };
        let part = PartObject {
            session: self.own.borrow().clone(),
            meter: self.meter.part(counter.key()),
            counter,
            _held: held,
        };
        self.broker.keep(Durability::Now).await.map_err(CallError::failed)?;
        // It may have ended meanwhile.
        self.alive()?;
        let part = SessionPartClient::serve(&self.broker.server.of(&self.share), Rc::new(part))?;
        Ok(UserSessionBeginPartResults { part: Some(part), answer: BudgetAnswer::default() })
    }
}

/// A part of a session, as its holder sees it.
struct PartObject {
    /// It ends with the session.
    session: Weak<Session>,
    counter: Rc<Counter>,
    meter: Rc<Meter>,
    _held: Permit,
}

impl PartObject {
    fn session(&self) -> Result<Rc<Session>, CallError> {
        let session = self.session.upgrade().ok_or_else(|| CallError::invalid_argument("this session has ended"))?;
        session.alive()?;
        Ok(session)
    }
}

impl SessionPartServer for PartObject {
    async fn begin_run(
        &self,
        _cx: &CallContext,
        conversation: String,
        turn: u32,
        least_tokens: u64,
        most_tokens: u64,
        used: Vec<u64>,
    ) -> Result<SessionPartBeginRunResults, CallError> {
        let session = self.session()?;
        let (run, answer) =
            session.begin_counted(&self.counter, (&conversation, turn), (least_tokens, most_tokens), &used).await?;
        Ok(SessionPartBeginRunResults { run, answer })
    }

    async fn model(&self, _cx: &CallContext, id: String) -> Result<SessionPartModelResults, CallError> {
        let (model, info) = self.session()?.open_model(&self.meter, id).await?;
        Ok(SessionPartModelResults { model, info })
    }

    async fn remaining(&self, _cx: &CallContext) -> Result<u64, CallError> {
        self.session()?;
        self.meter.left()
    }

    async fn end(&self, _cx: &CallContext) -> Result<(), CallError> {
        let session = self.session()?;
        self.counter.look().await;
        session.broker.budgets.borrow_mut().end_part(self.counter.key());
        self.counter.bind().await;
        session.broker.keep(Durability::Later).await.map_err(CallError::failed)
    }
}
