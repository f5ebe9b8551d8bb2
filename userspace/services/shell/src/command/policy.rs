//! `/policy`: what the session may do, until when, and by which rules.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::Tools as _;
use capos_agent::{Conversation, Tool};
use capos_plural::count;
use capos_schema::authority::{Label, PolicyRule, ToolQuestion, UserSessionExplainResults, UserSessionPolicyResults};
use capos_schema::models::PermissionMode;
use capos_schema::terminal::Style;

use super::{Done, rows};
use crate::escape::{first_line, name};
use crate::session::Session;
use crate::table;

/// Letters of a rule or an argument that are shown.
const MOST: usize = 512;
const USAGE: &str = "usage: /policy, or /policy check TOOL ARGUMENTS with the arguments as JSON: \
                     /policy check read_file {\"path\":\"notes/a\"}";

/// `/policy`.
pub async fn policy(session: &mut Session, text: &str) -> Done {
    let (command, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    let (tool, arguments) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), "{}"));
    match (command, tool) {
        ("", "") => show(session).await,
        ("check", tool) if !tool.is_empty() => check(session, tool, arguments.trim()).await,
        _ => Err(USAGE.to_string()),
    }
}

/// The answers that a mode stands for, in the order in which they are listed.
fn heading(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Auto => "runs without asking",
        PermissionMode::Consent => "asks for your consent",
        PermissionMode::StepUp => "needs your passphrase",
        PermissionMode::Forbidden => "is forbidden",
    }
}

/// How long something is still valid.
fn left(seconds: u64) -> String {
    match seconds {
        0 => "expired; /resume renews it".to_string(),
        1..=119 => format!("valid for {}", count(seconds, "second")),
        120..=7199 => format!("valid for {}", count(seconds / 60, "minute")),
        _ => format!("valid for {}", count(seconds / 3600, "hour")),
    }
}

fn row(rule: &PolicyRule) -> (String, String) {
    let hidden = if rule.hidden { ", hidden from the model" } else { "" };
    let mut what =
        format!("{}, {} risk, by {}{hidden}", rule.category, rule.risk.name(), first_line(&rule.source, MOST));
    for bound in &rule.bounds {
        what.push_str(&format!("; {}", first_line(bound, MOST)));
    }
    (name(&rule.tool), what)
}

async fn show(session: &Session) -> Done {
    let found = session.runner.within(session.runner.user.policy()).await.map_err(|why| why.to_string())?;
    let UserSessionPolicyResults { policy, valid_seconds, rules } = found;
    let screen = &session.runner.screen;
    screen.line(Style::Heading, &format!("policy {}, {}", policy.version, left(valid_seconds))).await;
    for mode in PermissionMode::ALL.iter().copied() {
        let text: Vec<(String, String)> = rules.iter().filter(|rule| rule.mode == mode).map(row).collect();
        if !text.is_empty() {
            screen.line(Style::Bold, heading(mode)).await;
            rows(session, &text).await;
        }
    }
    screen.line(Style::Dim, "/policy check TOOL ARGUMENTS tells what would become of a call.").await;
    Ok(())
}

async fn check(session: &Session, tool: &str, arguments: &str) -> Done {
    let runner = &session.runner;
    let found = session.snapshot.tools().iter().find(|found| found.descriptor.name == tool).cloned();
    let Some(found) = found.or_else(|| table::own(&runner.grants.all(), tool)) else {
        return Err(format!("this session has no tool {:?}; /tools lists them", first_line(tool, MOST)));
    };
    let (_, arguments) = runner.prepare(&found, arguments, &Label::default())?;
    let question = question(&found, arguments, session.agent.conversation());
    let told = runner.within(runner.user.explain(&question)).await.map_err(|why| why.to_string())?;
    for step in &told.steps {
        runner.screen.wrapped(&[(Style::Plain, &format!("  {}", first_line(step, MOST)))]).await;
    }
    // It alone tells of an earlier answer that covers the call.
    let review = runner.within(runner.user.review(&question)).await.map_err(|why| why.to_string())?;
    let (style, text) = verdict(&told, &review.approval);
    runner.screen.wrapped(&[(style, &text)]).await;
    Ok(())
}

/// The question about a call that the model would make next: in its next turn, so that an answer for an earlier one does
/// not cover it.
fn question(tool: &Tool, arguments: String, conversation: &Conversation) -> ToolQuestion {
    ToolQuestion {
        interface_id: tool.descriptor.interface_id,
        method_name: tool.descriptor.method_name.clone(),
        tool: tool.descriptor.name.clone(),
        category: tool.descriptor.category.clone(),
        arguments,
        conversation: conversation.id.clone(),
        turn: conversation.last_turn().saturating_add(1),
        labels: conversation.label().0,
        descriptor: tool.hash().to_vec(),
        ..ToolQuestion::default()
    }
}

/// What would become of a call, with the number of the earlier answer that covers it, if there is one.
fn verdict(told: &UserSessionExplainResults, approval: &str) -> (Style, String) {
    let risk = told.risk.name();
    match told.mode {
        PermissionMode::Forbidden => (Style::Warning, format!("would not run: {}", first_line(&told.reason, MOST))),
        PermissionMode::Consent if !approval.is_empty() => {
            (Style::Success, format!("would run, {risk} risk: it runs without asking, by your answer {approval}"))
        }
        mode => (Style::Success, format!("would run, {risk} risk: it {}", heading(mode))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::authority::Risk;

    #[test]
    fn what_is_left_is_told_in_the_unit_that_fits() {
        let told = [0, 1, 119, 120, 7199, 7200, 86_400].map(left);
        let wanted = [
            "expired; /resume renews it",
            "valid for 1 second",
            "valid for 119 seconds",
            "valid for 2 minutes",
            "valid for 119 minutes",
            "valid for 2 hours",
            "valid for 24 hours",
        ];
        assert_eq!(told, wanted);
    }

    #[test]
    fn a_check_is_of_the_call_that_would_come_next() {
        let mut tool = Tool::default();
        tool.descriptor.name = "write_file".into();
        let asked = question(&tool, "{}".into(), &Conversation::new("c".into()));
        // An answer covers a call only of the tool as it is described, in the same conversation.
        assert_eq!((asked.descriptor, asked.conversation.as_str(), asked.turn), (tool.hash().to_vec(), "c", 1));
    }

    #[test]
    fn a_call_that_an_earlier_answer_covers_is_told_to_run_unasked() {
        let told =
            |mode, approval: &str| verdict(&UserSessionExplainResults { mode, ..Default::default() }, approval).1;
        assert!(told(PermissionMode::Consent, "").ends_with("it asks for your consent"));
        assert!(told(PermissionMode::Consent, "#1").ends_with("it runs without asking, by your answer #1"));
        // No answer covers these.
        assert!(told(PermissionMode::StepUp, "#1").ends_with("it needs your passphrase"));
        assert!(told(PermissionMode::Forbidden, "#1").starts_with("would not run"));
    }

    #[test]
    fn a_rule_is_told_with_its_origin_and_bounds() {
        let rule = PolicyRule {
            tool: "write_file".into(),
            category: "mutating".into(),
            risk: Risk::Medium,
            source: "the manifest".into(),
            bounds: Vec::from(["no path in \"secret\" (settings)".to_string()]),
            ..PolicyRule::default()
        };
        let (tool, what) = row(&rule);
        let wanted = "mutating, medium risk, by the manifest; no path in \"secret\" (settings)";
        assert_eq!((tool.as_str(), what.as_str()), ("write_file", wanted));
        assert!(row(&PolicyRule { hidden: true, ..rule }).1.contains("hidden from the model"));
    }
}
