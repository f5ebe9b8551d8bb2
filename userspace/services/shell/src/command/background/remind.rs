//! `/remind`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::Host;
use capos_schema::terminal::Style;

use super::clock;
use crate::background::reminders::{LETTERS, remind as begin};
use crate::background::schedule;
use crate::command::{Done, rows};
use crate::escape::{escape, first_line};
use crate::session::Session;

const USAGE: &str = "usage: /remind, /remind 30m TEXT (s, m or h), /remind 18:00 TEXT, or /remind cancel N";

/// Shows a text later, lists those that wait, or drops one.
pub async fn remind(session: &Session, text: &str) -> Done {
    let runner = &session.runner;
    let told = match text.trim().split_once(char::is_whitespace) {
        None if text.trim().is_empty() => return list(session).await,
        None => return Err(USAGE.to_string()),
        Some(("cancel", number)) => {
            let number = number.trim();
            if !number.parse().is_ok_and(|number| runner.reminders.cancel(number)) {
                return Err(format!("there is no reminder {}; /remind lists them", first_line(number, 20)));
            }
            format!("reminder {number} is dropped")
        }
        Some((time, text)) => {
            let text = escape(text.trim());
            let letters = text.chars().count();
            if letters > LETTERS {
                return Err(format!("a reminder has at most {LETTERS} letters, and this one has {letters}"));
            }
            let day = clock(session);
            let when = schedule::moment(time, runner.now(), day).map_err(|why| format!("{why}; {USAGE}"))?;
            let begun = begin(runner, &text, when)?;
            let left = schedule::text(when.left(runner.now(), day.map(|(unix, _)| unix)));
            format!(
                "reminder {} comes in {left}, if this session lasts until then; /remind cancel {} drops it",
                begun.number, begun.number
            )
        }
    };
    runner.screen.wrapped(&[(Style::Dim, &told)]).await;
    Ok(())
}

async fn list(session: &Session) -> Done {
    let waiting = waiting(session);
    if waiting.is_empty() {
        session.runner.screen.line(Style::Plain, "no reminder waits; /remind 30m TEXT sets one").await;
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
