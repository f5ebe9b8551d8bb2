//! `/settings` and `/lock`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::authority::SettingsClient;
use capos_schema::terminal::Style;
use serde_json::json;

use super::own::call;
use super::{Done, Flow, refreshed, rows};
use crate::escape::first_line;
use crate::session::Session;

/// Letters of a value that are shown.
const MOST: usize = 256;
const USAGE: &str = "usage: /settings, /settings set NAME VALUE, /settings reset NAME";

/// `/settings`.
pub async fn settings(session: &mut Session, text: &str) -> Done {
    if !session.runner.info.user {
        return Err("settings are kept on a data disk, and this session is of none; /disks lists the disks".to_string());
    }
    refreshed(session).await?;
    let settings = session.runner.grants.find::<SettingsClient>("manage the settings of a data disk")?;
    let (command, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    let (name, value) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    let (tool, arguments) = match (command, name, value.trim()) {
        ("", "", "") => return list(session, &settings).await,
        ("set", name, value) if !value.is_empty() => ("set_setting", json!({ "name": name, "value": value })),
        ("reset", name, "") if !name.is_empty() => ("reset_setting", json!({ "name": name })),
        _ => return Err(USAGE.to_string()),
    };
    if call(session, tool, &arguments).await? {
        session.runner.screen.line(Style::Dim, "it holds from the next login on").await;
    }
    Ok(())
}

async fn list(session: &Session, settings: &SettingsClient) -> Done {
    let found = session.runner.audited(settings.list()).await?;
    let text: Vec<(String, String)> = found
        .into_iter()
        .map(|setting| {
            let what = format!("{} ({})", first_line(&setting.value, MOST), first_line(&setting.source, MOST));
            (first_line(&setting.name, MOST), what)
        })
        .collect();
    rows(session, &text).await;
    Ok(())
}

/// `/lock`.
pub async fn lock(session: &Session) -> Flow {
    if !session.runner.info.user {
        let text = "only the terminal of a user of a data disk can be locked: others have no passphrase of their own";
        session.runner.screen.error(text).await;
        return Flow::Go;
    }
    if session.lock("locked").await { Flow::Go } else { Flow::Exit }
}
