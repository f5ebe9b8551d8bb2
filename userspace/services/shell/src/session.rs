//! One session: its capabilities, its conversation, its prompt.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use capos_agent::TurnEnd;
use capos_plural::{count, noun, with_commas};
use capos_rt::{Error, log};
use capos_runner::{Kept, OPENED};
use capos_schema::authority::UserSessionClient;
use capos_schema::system::LauncherClient;
use capos_schema::terminal::{LineEnd, Style};

use crate::command::{self, Commands, Flow, setup};
use crate::completions::completions;
use crate::console::Console;
use crate::escape::{name, plain};
use crate::login::Login;
use crate::outcome;
use crate::readable::set_offset;
use crate::run::jobs::Jobs;

/// What a person can do where a model does not take the conversation.
const TELL_PLAINLY: &str = "/plain sends its tool calls and results as text, which any chat template accepts; ";
const BEGIN_ANEW: &str = "/stop begins a new conversation; /model chooses another model";

const PROMPT: &str = "capos> ";

/// A session at its prompt. It gives the members of the session as its own.
pub struct Session {
    session: capos_runner::Session<Console>,
    pub jobs: Jobs,
    /// Names of the programs that there are, where the session may run any.
    pub programs: Vec<String>,
    /// Titles of the models that the person was told of last.
    pub models: Vec<String>,
    /// Ids of the saved conversations that the person was told of last.
    pub listed: Vec<String>,
    /// The runs that the person was told of last: conversation and turn.
    pub runs: Vec<(String, u32)>,
    /// What of the last request no call was made for.
    pub rest: Option<String>,
    /// Its commands.
    pub commands: &'static Commands,
}

impl Deref for Session {
    type Target = capos_runner::Session<Console>;

    fn deref(&self) -> &Self::Target {
        &self.session
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.session
    }
}

impl Session {
    /// Opens what the broker issued, with the conversation of an earlier session where there is one.
    ///
    /// # Errors
    /// The broker or the kernel's entropy does not answer.
    pub async fn open(login: &Login, user: UserSessionClient, kept: Option<Kept>) -> Result<Self, Error> {
        let console = Console::new(login.screen.clone(), login.commands.surface);
        let session = capos_runner::Session::open(&login.held, console, user, kept).await?;
        let mut session = Self {
            session,
            jobs: Jobs::default(),
            programs: Vec::new(),
            models: Vec::new(),
            listed: Vec::new(),
            runs: Vec::new(),
            rest: None,
            commands: login.commands,
        };
        set_offset(session.runner.info.offset);
        session.programs = session.names_of_programs().await;
        let head = session.record(OPENED, &session.agent.conversation().id).await;
        session.welcome(head).await;
        command::audit::tell_damage(&session).await;
        session.greet().await;
        command::tell_cut_off(&session).await;
        Ok(session)
    }

    /// The conversation, for another session.
    pub async fn into_conversation(self) -> Kept {
        self.session.into_conversation().await
    }

    /// Stops the runs and the jobs in the background, and drops the reminders. `why` is told of each job and of the reminders.
    pub async fn stop_beside(&self, why: &str) {
        self.runner.backgrounds.stop_all(&self.runner).await;
        let dropped = self.runner.reminders.cancel_all();
        if dropped > 0 {
            let text = format!("{} dropped: {why}", count(dropped, "reminder"));
            self.runner.screen.line(Style::Warning, &text).await;
        }
        self.runner.announcer.forget();
        self.jobs.stop_all(&self.runner.screen, why).await;
    }

    /// The manifest's programs, which do not change. Without them only Tab knows less.
    async fn names_of_programs(&self) -> Vec<String> {
        if !self.commands.has_programs {
            return Vec::new();
        }
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
        if let Some(hint) = setup::hint(self) {
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
                Some(command) => (self.commands.run)(self, command).await,
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
        self.runner.announcer.lock(true).await;
        let unlocked = self.unlocked(why).await;
        if unlocked {
            self.runner.announcer.lock(false).await;
        }
        unlocked
    }

    async fn unlocked(&self, why: &str) -> bool {
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
    pub async fn turn(&mut self, line: Option<&str>) {
        self.rest = None;
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
            Some(line) => self.session.turn(line).await,
            None => {
                self.record("conversation.continued", &self.agent.conversation().id).await;
                self.session.go_on().await
            }
        };
        let (style, text) = match end {
            TurnEnd::Answered => {
                self.rest = outcome::tell(self).await;
                return;
            }
            // If the machine is still on, its person was told why.
            TurnEnd::Off => return,
            TurnEnd::Stopped => (Style::Dim, "ended after its step; /continue goes on".to_string()),
            TurnEnd::Interrupted => (Style::Dim, "interrupted; /continue goes on".to_string()),
            TurnEnd::Iterations(most) => (
                Style::Warning,
                format!(
                    "stopped: this turn has made {}, which is the limit; /continue goes on",
                    count(most, "model call")
                ),
            ),
            TurnEnd::Unanswered(most) => (
                Style::Warning,
                format!(
                    "paused: this turn has made {}, and nobody answered whether it goes on; /continue goes on",
                    count(most, "model call")
                ),
            ),
            TurnEnd::Scheduled(calls) => (
                Style::Warning,
                format!(
                    "paused: {} of this turn still {}; /continue looks again",
                    count(calls, "call"),
                    if calls == 1 { "runs" } else { "run" }
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
            TurnEnd::Tokens(why) | TurnEnd::Rate(why) | TurnEnd::Budget { why, .. } => {
                (Style::Warning, format!("stopped: {why}"))
            }
            TurnEnd::Time(seconds) => (
                Style::Warning,
                format!("stopped: the session's time limit of {seconds} s is reached; /exit and log in again"),
            ),
            TurnEnd::Policy => (
                Style::Warning,
                "paused: the policy of this session has expired; /resume renews it and goes on, /policy shows it"
                    .to_string(),
            ),
            TurnEnd::Unmet(why) => (
                Style::Warning,
                format!("failed: {why}; enter another request, with /until before it if it has a condition"),
            ),
            TurnEnd::Repeated => (Style::Warning, "stopped: the answer repeated itself".to_string()),
            TurnEnd::Away(why) => {
                (Style::Warning, format!("paused: the model does not answer: {why}; /continue asks it again"))
            }
            TurnEnd::Filtered => (
                Style::Warning,
                "the model's own content filter stopped the answer; ask in other words, or choose another model with /model"
                    .to_string(),
            ),
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

    /// Continues with the last turn, which was cut off.
    pub async fn go_on(&mut self) {
        self.turn(None).await;
    }
}

/// What to tell somebody who says a word to the model that is one for the shell. A model might take it for something else:
/// "exit" could turn the machine off.
fn hint(line: &str) -> Option<&'static str> {
    match line.to_lowercase().as_str() {
        "?" | "h" | "help" => Some("/help lists the shell's commands; this line was not sent to the model"),
        "halt" | "poweroff" | "shutdown" => {
            Some("/poweroff turns the machine off; this line was not sent to the model")
        }
        "bye" | "exit" | "logout" | "quit" => Some("/exit ends the session; this line was not sent to the model"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_look_like_commands_are_pointed_out() {
        assert!(hint("help").unwrap().starts_with("/help lists the shell's commands"));
        assert!(hint("Exit").unwrap().starts_with("/exit ends the session"));
        assert!(hint("shutdown").unwrap().starts_with("/poweroff turns the machine off"));
        for words in ["help me", "what is there?", "exit code", "stop", "status"] {
            assert_eq!(hint(words), None);
        }
    }
}
