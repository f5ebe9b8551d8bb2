//! `/remind`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::Host;
use capos_schema::terminal::Style;

use crate::background::reminders::{Setter, remind as begin, wording};
use crate::background::schedule;
use crate::command::{Done, rows};
use crate::escape::first_line;
use crate::session::Session;

const USAGE: &str = "usage: /remind, /remind 30m TEXT (s, m or h), /remind 18:00 TEXT, or /remind cancel N";

/// Shows a text later, lists those that wait, or drops one.
pub async fn remind(session: &Session, text: &str) -> Done {
    let runner = &session.runner;
    let told = match text.trim().split_once(char::is_whitespace) {
        None if text.trim().is_empty() => return list(session, "no reminder waits; /remind 30m TEXT sets one").await,
        None => return Err(USAGE.to_string()),
        Some(("cancel", number)) => cancel(session, number.trim())?,
        Some((time, text)) => {
            let text = wording(text)?;
            let day = schedule::clock(runner);
            let when = schedule::moment(time, runner.now(), day).map_err(|why| format!("{why}; {USAGE}"))?;
            let begun = begin(runner.base(), (&text, Setter::Person), when)?;
            let left = begun.left(runner.now(), day.map(|(unix, _)| unix));
            format!(
                "reminder {} comes in {left}, if this session lasts until then; /remind cancel {} drops it",
                begun.number, begun.number
            )
        }
    };
    runner.screen.wrapped(&[(Style::Dim, &told)]).await;
    Ok(())
}

/// Lists the reminders that wait, or drops one, where the assistant alone sets them.
pub async fn of_assistant(session: &Session, text: &str) -> Done {
    let told = match text.trim().split_once(char::is_whitespace) {
        None if text.trim().is_empty() => {
            return list(session, "no reminder waits; the assistant sets one if you ask for it").await;
        }
        Some(("cancel", number)) => cancel(session, number.trim())?,
        _ => return Err("usage: /remind, or /remind cancel N; ask the assistant to set a reminder".to_string()),
    };
    session.runner.screen.wrapped(&[(Style::Dim, &told)]).await;
    Ok(())
}

/// Drops a reminder. Returns what to tell of that.
///
/// # Errors
/// None with this number waits.
fn cancel(session: &Session, number: &str) -> Result<String, String> {
    if !number.parse().is_ok_and(|number| session.runner.reminders.cancel(number)) {
        return Err(format!("there is no reminder {}; /remind lists them", first_line(number, 20)));
    }
    Ok(format!("reminder {number} is dropped"))
}

/// Lists the reminders that wait, or says that there is `none`.
async fn list(session: &Session, none: &str) -> Done {
    let waiting = waiting(session);
    if waiting.is_empty() {
        session.runner.screen.line(Style::Plain, none).await;
    }
    rows(session, &waiting).await;
    Ok(())
}

/// The reminders that wait, as rows of a list.
pub fn waiting(session: &Session) -> Vec<(String, String)> {
    let runner = &session.runner;
    let (now, unix) = (runner.now(), runner.clock.wall_clock().ok());
    let all = runner.reminders.all();
    all.iter().map(|one| (format!("reminder {}", one.number), one.status(now, unix))).collect()
}
