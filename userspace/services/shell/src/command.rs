//! The commands of the shell. None of them touches the model.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_audit::Deed;
use capos_plural::count;
use capos_schema::audit::{AuditReaderClient, Query};
use capos_schema::authority::ApprovalClientClient;
use capos_schema::kernel::Usage;
use capos_schema::models::ModelInfo;
use capos_schema::reflection;
use capos_schema::system::{LauncherClient, ServiceInfo, ServiceState, SystemStatusClient};
use capos_schema::terminal::Style;
use capos_terminal::{count_spaces, escape_json};

use crate::escape::{escape, first_line, in_quotes, name, one_line, plain};
use crate::job_commands;
use crate::more::more;
use crate::session::Session;

/// Letters of what a model says of itself that the list of models has.
const SAID: usize = 90;

/// How it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// With the next line.
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
        "help" | "?" | "more" | "tools" | "approvals" | "status" | "jobs" | "exit" | "quit" if !rest.is_empty() => {
            Err(format!("/{command} stands alone; /help tells what each command takes"))
        }
        "help" | "?" => help(session).await,
        "cap" | "caps" => cap(session, &rest).await,
        "inspect" => inspect(session, &rest).await,
        "more" => more(session).await,
        "tools" => tools(session).await,
        "model" => model(session, &rest).await,
        "audit" => audit(session, &rest).await,
        "approvals" => approvals(session).await,
        "status" => status(session).await,
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

async fn cap(session: &mut Session, rest: &[&str]) -> Done {
    match rest {
        [] => {}
        ["all"] => return held(session).await,
        ["drop", name] => {
            if session.runner.dropped.borrow().contains(*name) {
                return Err(format!("{:?} is put away already", escape(name)));
            }
            if session.runner.is_writer(name) {
                return Err(format!(
                    "{:?} cannot be put away: without it nothing that is done here would be recorded",
                    escape(name)
                ));
            }
            if !session.runner.grants().iter().any(|grant| grant.name == *name) {
                return Err(format!("this session holds no capability {:?}", escape(name)));
            }
            session.runner.dropped.borrow_mut().insert((*name).to_string());
        }
        ["take", name] => {
            if !session.runner.dropped.borrow_mut().remove(*name) {
                return Err(format!("{:?} was not put away", escape(name)));
            }
        }
        _ => return Err("say /cap, /cap all, /cap drop NAME or /cap take NAME".to_string()),
    }
    refreshed(session).await?;
    let text: Vec<(String, String)> = session
        .runner
        .grants()
        .iter()
        .enumerate()
        .map(|(at, grant)| {
            let interface = reflection::interface(grant.interface).map_or("unknown interface", |found| found.name);
            let tools = session.snapshot.tools().iter().filter(|tool| tool.capability == at as u64).count();
            let form = if grant.read_only { ", read-only" } else { "" };
            (grant.name.clone(), format!("{interface}{form}, {}", count(tools, "tool")))
        })
        .collect();
    rows(session, &text).await;
    let dropped: Vec<String> = session.runner.dropped.borrow().iter().cloned().collect();
    if !dropped.is_empty() {
        session.runner.screen.line(Style::Dim, &format!("  put away: {}", dropped.join(", "))).await;
    }
    Ok(())
}

/// The process's own table: there is no other authority in it.
async fn held(session: &Session) -> Done {
    let list = session.runner.within(session.runner.table.list()).await.map_err(|why| why.to_string())?;
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for found in &list {
        let name = reflection::interface(found.interface)
            .map_or_else(|| format!("interface {:#018x}", found.interface), |interface| interface.name.to_string());
        let count = counts.entry((name, found.kind.clone())).or_default();
        *count = count.saturating_add(1);
    }
    let text: Vec<(String, String)> =
        counts.into_iter().map(|((name, kind), number)| (name, format!("{number}, {kind}"))).collect();
    rows(session, &text).await;
    Ok(())
}

