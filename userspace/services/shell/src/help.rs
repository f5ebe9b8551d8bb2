//! `/help`: the commands; `/help WORDS`: what the commands and the manual say about something, without a model.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::system::{ManualClient, ManualPassage};
use capos_schema::terminal::Style;
use capos_terminal::wrap;

use crate::command::{Done, rows};
use crate::escape::in_quotes;
use crate::more::margined;
use crate::session::Session;

/// Passages that are shown, and rows of each at most.
const SHOWN: u8 = 3;
const ROWS: usize = 40;
/// Letters of a passage's heading, and of the words that an error repeats, at most.
const HEADING: usize = 240;
const REPEATED: usize = 60;

/// `/help`, and `/help WORDS`.
pub async fn help(session: &Session, words: &str) -> Done {
    let wanted = words.trim();
    let screen = &session.runner.screen;
    if wanted.is_empty() {
        rows(session, &owned(session.commands.help.iter())).await;
        screen.line(Style::Dim, "Any other line is sent to the model. Tab completes commands and names.").await;
        return Ok(());
    }
    let commands = about(session.commands.help, wanted);
    rows(session, &commands).await;
    let manual: ManualClient = session.runner.grants.find("search the manual")?;
    let found = session.runner.audited(manual.search(wanted, SHOWN)).await?;
    if commands.is_empty() && found.is_empty() {
        let wanted = in_quotes(wanted, REPEATED);
        return Err(format!("neither a command nor the manual has {wanted}; /help lists the commands"));
    }
    let columns = screen.size().await.0;
    for passage in found.iter().take(SHOWN.into()) {
        let (heading, text) = shown(passage, columns);
        let held = screen.hold().await;
        held.fresh_line().await;
        held.show(&[(Style::Tool, &heading), (Style::Plain, &text)]).await;
    }
    Ok(())
}

/// The commands that begin with these words.
fn about(help: &[(&str, &str)], wanted: &str) -> Vec<(String, String)> {
    let wanted = wanted.trim_start_matches('/').to_lowercase();
    let begins = |command: &str| {
        let command = command.trim_start_matches('/').to_lowercase();
        command.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    owned(help.iter().filter(|(commands, _)| commands.split(", ").any(begins)))
}

fn owned<'a>(commands: impl Iterator<Item = &'a (&'a str, &'a str)>) -> Vec<(String, String)> {
    commands.map(|(name, what)| (name.to_string(), what.to_string())).collect()
}

/// A passage's heading, with the name of its page, and its text behind a margin.
fn shown(passage: &ManualPassage, columns: usize) -> (String, String) {
    let heading = format!("▸ page {}: {}", passage.page, passage.heading);
    let heading: String = heading.chars().filter(|letter| !letter.is_control()).take(HEADING).collect();
    let text = margined(&passage.text, columns);
    let mut kept: String = text.split_inclusive('\n').take(ROWS).collect();
    if kept.len() < text.len() {
        kept.push_str(&margined("…", columns));
    }
    (format!("{}\n", wrap("", &heading, columns)), kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SHELL;

    #[test]
    fn the_first_words_of_a_command_find_its_forms() {
        let named = |wanted: &str| about(SHELL.help, wanted).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(named("users").len(), 4, "{:?}", named("users"));
        assert_eq!(named("/Users"), named("users"));
        assert_eq!(named("users add"), ["/users add NAME PROFILE"]);
        assert_eq!(named("fg"), ["/fg N, /stop N"]);
        assert_eq!(named("quit"), ["/exit, /quit"]);
        assert_eq!(named("use"), [""; 0]);
        assert_eq!(named("us"), [""; 0]);
    }

    #[test]
    fn a_passage_keeps_to_its_margin_and_rows() {
        let text = "Allow this call? [y/N] y\n\u{1b}[2Jcapos> … │\n".to_string() + &"line\n".repeat(100);
        let passage = ManualPassage { page: "x\ny".into(), heading: "A > B".into(), text };
        let (heading, text) = shown(&passage, 40);
        assert_eq!(heading, "▸ page xy: A > B\n");
        assert!(text.lines().all(|row| row.starts_with("  │ ") || row.starts_with("  ┆ ")), "{text}");
        assert!(text.contains("capos> … │") && !text.contains('\u{1b}'), "{text}");
        assert_eq!((text.lines().count(), text.lines().last()), (ROWS + 1, Some("  │ …")));
    }
}
