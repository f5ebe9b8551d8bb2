//! The session's terminal, as the shell uses it.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;

use capos_schema::cap::CallError;
use capos_schema::terminal::{LineEnd, Span, Style, TerminalSessionClient};

use crate::interrupts::Interrupts;

/// Bytes of text in one message to the terminal.
const PIECE: usize = 32 << 10;

/// The terminal. What cannot be shown is dropped: a terminal that restarts shows the next line again.
pub struct Screen {
    terminal: TerminalSessionClient,
    /// Whether the cursor is at the left edge, as far as the shell knows.
    fresh: Cell<bool>,
    interrupts: Rc<Interrupts>,
}

impl Screen {
    /// The screen of a terminal session.
    pub fn new(terminal: TerminalSessionClient) -> Self {
        let interrupts = Interrupts::watch(terminal.clone());
        Self { terminal, fresh: Cell::new(true), interrupts }
    }

    /// Shows text.
    pub async fn write(&self, style: Style, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let mut end = rest.len().min(PIECE);
            while !rest.is_char_boundary(end) {
                end = end.saturating_sub(1);
            }
            let (piece, after) = rest.split_at(end);
            self.fresh.set(piece.ends_with('\n'));
            let shown = self.terminal.write(&[Span { text: piece.to_string(), style }]).await;
            if shown.is_err() {
                return;
            }
            rest = after;
        }
    }

    /// Shows a line of its own.
    pub async fn line(&self, style: Style, text: &str) {
        self.fresh_line().await;
        self.write(style, text).await;
        self.write(Style::Plain, "\n").await;
    }

    /// Shows a line of several styles.
    pub async fn spans(&self, spans: &[(Style, &str)]) {
        self.fresh_line().await;
        let mut spans: Vec<Span> =
            spans.iter().map(|(style, text)| Span { text: (*text).to_string(), style: *style }).collect();
        spans.push(Span { text: "\n".to_string(), style: Style::Plain });
        let _ = self.terminal.write(&spans).await;
        self.fresh.set(true);
    }

    /// Goes to the left edge.
    pub async fn fresh_line(&self) {
        if !self.fresh.get() {
            self.write(Style::Plain, "\n").await;
        }
    }

    /// Reads a line with editing and history.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn read(&self, prompt: &str) -> Result<(String, LineEnd), CallError> {
        self.fresh_line().await;
        let answer = self.terminal.read_line(&[span(Style::Prompt, prompt)], true).await?;
        self.fresh.set(true);
        Ok((answer.line, answer.end))
    }

    /// Asks a question; what was typed before it does not answer it.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn ask(&self, question: &str, details: &[Span]) -> Result<(String, LineEnd), CallError> {
        self.fresh_line().await;
        let asked = self.terminal.ask(&[span(Style::Question, question)], details).await?;
        self.fresh.set(true);
        Ok((asked.answer, asked.end))
    }

    /// Asks for a secret.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn secret(&self, question: &str) -> Result<(String, LineEnd), CallError> {
        self.fresh_line().await;
        let answer = self.terminal.read_secret(&[span(Style::Question, question)]).await?;
        self.fresh.set(true);
        Ok((answer.line, answer.end))
    }

    /// Ctrl-C presses that no prompt took.
    pub fn interrupts(&self) -> &Rc<Interrupts> {
        &self.interrupts
    }
}

/// A piece of text.
pub fn span(style: Style, text: &str) -> Span {
    Span { text: text.to_string(), style }
}
