//! `/background`: runs in parallel with the prompt; and the answers to their questions.

pub mod remind;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::{Host, Secret};
use capos_plural::count;
use capos_schema::models::PermissionMode;
use capos_schema::terminal::Style;
use capos_terminal::escape_json;

use super::{Done, EXPIRED, refreshed, rows};
use crate::approver::Shown;
use crate::background::questions::{Given, Question};
use crate::background::{self, Background, schedule};
use crate::escape::{first_line, name};
use crate::session::Session;

/// Letters of arguments in a list.
const ARGUMENTS: usize = 60;
/// Stands before what a run said.
const MARGIN: &str = "  │ ";
const USAGE: &str = "usage: /background, /background REQUEST, /background show N, or /background cancel N";
/// Why an answer has no effect.
const OVER: &str = "was answered, has expired, or its run has ended; /approvals lists the open ones";

/// `/background`.
pub async fn background(session: &mut Session, text: &str) -> Done {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [] => list(session).await,
        ["show", number] => show(session, &*found(session, number)?).await,
        ["cancel", number] => {
            let found = found(session, number)?;
            background::cancel(&found)?;
            session.runner.screen.line(Style::Dim, &format!("background run {} ends", found.number)).await;
            Ok(())
        }
        ["show" | "cancel"] => Err(USAGE.to_string()),
        _ => begin(session, text).await,
    }
}

fn found(session: &Session, number: &str) -> Result<Rc<Background>, String> {
    let found = number.parse().ok().and_then(|number| session.runner.backgrounds.find(number));
    let why = || format!("there is no background run {}; /background lists them", first_line(number, 20));
    found.ok_or_else(why)
}

async fn begin(session: &mut Session, text: &str) -> Done {
    let clock = schedule::clock(&session.runner);
    let (when, request) = schedule::parse(text, session.runner.now(), clock)?;
    refreshed(session).await?;
    if session.has_expired() {
        return Err(format!("no run begins: {EXPIRED}"));
    }
    session.runner.need_model().await;
    let begun = background::begin(session, request, when)?;
    let number = begun.number;
    let text = match when {
        None => format!("background run {number} begins; /background show {number} shows what it says"),
        Some(when) => {
            let left = schedule::text(when.left(session.runner.now(), clock.map(|(unix, _)| unix)));
            format!(
                "background run {number} begins in {left}, if this session lasts until then; /background cancel {number} drops it"
            )
        }
    };
    session.runner.screen.wrapped(&[(Style::Dim, &text)]).await;
    Ok(())
}

async fn list(session: &Session) -> Done {
    let runner = &session.runner;
    let all = runner.backgrounds.all();
    if all.is_empty() {
        let text = "no background run in this session yet; /background REQUEST begins one";
        runner.screen.line(Style::Plain, text).await;
        return Ok(());
    }
    let unix = runner.clock.wall_clock().ok();
    let questions = runner.backgrounds.questions.all();
    let row = |one: &Rc<Background>| {
        let asks = questions.iter().find(|question| question.run == one.number);
        let asks = asks.map(|question| format!("; /approvals show {}", question.number)).unwrap_or_default();
        (one.number.to_string(), format!("{}: {}{asks}", one.title(), one.status(runner.now(), unix)))
    };
    rows(session, &all.iter().map(row).collect::<Vec<_>>()).await;
    let text = "/background show N shows what one said; /background cancel N ends one";
    runner.screen.line(Style::Dim, text).await;
    Ok(())
}

async fn show(session: &Session, background: &Background) -> Done {
    let runner = &session.runner;
    let status = background.status(runner.now(), runner.clock.wall_clock().ok());
    let text = format!("background run {}, {}: {status}", background.number, background.title());
    runner.screen.wrapped(&[(Style::Plain, &text)]).await;
    let (dropped, lines) = background.output();
    if dropped > 0 {
        let text = format!("{} before these are not kept; /conversations has all messages", count(dropped, "line"));
        runner.screen.line(Style::Dim, &text).await;
    }
    for (style, line) in lines {
        runner.screen.wrapped(&[(Style::Dim, MARGIN), (style, &line)]).await;
    }
    Ok(())
}

/// The open questions, as rows of a list.
pub fn open(session: &Session) -> Vec<(String, String)> {
    let now = session.runner.now();
    let row = |question: &Rc<Question>| {
        let ask = question.ask();
        let arguments = first_line(&escape_json(ask.arguments), ARGUMENTS);
        let left = schedule::text(ask.approval.expires.saturating_sub(now));
        let text = format!(
            "{} {arguments} ({}): background run {} waits for your answer, {left} more",
            name(&ask.tool.descriptor.name),
            ask.approval.risk.name(),
            question.run
        );
        (format!("open {}", question.number), text)
    };
    session.runner.backgrounds.questions.all().iter().map(row).collect()
}

/// `/approvals show`, `/approvals approve` and `/approvals deny`.
pub async fn answer(session: &Session, command: &str, number: &str) -> Done {
    let found = number.parse().ok().and_then(|number| session.runner.backgrounds.questions.find(number));
    let question = found.ok_or_else(|| format!("question {} {OVER}", first_line(number, 20)))?;
    match command {
        "show" => show_question(session, &question).await,
        "approve" => approve(session, &question).await,
        _ => given(session, &question, Given::Declined, "denied").await,
    }
}

async fn given(session: &Session, question: &Question, given: Given, how: &str) -> Done {
    if !question.answer(given) {
        return Err(format!("nothing was {how}: question {} {OVER}", question.number));
    }
    let text = format!("{how}; background run {} goes on", question.run);
    session.runner.screen.line(Style::Success, &text).await;
    Ok(())
}

async fn show_question(session: &Session, question: &Question) -> Done {
    let (ask, number) = (question.ask(), question.number);
    let screen = &session.runner.screen;
    let text = format!("question {number}, of background run {}", question.run);
    screen.line(Style::Dim, &text).await;
    let shown = Shown { runner: &session.runner, ask: &ask, mode: question.mode, told: &question.told };
    let size = screen.size().await;
    let Some(text) = shown.show(size).await else {
        return Err(format!("question {number} was not looked at to its end; it stays open"));
    };
    question.show((size, text));
    let text = format!("/approvals approve {number} allows this call once; /approvals deny {number} rejects it");
    screen.line(Style::Dim, &text).await;
    Ok(())
}

/// Allows a call. What its person has seen is what is allowed: the question itself never changes, and what the call would change
/// is looked at again.
async fn approve(session: &Session, question: &Question) -> Done {
    let (ask, number) = (question.ask(), question.number);
    let (size, seen) = question
        .seen()
        .ok_or_else(|| format!("question {number} was not shown yet; show it first: /approvals show {number}"))?;
    let shown = Shown { runner: &session.runner, ask: &ask, mode: question.mode, told: &question.told };
    if shown.text(size).await != seen {
        let text = "what this call would do has changed since it was shown";
        return Err(format!("{text}; show it again: /approvals show {number}"));
    }
    if question.mode == PermissionMode::StepUp {
        return match shown.passphrase().await {
            Secret::Given(passphrase) => {
                given(session, question, Given::Passphrase(passphrase), "the passphrase is tried").await
            }
            _ => Err(format!("no passphrase was entered; question {number} stays open")),
        };
    }
    if !shown.confirm().await {
        return Err(format!(
            "nothing was allowed; question {number} stays open, and /approvals deny {number} rejects the call"
        ));
    }
    given(session, question, Given::Agreed, "allowed once").await
}