async fn inspect(session: &mut Session, rest: &[&str]) -> Done {
    let [name] = rest else {
        return Err("say /inspect and the name of a capability, a tool, the number of a job, or `conversation`".into());
    };
    if *name == "conversation" {
        return conversation(session).await;
    }
    if let Some(found) = name.parse().ok().and_then(|number| session.jobs.find(number)) {
        return job_commands::inspect(session, found).await;
    }
    refreshed(session).await?;
    let screen = session.runner.screen.clone();
    if let Some(tool) = session.snapshot.tools().iter().find(|tool| tool.descriptor.name == *name) {
        let found = &tool.descriptor;
        screen.line(Style::Heading, &format!("tool {}", found.name)).await;
        let limit = if found.timeout_ms == 0 { session.runner.info.limits.tool_timeout_ms } else { found.timeout_ms };
        let text = [
            ("what", found.description.clone()),
            ("permission", found.permission.name().to_string()),
            ("category", found.category.clone()),
            ("method", format!("{} of interface {:#018x}", found.method_name, found.interface_id)),
            ("handle", found.handle.clone()),
            ("parameters", found.param_schema.clone()),
            ("time limit", format!("{limit} ms")),
            ("abortable", if found.abortable { "yes" } else { "no" }.to_string()),
            ("result", format!("at most {}, secrets taken out", count(tool.max_result, "byte"))),
            ("provenance", if tool.untrusted { "untrusted" } else { "trusted" }.to_string()),
        ];
        rows(session, &text.map(|(name, value)| (name.to_string(), value))).await;
        return Ok(());
    }
    let grants = session.runner.grants();
    let Some(grant) = grants.iter().find(|grant| grant.name == *name) else {
        return Err(format!("this session has no capability and no tool {:?}", escape(name)));
    };
    let Some(interface) = reflection::interface(grant.interface) else {
        return Err(format!("interface {:#018x} is not in this system's schema", grant.interface));
    };
    let form = if grant.read_only { " (read-only)" } else { "" };
    screen.line(Style::Heading, &format!("capability {}: {}{form}", grant.name, interface.name)).await;
    if !interface.doc.is_empty() {
        screen.line(Style::Plain, &format!("  {}", interface.doc.replace('\n', " "))).await;
    }
    let text: Vec<(String, String)> = interface
        .methods
        .iter()
        .map(|method| {
            let mut what = method.category.map_or("not a tool", |category| category.name()).to_string();
            if grant.read_only && method.changes() {
                what.push_str(", refused by this read-only form");
            }
            if !method.doc.is_empty() {
                what = format!("{what}. {}", method.doc.replace('\n', " "));
            }
            (method.name.to_string(), what)
        })
        .collect();
    rows(session, &text).await;
    Ok(())
}

/// Everything that the next request would hold before the person's line.
async fn conversation(session: &Session) -> Done {
    let screen = &session.runner.screen;
    let entries = session.agent.conversation().entries();
    screen
        .line(
            Style::Heading,
            &format!("conversation {}: {}", session.agent.conversation().id, count(entries.len(), "message")),
        )
        .await;
    for entry in entries {
        let message = &entry.message;
        let label =
            if message.label.classes.is_empty() { "public".to_string() } else { message.label.classes.join("+") };
        let head = format!(
            "  {:<9} turn {}, {}, {label}, {}",
            message.role.name(),
            entry.turn,
            message.provenance.name(),
            count(message.content.len(), "byte")
        );
        let calls: Vec<&str> = message.tool_calls.iter().map(|call| call.name.as_str()).collect();
        let calls = if calls.is_empty() { String::new() } else { format!(", calls {}", escape(&calls.join(", "))) };
        screen.wrapped(&[(Style::Bold, &head), (Style::Tool, &calls)]).await;
        screen.wrapped(&[(Style::Dim, &format!("    {}", count_spaces(&first_line(&message.content, 120))))]).await;
    }
    Ok(())
}

