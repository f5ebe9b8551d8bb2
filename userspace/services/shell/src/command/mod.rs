//! The commands of the shell. None of them touches the model.

mod audit;
mod capabilities;
mod disks;
mod inspect;
mod model;
mod status;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_schema::terminal::Style;

use crate::escape::escape;
use crate::job_commands;
use crate::more::more;
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
}

pub const HELP: &[(&str, &str)] = &[
    ("/help", "this list"),
    ("/cap", "the session's capabilities; /cap drop NAME puts one away, /cap take NAME takes it back"),
    ("/cap all", "every capability that this shell's process holds, as the kernel has them"),
    (
        "/inspect NAME",
        "a capability, a tool or the job of a number in full; /inspect conversation shows what the model is sent",
    ),
    ("/more", "all that the tools gave in the last turn that called any"),
    ("/tools", "the tools that the model is shown, and what each needs"),
    ("/model", "the models; /model ID or a title changes to another"),
    ("/audit", "what was done in this session; /audit all: in all sessions; since 2h, since 2026-11-21: from then on"),
    ("/audit verify", "checks the chain of all records"),
    ("/approvals", "what you were asked, and what you answered"),
    ("/run", "the programs that there are; /run NAME ARGUMENTS runs one, `|` between several, `&` for the background"),
    ("/jobs", "what runs in the background; /fg N brings it to the front, /stop N ends it"),
    ("/disks", "the disks, what they hold, and their sizes"),
    ("/status", "the machine, its services, and this session's limits"),
    (
        "/plain",
        "sends the calls so far, and what they gave, as text, for a model that takes no calls; /plain off: as calls",
    ),
    ("/stop", "ends the conversation; the next line begins a new one"),
    ("/exit, /quit", "end the session"),
];

/// Runs a command, given without its slash.
pub async fn run(session: &mut Session, line: &str) -> Flow {
    let (command, text) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest: Vec<&str> = text.split_whitespace().collect();
    let result = match command {
        "help" | "?" | "more" | "tools" | "approvals" | "disks" | "status" | "jobs" | "exit" | "quit"
            if !rest.is_empty() =>
        {
            Err(format!("/{command} stands alone; /help tells what each command takes"))
        }
        "help" | "?" => help(session).await,
        "cap" | "caps" => capabilities::cap(session, &rest).await,
        "inspect" => inspect::inspect(session, &rest).await,
        "more" => more(session).await,
        "tools" => inspect::tools(session).await,
        "model" => model::model(session, &rest).await,
        "audit" => audit::audit(session, &rest).await,
        "approvals" => audit::approvals(session).await,
        "disks" => disks::disks(session).await,
        "status" => status::status(session).await,
        "run" => job_commands::run(session, text).await,
        "jobs" => job_commands::jobs(session).await,
        "fg" => job_commands::foreground(session, &rest).await,
        "plain" => plainly(session, &rest).await,
        "stop" if !rest.is_empty() => job_commands::stop(session, &rest).await,
        "stop" => stop(session).await,
        "exit" | "quit" => return Flow::Exit,
        "" => Err("a command follows its / at once; /help lists them".to_string()),
        _ => Err(format!("there is no command /{}; /help lists them", escape(command))),
    };
    if let Err(why) = result {
        session.runner.screen.error(&why).await;
    }
    Flow::Go
}

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

async fn help(session: &Session) -> Done {
    let text: Vec<(String, String)> = HELP.iter().map(|(name, what)| ((*name).into(), (*what).into())).collect();
    rows(session, &text).await;
    session
        .runner
        .screen
        .line(Style::Dim, "Requests are said to the model as they are. Tab completes commands and names.")
        .await;
    Ok(())
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
        _ => return Err("say /plain or /plain off".to_string()),
    };
    session.agent.tell_plainly(plainly);
    let text = if plainly {
        "the model is sent the calls of this conversation so far, and what they gave, as text; say your line again"
    } else {
        "the model is sent the calls of this conversation as calls"
    };
    session.runner.screen.line(Style::Dim, text).await;
    Ok(())
}

async fn stop(session: &mut Session) -> Done {
    let running = session.agent.background();
    session.forget();
    let mut text = "the conversation is over; the next line begins a new one".to_string();
    if running > 0 {
        text = format!("{text}; {}", unfinished(running));
    }
    session.runner.screen.line(Style::Dim, &text).await;
    Ok(())
}
