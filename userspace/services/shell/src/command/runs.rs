//! `/runs`, `/sessions` and `/segments`: what runs did, what can be continued, and who is or was logged in.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::Conversation;
use capos_agent::world::Host;
use capos_plural::{count, with_commas};
use capos_run_state::{Child, Progress, RunState, read_progress, read_step};
use capos_runner::{attachments, cut_off};
use capos_schema::audit::{AuditReaderClient, Query};
use capos_schema::conversations::{ConversationStoreClient, RunInfo};
use capos_schema::models::ChatMessage;
use capos_schema::terminal::Style;
use capos_terminal::wrap;
use serde_json::Value;

use super::budget::amounts;
use super::{Done, refreshed, rows};
use crate::escape::{first_line, in_quotes, name};
use crate::history::{Messages, PAGE, read_all};
use crate::keeper::PURPOSE;
use crate::more::margined;
use crate::readable::date_of;
use crate::session::Session;

/// Rows of a list that is not asked for whole.
const ROWS: usize = 20;
/// Letters of a request and of an id that are shown.
const REQUEST: usize = 50;
const ID: usize = 8;
/// Segments that a run may have.
const MOST_SEGMENTS: u32 = 100;

const USAGE: &str = "usage: /runs, /runs all, /runs show N, /runs steps N, or /runs cancel N";

fn short(id: &str) -> &str {
    id.get(..ID).unwrap_or(id)
}

fn time(milliseconds: u64) -> String {
    date_of(milliseconds.saturating_mul(1_000_000))
}

/// Where a run is at work in this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Prompt,
    /// The background run with this number, which is there now.
    Background(u32, RunState),
    Nowhere,
}

/// How a run is, for a person.
fn state(run: &RunInfo, progress: Option<&Progress>, place: Place) -> String {
    let Some(progress) = progress.filter(|_| run.aside.is_empty()) else {
        return format!("was set aside: {}", first_line(&run.aside, 200));
    };
    // What is saved says where it was at its last message.
    if let Place::Background(number, state) = place {
        return format!("{} as background run {number}", state.words());
    }
    match progress.state {
        state if !run.open && !state.is_over() => "was replaced by a later request".to_string(),
        state if place == Place::Prompt || state.is_over() || state.is_paused() => state.words().to_string(),
        _ => "was cut off".to_string(),
    }
}

/// What is told of a run in a list.
fn facts(run: &RunInfo, request: &str, place: Place) -> String {
    let progress = read_progress(&run.json).ok();
    let mut parts = Vec::from([in_quotes(&first_line(request, REQUEST), REQUEST)]);
    parts.push(state(run, progress.as_ref(), place));
    if let Some(progress) = &progress {
        let (read, written) = progress.tokens;
        parts.push(format!("step {} of at most {}", progress.step, progress.most));
        if progress.segments.1 > 1 {
            parts.push(format!("segment {} of {}", progress.segments.0, progress.segments.1));
        }
        parts.push(format!("{} tokens", with_commas(read.saturating_add(written))));
    }
    parts.push(time(run.changed));
    match place {
        Place::Prompt if run.open => parts.push("/continue goes on".to_string()),
        Place::Nowhere if run.open => parts.push("/resume and /continue go on".to_string()),
        _ => {}
    }
    parts.join(", ")
}

/// What is told of the child runs of a run, below it.
fn children(run: &RunInfo) -> Vec<String> {
    let Ok(progress) = read_progress(&run.json) else { return Vec::new() };
    let text = |child: &Child| {
        // A child run is not continued.
        let state = if child.state.is_over() { child.state.words() } else { "was cut off" };
        let (calls, tokens) = (count(child.asked, "model call"), with_commas(child.tokens));
        let task = in_quotes(&first_line(&child.task, REQUEST), REQUEST);
        format!("child run {}: {task}, {state}, {calls}, {tokens} tokens", child.number)
    };
    progress.children.list.iter().map(text).collect()
}

/// The request that a run is about.
async fn request(session: &Session, store: &ConversationStoreClient, run: &RunInfo) -> String {
    let from = read_progress(&run.json).map_or(0, |progress| progress.messages.0);
    let mut messages = Messages::of(store.clone(), &run.conversation);
    messages.next = (from, 0);
    let mut first = Conversation::new(String::new());
    match messages.next(&session.runner).await {
        Ok(Some(text)) if first.load_message(&text).is_ok() => {
            first.entries().first().map(|entry| entry.message.content.clone()).unwrap_or_default()
        }
        _ => run.title.clone(),
    }
}

