//! One session: its capabilities, its conversation, its prompt.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::pin;

use alloc::vec::Vec;
use capos_agent::world::Host;
use capos_agent::{Agent, Backlog, Conversation, Either, Handles, Snapshot, TurnEnd, race};
use capos_plural::{count, noun};
use capos_rt::{Clock, Error, log};
use capos_schema::audit::{AuditWriterClient, GeneralEvent};
use capos_schema::authority::{NamedGrant, Profile, SessionInfo, UserSessionClient, UserSessionModelResults};
use capos_schema::cap::{CallError, Client, LocalBoxFuture};
use capos_schema::kernel::{CapabilityTableClient, EntropyClient, ObjectClient};
use capos_schema::models::{LanguageModelClient, ModelInfo};
use capos_schema::system::{LauncherClient, SystemStatusClient};
use capos_schema::terminal::{LineEnd, Style};
use capos_terminal::quote;

use crate::command::{self, Flow};
use crate::completions::completions;
use crate::escape::{in_quotes, name, plain};
use crate::gate::PATIENCE;
use crate::grant_plan::may_take_back;
use crate::jobs::Jobs;
use crate::login::Login;
use crate::render::Progress;
use crate::screen::Screen;
use crate::table;

/// What the model is told first. Only text of this program stands there; data has its place in the messages.
const SYSTEM: &str = include_str!("system-message.txt").trim_ascii_end();

/// How long a person waits for a model before they are told that they do, and how long at most, in nanoseconds.
const UNTOLD: u64 = 2_000_000_000;
const LOADING: u64 = 300_000_000_000;

/// What a person can do where a model does not take the conversation.
const TELL_PLAINLY: &str =
    "/plain sends what tools were called for in it, and gave, as text, which any template takes; ";
const BEGIN_ANEW: &str = "/stop begins a new conversation; /model chooses another model";

/// What the loop of a session stands on.
pub struct Runner {
    pub screen: Rc<Screen>,
    pub clock: Clock,
    entropy: EntropyClient,
    pub table: CapabilityTableClient,
    pub user: UserSessionClient,
    pub info: SessionInfo,
    /// When the session began, in nanoseconds since boot.
    started: u64,
    grants: RefCell<Vec<NamedGrant>>,
    /// Grants that the person has put away.
    pub dropped: RefCell<BTreeSet<String>>,
    writer: RefCell<Option<AuditWriterClient>>,
    pub model: RefCell<Option<(LanguageModelClient, ModelInfo)>>,
    /// Why there is none, where one was to be opened.
    no_model: RefCell<String>,
    /// The broker has forgotten this session.
    lost: Cell<bool>,
    pub progress: Progress,
    /// Of how many results that others wrote the person was told when they were last asked.
    pub told_of: Cell<usize>,
    /// Ctrl-C presses when the line was entered; any more are about what it began.
    interrupts: Cell<u64>,
}

impl Runner {
    /// The session's grant with this number.
    pub fn capability(&self, number: u64) -> Result<ObjectClient, String> {
        let grants = self.grants.borrow();
        let grant = usize::try_from(number).ok().and_then(|at| grants.get(at));
        grant
            .map(|grant| grant.capability.clone())
            .ok_or_else(|| "the session no longer holds this capability".to_string())
    }

    /// The session's grants.
    pub fn grants(&self) -> Vec<NamedGrant> {
        self.grants.borrow().clone()
    }

    /// The grant of an interface, which is there to do `what`.
    ///
    /// # Errors
    /// The session has none; says so.
    pub fn grant<C: Client>(&self, what: &str) -> Result<C, String> {
        let grants = self.grants.borrow();
        let found = grants.iter().find(|grant| grant.interface == C::INTERFACE_ID);
        found.map(|grant| grant.capability.clone().cast()).ok_or_else(|| {
            let put_away: Vec<String> = self.dropped.borrow().iter().cloned().collect();
            may_not(self.info.profile, what, &put_away)
        })
    }

    /// The audit writer.
    ///
    /// # Errors
    /// There is none now.
    pub fn writer(&self) -> Result<AuditWriterClient, String> {
        self.writer.borrow().clone().ok_or_else(|| "it is not there".to_string())
    }

    /// Whether a capability is the audit writer, by its name.
    pub fn is_writer(&self, name: &str) -> bool {
        let grants = self.grants.borrow();
        grants.iter().any(|grant| grant.name == name && grant.interface == AuditWriterClient::INTERFACE_ID)
    }

