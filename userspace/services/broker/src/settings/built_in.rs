//! The values of settings that are set nowhere.

use alloc::format;
use alloc::string::ToString;

use capos_budget::{Dimension, UNLIMITED};
use capos_schema::authority::Profile;

use super::Settings;

/// What holds where nothing is configured.
pub(super) fn all() -> Settings {
    let rules = capos_policy::ProfileRules::standard(Profile::Operator);
    let limits = &rules.limits;
    let numbers = [
        ("max_iterations", u64::from(limits.max_iterations)),
        ("max_tokens", limits.max_tokens),
        ("max_seconds", limits.max_seconds),
        ("tool_timeout_ms", limits.tool_timeout_ms.into()),
        ("program_timeout_ms", limits.program_timeout_ms.into()),
        ("outbound_timeout_ms", limits.outbound_timeout_ms.into()),
        ("approval_timeout_ms", limits.approval_timeout_ms.into()),
        ("max_tokens_per_call", limits.max_tokens_per_call.into()),
        ("max_requests_per_minute", limits.max_requests_per_minute.into()),
        ("max_jobs", limits.max_jobs.into()),
        ("max_silence_seconds", rules.patience.silence_seconds.into()),
        ("max_answer_seconds", rules.patience.answer_seconds.into()),
    ];
    let limits = numbers.iter().map(|(name, value)| (format!("limits.{name}"), value.to_string()));
    let mut found: Settings = limits.collect();
    let (session, run) = (rules.budgets.session(&rules.limits), rules.budgets.run());
    for (of, plan) in [("session", session), ("run", run)] {
        for dimension in Dimension::ALL {
            let rule = plan.rule(dimension);
            // One value has one name.
            let is_limit = of == "session" && matches!(dimension, Dimension::WallClock | Dimension::Tokens);
            if !is_limit && rule.limit != UNLIMITED {
                let limit = rule.limit.checked_div(dimension.scale()).unwrap_or_default();
                found.insert(format!("budget.{of}.{}.limit", dimension.name()), limit.to_string());
            }
            if !(is_limit && dimension == Dimension::WallClock) {
                let name = format!("budget.{of}.{}.on_exceed", dimension.name());
                found.insert(name, rule.on_exceed.name().to_string());
            }
        }
    }
    for (name, value) in [
        ("policy.valid_seconds", "as long as the session"),
        ("session.model", "the first"),
        ("session.offer", ""),
        ("session.utc_offset", "+00:00"),
    ] {
        found.insert(name.to_string(), value.to_string());
    }
    for (name, is_set) in [("telemetry.log", false), ("audit.allowed_checks", false), ("audit.denied_checks", true)] {
        found.insert(name.to_string(), is_set.to_string());
    }
    found.insert("session.lock_minutes".to_string(), crate::config::LOCK_MINUTES.to_string());
    found.insert("session.home_quota".to_string(), capos_policy::Quota::DEFAULT.to_string());
    found
}
