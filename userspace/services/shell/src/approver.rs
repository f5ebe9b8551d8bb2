//! The person's word: consent and step-up.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_agent::world::{Answer, Approver, Ask, Secret};
use capos_plural::count;
use capos_schema::terminal::{LineEnd, Style};
use capos_terminal::escape_json;

use crate::loss;
use crate::session::Runner;

/// Rows of a screen that what stands around a page of arguments takes.
const AROUND: usize = 11;

/// Whether the person has seen all that they decide about.
enum Told {
    Whole,
    /// They did not want to see the rest.
    Declined,
    /// Ctrl-C.
    Interrupted,
}

/// A text in pieces of at most so many characters.
fn pages(text: &str, most: usize) -> Vec<&str> {
    let mut pages = Vec::new();
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(most) {
        let (page, after) = rest.split_at(end);
        pages.push(page);
        rest = after;
    }
    pages.push(rest);
    pages
}

impl Runner {
    /// Shows what is asked about, whole: the tool, what it does, and every argument. Arguments that do not fit on the
    /// screen come page by page, so that none scrolls away unseen.
    async fn tell(&self, ask: &Ask<'_>, what: &str, style: Style) -> Told {
        let (tool, screen) = (&ask.tool.descriptor, &self.screen);
        screen.fresh_line().await;
        screen.write(Style::Question, &format!("The model wants to run {} ", tool.name)).await;
        screen.write(Style::Plain, &format!("({}; {what})\n", tool.category)).await;
        screen.write(Style::Dim, &format!("  {}\n", tool.description.replace('\n', " "))).await;
        let arguments = escape_json(ask.arguments);
        let (columns, rows) = screen.size().await;
        let pages = pages(&arguments, columns.saturating_mul(rows.saturating_sub(AROUND)));
        let last = pages.len();
        for (number, page) in (1_usize..).zip(pages) {
            screen.write(Style::Bold, &format!("  {page}\n")).await;
            if number == last {
                break;
            }
            let question = format!("page {number} of {last} of its arguments; Enter shows the next, n refuses: ");
            match screen.ask(&question, &[]).await {
                Ok((line, LineEnd::Entered)) if line.is_empty() => {}
                Ok((_, LineEnd::Interrupted)) => return Told::Interrupted,
                _ => return Told::Declined,
            }
        }
        if last > 1 {
            let length = arguments.chars().count();
            let text = format!("  That is all of the arguments of {}: {}.\n", tool.name, count(length, "character"));
            screen.write(Style::Plain, &text).await;
        }
        if !ask.note.is_empty() {
            screen.write(style, &format!("  {}\n", ask.note)).await;
        }
        if let Some(note) = loss::note(self, ask.tool, ask.arguments).await {
            screen.write(Style::Warning, &format!("  {note}\n")).await;
        }
        if let Some(note) = foreign(self.told_of.replace(ask.untrusted), ask.untrusted) {
            screen.write(Style::Warning, note).await;
        }
        if !ask.label.classes.is_empty() {
            let note = format!("  It has seen data labelled {}.\n", ask.label.classes.join(", "));
            screen.write(Style::Warning, &note).await;
        }
        Told::Whole
    }
}

/// What a person is told of the results of tools that others wrote, where they were told of so many before: only what they
/// do not know yet, so that it is not passed over when it matters.
fn foreign(told: usize, read: usize) -> Option<&'static str> {
    match told {
        _ if read <= told => None,
        0 => Some("  It has read what others may have written (files, logs, output of programs).\n"),
        _ => Some("  Since you were last asked it has read more that others may have written.\n"),
    }
}

impl Approver for Runner {
    async fn consent(&self, ask: &Ask<'_>) -> Answer {
        match self.tell(ask, "asks for your consent", Style::Plain).await {
            Told::Whole => {}
            Told::Declined => return Answer::No,
            Told::Interrupted => return Answer::Interrupted,
        }
        answer(self.screen.ask("Allow it this once? [y/N] ", &[]).await)
    }

    async fn go_on(&self, calls: u32, more: u32) -> Answer {
        self.screen.fresh_line().await;
        let question = format!("{} made; go on for {more} more? [y/N] ", count(calls, "model call"));
        answer(self.screen.ask(&question, &[]).await)
    }

    async fn passphrase(&self, ask: &Ask<'_>) -> Secret {
        match self.tell(ask, "needs your passphrase", Style::Warning).await {
            Told::Whole => {}
            Told::Declined => return Secret::Declined,
            Told::Interrupted => return Secret::Interrupted,
        }
        match self.screen.secret("Passphrase to allow it this once (Enter: no): ").await {
            Ok((_, LineEnd::Interrupted)) => Secret::Interrupted,
            Ok((line, LineEnd::Entered)) if !line.is_empty() => Secret::Given(line),
            _ => Secret::Declined,
        }
    }
}

/// What a line answers to a question of yes or no.
fn answer<E>(asked: Result<(String, LineEnd), E>) -> Answer {
    match asked {
        Ok((_, LineEnd::Interrupted)) => Answer::Interrupted,
        Ok((line, LineEnd::Entered)) if says_yes(&line) => Answer::Yes,
        // Enter alone, end of input and a terminal that is gone are all a no.
        _ => Answer::No,
    }
}

fn says_yes(line: &str) -> bool {
    let word: String = line.trim().to_lowercase();
    word == "y" || word == "yes"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_leave_nothing_out() {
        for text in ["", "a", "äbc", "äbcd", "äbcdefgh", "äbcdefghi"] {
            let pages = pages(text, 4);
            assert_eq!(pages.concat(), text);
            assert_eq!(pages.len(), text.chars().count().saturating_sub(1) / 4 + 1);
        }
    }

    #[test]
    fn what_others_wrote_is_told_of_once() {
        assert_eq!(foreign(0, 0), None);
        assert!(foreign(0, 1).is_some_and(|note| note.contains("It has read what")));
        assert_eq!(foreign(1, 1), None);
        assert!(foreign(1, 3).is_some_and(|note| note.contains("has read more")));
        // Another conversation begins without.
        assert_eq!(foreign(3, 0), None);
    }

    #[test]
    fn only_yes_is_yes() {
        for yes in ["y", "Y", "yes", " yes "] {
            assert!(says_yes(yes));
        }
        for no in ["", " ", "n", "no", "yy", "ye", "ok", "1", "да"] {
            assert!(!says_yes(no));
        }
    }
}
