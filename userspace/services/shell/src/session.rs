//! One session: its capabilities, its conversation, its prompt.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::Host;
use capos_agent::{Agent, Backlog, Conversation, Fate, Handles, Snapshot, TurnEnd};
use capos_plural::{count, noun};
use capos_rt::{Error, log};
use capos_schema::audit::GeneralEvent;
use capos_schema::authority::{Profile, UserSessionClient};
use capos_schema::models::ToolCall;
use capos_schema::system::LauncherClient;
use capos_schema::terminal::{LineEnd, Style};

use crate::command::{self, Flow, setup};
use crate::completions::completions;
use crate::escape::{name, plain};
use crate::gate::PATIENCE;
use crate::login::Login;
use crate::run::jobs::Jobs;
use crate::runner::Runner;
use crate::table;

/// What the model is told first. Only text of this program stands there; data has its place in the messages.
const SYSTEM: &str = include_str!("system-message.txt").trim_ascii_end();

/// What a person can do where a model does not take the conversation.
const TELL_PLAINLY: &str = "/plain sends its tool calls and results as text, which any chat template accepts; ";
const BEGIN_ANEW: &str = "/stop begins a new conversation; /model chooses another model";

const PROMPT: &str = "capos> ";

/// A conversation, and how many of its messages are saved.
pub struct Kept {
    pub conversation: Conversation,
    pub saved: usize,
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
    /// Ids of the saved conversations that the person was told of last.
    pub listed: Vec<String>,
}

