//! Questions that are shown by a command, and answered by another one.

use alloc::format;
use alloc::string::String;
use core::cell::Cell;

use capos_agent::world::{Ask, Secret};
use capos_schema::models::PermissionMode;
use capos_schema::system::ProgramApprovalClient;
use capos_schema::terminal::{LineEnd, Style};

use super::{ASKS, Last, NEEDS, Questions, Sheet, answer, passphrase_of, turn_over};
use crate::console::Runner;

/// A question that its person opens by a command.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    /// The session at whose screen it is shown.
    pub runner: &'a Runner,
    pub ask: &'a Ask<'a>,
    /// What the call needs.
    pub mode: PermissionMode,
    /// Of how many results that others wrote the person was told before.
    pub told: &'a Cell<usize>,
}

/// All that pages say.
fn text(sheets: &[Sheet]) -> String {
    sheets.iter().flat_map(|sheet| &sheet.page.0).map(|(_, text)| text.as_str()).collect()
}

impl<'a> Shown<'a> {
    fn questions(&self) -> Questions<'a> {
        Questions { runner: self.runner, told: self.told }
    }

    async fn sheets(&self, size: (usize, usize)) -> alloc::vec::Vec<Sheet> {
        let form = match self.mode {
            PermissionMode::StepUp => (NEEDS, Style::Warning),
            _ => (ASKS, Style::Plain),
        };
        self.questions().draw(self.ask, form, size, &Last::Nothing).await
    }

    /// What it would show now on a screen of this size.
    pub async fn text(&self, size: (usize, usize)) -> String {
        text(&self.sheets(size).await)
    }

    /// Shows it whole, page by page, as it is drawn for a run at the prompt. Returns what it shows; none if its person did not look
    /// at all pages.
    pub async fn show(&self, size: (usize, usize)) -> Option<String> {
        let held = self.runner.screen.hold_for_question().await;
        let sheets = self.sheets(size).await;
        let text = text(&sheets);
        let asked = turn_over(&held, sheets, &Last::Nothing).await;
        matches!(asked, Ok((_, LineEnd::Entered))).then_some(text)
    }

    /// Asks whether it is allowed, once it was shown. Neither a paste nor what was typed before answers it.
    pub async fn confirm(&self) -> bool {
        let held = self.runner.screen.hold_for_question().await;
        let question = format!("Allow this call of {} once, as it was shown? [y/N] ", self.ask.tool.descriptor.name);
        answer(held.ask(&[], &question).await) == capos_agent::world::Answer::Yes
    }

    /// Shows it once more, and asks for the passphrase.
    pub async fn passphrase(&self) -> Secret {
        passphrase_of(&self.questions(), self.ask).await
    }
}

/// How a question begins: whose step it is about.
pub fn who(ask: &Ask<'_>) -> &'static str {
    match ask.tool.descriptor.interface_id {
        ProgramApprovalClient::INTERFACE_ID => "A program that runs asks before its next step:",
        _ if ask.by_hand => "You are about to run",
        _ => "The model wants to run",
    }
}