    /// A call to the broker, with a limit on its time.
    pub async fn within<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        let result = self.in_time(call).await;
        self.of_broker(result)
    }

    /// What came of a call to the broker, or to what it answers for: where that is gone, so is the session.
    pub fn of_broker<T>(&self, result: Result<T, CallError>) -> Result<T, CallError> {
        if let Err(error) = &result
            && error.is_disconnected()
        {
            self.lost.set(true);
        }
        result
    }

    /// A call to the audit log, with a limit on its time; errors in words.
    pub async fn audited<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, String> {
        self.in_time(call).await.map_err(|error| error.to_string())
    }

    /// A call with a limit on its time.
    pub async fn in_time<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        let deadline = self.clock.now().saturating_add(PATIENCE);
        match race(call, self.clock.sleep_until(deadline)).await {
            Either::Left(result) => result,
            Either::Right(()) => Err(CallError::failed("no answer within 10 s")),
        }
    }

    /// Fetches the session's capabilities again.
    async fn refresh(&self) -> Result<(), CallError> {
        let mut grants = self.within(self.user.bundle()).await?;
        *self.writer.borrow_mut() = grants
            .iter()
            .find(|grant| grant.interface == AuditWriterClient::INTERFACE_ID)
            .map(|grant| grant.capability.clone().cast());
        let dropped = self.dropped.borrow().clone();
        grants.retain(|grant| !dropped.contains(&grant.name));
        *self.grants.borrow_mut() = grants;
        Ok(())
    }

    /// Opens the profile's own model where the session has none yet and may have one; the prompt does not wait long for it.
    async fn begin_with_model(&self) {
        self.keep_model(self.within(self.user.model("")).await.map_err(|error| error.to_string()));
    }

    /// The same for a person who waits for an answer.
    pub async fn need_model(&self) {
        if self.model.borrow().is_none() && self.info.model_allowed {
            let opened = self.wait_for_model("").await;
            self.keep_model(opened);
        }
    }

    fn keep_model(&self, opened: Result<UserSessionModelResults, String>) {
        match opened {
            Ok(opened) => *self.model.borrow_mut() = Some((opened.model, opened.info)),
            Err(why) => {
                log::warning!("no model: {why}");
                *self.no_model.borrow_mut() = why;
            }
        }
    }

    /// Opens another model for this session.
    ///
    /// # Errors
    /// In words.
    pub async fn change_model(&self, id: &str) -> Result<(), String> {
        let opened = self.wait_for_model(id).await?;
        *self.model.borrow_mut() = Some((opened.model, opened.info));
        Ok(())
    }

    /// Waits for a model. A slow machine takes a minute to read the header of one with a large vocabulary, so whoever waits is
    /// told, and can give up.
    async fn wait_for_model(&self, id: &str) -> Result<UserSessionModelResults, String> {
        let mut call = pin!(self.user.model(id));
        let opened = match race(&mut call, self.clock.sleep(UNTOLD)).await {
            Either::Left(opened) => opened,
            Either::Right(()) => {
                self.screen.line(Style::Dim, "opening the model; Ctrl-C gives up").await;
                match race(call, race(self.interrupt(), self.clock.sleep(LOADING))).await {
                    Either::Left(opened) => opened,
                    Either::Right(Either::Left(())) => return Err("interrupted".to_string()),
                    Either::Right(Either::Right(())) => Err(CallError::failed("no answer within 300 s")),
                }
            }
        };
        self.of_broker(opened).map_err(|error| error.to_string())
    }

    /// Tells the log how far it was to something that a person waits for, and what is in use there.
    pub async fn tell_start(&self, what: &str) {
        let now = self.clock.now();
        let Ok(status) = self.grant::<SystemStatusClient>("see how the system is") else { return };
        if let Ok(found) = self.within(status.statistics()).await {
            log::info!(
                "at {what} {now} ns after the kernel began, {} ns of which it was idle; {} of {} frames in use; the first \
                 process began {} counts of the time-stamp counter after the kernel, and that {} after the machine",
                found.idle_nanoseconds,
                found.total_frames.saturating_sub(found.free_frames),
                found.total_frames,
                found.init_start_tsc.saturating_sub(found.kernel_entry_tsc),
                found.kernel_entry_tsc
            );
        }
    }

    /// Tells what the model in use says of itself, as its own words: what it cannot do counts too.
    pub async fn tell_of_model(&self) {
        let of_itself = self.model.borrow().as_ref().and_then(|(_, model)| {
            let ModelInfo { display_name, description, .. } = model;
            let said =
                || format!("{} says of itself: {}", quote(display_name.trim()), in_quotes(description, usize::MAX));
            (!description.is_empty()).then(said)
        });
        if let Some(text) = of_itself {
            self.screen.wrapped(&[(Style::Dim, &text)]).await;
        }
    }
}

