//! The session's terminal, as the shell uses it.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;

use capos_schema::cap::CallError;
use capos_schema::terminal::{LineEnd, Span, Style};

use crate::escape::plain;
use crate::interrupts::Interrupts;
use crate::link::Link;

/// Bytes of text in one message to the terminal.
const PIECE: usize = 32 << 10;

/// The terminal. What a terminal that is gone for good cannot show is dropped.
pub struct Screen {
    link: Rc<Link>,
    /// Whether the cursor is at the left edge, as far as the shell knows.
    fresh: Cell<bool>,
    interrupts: Rc<Interrupts>,
}

impl Screen {
    /// The screen behind a link.
    pub fn new(link: Rc<Link>) -> Self {
        let interrupts = Interrupts::watch(link.clone());
        Self { link, fresh: Cell::new(true), interrupts }
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
            if !self.show(&[Span { text: piece.to_string(), style }]).await {
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

    /// Shows a line that stands until anything else is shown.
    pub async fn status(&self, style: Style, text: &str) {
        // Where the terminal is gone, how far something has come is not worth telling later.
        let shown = self.link.once(|terminal| async move { terminal.status(text, style).await }).await;
        self.fresh.set(self.fresh.get() || shown.is_ok());
    }

    /// Shows a line that says what is wrong.
    pub async fn error(&self, text: &str) {
        self.line(Style::Error, &plain(text)).await;
    }

    /// Shows a line of several styles.
    pub async fn spans(&self, spans: &[(Style, &str)]) {
        self.fresh_line().await;
        let mut spans: Vec<Span> =
            spans.iter().map(|(style, text)| Span { text: (*text).to_string(), style: *style }).collect();
        spans.push(Span { text: "\n".to_string(), style: Style::Plain });
        self.show(&spans).await;
        self.fresh.set(true);
    }

    async fn show(&self, spans: &[Span]) -> bool {
        self.link.call(|terminal| async move { terminal.write(spans).await }).await.is_ok()
    }

    /// Goes to the left edge.
    pub async fn fresh_line(&self) {
        if !self.fresh.get() {
            self.write(Style::Plain, "\n").await;
        }
    }

    /// Reads a line with editing and history; Tab completes it to these beginnings of lines.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn read(&self, prompt: &str, completions: Vec<String>) -> Result<(String, LineEnd), CallError> {
        self.fresh_line().await;
        let prompt = &[span(Style::Prompt, prompt)];
        let completions = &completions;
        let answer =
            self.link.wait(|terminal| async move { terminal.read_line(prompt, true, completions).await }).await?;
        self.fresh.set(true);
        Ok((answer.line, answer.end))
    }

    /// Asks a question; what was typed before it does not answer it.
    ///
    /// # Errors
    /// The terminal is gone, or restarted before it was answered: it is not asked again.
    pub async fn ask(&self, question: &str, details: &[Span]) -> Result<(String, LineEnd), CallError> {
        self.fresh_line().await;
        let question = &[span(Style::Question, question)];
        let mut open = Question { link: self.link.clone(), answered: false };
        let asked = self.link.once(|terminal| async move { terminal.ask(question, details).await }).await?;
        open.answered = true;
        self.fresh.set(true);
        Ok((asked.answer, asked.end))
    }

    /// Asks for a secret.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn secret(&self, question: &str) -> Result<(String, LineEnd), CallError> {
        self.fresh_line().await;
        let question = &[span(Style::Question, question)];
        let mut open = Question { link: self.link.clone(), answered: false };
        let answer = self.link.once(|terminal| async move { terminal.read_secret(question).await }).await?;
        open.answered = true;
        self.fresh.set(true);
        Ok((answer.line, answer.end))
    }

    /// Reads a line for a program, without history. It is taken back where nobody waits for it any more.
    ///
    /// # Errors
    /// The terminal is gone, or restarted before a line was entered.
    pub async fn input(&self, prompt: &str) -> Result<(String, LineEnd), CallError> {
        let prompt = &[span(Style::Dim, prompt)];
        let mut open = Question { link: self.link.clone(), answered: false };
        let answer = self.link.once(|terminal| async move { terminal.read_line(prompt, false, &[]).await }).await?;
        open.answered = true;
        self.fresh.set(true);
        Ok((answer.line, answer.end))
    }

    /// Columns and rows; what most screens have where the terminal does not say.
    pub async fn size(&self) -> (usize, usize) {
        let size = self.link.call(|terminal| async move { terminal.size().await }).await;
        size.map_or((80, 24), |size| (size.columns.max(20).into(), size.rows.max(12).into()))
    }

    /// Ctrl-C presses that no prompt took.
    pub fn interrupts(&self) -> &Rc<Interrupts> {
        &self.interrupts
    }
}

/// A question on the screen. One that nobody waits for any more is taken back, so that it takes no keys.
struct Question {
    link: Rc<Link>,
    answered: bool,
}

impl Drop for Question {
    fn drop(&mut self) {
        if !self.answered {
            let link = self.link.clone();
            capos_rt::spawn(async move { link.once(|terminal| async move { terminal.give_up().await }).await });
        }
    }
}

/// A piece of text.
pub fn span(style: Style, text: &str) -> Span {
    Span { text: text.to_string(), style }
}
