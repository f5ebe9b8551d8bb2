//! What the person sees of a turn.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use core::cell::{Cell, RefCell};

use capos_agent::world::{Host, Model, RunState, Show};
use capos_audit::words::told;
use capos_plural::count;
use capos_schema::models::{Outcome, PermissionMode};
use capos_schema::terminal::Style;
use capos_terminal::{CONTINUED, Wrap, count_spaces};

use crate::console::Runner;
use crate::escape::{escape, first_line, plain, shorten};
use crate::meter::Meter;
use crate::result::result;
use crate::widget::Widget;

/// Characters of arguments and results that a widget shows.
pub const WIDTH: usize = 160;

/// Where the screen is in an answer.
#[derive(Default)]
pub struct Progress {
    /// A prompt of the session was read to its end, behind which the first token of the answer comes.
    was_read: Cell<bool>,
    meter: RefCell<Meter>,
    widget: RefCell<Widget>,
    /// Where the widget is in its row.
    wrap: RefCell<Option<Wrap>>,
    /// Tools whose note the person has seen: the model's grammar holds their calls loosely.
    loose: RefCell<BTreeSet<String>>,
}

/// The note about a tool whose calls are not held to all of its schema. `why` is what the model's worker says.
fn loose(tool: &str, why: &str) -> String {
    let why = count_spaces(&first_line(&plain(why), WIDTH));
    format!(
        "note: the model may give {} arguments that its schema does not permit ({why}); each call is checked",
        escape(tool)
    )
}

/// What the person is told of a summary.
pub fn summarised(messages: usize) -> String {
    let verb = if messages == 1 { "was" } else { "were" };
    format!("{} {verb} replaced by a summary", count(messages, "message"))
}

/// A call that is proposed, as a line.
pub fn proposed(name: &str, arguments: &str) -> String {
    format!("▸ {} {}", escape(name), shorten(&escape(arguments), WIDTH))
}

/// A call that has ended, as the screen shows it.
pub struct Finished {
    /// Whether it succeeded, and with which tool.
    pub mark: String,
    /// What its result says in one line, or the error.
    pub line: String,
    /// The first rows of a result that has several, each of them ended.
    pub rows: String,
}

/// A call that has ended with this text, on a screen of `columns` columns.
pub fn finished((name, arguments): (&str, &str), (outcome, text): (Outcome, &str), columns: usize) -> Finished {
    let shown = (outcome == Outcome::Ok).then(|| result(name, arguments, text)).flatten();
    let name = escape(name);
    if let Some(shown) = shown {
        let (mark, line) = shown.headline(text.len());
        let (mark, line) = (format!("  ✓ {name} ok{mark}"), count_spaces(&line));
        return Finished { mark, line, rows: shown.preview(columns) };
    }
    let is_ok = outcome == Outcome::Ok;
    let line = if is_ok { String::from(text) } else { plain(&told(outcome, text)) };
    let mark =
        if is_ok { format!("  ✓ {name} ok, {}: ", count(text.len(), "byte")) } else { format!("  ✗ {name} ") };
    Finished { mark, line: count_spaces(&first_line(&line, WIDTH)), rows: String::new() }
}