/// `/runs`.
pub async fn runs(session: &mut Session, rest: &[&str]) -> Done {
    refreshed(session).await?;
    let store = session.runner.grants.find::<ConversationStoreClient>(PURPOSE)?;
    match rest {
        [] => list(session, &store, false).await,
        ["all"] => list(session, &store, true).await,
        ["show", number] => show(session, &store, number).await,
        ["steps", number] => steps(session, &store, number).await,
        ["cancel", number] => cancel(session, &store, number).await,
        _ => Err(USAGE.to_string()),
    }
}

async fn list(session: &mut Session, store: &ConversationStoreClient, all: bool) -> Done {
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let most = if all { PAGE } else { ROWS.saturating_sub(found.len()) as u32 };
        let page = session.runner.audited(store.runs(&next, most)).await?;
        found.extend(page.runs);
        next = page.next;
        if next.is_empty() || (!all && found.len() >= ROWS) {
            break;
        }
    }
    if found.is_empty() {
        session.runner.screen.line(Style::Plain, "no run is kept yet").await;
        return Ok(());
    }
    session.listed = found.iter().map(|run| run.conversation.clone()).collect();
    session.runs = found.iter().map(|run| (run.conversation.clone(), run.turn)).collect();
    let here = session.agent.conversation();
    let here = (here.id.clone(), here.last_turn());
    let mut text = Vec::new();
    for (number, run) in (1_usize..).zip(&found) {
        let request = request(session, store, run).await;
        let place = match session.runner.backgrounds.in_conversation(&run.conversation) {
            Some((number, state)) => Place::Background(number, state),
            None if here == (run.conversation.clone(), run.turn) => Place::Prompt,
            None => Place::Nowhere,
        };
        text.push((format!("{number}  {}", short(&run.conversation)), facts(run, &request, place)));
        text.extend(children(run).into_iter().map(|child| (String::new(), child)));
    }
    rows(session, &text).await;
    let more = if next.is_empty() { "" } else { "; /runs all lists the others" };
    let text = format!("/runs steps N shows what each step used; /runs cancel N ends one for good{more}");
    session.runner.screen.line(Style::Dim, &text).await;
    Ok(())
}

/// The run with this number in the last list.
fn numbered(session: &Session, number: &str) -> Result<(String, u32), String> {
    let at = number.parse().ok().and_then(|number: usize| number.checked_sub(1));
    let found = at.and_then(|at| session.runs.get(at));
    found.cloned().ok_or_else(|| format!("the last list has no number {}; /runs shows one", first_line(number, 20)))
}

async fn steps(session: &Session, store: &ConversationStoreClient, number: &str) -> Done {
    let (id, turn) = numbered(session, number)?;
    let screen = &session.runner.screen;
    let (mut from, mut before, mut any) = (0, (0, 0), false);
    loop {
        let page = session.runner.audited(store.steps(&id, turn, from)).await?;
        let Some(last) = page.last().map(|step| step.number) else { break };
        for step in &page {
            let Some(((read, written), spent)) = read_step(&step.used) else { continue };
            let used: Vec<u64> = spent.iter().map(|(_, amount)| amount).collect();
            let (fresh, made) = (read.saturating_sub(before.0), written.saturating_sub(before.1));
            before = (read, written);
            let text = format!("{}. {fresh} read, {made} written; {}", step.number, amounts(&used));
            screen.wrapped(&[(Style::Plain, &text)]).await;
        }
        any = true;
        from = last.saturating_add(1);
    }
    if !any {
        screen.line(Style::Dim, "this run has completed no step").await;
    }
    Ok(())
}

/// `/runs show N`: the messages of its child runs.
async fn show(session: &Session, store: &ConversationStoreClient, number: &str) -> Done {
    let (id, turn) = numbered(session, number)?;
    let screen = &session.runner.screen;
    let found = attachments::list(&session.runner, store, &id).await?;
    let child = |name: &str| name.strip_prefix(&format!("child-{turn}."))?.parse::<u32>().ok();
    let mut children: Vec<(u32, String)> =
        found.into_iter().filter_map(|kept| Some((child(&kept.name)?, kept.name))).collect();
    children.sort_unstable();
    if children.is_empty() {
        screen.line(Style::Plain, "no messages of child runs are kept of this run").await;
        return Ok(());
    }
    let columns = screen.size().await.0;
    for (number, name) in children {
        let text = attachments::read(&session.runner, store, (&id, &name)).await?;
        let mut child = Conversation::new(String::new());
        // A power cut leaves the last line in part.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            child.load_message(line).map_err(|bad| format!("a message of child run {number} cannot be read: {bad}"))?;
        }
        for entry in child.entries() {
            let (heading, said) = said(number, &entry.message);
            let held = screen.hold().await;
            held.fresh_line().await;
            held.show(&[
                (Style::Tool, &format!("{}\n", wrap("", &heading, columns))),
                (Style::Plain, &margined(&said, columns)),
            ])
            .await;
        }
    }
    Ok(())
}

