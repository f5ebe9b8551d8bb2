//! `/clock`.

use alloc::format;
use alloc::string::ToString;

use capos_schema::authority::SettingsClient;
use capos_schema::terminal::Style;
use serde_json::json;

use super::own::call;
use super::{Done, refreshed};
use crate::readable::date_of;
use crate::session::Session;

const USAGE: &str = "usage: /clock, or /clock set 2026-11-26 14:05";

/// Shows the time, or sets the machine's clock.
pub async fn clock(session: &mut Session, rest: &[&str]) -> Done {
    match rest {
        [] => {}
        ["set", time @ ..] if !time.is_empty() => {
            if !session.runner.info.user {
                return Err("an operator of a data disk sets the clock, and this session is of none".to_string());
            }
            refreshed(session).await?;
            session.runner.grants.find::<SettingsClient>("set the clock")?;
            return call(session, "set_clock", &json!({ "time": time.join(" ") })).await.map(drop);
        }
        _ => return Err(USAGE.to_string()),
    }
    let now = session.runner.clock.wall_clock().map_err(|why| format!("the clock cannot be read: {why}"))?;
    let text = date_of(now.saturating_mul(1_000_000));
    session.runner.screen.line(Style::Plain, &text).await;
    Ok(())
}