impl Host for Runner {
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn sleep_until(&self, nanoseconds: u64) -> LocalBoxFuture<'static, ()> {
        let clock = self.clock.clone();
        Box::pin(async move { clock.sleep_until(nanoseconds).await })
    }

    fn random(&self) -> [u8; 16] {
        random(&self.entropy)
    }

    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        capos_rt::spawn(task);
    }

    fn interrupt(&self) -> LocalBoxFuture<'static, ()> {
        let (interrupts, known) = (self.screen.interrupts().clone(), self.interrupts.get());
        Box::pin(async move { interrupts.after(known).await })
    }
}

/// That a session lacks what it takes to do something, and where that may be.
fn may_not(profile: Profile, what: &str, put_away: &[String]) -> String {
    let why = format!("this {} session may not {what}: it holds no capability for that", profile.name());
    match may_take_back(put_away) {
        Some(how) => format!("{why}; {how}"),
        None => why,
    }
}

/// 128 bits from the kernel; zeros are never handed out, since the kernel's source does not fail.
fn random(entropy: &EntropyClient) -> [u8; 16] {
    let bytes = capos_rt::wait_for(entropy.read(16)).unwrap_or_default();
    bytes.try_into().unwrap_or_default()
}

/// A session at its prompt.
pub struct Session {
    pub runner: Rc<Runner>,
    pub agent: Agent<Runner>,
    backlog: Rc<Backlog>,
    handles: Handles,
    pub snapshot: Snapshot,
    pub jobs: Jobs,
    /// Names of the programs that there are, where the session may run any.
    pub programs: Vec<String>,
    /// Titles of the models that the person was told of last.
    pub models: Vec<String>,
}

impl Session {
    /// Opens what the broker issued, with the conversation of an earlier session where there is one.
    ///
    /// # Errors
    /// The broker or the kernel's entropy does not answer.
    pub async fn open(login: &Login, user: UserSessionClient, kept: Option<Conversation>) -> Result<Self, Error> {
        let info = user.info().await?;
        let runner = Rc::new(Runner {
            screen: login.screen.clone(),
            clock: login.clock.clone(),
            entropy: login.entropy.clone(),
            table: login.table.clone(),
            user,
            info,
            started: login.clock.now(),
            grants: RefCell::default(),
            dropped: RefCell::default(),
            writer: RefCell::default(),
            model: RefCell::default(),
            no_model: RefCell::default(),
            lost: Cell::new(false),
            progress: Progress::default(),
            told_of: Cell::new(0),
            interrupts: Cell::new(0),
        });
        let conversation = kept.unwrap_or_else(|| Conversation::new(hex::encode(random(&login.entropy))));
        let backlog = Rc::<Backlog>::default();
        let agent = agent(&runner, conversation, backlog.clone());
        let mut session = Self {
            runner,
            agent,
            backlog,
            handles: Handles::default(),
            snapshot: Snapshot::default(),
            jobs: Jobs::default(),
            programs: Vec::new(),
            models: Vec::new(),
        };
        session.refresh().await?;
        if session.runner.info.model_allowed {
            session.runner.begin_with_model().await;
        }
        session.programs = session.names_of_programs().await;
        session.record("session.opened").await;
        session.greet().await;
        Ok(session)
    }

    /// The session's profile.
    pub fn profile(&self) -> Profile {
        self.runner.info.profile
    }

    /// The conversation, for another session. This one's pending records are written with its own writer: no other may
    /// record them.
    pub async fn into_conversation(self) -> Conversation {
        self.flush_pending().await;
        self.agent.conversation().clone()
    }

    /// Writes the pending records; if the audit log does not take them, the person is told.
    async fn flush_pending(&self) {
        let Err(why) = self.agent.flush_pending().await else { return };
        let text = {
            let (waiting, verb) = (self.backlog.waiting(), if self.backlog.waiting() == 1 { "is" } else { "are" });
            format!("{} of this session {verb} not in the audit log ({why})", count(waiting, "record"))
        };
        log::error!("{text}");
        self.runner.screen.line(Style::Warning, &text).await;
    }

