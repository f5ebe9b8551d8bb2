//! Issuing sessions.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_audit::Kind;
use capos_broker::config::Config;
use capos_broker::deadlines::Deadlines;
use capos_broker::memory_budget::{Exporter, QUESTIONS, REQUESTS};
use capos_broker::permit::Permit;
use capos_broker::persisted;
use capos_broker::worker::Replaced;
use capos_policy::{Attempts, Budgets};
use capos_rt::{Clock, Server, log};
use capos_schema::authority::{
    AuthorityBrokerProfilesResults, AuthorityBrokerServer, AuthorityBrokerUnlockResults, Profile, UserSessionClient,
    UserSessionService,
};
use capos_schema::cap::{CallContext, CallError, Client, Export};
use capos_schema::kernel::EntropyClient;
use capos_schema::store::{KeyKind, VolumeInfo, VolumeState};

use crate::capability_pool::CapabilityPool;
use crate::decision::Subject;
use crate::session::Session;

/// The longest name of a principal.
const MAX_PRINCIPAL: usize = 64;
/// Sessions that can be held at once, those that have ended among them.
const SESSIONS: u32 = 16;

/// The broker.
pub struct Broker {
    pub config: Config,
    pub blocks: CapabilityPool,
    pub clock: Clock,
    /// When workers are waited for no longer, and which of them were replaced for it.
    pub deadlines: Rc<Deadlines>,
    pub replaced: Replaced,
    pub server: Exporter<Rc<Server>>,
    /// Where sessions ask their models: apart from the rest, since requests are long.
    pub models: Exporter<Rc<Server>>,
    entropy: EntropyClient,
    pub budgets: RefCell<Budgets>,
    /// Sessions that somebody holds.
    pub open: Rc<Cell<u32>>,
    /// Whether counts are still to be kept without a caller that waits, and whether they are being kept.
    unkept: Cell<bool>,
    keeping: Cell<bool>,
    /// Wrong passphrases count for the whole system, not for one session.
    pub attempts: RefCell<Attempts>,
}

impl Broker {
    /// A broker without sessions. Attempts and budgets are those of before, where it was restarted.
    pub fn new(
        config: Config,
        blocks: CapabilityPool,
        (attempts, budgets): (Attempts, Budgets),
        entropy: EntropyClient,
        clock: Clock,
        (server, models): (Rc<Server>, Rc<Server>),
    ) -> Rc<Self> {
        Rc::new(Self {
            config,
            blocks,
            deadlines: Deadlines::new(clock.clone()),
            replaced: Replaced::default(),
            clock,
            server: Exporter::new(server, QUESTIONS),
            models: Exporter::new(models, REQUESTS),
            open: Rc::default(),
            unkept: Cell::default(),
            keeping: Cell::default(),
            entropy,
            budgets: RefCell::new(budgets),
            attempts: RefCell::new(attempts),
        })
    }

    /// Tries the passphrase. The attempt is counted and the count kept before anything is compared: an attacker that
    /// ends this process meanwhile gains no attempt by it.
    ///
    /// # Errors
    /// Why it does not open.
    pub async fn try_passphrase(&self, given: &str) -> Result<(), String> {
        let kept = self.config.passphrase.as_ref();
        let kept = self.attempts.borrow_mut().begin(kept, self.clock.now()).map_err(|why| why.to_string())?;
        self.keep().await?;
        self.attempts.borrow_mut().finish(kept, given).map_err(|why| why.to_string())?;
        self.keep().await
    }

    /// Keeps what is counted against people outside this process, which may crash.
    ///
    /// # Errors
    /// It could not be kept, so nothing may come of it.
    pub async fn keep(&self) -> Result<(), String> {
        let state = persisted::encode(&self.attempts.borrow(), &self.budgets.borrow());
        let stored = self.blocks.keeper.store(&state).await;
        stored.map_err(|why| format!("the counts of passphrases, tokens and requests could not be stored: {why}"))
    }
}

impl Broker {
    /// Keeps what is counted, without anybody who waits for that: once for all who ask for it meanwhile.
    pub fn keep_later(self: &Rc<Self>) {
        self.unkept.set(true);
        if self.keeping.replace(true) {
            return;
        }
        let broker = self.clone();
        drop(capos_rt::spawn(async move {
            while broker.unkept.replace(false) {
                if let Err(why) = broker.keep().await {
                    log::warning!("{why}");
                }
            }
            broker.keeping.set(false);
        }));
    }
}

