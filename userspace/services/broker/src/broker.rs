//! Issuing sessions.

pub mod object;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_audit::Kind;
use capos_broker::budgets::{Budgets, Moment, Store};
use capos_broker::config::Config;
use capos_broker::deadlines::Deadlines;
use capos_broker::memory_budget::{Exporter, QUESTIONS, REQUESTS};
use capos_broker::persisted;
use capos_broker::settings::{self, Settings};
use capos_broker::volume::{DataVolume, Identity, Plan};
use capos_broker::worker::Replaced;
use capos_keyspace::Durability;
use capos_plural::count;
use capos_policy::{Attempts, Quota, Rates, ServiceEnds};
use capos_rt::{Clock, Error, Server, log};
use capos_schema::authority::{Profile, SessionInfo, UserInfo};
use capos_schema::cap::CallError;
use capos_schema::kernel::{EntropyClient, TimerClient};
use capos_schema::manifest::SessionProfile;
use capos_schema::store::{KeyKind, NamespaceClient, VolumeState};

use crate::capability_pool::CapabilityPool;
use crate::decision::Subject;

/// What the configuration is made of, apart from the settings.
pub struct Sources {
    /// The files of the image, by their paths.
    pub files: Vec<(&'static str, String)>,
    pub profiles: Vec<SessionProfile>,
    pub services: ServiceEnds,
    /// For passphrases that are given in plain text.
    pub salt: [u8; 16],
}

impl Sources {
    /// The files, by their paths.
    pub fn named(&self) -> Vec<(&str, &str)> {
        self.files.iter().map(|(name, text)| (*name, text.as_str())).collect()
    }

    /// The configuration with these settings, and the settings that are not understood.
    ///
    /// # Errors
    /// A file has a mistake.
    pub fn configuration(&self, settings: &Settings) -> Result<(Config, Vec<(String, String)>), String> {
        let (mut config, bad) = settings::configuration(&self.named(), settings, self.salt)?;
        config.permit(&self.profiles)?;
        config.policy.services = self.services.clone();
        Ok((config, bad))
    }
}

/// The broker.
pub struct Broker {
    pub sources: Sources,
    /// The configuration in force, with the settings that it has.
    config: RefCell<(Rc<Config>, Settings)>,
    pub blocks: CapabilityPool,
    pub clock: Clock,
    /// The right to set it.
    time: TimerClient,
    /// When workers are waited for no longer, and which of them were replaced for it.
    pub deadlines: Rc<Deadlines>,
    pub replaced: Replaced,
    pub server: Exporter<Rc<Server>>,
    /// Where sessions ask their models: apart from the rest, since requests are long.
    pub models: Exporter<Rc<Server>>,
    entropy: EntropyClient,
    /// What is used of tokens and all else, and where that is kept.
    pub budgets: RefCell<Budgets>,
    pub store: Store<NamespaceClient>,
    /// Requests to models in a minute.
    pub rates: RefCell<Rates>,
    /// Sessions that somebody holds.
    pub open: Rc<Cell<u32>>,
    /// Whether counts are still to be kept without a caller that waits, and whether they are being kept.
    unkept: Cell<bool>,
    keeping: Cell<bool>,
    /// Wrong passphrases count for the whole system, not for one session.
    pub attempts: RefCell<Attempts>,
    /// The data volume, where the system has a store.
    pub volume: Option<DataVolume<NamespaceClient>>,
    /// Logins and sessions by principal.
    pub in_use: RefCell<BTreeMap<String, u32>>,
}

impl Broker {
    /// A broker without sessions. Attempts and budgets are those of before, where it was restarted.
    pub fn new(
        (sources, config): (Sources, Config),
        blocks: CapabilityPool,
        (attempts, rates, budgets): (Attempts, Rates, Budgets),
        entropy: EntropyClient,
        (clock, time): (Clock, TimerClient),
        (server, models): (Rc<Server>, Rc<Server>),
        (volume, space): (Option<DataVolume<NamespaceClient>>, Option<NamespaceClient>),
    ) -> Rc<Self> {
        Rc::new(Self {
            sources,
            config: RefCell::new((Rc::new(config), Settings::new())),
            blocks,
            deadlines: Deadlines::new(clock.clone()),
            replaced: Replaced::default(),
            clock,
            time,
            server: Exporter::new(server, QUESTIONS),
            models: Exporter::new(models, REQUESTS),
            open: Rc::default(),
            unkept: Cell::default(),
            keeping: Cell::default(),
            entropy,
            budgets: RefCell::new(budgets),
            store: Store::new(space),
            rates: RefCell::new(rates),
            attempts: RefCell::new(attempts),
            volume,
            in_use: RefCell::default(),
        })
    }

