//! `/inspect` and `/tools`: one capability, tool or conversation in full, and the list of tools.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::time_limit;
use capos_plural::count;
use capos_schema::reflection;
use capos_schema::terminal::Style;
use capos_skills::Skill;
use capos_terminal::count_spaces;

use super::{Done, refreshed, rows};
use crate::escape::{escape, first_line};
use crate::run::commands;
use crate::session::Session;

pub async fn inspect(session: &mut Session, rest: &[&str]) -> Done {
    let [name] = rest else {
        return Err("usage: /inspect NAME; NAME is a capability, a tool, the number of a job, or `conversation`".into());
    };
    if *name == "conversation" {
        return conversation(session).await;
    }
    if let Some(found) = name.parse().ok().and_then(|number| session.jobs.find(number)) {
        return commands::inspect(session, found).await;
    }
    refreshed(session).await?;
    let screen = session.runner.screen.clone();
    if let Some(tool) = session.snapshot.tools().iter().find(|tool| tool.descriptor.name == *name) {
        let found = &tool.descriptor;
        screen.line(Style::Heading, &format!("tool {}", found.name)).await;
        let limit = time_limit(found, &session.runner.info.limits);
        let text = [
            ("what", found.description.clone()),
            ("permission", found.permission.name().to_string()),
            ("category", found.category.clone()),
            ("method", format!("{} of interface {:#018x}", found.method_name, found.interface_id)),
            ("handle", found.handle.clone()),
            ("parameters", found.param_schema.clone()),
            ("time limit", format!("{limit} ms")),
            ("abortable", if found.abortable { "yes" } else { "no" }.to_string()),
            ("result", format!("at most {}, secrets redacted", count(tool.max_result, "byte"))),
            ("provenance", if tool.untrusted { "untrusted" } else { "trusted" }.to_string()),
        ];
        rows(session, &text.map(|(name, value)| (name.to_string(), value))).await;
        return Ok(());
    }
    let grants = session.runner.grants.all();
    let Some(grant) = grants.iter().find(|grant| grant.name == *name) else {
        return Err(format!("this session has no capability or tool {:?}; /cap and /tools list them", escape(name)));
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
                what.push_str(", not permitted by this read-only capability");
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

/// Everything that the next request would hold before the person's line, and what a summary stands for.
async fn conversation(session: &Session) -> Done {
    let screen = &session.runner.screen;
    let conversation = session.agent.conversation();
    let entries = conversation.entries();
    screen
        .line(
            Style::Heading,
            &format!("conversation {}: {}", session.agent.conversation().id, count(entries.len(), "message")),
        )
        .await;
    for used in &session.skills {
        let Skill { name, tools, .. } = &used.bound.skill;
        let (whose, bytes) = (used.source.provenance.name(), count(used.bound.teaching.len(), "byte"));
        let head = format!("  skill     {name}, {whose}, {bytes}, with {}", tools.join(", "));
        screen.wrapped(&[(Style::Bold, &head)]).await;
        screen.wrapped(&[(Style::Dim, &format!("    {}", count_spaces(&first_line(&used.bound.teaching, 120))))]).await;
    }
    for (entry, is_sent) in entries.iter().zip(conversation.sent()) {
        let message = &entry.message;
        let label =
            if message.label.classes.is_empty() { "public".to_string() } else { message.label.classes.join("+") };
        let state = match (is_sent, entry.replaces > 0) {
            (true, true) => ", a summary",
            (true, false) => "",
            (false, _) => ", replaced by a summary",
        };
        let head = format!(
            "  {:<9} turn {}, {}, {label}, {}{}{state}",
            message.role.name(),
            entry.turn,
            message.provenance.name(),
            count(message.content.len(), "byte"),
            records(&entry.audit)
        );
        let calls: Vec<&str> = message.tool_calls.iter().map(|call| call.name.as_str()).collect();
        let calls = if calls.is_empty() { String::new() } else { format!(", calls {}", escape(&calls.join(", "))) };
        screen.wrapped(&[(Style::Bold, &head), (Style::Tool, &calls)]).await;
        screen.wrapped(&[(Style::Dim, &format!("    {}", count_spaces(&first_line(&message.content, 120))))]).await;
    }
    Ok(())
}

/// The audit records that a message names.
fn records(audit: &[u64]) -> String {
    let numbers: Vec<String> = audit.iter().map(ToString::to_string).collect();
    match audit.len() {
        0 => String::new(),
        1 => format!(", audit record {}", numbers.concat()),
        _ => format!(", audit records {}", numbers.join(" ")),
    }
}

pub async fn tools(session: &mut Session) -> Done {
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
    let grants = session.runner.grants.all();
    let withheld: Vec<String> = (0..)
        .zip(&grants)
        .filter_map(|(at, grant)| {
            let more = session.runner.grants.withheld_of(grant);
            let is_offered = session.snapshot.tools().iter().any(|tool| tool.capability == at);
            match (more, is_offered) {
                (0, _) => None,
                (_, false) => Some(grant.name.clone()),
                (more, true) => Some(format!("{} of {}", count(more, "more tool"), grant.name)),
            }
        })
        .collect();
    if !withheld.is_empty() {
        let text = format!("  not offered to the model: {}; /cap offer NAME", withheld.join(", "));
        session.runner.screen.line(Style::Dim, &text).await;
    }
    Ok(())
}