async fn tools(session: &mut Session) -> Done {
    refreshed(session).await?;
    let text: Vec<(String, String)> = session
        .snapshot
        .tools()
        .iter()
        .map(|tool| {
            let found = &tool.descriptor;
            let what =
                format!("{:<9} {:<11} {}", found.permission.name(), found.category, first_line(&found.description, 70));
            (found.name.clone(), what)
        })
        .collect();
    if text.is_empty() {
        return Err("this session has no tools".to_string());
    }
    rows(session, &text).await;
    Ok(())
}

async fn model(session: &mut Session, rest: &[&str]) -> Done {
    // Titles may have spaces.
    let wanted = rest.join(" ");
    if !wanted.is_empty() {
        session.runner.change_model(&wanted).await.map_err(|why| format!("the model was not changed: {why}"))?;
        // Another model may take what the one before did not.
        session.agent.tell_plainly(false);
    }
    let current = session.runner.model.borrow().as_ref().map(|(_, info)| info.clone());
    let known = session.runner.within(session.runner.user.models()).await.map_err(|why| why.to_string())?;
    if known.is_empty() {
        return Err("this session may use no model".to_string());
    }
    // Titles are files' words, and Tab types them.
    let plain = |title: &&str| title.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    session.models =
        known.iter().map(|info| info.display_name.as_str()).filter(plain).map(ToString::to_string).collect();
    let width = known.iter().map(|info| info.id.chars().count()).max().unwrap_or(0);
    for info in &known {
        let in_use = current.as_ref().is_some_and(|current| current.id == info.id);
        rows(session, &[(format!("{:width$}", name(&info.id)), facts(info, in_use))]).await;
        if let Some(said) = of_itself(info) {
            session.runner.screen.wrapped(&[(Style::Dim, &said)]).await;
        }
    }
    if !wanted.is_empty() {
        session.runner.tell_of_model().await;
    }
    Ok(())
}

/// What is known of a model.
fn facts(info: &ModelInfo, in_use: bool) -> String {
    let now = if in_use { "in use, " } else { "" };
    let tools = if info.supports_tools { "calls tools" } else { "calls no tools" };
    let size = match info.bytes >> 20 {
        0 => format!("{} KiB", info.bytes.div_ceil(1 << 10)),
        mebibytes => format!("{mebibytes} MiB"),
    };
    let license = match info.license.as_str() {
        "" => String::new(),
        license => format!(", licence {}", name(license)),
    };
    format!(
        "{now}{}, {}, {}, {}, context {}, answers of at most {}, {tools}, {size}{license}",
        name(&info.display_name),
        name(&info.arch),
        name(&info.quantisation),
        name(&info.backend),
        count(info.context_tokens, "token"),
        count(info.output_tokens, "token"),
    )
}

/// The beginning of what a model's file says of it, if it says something, on a line of its own: they are the file's words.
fn of_itself(info: &ModelInfo) -> Option<String> {
    (!info.description.is_empty()).then(|| format!("    {}", in_quotes(&info.description, SAID)))
}