    /// The configuration in force.
    pub fn config(&self) -> Rc<Config> {
        self.config.borrow().0.clone()
    }

    /// Puts the settings of the data volume in force, once it is open.
    ///
    /// # Errors
    /// They cannot be read: no session is better than one with wrong permissions.
    pub async fn apply_settings(&self) -> Result<(), CallError> {
        let Some(volume) = &self.volume else { return Ok(()) };
        let settings = volume.settings().await?;
        if self.config.borrow().1 == settings {
            return Ok(());
        }
        let (config, bad) = self.sources.configuration(&settings).map_err(CallError::failed)?;
        for (name, why) in bad {
            log::warning!("the setting {name} is not understood and left out: {why}");
        }
        *self.config.borrow_mut() = (Rc::new(config), settings);
        Ok(())
    }

    /// The data volume, as long as this person is an operator.
    ///
    /// # Errors
    /// There is none, or they are none.
    pub async fn volume_of(&self, operator: &str) -> Result<&DataVolume<NamespaceClient>, CallError> {
        let volume = self.volume()?;
        if volume.is_operator(operator).await? {
            return Ok(volume);
        }
        Err(CallError::invalid_argument(format!("{operator} is no longer an operator")))
    }

    /// The data volume.
    ///
    /// # Errors
    /// The system uses none.
    pub fn volume(&self) -> Result<&DataVolume<NamespaceClient>, CallError> {
        self.volume.as_ref().ok_or_else(|| CallError::failed("this system uses no data disk"))
    }

    /// What a user's home may take.
    pub fn quota(&self, user: &UserInfo) -> String {
        match Quota::parse(&user.quota) {
            Ok(quota) => quota.to_string(),
            Err(_) => self.config().home_quota.to_string(),
        }
    }

    /// What the home of a session's principal may take. Only users of a data disk have a quota.
    ///
    /// # Errors
    /// The users cannot be read.
    pub async fn quota_of(&self, info: &SessionInfo) -> Result<String, CallError> {
        if !info.user {
            return Ok(Quota::None.to_string());
        }
        let users = self.volume()?.users().await?;
        let user = users.iter().find(|user| user.name == info.principal);
        Ok(user.map_or_else(|| self.config().home_quota.to_string(), |user| self.quota(user)))
    }

    /// Whether a session's person may still have a session of its profile.
    ///
    /// # Errors
    /// They are no user any more, or one of another profile.
    pub async fn still(&self, info: &SessionInfo) -> Result<(), CallError> {
        if !info.user {
            return Ok(());
        }
        let users = self.volume()?.users().await?;
        let name = &info.principal;
        match users.iter().find(|user| user.name == *name) {
            Some(user) if user.profile == info.profile => Ok(()),
            Some(user) => Err(CallError::invalid_argument(format!(
                "{name} has the profile {} now, and this session has {}; log in again",
                user.profile.name(),
                info.profile.name()
            ))),
            None => Err(CallError::invalid_argument(format!("{name} is no user of this machine any more"))),
        }
    }

    /// 128 random bits.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub async fn random(&self) -> Result<[u8; 16], Error> {
        crate::random(&self.entropy).await
    }

    /// Lets what is kept of users and settings start over if a block of it is damaged. The session that opens says what that costs.
    async fn mend(&self) -> Result<(), CallError> {
        let Some(volume) = &self.volume else { return Ok(()) };
        if let Some(told) = volume.mend().await? {
            log::error!("{told}");
            self.record_key("mend", ("", None), Some(told.clone())).await;
            self.blocks.tell(told);
        }
        Ok(())
    }

    /// Whether a login with this profile and name takes a key of the data volume.
    async fn needs_key(&self, profile: Profile, name: &str) -> Result<bool, CallError> {
        let Some(volume) = &self.volume else { return Ok(false) };
        Ok(volume.has_users().await? && (profile == Profile::Operator || volume.has_key(name).await?))
    }