    /// Rebuilds the tool table from the capabilities that the session has now.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn refresh(&mut self) -> Result<(), Error> {
        self.runner.refresh().await?;
        let grants = self.runner.grants();
        let offered = table::offered(&grants);
        let questions = table::questions(&offered);
        let answers = self.runner.within(self.runner.user.permissions(&questions)).await?;
        self.handles.retain(|name| grants.iter().any(|grant| grant.name == name));
        let runner = self.runner.clone();
        self.snapshot =
            table::snapshot(offered, &answers, &grants, &mut self.handles, || runner.random()).map_err(Error::new)?;
        Ok(())
    }

    /// The manifest's programs, which do not change. Without them only Tab knows less.
    async fn names_of_programs(&self) -> Vec<String> {
        let Ok(launcher) = self.runner.grant::<LauncherClient>("run programs") else { return Vec::new() };
        self.runner.in_time(launcher.programs()).await.unwrap_or_else(|why| {
            log::warning!("the programs could not be listed: {why}");
            Vec::new()
        })
    }

    async fn greet(&self) {
        let info = &self.runner.info;
        let model = match self.runner.model.borrow().as_ref() {
            Some((_, model)) => format!("model {} ({}), ", name(&model.display_name), name(&model.backend)),
            None => "no model, ".to_string(),
        };
        let short: String = info.id.chars().take(8).collect();
        let text = format!(
            "{} session {short}: {model}{}. /help tells more; Ctrl-C interrupts.",
            info.profile.name(),
            count(self.snapshot.tools().len(), "tool")
        );
        self.runner.screen.wrapped(&[(Style::Dim, &text)]).await;
        self.runner.tell_of_model().await;
    }

    /// The prompt, until the session ends.
    pub async fn run(&mut self) -> Flow {
        self.runner.tell_start("the prompt").await;
        loop {
            self.jobs.report(&self.runner.screen).await;
            let (line, end) = self.runner.screen.read("capos> ", completions(self)).await;
            self.runner.interrupts.set(self.runner.screen.interrupts().count());
            let line = line.trim();
            match end {
                LineEnd::EndOfInput => return Flow::Exit,
                LineEnd::Interrupted | LineEnd::Cancelled => continue,
                LineEnd::Entered if line.is_empty() => continue,
                LineEnd::Entered => {}
            }
            let flow = match line.strip_prefix('/') {
                Some(command) => command::run(self, command).await,
                None => {
                    match hint(line) {
                        Some(hint) => self.runner.screen.line(Style::Dim, hint).await,
                        None => self.turn(line).await,
                    }
                    Flow::Go
                }
            };
            if self.runner.lost.get() {
                return Flow::Lost;
            }
            if flow == Flow::Exit {
                return Flow::Exit;
            }
        }
    }

    async fn turn(&mut self, line: &str) {
        let screen = self.runner.screen.clone();
        if let Err(why) = self.refresh().await {
            screen.error(&format!("this turn cannot begin: {why}")).await;
            return;
        }
        self.runner.need_model().await;
        if self.runner.model.borrow().is_none() {
            let why = self.runner.no_model.borrow().clone();
            let why = if why.is_empty() { why } else { format!(" ({why})") };
            let text = format!("this session has no model{why}; commands that begin with / work without one");
            screen.error(&text).await;
            return;
        }
        let toolless = self
            .runner
            .model
            .borrow()
            .as_ref()
            .filter(|(_, info)| !info.supports_tools)
            .map(|(_, info)| name(&info.id));
        if let Some(id) = toolless {
            let text = format!("agent mode is refused: the model {id} cannot call tools; choose another with /model");
            screen.error(&text).await;
            return;
        }
        screen.others_speak();
        let end = self.agent.turn(line, &self.snapshot).await;
        let (style, text) = match end {
            TurnEnd::Answered => return,
            TurnEnd::Interrupted => (Style::Dim, "interrupted".to_string()),
            TurnEnd::Iterations(most) => (
                Style::Warning,
                format!("stopped: the model was asked {} in this turn, which is the limit", count(most, "time")),
            ),
            TurnEnd::Evidence(bytes) => (
                Style::Warning,
                format!(
                    "stopped: the calls of this turn have left {} KiB in the audit log without your word, which is the \
                     limit; ask again to go on",
                    bytes / 1024
                ),
            ),
            TurnEnd::SessionEvidence(bytes) => (
                Style::Warning,
                format!(
                    "stopped: the turns of this session have left {} KiB in the audit log without your word, which is the \
                     limit; commands that begin with / go on, and /exit and a new log-in begin a session that has its own",
                    bytes / 1024
                ),
            ),
            TurnEnd::Tokens(why) | TurnEnd::Rate(why) => (Style::Warning, format!("stopped: {why}")),
            TurnEnd::Time(seconds) => {
                (Style::Warning, format!("stopped: the session's time of {seconds} s is over; /exit and log in again"))
            }
            TurnEnd::Repeated => (Style::Warning, "stopped: the answer repeated itself".to_string()),
            TurnEnd::Model(why) => (Style::Error, format!("the model gave no answer: {why}")),
            TurnEnd::Rejected(why) => {
                let other = if self.agent.has_calls() { TELL_PLAINLY } else { "" };
                (Style::Error, format!("the model gave no answer: {why}; {other}{BEGIN_ANEW}"))
            }
            TurnEnd::Refused(why) => (Style::Error, format!("refused: {why}")),
        };
        screen.wrapped(&[(style, &plain(&text))]).await;
        let running = self.agent.background();
        if running > 0 {
            let text = format!(
                "{}; the model will not see {} {}",
                command::unfinished(running),
                if running == 1 { "its" } else { "their" },
                noun(running, "result")
            );
            screen.line(Style::Dim, &text).await;
        }
    }

    /// Begins a new conversation.
    pub fn forget(&mut self) {
        let id = hex::encode(self.runner.random());
        self.agent = agent(&self.runner, Conversation::new(id), self.backlog.clone());
        self.runner.told_of.set(0);
    }

    /// Waits for calls that still run, and tells the broker that the session is over.
    pub async fn end(&self) {
        let limit = self.runner.now().saturating_add(PATIENCE);
        while self.backlog.running() > 0 && self.runner.now() < limit {
            self.runner.sleep_until(self.runner.now().saturating_add(PATIENCE / 100)).await;
        }
        if self.backlog.waiting() > 0 {
            // The log may have been restarted since the last turn; then it has a writer of its own.
            if let Err(why) = self.runner.refresh().await {
                log::warning!("the session's capabilities could not be fetched again: {why}");
            }
            self.flush_pending().await;
        }
        self.record("session.closed").await;
        if let Err(why) = self.runner.within(self.runner.user.end()).await {
            log::warning!("the session could not be ended: {why}");
        }
    }

    /// What the session was opened and closed with, for the audit log.
    async fn record(&self, kind: &str) {
        let field = |name: &str, value: String| capos_schema::audit::GeneralEventField { name: name.into(), value };
        let model = self.runner.model.borrow().as_ref().map(|(_, info)| info.id.clone()).unwrap_or_default();
        let tools: Vec<String> = self.snapshot.tools().iter().map(|tool| tool.descriptor.name.clone()).collect();
        let grants: Vec<String> = self.runner.grants().into_iter().map(|grant| grant.name).collect();
        let event = GeneralEvent {
            kind: kind.to_string(),
            session: self.runner.info.id.clone(),
            principal: self.runner.info.principal.clone(),
            fields: Vec::from([
                field("conversation", self.agent.conversation().id.clone()),
                field("model", model),
                field("tools", tools.join(" ")),
                field("capabilities", grants.join(" ")),
            ]),
        };
        let written = match self.runner.writer() {
            Ok(writer) => self.runner.audited(writer.general(&event)).await.map(drop),
            Err(why) => Err(why),
        };
        if let Err(why) = written {
            let text = format!("the audit log takes no records ({why}); no tool runs until it does");
            self.runner.screen.line(Style::Warning, &text).await;
        }
    }
}