async fn audit(session: &Session, rest: &[&str]) -> Done {
    let reader = session.runner.grant::<AuditReaderClient>("read the audit log")?;
    let reader = capos_rt::with_results(&reader, 1 << 20);
    let screen = &session.runner.screen;
    if *rest == ["verify"] {
        return verify(session, &reader).await;
    }
    let (of, from) = match rest {
        ["all", from @ ..] => (String::new(), from),
        from => (session.runner.info.id.clone(), from),
    };
    let since_nanoseconds = match from {
        [] => 0,
        ["since", moment @ ..] if !moment.is_empty() => {
            let now = session.runner.clock.wall_clock().map_err(|why| format!("the clock cannot be read: {why}"))?;
            capos_audit::since(&moment.join(" "), now.saturating_mul(1_000_000))?
        }
        _ => {
            return Err("say /audit, /audit all, /audit since TIME, /audit all since TIME or /audit verify".to_string());
        }
    };
    let query = Query { session: of, kind: "tool".into(), since_nanoseconds, ..Query::default() };
    let lines = read_all(session, &reader, query).await?;
    let mut deeds = capos_audit::story(lines.iter().map(String::as_str));
    if deeds.is_empty() {
        screen.line(Style::Plain, "no tool was called").await;
    }
    let mut said = String::new();
    for deed in &mut deeds {
        deed.error = plain(&deed.error);
        let heading = deed.heading();
        if heading != said {
            screen.wrapped(&[(Style::Dim, &heading)]).await;
            said = heading;
        }
        let style = if deed.ran { Style::Plain } else { Style::Dim };
        screen.wrapped(&[(style, &format!("  {}", row(deed)))]).await;
    }
    if deeds.is_empty() {
        return Ok(());
    }
    let mut models: Vec<&str> = deeds.iter().map(|deed| proposer(&deed.model)).collect();
    models.sort_unstable();
    models.dedup();
    let text = format!("{}; proposed by {}", capos_audit::Tally::of(&deeds), models.join(", "));
    screen.wrapped(&[(Style::Dim, &text)]).await;
    Ok(())
}

/// What was done in one row: no part of it that others wrote can pass for another.
fn row(deed: &Deed) -> String {
    count_spaces(&one_line(&deed.to_string()))
}

/// Checks the chain.
async fn verify(session: &Session, reader: &AuditReaderClient) -> Done {
    let checked = session.runner.audited(reader.verify()).await?;
    if !checked.ok {
        return Err(format!("the chain is broken: {}", checked.reason));
    }
    let text =
        format!("the chain of {} is whole; head {}", count(checked.records, "record"), hex::encode(&checked.head));
    session.runner.screen.line(Style::Success, &text).await;
    Ok(())
}

/// Who proposed a call: a model, or the person, who calls without one.
fn proposer(model: &str) -> &str {
    if model.is_empty() { "you" } else { model }
}

async fn read_all(session: &Session, reader: &AuditReaderClient, mut query: Query) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    loop {
        let page = session.runner.audited(reader.query(&query)).await?;
        lines.extend(page.records);
        if page.next == 0 || page.next <= query.from {
            return Ok(lines);
        }
        query.from = page.next;
    }
}

async fn approvals(session: &Session) -> Done {
    let client = session.runner.grant::<ApprovalClientClient>("see what you were asked")?;
    let list = session.runner.within(client.list()).await.map_err(|why| why.to_string())?;
    if list.is_empty() {
        session.runner.screen.line(Style::Plain, "you were not asked anything yet").await;
    }
    let text: Vec<(String, String)> = list
        .iter()
        .map(|found| {
            let (arguments, state) = (escape_json(&found.arguments), count_spaces(&one_line(&found.state)));
            let what = format!("{} {arguments}: {state} ({})", found.tool, found.risk);
            (found.id.clone(), what)
        })
        .collect();
    rows(session, &text).await;
    Ok(())
}

