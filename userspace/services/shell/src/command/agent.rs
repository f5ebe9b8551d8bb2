//! The commands of `capos-agent`: those that answer questions about runs and calls, and no other way to an effect.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use crate::command::{
    Commands, Done, Flow, audit, background, budget, conversations, cut_off, inspect, model, plainly, runs, settings,
    stop, users,
};
use crate::escape::escape;
use crate::help::help;
use crate::more::more;
use crate::session::Session;

/// The commands of the program `capos-agent`.
pub static AGENT: Commands = Commands {
    surface: "capos-agent",
    help: HELP,
    run: |session, line| Box::pin(run(session, line)),
    has_programs: false,
};

const HELP: &[(&str, &str)] = &[
    ("/help", "show this list; /help WORDS shows what the manual says about them"),
    ("/tools", "list the model's tools, and the permission that each needs"),
    ("/more", "show the full results of the last turn that called tools; /more --json as JSON"),
    ("/approvals", "list the questions that you were asked, with your answers"),
    ("/approvals NUMBER", "show one of them in full"),
    ("/approvals revoke NUMBER", "end a consent that covers further calls; /approvals revoke all ends all of them"),
    ("/budget", "show the budgets of the session and its last run; /budget steps lists what each step used"),
    ("/runs", "list the last runs, and which of them can be continued; /runs all lists every one"),
    ("/runs steps N", "show what each step of run N of the list used; /runs cancel N ends one for good"),
    ("/segments N", "the next request may go on for N times as many model calls without a question"),
    ("/continue", "go on with the last request, if it was not answered to its end"),
    ("/rest", "ask for the part of the last request that no call was made for"),
    ("/conversations", "list the last saved conversations; /conversations all lists every one"),
    ("/resume", "renew a policy that has expired; otherwise continue the last conversation"),
    ("/resume N", "continue a saved conversation: a number of the list, or the beginning of an id"),
    ("/stop", "end the conversation; the next line begins a new one"),
    ("/remind", "list the reminders that wait; /remind cancel N drops one"),
    ("/model", "list the models; /model ID or TITLE changes the model"),
    (
        "/plain",
        "send earlier calls and results to the model as text, if it rejects them as calls; /plain off: as calls",
    ),
    ("/passphrase", "change your own passphrase"),
    ("/lock", "lock the terminal until your passphrase is given"),
    ("/exit, /quit", "end the session"),
];

async fn run(session: &mut Session, line: &str) -> Flow {
    let (command, text) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest: Vec<&str> = text.split_whitespace().collect();
    let result = match command {
        "tools" | "continue" | "rest" | "stop" | "passphrase" | "lock" | "exit" | "quit" if !rest.is_empty() => {
            Err(format!("/{command} takes no arguments; /help lists the commands"))
        }
        "help" | "?" => help(session, text).await,
        "tools" => inspect::tools(session).await,
        "more" => more(session, &rest).await,
        "approvals" => audit::approvals(session, &rest).await,
        "budget" => budget::budget(session, &rest).await,
        "runs" => runs::runs(session, &rest).await,
        "segments" => runs::segments(session, &rest).await,
        "continue" => cut_off::go_on(session).await,
        "rest" => cut_off::rest(session).await,
        "conversations" => conversations::list(session, &rest).await,
        "resume" => conversations::resume(session, &rest).await,
        "stop" => stop(session).await,
        "remind" => background::remind::of_assistant(session, text).await,
        "model" => model::model(session, &rest).await,
        "plain" => plainly(session, &rest).await,
        "passphrase" => users::passphrase(session).await,
        "lock" => return settings::lock(session).await,
        "exit" | "quit" => return Flow::Exit,
        _ => unknown(command),
    };
    if let Err(why) = result {
        session.runner.screen.error(&why).await;
    }
    Flow::Go
}

fn unknown(command: &str) -> Done {
    Err(format!(
        "there is no command /{} here: type what you want done as a request to the agent; /help lists the commands",
        escape(command)
    ))
}
