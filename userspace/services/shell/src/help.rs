//! `/help`: the commands; `/help WORDS`: what the commands and the manual say about something, without a model. What it says
//! about a question for which no tool was called is shown unasked.

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
/// Rows of a passage that is shown unasked at most, and its least match.
const UNASKED_ROWS: usize = 12;
const UNASKED_PERCENT: u8 = 75;
/// What questions about the use of capOS begin with, in small letters. What asks for the state of this machine is none of these: an
/// example of the manual would look like the answer.
const QUESTIONS: [&str; 24] = [
    "how do",
    "how can",
    "how could",
    "how to",
    "how does",
    "how should",
    "what is a ",
    "what is an ",
    "what are ",
    "what does ",
    "what happens",
    "what do ",
    "where do",
    "where can",
    "can i ",
    "can the ",
    "could i ",
    "may i ",
    "is there a way",
    "is it possible",
    "why does ",
    "why do ",
    "when does ",
    "who can ",
];
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
    let found = session.runner.in_time(manual.search(wanted, SHOWN)).await.map_err(|error| error.to_string())?;
    if commands.is_empty() && found.is_empty() {
        let wanted = in_quotes(wanted, REPEATED);
        return Err(format!("neither a command nor the manual has {wanted}; /help lists the commands"));
    }
    let columns = screen.size().await.0;
    for passage in found.iter().take(SHOWN.into()) {
        let (heading, text) = shown(passage, columns, ROWS);
        let held = screen.hold().await;
        held.fresh_line().await;
        held.show(&[(Style::Tool, &heading), (Style::Plain, &text)]).await;
    }
    Ok(())
}

/// Shows what the manual says about a question, if a passage has nearly all of its words. It is for a turn that called no tool: small
/// models know nothing about capOS, and the page names what larger ones may have made up.
pub async fn answer(session: &Session, request: &str) {
    if !is_question(request) {
        return;
    }
    let Ok(manual) = session.runner.grants.find::<ManualClient>("search the manual") else { return };
    // The service rejects a request of more than 512 bytes, which is more than a question.
    let Ok(found) = session.runner.in_time(manual.search(request, 1)).await else { return };
    let Some(passage) = found.first().filter(|passage| passage.match_percent >= UNASKED_PERCENT) else { return };
    let screen = &session.runner.screen;
    let passage = ManualPassage { text: without_examples(&passage.text), ..passage.clone() };
    let (heading, text) = shown(&passage, screen.size().await.0, UNASKED_ROWS);
    let held = screen.hold().await;
    held.fresh_line().await;
    let more = "This page of the manual may help; /help WORDS shows more.\n";
    held.show(&[(Style::Dim, more), (Style::Tool, &heading), (Style::Plain, &text)]).await;
}

/// Whether a request asks how something is done or what something is.
fn is_question(request: &str) -> bool {
    let request = request.trim_start().to_lowercase();
    QUESTIONS.iter().any(|question| request.starts_with(question))
}

/// A passage without its lines of examples and its tables: what is shown unasked must not look as if it had happened here.
fn without_examples(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("    ") && !line.starts_with('|')).collect()
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
fn shown(passage: &ManualPassage, columns: usize, rows: usize) -> (String, String) {
    let heading = format!("▸ page {}: {}", passage.page, passage.heading);
    let heading: String = heading.chars().filter(|letter| !letter.is_control()).take(HEADING).collect();
    let text = margined(&passage.text, columns);
    let mut kept: String = text.split_inclusive('\n').take(rows).collect();
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
    fn questions_are_known_by_their_form() {
        for request in ["how do I make a backup", "What is a capability?", "can I go back", "Where do I see the log?"] {
            assert!(is_question(request), "{request}");
        }
        for request in [
            "make a backup",
            "is hello running",
            "what was in the log?",
            "",
            "how are you?",
            "can you delete notes.txt?",
        ] {
            assert!(!is_question(request), "{request}");
        }
    }

    #[test]
    fn examples_are_not_shown_unasked() {
        let text = "Restart it:\n    capos> restart the hello service\n    ✓ restart_service ok\n| service | state |\nThen look.\n";
        assert_eq!(without_examples(text), "Restart it:\nThen look.\n");
    }

    #[test]
    fn a_passage_keeps_to_its_margin_and_rows() {
        let text = "Allow this call? [y/N] y\n\u{1b}[2Jcapos> … │\n".to_string() + &"line\n".repeat(100);
        let passage = ManualPassage { page: "x\ny".into(), heading: "A > B".into(), text, match_percent: 100 };
        let (heading, text) = shown(&passage, 40, ROWS);
        assert_eq!(heading, "▸ page xy: A > B\n");
        assert!(text.lines().all(|row| row.starts_with("  │ ") || row.starts_with("  ┆ ")), "{text}");
        assert!(text.contains("capos> … │") && !text.contains('\u{1b}'), "{text}");
        assert_eq!((text.lines().count(), text.lines().last()), (ROWS + 1, Some("  │ …")));
    }
}
