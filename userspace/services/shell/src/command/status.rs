//! `/status`: the machine, its services, the programs, and the session's limits.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::{Part, Window};
use capos_plural::count;
use capos_schema::kernel::Usage;
use capos_schema::system::{LauncherClient, ServiceInfo, ServiceState, SystemStatusClient};
use capos_schema::terminal::Style;

use super::{Done, EXPIRED, rows};
use crate::escape::first_line;
use crate::session::Session;

pub async fn status(session: &Session) -> Done {
    let screen = &session.runner.screen;
    if session.has_expired() {
        screen.line(Style::Dim, EXPIRED).await;
    }
    if let Ok(status) = session.runner.grants.find::<SystemStatusClient>("see the state of the system") {
        let now = session.runner.audited(status.summary()).await?;
        let text = format!(
            "capOS {}, up {} s, {}, {} of {} MiB free, {}",
            env!("CARGO_PKG_VERSION"),
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
    if let Ok(launcher) = session.runner.grants.find::<LauncherClient>("run programs") {
        let programs = session.runner.audited(launcher.usage()).await?;
        let held = &programs.usage;
        let text = if (Usage { cpu_nanoseconds: 0, ..held.clone() }) == Usage::default() {
            "programs hold no resources".to_string()
        } else {
            format!(
                "programs: {} running; they hold {} KiB, {}, {}, {} and have used {} ms of CPU time",
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
    let background = match session.agent.background() {
        0 => String::new(),
        calls => format!("; {} in the background", count(calls, "call")),
    };
    let text = format!(
        "session {} of {}: {left}, at most {} per turn, {} s in total{background}",
        info.id,
        info.principal,
        count(limits.max_iterations, "model call"),
        limits.max_seconds
    );
    screen.line(Style::Plain, &text).await;
    if let Some(info) = session.runner.model.info() {
        let window = session.agent.window(&session.snapshot);
        let style =
            if window.parts().iter().any(|part| part.is_above(&window)) { Style::Warning } else { Style::Plain };
        screen.line(style, &context(&window, info.summarises)).await;
    }
    let course = &session.course;
    if course.runs() > 0 {
        let text = format!(
            "the last of {} {}, after {}",
            count(course.runs(), "run"),
            course.last().words(),
            count(course.steps(), "step")
        );
        screen.line(Style::Plain, &text).await;
    }
    Ok(())
}

/// How the next request divides what the model can read at once, about.
fn context(window: &Window, summarises: bool) -> String {
    let part = |part: &Part| {
        let above =
            if part.is_above(window) { format!(", above its share of {} %", part.share) } else { String::new() };
        let percent = part.percent(window).map(|percent| format!(" ({percent} %{above})")).unwrap_or_default();
        format!("{} {}{percent}", part.name, part.tokens)
    };
    let parts: Vec<String> = window.parts().iter().map(part).collect();
    let whole = match window.tokens {
        0 => format!("{} tokens", window.used()),
        tokens => format!("{} of {}", window.used(), count(tokens, "token")),
    };
    let then = if summarises { "are summarised" } else { "are left out" };
    format!("context: about {whole}: {}; older messages {then} when it is full", parts.join(", "))
}

/// The state of a service, as a text.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirement F04.
    #[test]
    fn f04_the_context_is_told_part_by_part() {
        let window = Window { tokens: 2048, system: 150, tools: 614, history: 40 };
        assert_eq!(
            context(&window, false),
            "context: about 804 of 2048 tokens: system prompt 150 (7 %), tools 614 (29 %, above its share of 15 %), history 40 \
             (1 %); older messages are left out when it is full"
        );
        // What is just above its share is not told as if it had its share.
        let above = context(&Window { tools: 319, ..window }, false);
        assert!(above.contains("tools 319 (16 %, above its share of 15 %)"), "{above}");
        let unknown = context(&Window { tokens: 0, ..window }, true);
        assert!(
            unknown.starts_with("context: about 804 tokens: system prompt 150, tools 614, history 40; "),
            "{unknown}"
        );
        assert!(unknown.contains("are summarised"));
    }
}