impl Session {
    /// Opens what the broker issued, with the conversation of an earlier session where there is one.
    ///
    /// # Errors
    /// The broker or the kernel's entropy does not answer.
    pub async fn open(login: &Login, user: UserSessionClient, kept: Option<Kept>) -> Result<Self, Error> {
        let info = user.info().await?;
        let runner = Runner::new(login, user, info);
        let new = || Kept { conversation: Conversation::new(hex::encode(runner.random())), saved: 0 };
        let Kept { conversation, saved } = kept.unwrap_or_else(new);
        runner.saving.begin(&conversation.id, saved);
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
            listed: Vec::new(),
        };
        session.refresh().await?;
        if session.runner.info.model_allowed {
            session.runner.begin_with_model().await;
        }
        session.programs = session.names_of_programs().await;
        let head = session.record("session.opened", &session.agent.conversation().id).await;
        session.welcome(head).await;
        session.greet().await;
        command::tell_cut_off(&session).await;
        Ok(session)
    }

    /// The session's profile.
    pub fn profile(&self) -> Profile {
        self.runner.info.profile
    }

    /// The conversation, for another session. This one's pending records are written with its own writer: no other may
    /// record them.
    pub async fn into_conversation(self) -> Kept {
        self.flush_pending().await;
        Kept { conversation: self.agent.conversation().clone(), saved: self.runner.saving.saved() }
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
        let runner = self.runner.clone();
        let grants = runner.grants.all();
        let offered = table::offered(&grants, |interface| runner.grants.is_withheld(interface));
        let questions = table::questions(&offered);
        let answers = self.runner.within(self.runner.user.permissions(&questions)).await?;
        self.handles.retain(|name| grants.iter().any(|grant| grant.name == name));
        self.snapshot =
            table::snapshot(offered, &answers, &grants, &mut self.handles, || runner.random()).map_err(Error::new)?;
        Ok(())
    }

    /// The manifest's programs, which do not change. Without them only Tab knows less.
    async fn names_of_programs(&self) -> Vec<String> {
        let Ok(launcher) = self.runner.grants.find::<LauncherClient>("run programs") else { return Vec::new() };
        self.runner.in_time(launcher.programs()).await.unwrap_or_else(|why| {
            log::warning!("the programs could not be listed: {why}");
            Vec::new()
        })
    }

    /// Tells a user of what happened at their disk while they were away: attempts with wrong keys, and the head of the
    /// audit log, to be compared with one noted elsewhere.
    async fn welcome(&self, head: Option<(u64, Vec<u8>)>) {
        let info = &self.runner.info;
        if !info.user {
            return;
        }
        let (style, attempts) = match info.failed_attempts {
            0 => (Style::Dim, "no failed attempt".to_string()),
            failed => (Style::Warning, count(failed, "failed attempt").to_string()),
        };
        let text = format!("{}: {attempts} since the last login", name(&info.principal));
        self.runner.screen.wrapped(&[(style, &text)]).await;
        if !info.notice.is_empty() {
            self.runner.screen.wrapped(&[(Style::Warning, &info.notice)]).await;
        }
        if let Some((records, hash)) = head {
            let text = format!("audit log: {} records, head {records}:{}", with_commas(records), hex::encode(hash));
            self.runner.screen.wrapped(&[(Style::Dim, &text)]).await;
        }
    }

    async fn greet(&self) {
        let info = &self.runner.info;
        let (model, start) = match self.runner.model.info() {
            Some(model) => {
                (format!("model {} ({}), ", name(&model.display_name), name(&model.backend)), "Type a request, or")
            }
            None => ("no model, ".to_string(), "Type"),
        };
        let short: String = info.id.chars().take(8).collect();
        let text = format!(
            "{} session {short}: {model}{}. {start} /help for the commands; Ctrl-C interrupts.",
            info.profile.name(),
            count(self.snapshot.tools().len(), "tool")
        );
        self.runner.screen.wrapped(&[(Style::Dim, &text)]).await;
        if let Some(hint) = setup::hint(&self.runner) {
            self.runner.screen.wrapped(&[(Style::Plain, &hint)]).await;
        }
        self.runner.tell_of_model().await;
    }

    /// Offers the model the tools of these grants from now on, and tells the person so.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn offer(&mut self, names: &[&str]) -> Result<(), Error> {
        let offered: Vec<&str> = names.iter().copied().filter(|name| self.runner.grants.offer(name)).collect();
        if offered.is_empty() {
            return Ok(());
        }
        self.refresh().await?;
        let text = format!("The model now has the tools of {}, too; /tools lists them.", offered.join(" and "));
        self.runner.screen.line(Style::Dim, &text).await;
        Ok(())
    }

    /// The prompt, until the session ends.
    pub async fn run(&mut self) -> Flow {
        self.runner.tell_start("the prompt").await;
        loop {
            self.jobs.report(&self.runner.screen).await;
            let (line, end) = self.read_line().await;
            self.runner.begin_line();
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
                        None => self.turn(Some(line)).await,
                    }
                    Flow::Go
                }
            };
            self.follow_fork().await;
            if self.runner.is_lost() {
                return Flow::Lost;
            }
            if flow == Flow::Exit {
                return Flow::Exit;
            }
            if self.runner.successor.borrow().is_some() {
                return Flow::Succeeded;
            }
        }
    }

    /// The next line of the person, who unlocks a terminal that was idle for too long.
    async fn read_line(&self) -> (String, LineEnd) {
        let seconds = self.runner.info.lock_seconds;
        if seconds == 0 {
            return self.runner.screen.read(PROMPT, completions(self)).await;
        }
        loop {
            let read = self.runner.screen.read_until_idle(PROMPT, completions(self), seconds.into());
            if let Some(line) = read.await {
                return line;
            }
            let why = format!("locked after {} without a key", count(seconds.div_ceil(60), "minute"));
            if !self.lock(&why).await {
                return (String::new(), LineEnd::EndOfInput);
            }
        }
    }

    /// Clears the screen and shows nothing until the person's passphrase is given; whether it was. Jobs go on meanwhile.
    pub async fn lock(&self, why: &str) -> bool {
        let (screen, info) = (&self.runner.screen, &self.runner.info);
        screen.clear().await;
        screen.line(Style::Plain, why).await;
        let question = format!("Passphrase of {} (Ctrl-C: end the session): ", name(&info.principal));
        loop {
            let secret = match screen.hold_for_question().await.secret(&[], &question).await {
                Ok((secret, LineEnd::Entered)) => secret,
                Ok((_, LineEnd::Interrupted | LineEnd::EndOfInput)) => return false,
                // The terminal has restarted.
                _ => continue,
            };
            screen.status(Style::Dim, "checking the passphrase; this takes some seconds").await;
            match self.runner.of_broker(self.runner.user.unlock(&secret).await) {
                Ok(tried) if tried.valid => return true,
                Ok(tried) => screen.error(&tried.why).await,
                Err(_) if self.runner.is_lost() => return false,
                Err(error) => screen.error(&error.to_string()).await,
            }
        }
    }

    /// A turn: with the person's line, or the rest of the last one.
    async fn turn(&mut self, line: Option<&str>) {
        let screen = self.runner.screen.clone();
        if let Err(why) = self.refresh().await {
            screen.error(&format!("this turn cannot begin: {why}")).await;
            return;
        }
        self.runner.need_model().await;
        let Some(model) = self.runner.model.info() else {
            let why = self.runner.model.why_none();
            let why = if why.is_empty() { why } else { format!(" ({why})") };
            let text = format!("this session has no model{why}; commands that begin with / work without one");
            screen.error(&text).await;
            return;
        };
        if !model.supports_tools {
            let id = name(&model.id);
            let text =
                format!("the model {id} cannot call tools, which the shell requires; choose another with /model");
            screen.error(&text).await;
            return;
        }
        screen.others_speak();
        let end = match line {
            Some(line) => self.agent.turn(line, &self.snapshot).await,
            None => {
                self.record("conversation.continued", &self.agent.conversation().id).await;
                self.agent.go_on(&self.snapshot).await
            }
        };
        let (style, text) = match end {
            TurnEnd::Answered => return,
            TurnEnd::Interrupted => (Style::Dim, "interrupted; /continue goes on".to_string()),
            TurnEnd::Iterations(most) => (
                Style::Warning,
                format!(
                    "stopped: this turn has made {}, which is the limit; /continue goes on",
                    count(most, "model call")
                ),
            ),
            TurnEnd::Evidence(bytes) => (
                Style::Warning,
                format!(
                    "stopped: the calls of this turn that needed no consent have written {} KiB to the audit log, which is \
                     the limit; /continue goes on",
                    bytes / 1024
                ),
            ),
            TurnEnd::SessionEvidence(bytes) => (
                Style::Warning,
                format!(
                    "stopped: the calls of this session that needed no consent have written {} KiB to the audit log, which \
                     is the limit; commands that begin with / still work; /exit and log in again for a new session",
                    bytes / 1024
                ),
            ),
            TurnEnd::Tokens(why) | TurnEnd::Rate(why) => (Style::Warning, format!("stopped: {why}")),
            TurnEnd::Time(seconds) => (
                Style::Warning,
                format!("stopped: the session's time limit of {seconds} s is reached; /exit and log in again"),
            ),
            TurnEnd::Repeated => (Style::Warning, "stopped: the answer repeated itself".to_string()),
            TurnEnd::Model(why) => (Style::Error, format!("the model gave no answer: {why}; /continue asks it again")),
            TurnEnd::Rejected(why) => {
                let other = if self.agent.has_calls() { TELL_PLAINLY } else { "" };
                (Style::Error, format!("the model gave no answer: {why}; {other}{BEGIN_ANEW}"))
            }
            TurnEnd::Refused(why) => (Style::Error, format!("rejected: {why}")),
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
        self.continue_with(Kept { conversation: Conversation::new(id), saved: 0 });
    }

    /// Takes the id of the fork below which the conversation is saved, after another session has continued it.
    async fn follow_fork(&mut self) {
        let (id, saved) = (self.runner.saving.id(), self.runner.saving.saved());
        let conversation = self.agent.conversation();
        if conversation.id == id {
            return;
        }
        let messages = conversation.entries().len();
        let kept = Kept { conversation: conversation.fork(id.clone(), messages), saved };
        self.continue_with(kept);
        self.record("conversation.forked", &id).await;
    }

    /// Continues another conversation.
    pub fn continue_with(&mut self, kept: Kept) {
        let Kept { conversation, saved } = kept;
        self.runner.saving.begin(&conversation.id, saved);
        self.agent = agent(&self.runner, conversation, self.backlog.clone());
        self.runner.told_of.set(0);
    }

    /// Continues a conversation of an earlier session: no handle of that one names anything here.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn resume(
        &mut self,
        mut kept: Kept,
        fate: impl Fn(&ToolCall) -> Fate,
    ) -> Result<Vec<(ToolCall, Fate)>, Error> {
        self.handles = Handles::default();
        self.refresh().await?;
        let tools = self.snapshot.tools();
        let find = |name: &str| tools.iter().find(|tool| tool.descriptor.name == name);
        let now = self.runner.now();
        let handle = |name: &str| find(name).map(|tool| tool.descriptor.handle.clone());
        let open = kept.conversation.resume(now, handle, fate);
        self.continue_with(kept);
        self.record("conversation.resumed", &self.agent.conversation().id).await;
        Ok(open)
    }

    /// Goes on with the last turn, which was cut off.
    pub async fn go_on(&mut self) {
        self.turn(None).await;
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
        self.record("session.closed", &self.agent.conversation().id).await;
        if let Err(why) = self.runner.within(self.runner.user.end()).await {
            log::warning!("the session could not be ended: {why}");
        }
    }

    /// Records what the session has now, and which conversation something was done with, in the audit log. Returns the
    /// log's head after it.
    pub async fn record(&self, kind: &str, conversation: &str) -> Option<(u64, Vec<u8>)> {
        let field = |name: &str, value: String| capos_schema::audit::GeneralEventField { name: name.into(), value };
        let model = self.runner.model.info().map(|info| info.id).unwrap_or_default();
        let tools: Vec<String> = self.snapshot.tools().iter().map(|tool| tool.descriptor.name.clone()).collect();
        let grants: Vec<String> = self.runner.grants.all().into_iter().map(|grant| grant.name).collect();
        let event = GeneralEvent {
            kind: kind.to_string(),
            session: self.runner.info.id.clone(),
            principal: self.runner.info.principal.clone(),
            fields: Vec::from([
                field("conversation", conversation.to_string()),
                field("model", model),
                field("tools", tools.join(" ")),
                field("capabilities", grants.join(" ")),
            ]),
        };
        let written = match self.runner.grants.writer() {
            Ok(writer) => self.runner.audited(writer.general(&event)).await,
            Err(why) => Err(why),
        };
        match written {
            Ok(written) => Some((written.sequence, written.hash)),
            Err(why) => {
                let text = format!("the audit log takes no records ({why}); no tool runs until it does");
                self.runner.screen.line(Style::Warning, &text).await;
                None
            }
        }
    }
}

/// A number with a comma before each three of its digits.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in (1..=digits.len()).rev().zip(digits.chars()) {
        if place.is_multiple_of(3) && !text.is_empty() {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What to tell somebody who says a word to the model that is one for the shell. A model might take it for something else:
/// switching off the machine is a way to exit.
fn hint(line: &str) -> Option<&'static str> {
    match line.to_lowercase().as_str() {
        "?" | "h" | "help" => Some("/help lists the shell's commands; this line was not sent to the model"),
        "bye" | "exit" | "logout" | "quit" => Some("/exit ends the session; this line was not sent to the model"),
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
    fn numbers_have_commas() {
        let all = [0, 12, 999, 1000, 142_311, 1_000_000].map(with_commas);
        assert_eq!(all, ["0", "12", "999", "1,000", "142,311", "1,000,000"]);
    }

    #[test]
    fn words_that_look_like_commands_are_pointed_out() {
        assert!(hint("help").unwrap().starts_with("/help lists the shell's commands"));
        assert!(hint("Exit").unwrap().starts_with("/exit ends the session"));
        for words in ["help me", "what is there?", "exit code", "stop", "status"] {
            assert_eq!(hint(words), None);
        }
    }
}