/// What a message of a child run says, with its heading.
fn said(number: u32, message: &ChatMessage) -> (String, String) {
    let calls = message.tool_calls.iter().map(|call| format!("{} {}", call.name, call.arguments));
    let texts = Some(message.content.clone()).filter(|text| !text.is_empty()).into_iter().chain(calls);
    (format!("▸ child run {number}, {}", message.role.name()), texts.collect::<Vec<_>>().join("\n"))
}

async fn cancel(session: &mut Session, store: &ConversationStoreClient, number: &str) -> Done {
    let (id, turn) = numbered(session, number)?;
    session.runner.backgrounds.check(&id)?;
    let here = session.agent.conversation();
    if here.id == id && here.last_turn() == turn {
        session.agent.close_run().await;
    } else {
        let info = session.runner.audited(store.run(&id)).await?;
        if info.turn != turn {
            return Err("this run was replaced by a later one".to_string());
        }
        cut_off::cancel(&session.runner, store, &info).await?;
    }
    session.record("run.cancelled", &id).await;
    session.runner.screen.line(Style::Success, "cancelled; nothing continues it").await;
    Ok(())
}

/// `/segments`.
pub async fn segments(session: &mut Session, rest: &[&str]) -> Done {
    let usage = format!("usage: /segments N: how many segments the next request may take, 1 to {MOST_SEGMENTS}");
    let [number] = rest else { return Err(usage) };
    let segments: u32 = number.parse().ok().filter(|number| (1..=MOST_SEGMENTS).contains(number)).ok_or(usage)?;
    session.agent.in_segments(segments);
    let calls = session.runner.info.limits.max_iterations;
    let text = format!(
        "your next request may take {} of {} each; between them it is saved and recorded, and goes on by itself. Ctrl-C ends \
         it, and its budget stays as it is",
        count(segments, "segment"),
        count(calls, "model call")
    );
    session.runner.screen.wrapped(&[(Style::Dim, &text)]).await;
    Ok(())
}

/// What the audit log has of a session.
#[derive(Debug, Default, PartialEq, Eq)]
struct Login {
    principal: String,
    surface: String,
    began: u64,
    ended: Option<(u64, String)>,
    /// Why there was no session: the login was rejected. Empty if it was not.
    rejected: String,
}

/// The sessions that lines of the audit log are about, by their ids.
fn logins(lines: &[String]) -> BTreeMap<String, Login> {
    let mut found: BTreeMap<String, Login> = BTreeMap::new();
    for line in lines {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let text = |member: &str| value.get(member).and_then(Value::as_str).unwrap_or_default();
        let field = |name: &str| {
            value.get("fields").and_then(|fields| fields.get(name)).and_then(Value::as_str).unwrap_or_default()
        };
        let time = value.get("time").and_then(Value::as_u64).unwrap_or_default();
        let login = found.entry(text("session").to_string()).or_default();
        login.principal = text("principal").to_string();
        if login.began == 0 || time < login.began {
            login.began = time;
        }
        match text("kind") {
            "session.start" if !matches!(field("outcome"), "" | "granted") => {
                login.rejected = field("outcome").to_string();
            }
            "session.opened" => login.surface = field("surface").to_string(),
            "session.end" => login.ended = Some((time, field("outcome").to_string())),
            _ => {}
        }
    }
    found.remove("");
    found
}

