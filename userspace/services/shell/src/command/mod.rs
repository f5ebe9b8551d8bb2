//! The commands of the shell. None of them touches the model.

pub mod agent;
mod artifacts;
pub mod audit;
pub mod background;
mod backup;
pub mod budget;
mod capabilities;
mod clock;
mod conversations;
mod cut_off;
mod disks;
mod inspect;
mod model;
mod models;
mod own;
mod policy;
mod runs;
mod settings;
pub mod setup;
mod skill;
mod status;
mod transfer;
mod until;
mod users;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_schema::cap::LocalBoxFuture;
use capos_schema::terminal::Style;

pub use cut_off::tell_cut_off;

use crate::escape::escape;
use crate::help::help;
use crate::more::more;
use crate::run::commands;
use crate::session::Session;

/// What the prompt does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It takes the next line.
    Go,
    /// The session is over.
    Exit,
    /// The broker has forgotten the session.
    Lost,
    /// Another session takes the place of this one.
    Succeeded,
}

/// What a person can type behind a slash, which never reaches a model. A program's commands are a static: what a constant names
/// is compiled again in each program.
pub struct Commands {
    /// What the audit log calls the program.
    pub surface: &'static str,
    /// The commands, and what each does.
    pub help: &'static [(&'static str, &'static str)],
    /// Runs a command, given without its slash.
    pub run: for<'a> fn(&'a mut Session, &'a str) -> LocalBoxFuture<'a, Flow>,
    /// Whether a command starts programs.
    pub has_programs: bool,
}

impl Commands {
    /// Whether this line begins with one of them.
    pub fn has(&self, line: &str) -> bool {
        let first = |text: &str| text.split_whitespace().next().map(ToString::to_string);
        let wanted = first(line);
        self.help.iter().flat_map(|(commands, _)| commands.split(", ")).any(|command| first(command) == wanted)
    }
}

/// The commands of the program `shell`: all.
pub static SHELL: Commands =
    Commands { surface: "console", help: HELP, run: |session, line| Box::pin(run(session, line)), has_programs: true };