/// What to tell somebody who says a word to the model that is one for the shell. A model might take it for something else:
/// switching off the machine is a way to exit.
fn hint(line: &str) -> Option<&'static str> {
    match line.to_lowercase().as_str() {
        "?" | "h" | "help" => Some("/help lists the shell's commands; this was not said to the model"),
        "bye" | "exit" | "logout" | "quit" => Some("/exit ends the session; this was not said to the model"),
        _ => None,
    }
}

fn agent(runner: &Rc<Runner>, conversation: Conversation, backlog: Rc<Backlog>) -> Agent<Runner> {
    let info = &runner.info;
    let session = capos_agent::Session {
        id: info.id.clone(),
        principal: info.principal.clone(),
        limits: info.limits.clone(),
        started: runner.started,
    };
    Agent::new(runner.clone(), session, SYSTEM.to_string(), conversation, backlog)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_look_like_commands_are_pointed_out() {
        assert!(hint("help").unwrap().starts_with("/help lists the shell's commands"));
        assert!(hint("Exit").unwrap().starts_with("/exit ends the session"));
        for words in ["help me", "what is there?", "exit code", "stop", "status"] {
            assert_eq!(hint(words), None);
        }
    }

    #[test]
    fn what_a_session_lacks_is_told_in_plain_words() {
        let plain = "this guest session may not read the audit log: it holds no capability for that";
        assert_eq!(may_not(Profile::Guest, "read the audit log", &[]), plain);
        let put_away = may_not(Profile::Guest, "read the audit log", &["audit".into()]);
        assert_eq!(put_away, format!("{plain}; put away: audit, and /cap take NAME takes one back"));
    }
}
