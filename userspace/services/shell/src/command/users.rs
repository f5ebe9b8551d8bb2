//! `/users` and `/passphrase`: who may log in on this machine, and with what.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_policy::Size;
use capos_schema::authority::{UserInfo, UsersClient};
use capos_schema::terminal::{LineEnd, Style};
use capos_setup::rules::check_passphrase;
use serde_json::json;

use super::own::call;
use super::{Done, refreshed, rows};
use crate::escape::plain;
use crate::readable::offset;
use crate::session::Session;

/// Those that a user can have.
const PROFILES: [&str; 2] = ["operator", "guest"];
const USAGE: &str = "usage: /users, /users add NAME [operator|guest] [QUOTA], /users remove NAME, /users profile \
                     NAME operator|guest, /users quota NAME QUOTA, /users reset NAME, /users recovery-code";

/// `/users`.
pub async fn users(session: &mut Session, rest: &[&str]) -> Done {
    if !session.runner.info.user {
        return Err("users are those of a data disk, and this session is of none; /disks lists the disks".to_string());
    }
    refreshed(session).await?;
    let users = session.runner.grants.find::<UsersClient>("manage the users of a data disk")?;
    let (tool, arguments) = match rest {
        [] => return list(session, &users).await,
        ["add", name] => ("add_user", json!({ "name": name, "profile": "guest", "quota": "" })),
        ["add" | "profile", _, profile, ..] if !PROFILES.contains(profile) => {
            return Err(format!("a user's profile is operator or guest, not `{}`; {USAGE}", plain(profile)));
        }
        ["add", name, profile] => ("add_user", json!({ "name": name, "profile": profile, "quota": "" })),
        ["add", name, profile, quota] => ("add_user", json!({ "name": name, "profile": profile, "quota": quota })),
        ["quota", name, quota] => ("set_user_quota", json!({ "name": name, "quota": quota })),
        ["remove", name] => ("remove_user", json!({ "name": name })),
        ["profile", name, profile] => ("set_user_profile", json!({ "name": name, "profile": profile })),
        ["reset", name] => ("reset_passphrase", json!({ "name": name })),
        ["recovery-code"] => ("renew_recovery_code", json!({})),
        _ => return Err(USAGE.to_string()),
    };
    call(session, tool, &arguments).await.map(drop)
}

async fn list(session: &Session, users: &UsersClient) -> Done {
    let found = session.runner.audited(users.list()).await?;
    let text: Vec<(String, String)> = found
        .into_iter()
        .map(|user| {
            let created = u64::try_from(user.created_unix).unwrap_or_default().saturating_mul(1_000_000_000);
            let own = if user.name == session.runner.info.principal { "; this session" } else { "" };
            let (since, home) = (capos_audit::date(capos_audit::shifted(created, offset())), home(&user));
            let what = format!("{}, since {since}; {home}{own}", user.profile.name());
            (user.name, what)
        })
        .collect();
    rows(session, &text).await;
    Ok(())
}

/// What a user's home takes, and of what.
fn home(user: &UserInfo) -> String {
    let used = Size(user.used_bytes);
    if user.quota_bytes == 0 {
        return format!("home {used}, no quota");
    }
    let origin = if user.quota.is_empty() { "the default".to_string() } else { format!("quota {}", user.quota) };
    format!("home {used} of {} ({origin})", Size(user.quota_bytes))
}

/// `/passphrase`.
pub async fn passphrase(session: &Session) -> Done {
    let runner = &session.runner;
    if !runner.info.user {
        return Err("only a user of a data disk has a passphrase of their own; /disks lists the disks".to_string());
    }
    // Who logs in by a key file has none at first.
    let Some(current) = secret_or_none(session, "Your passphrase: ").await else { return Err(NONE.to_string()) };
    let Some(new) = secret(session, "New passphrase, at least 8 characters: ").await else {
        return Err(NONE.to_string());
    };
    check_passphrase(&new)?;
    if secret(session, "The same passphrase again: ").await.as_ref() != Some(&new) {
        return Err("these are two different passphrases; nothing was changed".to_string());
    }
    // Deriving two keys takes longer than other calls.
    runner.screen.status(Style::Dim, "changing the passphrase; this takes some seconds").await;
    let name = &runner.info.principal;
    let changed = runner.broker.change_passphrase(name, &current, &new).await;
    let changed = runner.of_broker(changed).map_err(|why| plain(&why.to_string()))?;
    if !changed.changed {
        return Err(changed.why);
    }
    runner.screen.line(Style::Success, "your passphrase is changed").await;
    Ok(())
}

const NONE: &str = "no passphrase was entered; nothing was changed";

async fn secret(session: &Session, prompt: &str) -> Option<String> {
    secret_or_none(session, prompt).await.filter(|secret| !secret.is_empty())
}

async fn secret_or_none(session: &Session, prompt: &str) -> Option<String> {
    let answer = session.runner.screen.hold_for_question().await.secret(&[], prompt).await;
    match answer {
        Ok((secret, LineEnd::Entered)) => Some(secret),
        _ => None,
    }
}