/// What is told of a session. `boot` is when the machine began, in nanoseconds since 1970.
fn login_text(login: &Login, is_here: bool, boot: u64) -> String {
    let mut parts = Vec::from([name(&login.principal)]);
    if !login.rejected.is_empty() {
        parts.push(format!("login rejected {}: {}", date_of(login.began), first_line(&login.rejected, REQUEST)));
        return parts.join(", ");
    }
    if !login.surface.is_empty() {
        parts.push(name(&login.surface));
    }
    parts.push(format!("since {}", date_of(login.began)));
    parts.push(match &login.ended {
        _ if is_here => "this session".to_string(),
        Some((at, why)) if why.is_empty() => format!("ended {}", date_of(*at)),
        Some((at, why)) => format!("ended {}: {}", date_of(*at), first_line(why, REQUEST)),
        None if login.began < boot => "ended when the machine went off".to_string(),
        None => "open".to_string(),
    });
    parts.join(", ")
}

/// `/sessions`.
pub async fn sessions(session: &Session, rest: &[&str]) -> Done {
    let all = match rest {
        [] => false,
        ["all"] => true,
        _ => return Err("usage: /sessions or /sessions all".to_string()),
    };
    let reader = session.runner.grants.find::<AuditReaderClient>("read which sessions there were")?;
    let reader = capos_rt::with_results(&reader, 1 << 20);
    let query = Query { kind: "session.".to_string(), ..Query::default() };
    let found = logins(&read_all(&session.runner, &reader, query).await?);
    let now = session.runner.clock.wall_clock().unwrap_or_default().saturating_mul(1_000_000);
    let boot = now.saturating_sub(session.runner.now());
    let mut found: Vec<(String, Login)> = found.into_iter().collect();
    found.sort_by_key(|(_, login)| core::cmp::Reverse(login.began));
    let hidden = if all { 0 } else { found.len().saturating_sub(ROWS) };
    found.truncate(found.len().saturating_sub(hidden));
    let row =
        |(id, login): &(String, Login)| (short(id).to_string(), login_text(login, *id == session.runner.info.id, boot));
    rows(session, &found.iter().map(row).collect::<Vec<_>>()).await;
    if hidden > 0 {
        let text = format!("{} more; /sessions all lists them", with_commas(hidden as u64));
        session.runner.screen.line(Style::Dim, &text).await;
    }
    Ok(())
}

/// Whether a run was at work when its session ended.
pub fn is_cut_off(run: &RunInfo) -> bool {
    run.open && run.aside.is_empty() && read_progress(&run.json).is_ok_and(|progress| progress.state.is_active())
}

/// Whether a run was brought to an end with its session.
pub fn is_closed(run: &RunInfo) -> bool {
    !run.open && run.aside.is_empty() && !run.json.is_empty()
}