const HELP: &[(&str, &str)] = &[
    ("/help", "show this list; /help WORDS shows what the manual says about them"),
    ("/tools", "list the model's tools, and the permission that each needs"),
    ("/more", "show the full results of the last turn that called tools; /more --json as JSON"),
    (
        "/artifacts",
        "list what is kept of results and changes of files; /artifacts show NAME; /artifacts save NAME PATH",
    ),
    ("/audit", "list the tool calls of this session"),
    ("/audit all", "list those of all sessions"),
    ("/audit since TIME", "list those since then: 2h, 7d, 2026-11-21; also after `all`"),
    ("/audit archive VOLUME", "move the records to a file of a volume, and continue the chain; VOLUME:FILE names it"),
    ("/audit export VOLUME", "write the records to a file of a volume; VOLUME:FILE names it"),
    ("/audit verify", "check the hash chain of the audit log"),
    ("/approvals", "list the questions that you were asked, with your answers"),
    ("/approvals NUMBER", "show one of them in full"),
    (
        "/approvals show NUMBER",
        "show an open question of a background run; /approvals approve NUMBER and /approvals deny NUMBER answer it",
    ),
    ("/approvals revoke NUMBER", "end a consent that covers further calls; /approvals revoke all ends all of them"),
    ("/status", "show the machine, its services and the session's limits"),
    ("/budget", "show the budgets of the session and its last run; /budget steps lists what each step used"),
    ("/model", "list the models; /model ID or TITLE changes the model"),
    ("/models", "list the installed models; /models remove NAME removes one"),
    ("/models install PATH", "install a model from the home directory, or with VOLUME:PATH from a transfer volume"),
    ("/run", "list the programs"),
    ("/run NAME ARGS", "run a program; `|` connects several, `&` at the end runs them in the background"),
    ("/jobs", "list the background jobs and the reminders"),
    ("/fg N, /stop N", "bring job N to the foreground; stop it"),
    ("/setup NAME", "set up the blank data disk, with this first user"),
    ("/disks", "list the disks, what they hold, and their sizes"),
    ("/users", "list the users of the data disk"),
    ("/users add NAME PROFILE", "add a user, with the profile operator or guest; /users remove NAME removes one"),
    ("/users profile NAME PROFILE", "change a user's profile; /users quota NAME QUOTA limits their home"),
    ("/users reset NAME", "give a user a new passphrase; /users recovery-code makes a new recovery code"),
    ("/passphrase", "change your own passphrase"),
    ("/lock", "lock the terminal until your passphrase is given"),
    ("/settings", "list the settings, and where each value comes from"),
    (
        "/settings set NAME VALUE",
        "change a setting from the next login on; /settings reset NAME takes the image's value",
    ),
    ("/clock", "show the date and the time; /clock set 2026-11-26 14:05 sets the machine's clock"),
    ("/volumes", "list the transfer volumes; /volumes NAME:PATH lists a folder of one"),
    ("/import VOLUME:PATH", "copy a file from a volume to the home directory; `to PATH` after it names the copy"),
    (
        "/export PATH",
        "copy a file of the home directory to a volume, which leaves with it: /export PATH to VOLUME:PATH",
    ),
    ("/backup VOLUME", "write a backup of the data disk to a volume, encrypted; again after Ctrl-C it continues"),
    ("/cap", "list the session's capabilities"),
    ("/cap drop NAME", "stop using a capability; /cap take NAME restores it"),
    ("/cap offer NAME", "offer the model more tools of a capability: /cap offer manual lets it search the manual"),
    ("/skills", "list the skills: texts for the model, with the tools that they need"),
    ("/skill use NAME SETTING=VALUE", "have the model use a skill, after a question; /skill drop NAME ends that"),
    ("/cap all", "list every capability of the shell's process, as the kernel reports them"),
    ("/policy", "show what this session may do, by which rules, and until when"),
    ("/policy check TOOL ARGUMENTS", "tell what would become of a call, and by which rules; the arguments are JSON"),
    ("/inspect NAME", "show a capability, a tool or a job (by its number) in full"),
    ("/inspect conversation", "show every message that the model is sent"),
    (
        "/plain",
        "send earlier calls and results to the model as text, if it rejects them as calls; /plain off: as calls",
    ),
    ("/stop", "end the conversation; the next line begins a new one"),
    ("/conversations", "list the last saved conversations; /conversations all lists every one"),
    ("/resume", "renew a policy that has expired; otherwise continue the last conversation"),
    ("/resume N", "continue a saved conversation: a number of the list, or the beginning of an id"),
    ("/continue", "go on with the last request, if it was not answered to its end"),
    ("/runs", "list the last runs, and which of them can be continued; /runs all lists every one"),
    ("/runs steps N", "show what each step of run N of the list used; /runs cancel N ends one for good"),
    ("/runs show N", "show the messages of the child runs of run N of the list"),
    (
        "/background REQUEST",
        "begin a run that goes on beside the prompt; /background --in 30m REQUEST and --at 18:00 REQUEST later",
    ),
    ("/background", "list the background runs; /background show N shows what one said, /background cancel N ends it"),
    ("/remind TIME TEXT", "show a text at a time: 30m (s, m or h) from now, or 18:00"),
    ("/remind", "list the reminders that wait; /remind cancel N drops one"),
    ("/rest", "ask for the part of the last request that no call was made for"),
    ("/segments N", "the next request may go on for N times as many model calls without a question"),
    ("/sessions", "list the last sessions of this machine; /sessions all lists every one"),
    (
        "/until exists PATH",
        "the next request is done only when a file is there; /until check PROGRAM ARGS: when a program ends with code 0",
    ),
    (
        "/until matches SCHEMA",
        "when the answer is JSON of the schema in a file; `in PATH` after it: a file; /until lists; /until off removes",
    ),
    ("/fork", "continue a copy of the conversation; /fork N one with its first N turns"),
    ("/compare ID", "show where another conversation differs from this one"),
    ("/search TEXT", "find messages in the saved conversations"),
    ("/rename TITLE", "give the conversation a title"),
    ("/expire TIME", "delete the conversation so long after its last change: 12h, 30d, never"),
    ("/forget ID", "delete a saved conversation, after a question"),
    ("/poweroff", "turn the machine off, with your passphrase"),
    ("/exit, /quit", "end the session"),
];