    /// Whether logins are those of the data volume's users.
    async fn has_users(&self) -> Result<bool, CallError> {
        match &self.volume {
            Some(volume) => volume.has_users().await,
            None => Ok(false),
        }
    }

    /// Whether a blank disk waits, whose set-up was put off.
    pub async fn waits_for_setup(&self) -> bool {
        match &self.volume {
            Some(volume) => volume.info().await.is_ok_and(|info| info.state == VolumeState::Declined),
            None => false,
        }
    }

    /// Sets up or unlocks the data volume as `setup.toml` says, where there is one.
    pub async fn prepare(self: Rc<Self>, plan: Option<Result<Plan, String>>) {
        let Some(volume) = &self.volume else { return };
        if let Some((name, why)) = volume.prepare(plan).await {
            self.record_key("unlock", (&name, Some(KeyKind::KeyFile)), why).await;
        }
    }

    /// Tries the passphrase of a session's person: of the user, or where there is no data volume the configured one.
    ///
    /// # Errors
    /// Why it does not open.
    pub async fn try_passphrase_of(&self, info: &SessionInfo, given: &str) -> Result<(), String> {
        if info.user {
            let volume = self.volume().map_err(|error| error.to_string())?;
            return volume.verify(&info.principal, given).await;
        }
        if self.has_users().await.map_err(|error| error.to_string())? {
            return Err(format!("{} has no passphrase on this machine; log in as a user", info.profile.name()));
        }
        self.try_passphrase(given).await
    }

    /// Tries the configured passphrase. The attempt is counted and the count kept before anything is compared: an attacker that
    /// ends this process meanwhile gains no attempt by it.
    ///
    /// # Errors
    /// Why it does not open.
    pub async fn try_passphrase(&self, given: &str) -> Result<(), String> {
        let config = self.config();
        let kept = self
            .attempts
            .borrow_mut()
            .begin(config.passphrase.as_ref(), self.clock.now())
            .map_err(|why| why.to_string())?;
        self.keep(Durability::Later).await?;
        self.attempts.borrow_mut().finish(kept, given).map_err(|why| why.to_string())?;
        self.keep(Durability::Later).await
    }

    /// Keeps what is counted against people outside this process, which may crash, and budgets over a restart of the machine.
    /// `durability` is that of budgets.
    ///
    /// # Errors
    /// It could not be kept, so nothing may come of it.
    pub async fn keep(&self, durability: Durability) -> Result<(), String> {
        let elsewhere = if self.store.is_in_use() { Vec::new() } else { self.budgets.borrow().entries() };
        let state = persisted::encode(&self.attempts.borrow(), &self.rates.borrow(), &elsewhere);
        let stored = self.blocks.keeper.store(&state).await;
        stored.map_err(|why| format!("the counts of passphrases and requests could not be stored: {why}"))?;
        let kept = self.store.keep(&self.budgets, durability).await;
        kept.map_err(|fault| format!("the use of budgets could not be stored: {fault}"))
    }

    /// The time.
    pub fn moment(&self) -> Moment {
        Moment { now: self.clock.now(), unix: self.clock.wall_clock().unwrap_or_default() }
    }