impl Broker {
    /// Replaces the worker of a model if it no longer answers. All sessions that use the model share that worker. The
    /// audit log records it.
    pub async fn replace_worker(&self, asked_by: &Subject<'_>, model: &str, why: &str) {
        let fields: [(&str, &dyn core::fmt::Display); 2] =
            [("model", &model), ("outcome", &format_args!("replaced: {why}"))];
        // It takes nothing from anybody that a worker did which answers, so it is replaced where there is no record, too.
        if let Err(why) = asked_by.record(&self.blocks.writer, Kind::BrokerDecision, &fields).await {
            log::warning!("{why}");
        }
        if let Err(error) = self.blocks.catalog.replace_worker(model, why).await {
            log::warning!("the worker of {model} could not be replaced: {error}");
        }
    }
}

/// The broker as an object.
pub struct BrokerObject(pub Rc<Broker>);

impl AuthorityBrokerServer for BrokerObject {
    async fn profiles(&self, _cx: &CallContext) -> Result<AuthorityBrokerProfilesResults, CallError> {
        let profiles = Vec::from([Profile::Operator, Profile::Guest, Profile::Anonymous]);
        Ok(AuthorityBrokerProfilesResults { profiles, initial: self.0.config.initial })
    }

    async fn login(
        &self,
        _cx: &CallContext,
        profile: Profile,
        principal: String,
        passphrase: String,
    ) -> Result<UserSessionClient, CallError> {
        let broker = &self.0;
        let initial = profile == broker.config.initial;
        let principal =
            if initial && !broker.config.principal.is_empty() { broker.config.principal.clone() } else { principal };
        if principal.is_empty() || principal.len() > MAX_PRINCIPAL {
            return Err(CallError::invalid_argument("a principal's name has 1 to 64 bytes"));
        }
        if broker.open.get() > 0 {
            // Those without a holder are found by a sweep.
            broker.server.sweep();
        }
        let open = Permit::acquire(&broker.open, SESSIONS)
            .ok_or_else(|| CallError::overloaded(format!("{SESSIONS} sessions are open; end one first")))?;
        // An operator has to know the passphrase.
        let is_known = initial || profile == Profile::Operator;
        if !is_known && principal == broker.config.principal {
            return Err(CallError::invalid_argument(format!(
                "{principal} is the principal of the console; log in with another name"
            )));
        }
        if !is_known && !broker.budgets.borrow().has_place_for(&principal) {
            return Err(CallError::overloaded(
                "the broker counts no more principals that use models; log in with a name that has used one",
            ));
        }
        let id = hex::encode(crate::random(&broker.entropy).await?);
        // A person at the console gets the initial profile; an operator's has to be opened otherwise.
        let refused = if profile == Profile::Operator && !initial {
            broker.try_passphrase(&passphrase).await.err()
        } else {
            None
        };
        let subject = Subject { session: &id, principal: &principal };
        let outcome = refused.as_deref().unwrap_or("granted");
        let fields: [(&str, &dyn core::fmt::Display); 2] = [("profile", &profile.name()), ("outcome", &outcome)];
        subject.record(&broker.blocks.writer, Kind::SessionStart, &fields).await?;
        if let Some(why) = refused {
            return Err(CallError::invalid_argument(format!("{} needs the passphrase: {why}", profile.name())));
        }
        let share = broker.server.share();
        let session = Session::open((broker.clone(), open, share.clone()), profile, id, principal).await?;
        // It can be told to end, so it is not among what ends with it.
        let object = share.bound(Rc::new(UserSessionService(session)));
        Ok(UserSessionClient::from_cap(broker.server.export(object)?))
    }

    async fn volume(&self, _cx: &CallContext) -> Result<VolumeInfo, CallError> {
        let details = String::from("This machine has no data disk. Nothing is kept after power-off.");
        Ok(VolumeInfo { state: VolumeState::None, details, ..VolumeInfo::default() })
    }

    async fn set_up(&self, _cx: &CallContext, _name: String, _passphrase: String) -> Result<String, CallError> {
        Err(CallError::failed("there is no data disk to set up"))
    }

    async fn unlock(
        &self,
        _cx: &CallContext,
        _name: String,
        _secret: String,
        _kind: KeyKind,
    ) -> Result<AuthorityBrokerUnlockResults, CallError> {
        Err(CallError::failed("there is no data volume to unlock"))
    }
}