/// What the login says of a run that was cut off; nothing if it was not.
pub fn cut_off_text(run: &RunInfo) -> String {
    let Ok(progress) = read_progress(&run.json) else { return String::new() };
    if !run.open || progress.state == RunState::Completed {
        return String::new();
    }
    let (read, written) = progress.tokens;
    format!(
        "; its run {} after step {} of at most {}, with {} tokens used, and goes on with the rest of its budget",
        state(run, Some(&progress), Place::Nowhere),
        progress.step,
        progress.most,
        with_commas(read.saturating_add(written))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_run_state::Checkpoint;

    fn run(state: RunState, open: bool) -> RunInfo {
        let progress = Progress {
            state,
            step: 3,
            asked: 4,
            most: 16,
            segments: (1, 1),
            tokens: (1000, 234),
            ..Progress::default()
        };
        let checkpoint = Checkpoint { conversation: "3f9a1c2b0000".into(), turn: 2, progress, ..Checkpoint::default() };
        let (conversation, turn, changed) = (checkpoint.conversation.clone(), 2, 1_795_251_907_000);
        RunInfo { conversation, turn, open, changed, json: checkpoint.point(), ..RunInfo::default() }
    }

    /// C39, F11: a person sees what a run did, and whether it can be continued.
    #[test]
    fn f11_a_run_is_told_with_its_state_and_how_it_goes_on() {
        let text = facts(&run(RunState::ExecutingTools, true), "Tidy up.\nNow.", Place::Nowhere);
        let rest = "step 3 of at most 16, 1,234 tokens, 2026-11-21 09:05:07 UTC";
        assert_eq!(text, format!("\"Tidy up.\"…, was cut off, {rest}, /resume and /continue go on"));
        let of = |state, open, place| facts(&run(state, open), "x", place);
        assert!(of(RunState::Completed, false, Place::Nowhere).starts_with("\"x\", is done, step 3"));
        assert!(of(RunState::PausedForApproval, true, Place::Prompt).contains("is paused until you agree"));
        assert!(of(RunState::ExecutingTools, false, Place::Nowhere).contains("was replaced by a later request"));
        let beside = of(RunState::ProcessingResponse, true, Place::Background(2, RunState::ExecutingTools));
        assert!(beside.contains("runs tool calls as background run 2") && !beside.contains("/continue"), "{beside}");
        let aside = RunInfo { aside: "it is of version 2".into(), ..run(RunState::Failed, false) };
        assert!(facts(&aside, "x", Place::Nowhere).contains("was set aside: it is of version 2"));
        assert!(cut_off_text(&run(RunState::WaitingForModel, true)).contains("was cut off after step 3 of at most 16"));
        assert_eq!(cut_off_text(&run(RunState::Completed, false)), "");
    }

    /// I15: the child runs of a run stand below it. One that was running when the machine ended was cut off.
    #[test]
    fn i15_child_runs_are_told_with_their_parent() {
        let mut run = run(RunState::ExecutingTools, true);
        assert_eq!(children(&run), Vec::<String>::new());
        let mut progress = read_progress(&run.json).unwrap();
        for task in ["Count the files.\nAll.", "Read them."] {
            let number = progress.children.announce(task, 2);
            progress.children.begin(number);
        }
        progress.children.end(1, RunState::Completed, (2, 2), 1500);
        run.json = Checkpoint { conversation: "3f".into(), turn: 2, progress, ..Checkpoint::default() }.point();
        assert_eq!(
            children(&run),
            [
                "child run 1: \"Count the files. All.\", is done, 2 model calls, 1,500 tokens",
                "child run 2: \"Read them.\", was cut off, 0 model calls, 0 tokens",
            ]
        );
    }

    #[test]
    fn f01_a_message_of_a_child_run_is_told_with_its_calls() {
        let call = |name: &str| capos_schema::models::ToolCall {
            name: name.into(),
            arguments: "{}".into(),
            ..Default::default()
        };
        let tool_calls = Vec::from([call("list_directory"), call("read_file")]);
        let message = ChatMessage {
            role: capos_schema::models::Role::Assistant,
            content: "I look.".into(),
            tool_calls,
            ..Default::default()
        };
        assert_eq!(
            said(2, &message),
            ("▸ child run 2, assistant".to_string(), "I look.\nlist_directory {}\nread_file {}".to_string())
        );
    }

    #[test]
    fn sessions_are_told_from_their_records() {
        let line = |kind: &str, session: &str, time: u64, fields: &str| {
            format!(
                "{{\"kind\":\"{kind}\",\"session\":\"{session}\",\"principal\":\"ada\",\"time\":{time},\"fields\":{fields}}}"
            )
        };
        let found = logins(&[
            line("session.start", "s1", 5, "{}"),
            line("session.opened", "s1", 6, "{\"surface\":\"console\"}"),
            line("session.end", "s1", 9, "{\"outcome\":\"its last holder ended\"}"),
            line("session.start", "s2", 20, "{}"),
            line("session.start", "s3", 30, "{}"),
            line("session.start", "s4", 7, "{\"outcome\":\"the passphrase is wrong\"}"),
            line("session.start", "s5", 30, "{\"outcome\":\"granted\"}"),
            "no record".to_string(),
        ]);
        assert_eq!(found.len(), 5);
        let text = |id: &str| login_text(&found[id], false, 25);
        assert!(
            text("s1").starts_with("ada, console, since 1970-01-01") && text("s1").ends_with("its last holder ended")
        );
        assert!(text("s2").ends_with("ended when the machine went off"));
        assert!(text("s3").ends_with(", open"));
        // A wrong passphrase opened no session that could have been cut off.
        let rejected = text("s4");
        assert!(rejected.starts_with("ada, login rejected 1970-01-01"), "{rejected}");
        assert!(rejected.ends_with(": the passphrase is wrong"), "{rejected}");
        assert!(text("s5").ends_with(", open"));
    }

    /// A login after an orderly end does not speak of a conversation that was cut off.
    #[test]
    fn a_run_that_ended_with_its_session_was_not_cut_off() {
        assert!(is_closed(&run(RunState::Cancelled, false)));
        assert!(!is_closed(&run(RunState::ExecutingTools, true)));
        assert!(!is_closed(&RunInfo::default()), "there is none");
        assert!(!is_closed(&RunInfo { aside: "damaged".into(), ..run(RunState::Cancelled, false) }));
    }
}