async fn run(session: &mut Session, line: &str) -> Flow {
    let (command, text) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest: Vec<&str> = text.split_whitespace().collect();
    let result = match command {
        "tools" | "continue" | "rest" | "disks" | "status" | "jobs" | "passphrase" | "lock" | "poweroff" | "exit"
        | "quit"
            if !rest.is_empty() =>
        {
            Err(format!("/{command} takes no arguments; /help lists the commands"))
        }
        "help" | "?" => help(session, text).await,
        "cap" | "caps" => capabilities::cap(session, &rest).await,
        "inspect" => inspect::inspect(session, &rest).await,
        "more" => more(session, &rest).await,
        "tools" => inspect::tools(session).await,
        "model" => model::model(session, &rest).await,
        "models" => models::models(session, text).await,
        "audit" => audit::audit(session, &rest).await,
        "approvals" => audit::approvals(session, &rest).await,
        "disks" => disks::disks(session).await,
        "setup" => setup::set_up(session, &rest).await,
        "users" => users::users(session, &rest).await,
        "passphrase" => users::passphrase(session).await,
        "policy" => policy::policy(session, text).await,
        "settings" => settings::settings(session, text).await,
        "artifacts" => artifacts::artifacts(session, &rest).await,
        "skills" if !rest.is_empty() => Err("/skills takes no arguments; /skill use NAME uses one".to_string()),
        "skills" => skill::skills(session).await,
        "skill" => skill::skill(session, &rest).await,
        "clock" => clock::clock(session, &rest).await,
        "lock" => return settings::lock(session).await,
        "conversations" => conversations::list(session, &rest).await,
        "resume" => conversations::resume(session, &rest).await,
        "runs" => runs::runs(session, &rest).await,
        "sessions" => runs::sessions(session, &rest).await,
        "segments" => runs::segments(session, &rest).await,
        "continue" => cut_off::go_on(session).await,
        "rest" => cut_off::rest(session).await,
        "background" => background::background(session, text).await,
        "remind" => background::remind::remind(session, text).await,
        "until" => until::until(session, text).await,
        "fork" => conversations::fork(session, &rest).await,
        "compare" => conversations::compare(session, &rest).await,
        "search" => conversations::search(session, text.trim()).await,
        "rename" => conversations::rename(session, text.trim()).await,
        "expire" => conversations::expire(session, &rest).await,
        "forget" => conversations::forget(session, &rest).await,
        "volumes" => transfer::volumes(session, text).await,
        "import" => transfer::import(session, text).await,
        "export" => transfer::export(session, text).await,
        "backup" => backup::backup(session, text.trim()).await,
        "status" => status::status(session).await,
        "budget" => budget::budget(session, &rest).await,
        "run" => commands::run(session, text).await,
        "jobs" => commands::jobs(session).await,
        "fg" => commands::foreground(session, &rest).await,
        "plain" => plainly(session, &rest).await,
        "stop" if !rest.is_empty() => commands::stop(session, &rest).await,
        "stop" => stop(session).await,
        "poweroff" => own::power_off(session).await,
        "exit" | "quit" => return Flow::Exit,
        "" => Err("no command follows the /; /help lists the commands".to_string()),
        _ => Err(format!("there is no command /{}; /help lists the commands", escape(command))),
    };
    if let Err(why) = result {
        session.runner.screen.error(&why).await;
        // What is lacking then is often lacking for that reason.
        if session.has_expired() && !why.contains("/resume") {
            session.runner.screen.line(Style::Dim, EXPIRED).await;
        }
    }
    Flow::Go
}

/// Why a session lacks what it had.
pub const EXPIRED: &str = "the policy of this session has expired; /resume renews it";

/// What comes of a command.
pub type Done = Result<(), String>;

/// Shows rows in columns: the first is padded.
pub async fn rows(session: &Session, rows: &[(String, String)]) {
    let width = rows.iter().map(|(first, _)| first.chars().count()).max().unwrap_or(0);
    for (first, second) in rows {
        let pad = " ".repeat(width.saturating_sub(first.chars().count()).saturating_add(2));
        let first = format!("  {first}{pad}");
        session.runner.screen.wrapped(&[(Style::Bold, &first), (Style::Plain, second)]).await;
    }
}

pub async fn refreshed(session: &mut Session) -> Done {
    session.refresh().await.map_err(|why| format!("the broker does not answer: {why}"))
}

/// The text about calls that outlast their turn.
pub fn unfinished(running: usize) -> String {
    let verb = if running == 1 { "finishes" } else { "finish" };
    format!("{} that cannot be aborted {verb} in the background", count(running, "call"))
}

/// `/plain`.
async fn plainly(session: &mut Session, rest: &[&str]) -> Done {
    let plainly = match rest {
        [] => true,
        ["off"] => false,
        _ => return Err("usage: /plain or /plain off".to_string()),
    };
    session.agent.tell_plainly(plainly);
    let text = if plainly {
        "earlier tool calls and results are now sent to the model as text; enter your request again"
    } else {
        "earlier tool calls and results are now sent to the model as calls"
    };
    session.runner.screen.line(Style::Dim, text).await;
    Ok(())
}

async fn stop(session: &mut Session) -> Done {
    let running = session.agent.background();
    session.forget();
    let mut text = "the conversation has ended; the next line begins a new one".to_string();
    if running > 0 {
        text = format!("{text}; {}", unfinished(running));
    }
    session.runner.screen.line(Style::Dim, &text).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AGENT;

    /// Requirement C02: what `capos-agent` offers is what the shell offers, without any way to an effect past the agent.
    #[test]
    fn c02_the_agents_commands_are_some_of_the_shells() {
        for (command, what) in AGENT.help {
            assert!(SHELL.help.contains(&(command, what)), "{command}");
        }
        let other = [
            "/run",
            "/run cat",
            "/cap all",
            "/setup ada",
            "/users",
            "/settings set",
            "/import v:a",
            "/fg",
            "/inspect home",
        ];
        for line in other {
            assert!(SHELL.has(line) && !AGENT.has(line), "{line}");
        }
        assert!(AGENT.has("/runs cancel 1") && AGENT.has("/quit"));
    }
}