async fn status(session: &Session) -> Done {
    let screen = &session.runner.screen;
    if let Ok(status) = session.runner.grant::<SystemStatusClient>("see how the system is") {
        let now = session.runner.audited(status.summary()).await?;
        let text = format!(
            "up {} s, {}, {} of {} MiB free, {}",
            now.uptime_seconds,
            count(now.processors, "processor"),
            now.free_bytes / (1 << 20),
            now.memory_bytes / (1 << 20),
            count(now.processes, "process")
        );
        screen.line(Style::Plain, &text).await;
        let services = session.runner.audited(status.services()).await?;
        let text: Vec<(String, String)> =
            services.iter().map(|service| (service.name.clone(), state_of(service))).collect();
        rows(session, &text).await;
    }
    if let Ok(launcher) = session.runner.grant::<LauncherClient>("run programs") {
        let programs = session.runner.audited(launcher.usage()).await?;
        let held = &programs.usage;
        let text = if (Usage { cpu_nanoseconds: 0, ..held.clone() }) == Usage::default() {
            "programs hold nothing".to_string()
        } else {
            format!(
                "programs: {} running, which hold {} KiB, {}, {}, {}, and have used {} ms of CPU time",
                programs.running,
                held.frames.saturating_mul(4),
                count(held.capabilities, "capability"),
                count(held.threads, "thread"),
                count(held.objects, "object"),
                held.cpu_nanoseconds / 1_000_000
            )
        };
        screen.line(Style::Plain, &text).await;
    }
    let (info, limits) = (&session.runner.info, &session.runner.info.limits);
    let left = if info.model_allowed {
        match session.runner.within(session.runner.user.remaining()).await {
            Ok(left) => format!("{left} of {} left", count(limits.max_tokens, "token")),
            Err(why) => why.to_string(),
        }
    } else {
        "no model".to_string()
    };
    let text = format!(
        "session {} of {}: {left}, at most {} a turn, {} s in all; {} in the background",
        info.id,
        info.principal,
        count(limits.max_iterations, "model call"),
        limits.max_seconds,
        count(session.agent.background(), "call")
    );
    screen.line(Style::Plain, &text).await;
    Ok(())
}

/// What a service does, in words.
fn state_of(service: &ServiceInfo) -> String {
    if service.state == ServiceState::Unneeded {
        return format!("not needed: {}", first_line(&service.last_exit, 100));
    }
    let mut what = format!("{}, {} KiB", service.state.name(), service.frames.saturating_mul(4));
    if service.restarts > 0 {
        what = format!("{what}, restarted {}", count(service.restarts, "time"));
    }
    if !service.last_exit.is_empty() {
        what = format!("{what}; last: {}", first_line(&service.last_exit, 100));
    }
    what
}

/// Calls that outlast their turn, in words.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// B04: the list has the beginning of a model's own words on one line, quoted, and nothing where there are none.
    #[test]
    fn b04_models_are_listed_with_their_own_words() {
        let of = |description: &str| of_itself(&ModelInfo { description: description.into(), ..ModelInfo::default() });
        assert_eq!(of(""), None);
        assert_eq!(of("Knows \"ferns\"."), Some("    \"Knows \\\"ferns\\\".\"".into()));
        let long = of(&"üa".repeat(80)).unwrap_or_default();
        assert_eq!(long.chars().count(), 4 + 2 + SAID + 1, "{long}");
        assert!(long.ends_with("\"…"), "{long}");
    }

    #[test]
    fn facts_are_told_as_the_file_has_them() {
        let info = ModelInfo {
            display_name: "fern".into(),
            arch: "qwen3".into(),
            quantisation: "Q8_0".into(),
            backend: "local-engine".into(),
            context_tokens: 2048,
            output_tokens: 1,
            supports_tools: true,
            bytes: 3 << 20,
            license: "MIT".into(),
            ..ModelInfo::default()
        };
        let told =
            "fern, qwen3, Q8_0, local-engine, context 2048 tokens, answers of at most 1 token, calls tools, 3 MiB";
        assert_eq!(facts(&info, true), format!("in use, {told}, licence MIT"));
        let forged = "x\n  a row of the shell's";
        let all = ModelInfo {
            display_name: forged.into(),
            arch: forged.into(),
            quantisation: forged.into(),
            backend: forged.into(),
            license: forged.into(),
            ..info.clone()
        };
        assert!(!facts(&all, true).contains(char::is_control));
        let small = ModelInfo { bytes: 1025, license: String::new(), supports_tools: false, ..info };
        let told = told.replace("calls tools, 3 MiB", "calls no tools, 2 KiB");
        assert_eq!(facts(&small, false), told);
    }
}
