//! The person's word: consent and step-up.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_agent::world::{Answer, Approver, Ask, Secret};
use capos_schema::terminal::{LineEnd, Span, Style};

use crate::escape::escape;
use crate::screen::span;
use crate::session::Runner;

/// What is asked about, whole: the tool, what it does, and every argument.
fn details(ask: &Ask<'_>, what: &str) -> Vec<Span> {
    let tool = &ask.tool.descriptor;
    let mut spans = Vec::from([
        span(Style::Question, &format!("The model wants to run {} ", tool.name)),
        span(Style::Plain, &format!("({}; {what})\n", tool.category)),
        span(Style::Dim, &format!("  {}\n", tool.description.replace('\n', " "))),
        span(Style::Bold, &format!("  {}\n", escape(ask.arguments))),
    ]);
    if ask.untrusted {
        let note = "  It has read text in this conversation that neither you nor the system wrote.\n";
        spans.push(span(Style::Warning, note));
    }
    if !ask.label.classes.is_empty() {
        spans.push(span(Style::Warning, &format!("  It has seen data labelled {}.\n", ask.label.classes.join(", "))));
    }
    spans
}

impl Approver for Runner {
    async fn consent(&self, ask: &Ask<'_>) -> Answer {
        let details = details(ask, "asks for your consent");
        match self.screen.ask("Allow it this once? [y/N] ", &details).await {
            Ok((_, LineEnd::Interrupted)) => Answer::Interrupted,
            Ok((line, LineEnd::Entered)) if says_yes(&line) => Answer::Yes,
            // Enter alone, end of input and a terminal that is gone are all a no.
            _ => Answer::No,
        }
    }

    async fn passphrase(&self, ask: &Ask<'_>) -> Secret {
        self.screen.fresh_line().await;
        for span in details(ask, "needs your passphrase") {
            self.screen.write(span.style, &span.text).await;
        }
        match self.screen.secret("Passphrase to allow it this once (Enter: no): ").await {
            Ok((_, LineEnd::Interrupted)) => Secret::Interrupted,
            Ok((line, LineEnd::Entered)) if !line.is_empty() => Secret::Given(line),
            _ => Secret::Declined,
        }
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
    fn only_yes_is_yes() {
        for yes in ["y", "Y", "yes", " yes "] {
            assert!(says_yes(yes));
        }
        for no in ["", " ", "n", "no", "yy", "ye", "ok", "1", "да"] {
            assert!(!says_yes(no));
        }
    }
}