    /// Reads the budgets that are kept, once the volume is open.
    ///
    /// # Errors
    /// They cannot be read.
    async fn load_budgets(&self) -> Result<(), CallError> {
        match self.store.load(&self.budgets).await {
            Ok(0) => Ok(()),
            Ok(malformed) => {
                log::warning!("{} not understood, and not counted", count(malformed, "stored budget"));
                Ok(())
            }
            Err(fault) => Err(CallError::failed(format!("the use of budgets cannot be read: {fault}"))),
        }
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
                if let Err(why) = broker.keep(Durability::Later).await {
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

/// Who logs in, without the session's number and limits; and why not.
struct Login {
    info: SessionInfo,
    refused: Option<String>,
}

impl Broker {
    /// A user of the data volume.
    async fn user(&self, name: String, passphrase: &str) -> Login {
        let found = match self.volume() {
            Ok(volume) => volume.identify(&name, passphrase).await,
            Err(error) => Err(error.to_string()),
        };
        match found {
            Ok(Identity { user, failed }) => {
                let UserInfo { name: principal, profile, .. } = user;
                let info =
                    SessionInfo { principal, profile, user: true, failed_attempts: failed, ..SessionInfo::default() };
                Login { info, refused: None }
            }
            Err(why) => {
                let info = SessionInfo { principal: name, profile: Profile::Operator, ..SessionInfo::default() };
                Login { info, refused: Some(why) }
            }
        }
    }

    /// Somebody who is no user of a data volume. An operator's passphrase is the configured one.
    async fn without_key(&self, profile: Profile, principal: String, passphrase: &str) -> Result<Login, CallError> {
        let config = self.config();
        let initial = profile == config.initial;
        let principal = if initial && !config.principal.is_empty() { config.principal.clone() } else { principal };
        if principal.is_empty() {
            return Err(CallError::invalid_argument("a principal's name has 1 to 64 bytes"));
        }
        // An operator has to know the passphrase.
        let is_known = initial || profile == Profile::Operator;
        if !is_known && principal == config.principal {
            return Err(CallError::invalid_argument(format!(
                "{principal} is the principal of the console; log in with another name"
            )));
        }
        let has_place = self.rates.borrow().has_place_for(&principal)
            && self.budgets.borrow().has_place_for(&principal, self.moment().unix);
        if !is_known && !has_place {
            return Err(CallError::overloaded(
                "the broker counts no more principals that use models; log in with a name that has used one",
            ));
        }
        // A person at the console gets the initial profile; an operator's has to be opened otherwise.
        let refused =
            if profile == Profile::Operator && !initial { self.try_passphrase(passphrase).await.err() } else { None };
        let refused = refused.map(|why| format!("{} needs the passphrase: {why}", profile.name()));
        Ok(Login { info: SessionInfo { principal, profile, ..SessionInfo::default() }, refused })
    }

    /// Makes the volume on the blank disk, with its first user.
    ///
    /// # Errors
    /// As [`DataVolume::set_up`].
    pub async fn set_up(&self, name: &str, passphrase: &str) -> Result<String, CallError> {
        let done = self.volume()?.set_up(name, passphrase).await;
        self.record_key("setUp", (name, Some(KeyKind::Passphrase)), done.as_ref().err().map(ToString::to_string)).await;
        done
    }

    /// Sets the clock to a time at this offset, and records that before; if the machine rejects the time, also that. Returns what it said before, and what it says now, in milliseconds
    /// since 1970.
    ///
    /// # Errors
    /// The text is no time that a clock can have, or the clock cannot be set.
    pub async fn set_clock(&self, who: &str, time: &str, offset: i16) -> Result<(u64, u64), CallError> {
        let to = capos_broker::settings::time(time, offset).map_err(CallError::invalid_argument)?;
        let before = self.clock.wall_clock()?;
        let subject = Subject { session: "", principal: who };
        let (from, at) = (capos_setup::moment(before), capos_setup::moment(to));
        let fields: [(&str, &dyn core::fmt::Display); 2] = [("clock", &at), ("before", &from)];
        subject.record(&self.blocks.writer, Kind::BrokerDecision, &fields).await?;
        if let Err(why) = self.time.set_wall_clock(to).await {
            let outcome = format!("the clock is not set: {why}");
            let fields: [(&str, &dyn core::fmt::Display); 2] = [("clock", &at), ("outcome", &outcome)];
            if let Err(unrecorded) = subject.record(&self.blocks.writer, Kind::BrokerDecision, &fields).await {
                log::warning!("{unrecorded}");
            }
            return Err(why);
        }
        Ok((before, to))
    }

    /// Records what a user did with a key of the data volume, by which kind of key, and with what outcome. A full log
    /// keeps nobody from their disk: the session that follows is recorded or not opened.
    pub async fn record_key(&self, what: &str, (name, by): (&str, Option<KeyKind>), refused: Option<String>) {
        let outcome = refused.unwrap_or_else(|| "done".into());
        let subject = Subject { session: "", principal: name };
        let by = by.map_or("", KeyKind::name);
        let fields: [(&str, &dyn core::fmt::Display); 3] = [("volume", &what), ("outcome", &outcome), ("by", &by)];
        let fields = if by.is_empty() { fields.get(..2).unwrap_or_default() } else { &fields };
        if let Err(why) = subject.record(&self.blocks.writer, Kind::BrokerDecision, fields).await {
            log::warning!("{why}");
        }
    }
}