/// Shows something of a turn.
pub async fn show(runner: &Runner, show: Show<'_>) {
    let screen = &runner.screen;
    match show {
        Show::State(RunState::WaitingForModel) => {
            runner.progress.meter.borrow_mut().begin(runner.now());
            runner.progress.widget.take();
        }
        Show::Progress { done, total } => {
            let told = runner.progress.meter.borrow_mut().read(runner.now(), done, total);
            if let Some(text) = told {
                screen.status(Style::Dim, &format!("{}{text}", runner.whose())).await;
            }
            if done >= total && !runner.progress.was_read.replace(true) {
                runner.tell_start("the first token").await;
            }
        }
        Show::Text(text) => {
            runner.progress.meter.borrow_mut().spoke(runner.now());
            let held = screen.hold().await;
            if !runner.announcer.speaking.replace(true) {
                held.fresh_line().await;
            }
            runner.progress.wrap.replace(None);
            held.show(&[(Style::Model, text)]).await;
        }
        Show::CallPiece { index, name, arguments } => {
            runner.progress.meter.borrow_mut().spoke(runner.now());
            let (new, text) = runner.progress.widget.borrow_mut().push(index, name, arguments);
            let held = screen.hold().await;
            if new {
                runner.announcer.speaking.set(true);
                held.fresh_line().await;
                let columns = screen.size().await.0;
                *runner.progress.wrap.borrow_mut() = Some(Wrap::new(columns, 0));
            }
            // A piece that brings nothing to show, such as one before the call's name, begins no row.
            if text.is_empty() {
                return;
            }
            // If anything else was shown since, it begins in a row that continues the call's.
            let known = runner.progress.wrap.borrow_mut().is_some();
            if !known || (!new && held.is_fresh()) {
                held.fresh_line().await;
                held.show(&[(Style::Tool, CONTINUED)]).await;
                let columns = screen.size().await.0;
                *runner.progress.wrap.borrow_mut() = Some(Wrap::new(columns, CONTINUED.chars().count()));
            }
            let text = runner.progress.wrap.borrow_mut().as_mut().map(|wrap| wrap.push(&text)).unwrap_or_default();
            held.show(&[(Style::Tool, &text)]).await;
        }
        Show::Loose { tool, why } => {
            if runner.progress.loose.borrow_mut().insert(tool.into()) {
                screen.wrapped(&[(Style::Dim, &loose(tool, why))]).await;
            }
        }
        Show::AnswerEnd { usage } => {
            runner.announcer.speaking.set(false);
            screen.fresh_line().await;
            let context = runner.info().context_tokens;
            let told = runner.progress.meter.borrow_mut().end(runner.now(), usage, context);
            if let Some(text) = told {
                screen.line(Style::Dim, &text).await;
            }
            runner.announcer.show().await;
        }
        Show::State(state) if !state.is_active() => {
            runner.announcer.speaking.set(false);
            screen.fresh_line().await;
            runner.announcer.show().await;
        }
        Show::AnswerDropped => {
            let held = screen.hold().await;
            if runner.announcer.speaking.replace(false) {
                held.show(&[(Style::Dim, " […]")]).await;
            }
            held.fresh_line().await;
            drop(held);
            runner.announcer.show().await;
        }
        Show::Proposed { name, arguments, .. } if runner.progress.widget.borrow_mut().take(name, arguments) => {}
        Show::Proposed { name, arguments, .. } => {
            screen.wrapped(&[(Style::Tool, &proposed(name, arguments))]).await;
        }
        Show::Finished { name, arguments, outcome, text, .. } => {
            let columns = screen.size().await.0;
            let Finished { mark, line, rows } = finished((name, arguments), (outcome, text), columns);
            let more = if line.ends_with('…') { " (/more shows all)" } else { "" };
            let is_ok = outcome == Outcome::Ok;
            let (style, of_line) = if is_ok { (Style::Success, Style::Dim) } else { (Style::Error, Style::Plain) };
            screen.wrapped(&[(style, &mark), (of_line, &line), (Style::Dim, more)]).await;
            screen.write(Style::Plain, &rows).await;
        }
        Show::Summarised { messages } => {
            screen.line(Style::Dim, &format!("{}; /more shows it", summarised(messages))).await;
        }
        Show::Notice(text) => screen.line(Style::Warning, text).await,
        // What runs without asking is mostly over before it could be read that it runs.
        Show::Started { tool, .. } if tool.descriptor.permission != PermissionMode::Auto => {
            let what = if tool.descriptor.abortable { "stops it" } else { "leaves it running in the background" };
            let text = format!("  … {} is running; Ctrl-C {what}", tool.descriptor.name);
            screen.line(Style::Dim, &text).await;
        }
        Show::Started { .. } | Show::State(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_a_summary_is_one_line() {
        assert_eq!(summarised(12), "12 messages were replaced by a summary");
        assert_eq!(summarised(1), "1 message was replaced by a summary");
    }

    #[test]
    fn what_a_worker_says_of_a_tool_stays_in_its_note() {
        let note = loose("write_file", "a\u{1b}[2J\nb");
        assert_eq!(note.lines().count(), 1);
        assert!(!note.contains(char::is_control), "{note:?}");
        assert!(loose("x", &"long ".repeat(100)).chars().count() < 2 * WIDTH);
    }
}
