//! The session's terminal, as the shell uses it.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;
use core::pin::pin;

use capos_async_lock::Waiters;
use capos_rt::{Either, log, select};
use capos_schema::cap::CallError;
use capos_schema::terminal::{LineEnd, Span, Style, TerminalSessionClient};
use capos_terminal::Wrap;

use crate::escape::{one_line, plain};
use crate::interrupts::Interrupts;
use crate::link::{Link, TooLong};

/// Bytes of text in one message to the terminal.
const PIECE: usize = 32 << 10;

/// The terminal. What a terminal that is gone for good cannot show is dropped.
///
/// Only what [holds](Held) the screen writes there, so that what one has to say stands together: a line of several parts, or a
/// question from its first word to the answer. Other callers wait meanwhile.
pub struct Screen {
    link: Rc<Link>,
    /// Whether the cursor is at the left edge, as far as the shell knows.
    fresh: Cell<bool>,
    interrupts: Rc<Interrupts>,
    held: Cell<bool>,
    freed: Waiters,
    /// A question ended without an answer, and its person may be typing still.
    expired: Cell<bool>,
    /// What was typed before the next prompt counts there.
    typeahead: Cell<bool>,
}

impl Screen {
    /// The screen behind a link.
    pub fn new(link: Rc<Link>) -> Self {
        let interrupts = Interrupts::watch(link.clone());
        Self::with(link, interrupts)
    }

    fn with(link: Rc<Link>, interrupts: Rc<Interrupts>) -> Self {
        Self {
            link,
            fresh: Cell::new(true),
            interrupts,
            held: Cell::new(false),
            freed: Waiters::default(),
            expired: Cell::new(false),
            typeahead: Cell::new(false),
        }
    }

    /// Waits until no other caller holds the screen.
    pub async fn hold(&self) -> Held<'_> {
        self.freed.until(|| (!self.held.replace(true)).then_some(())).await;
        Held { screen: self }
    }

    /// The same for a question, to which nothing that somebody types for an earlier one may come.
    pub async fn hold_for_question(&self) -> Held<'_> {
        let held = self.hold().await;
        held.settle().await;
        held
    }

    /// Shows text.
    pub async fn write(&self, style: Style, text: &str) {
        self.hold().await.show(&[(style, text)]).await;
    }

    /// Shows a line of its own.
    pub async fn line(&self, style: Style, text: &str) {
        self.spans(&[(style, text)]).await;
    }

    /// Shows a line that stands until anything else is shown.
    pub async fn status(&self, style: Style, text: &str) {
        let held = self.hold().await;
        // Where the terminal is gone, how far something has come is not worth telling later.
        let shown = held.screen.link.once(|terminal| async move { terminal.status(text, style).await }).await;
        self.fresh.set(self.fresh.get() || shown.is_ok());
    }

    /// Shows a line that says what is wrong.
    pub async fn error(&self, text: &str) {
        self.wrapped(&[(Style::Error, &plain(text))]).await;
    }

    /// Shows a line of several styles: one line, whatever is in its text.
    pub async fn spans(&self, spans: &[(Style, &str)]) {
        let spans: Vec<(Style, String)> = spans.iter().map(|(style, text)| (*style, one_line(text))).collect();
        self.hold().await.line(&spans).await;
    }

    /// Shows a line of several styles, some of it text of others: what has no room in its row continues behind a margin.
    pub async fn wrapped(&self, spans: &[(Style, &str)]) {
        let columns = self.size().await.0;
        self.hold().await.wrapped(columns, spans).await;
    }

    /// Goes to the left edge.
    pub async fn fresh_line(&self) {
        self.hold().await.fresh_line().await;
    }

    /// Others have the screen until the next prompt: a model, or a program. What they show may ask for something, so what is
    /// typed meanwhile is not taken for the person's next line.
    pub fn others_speak(&self) {
        self.typeahead.set(false);
    }

    /// Reads a line with editing and history; Tab completes it to these beginnings of lines. It waits for a terminal, where
    /// there is none.
    pub async fn read(&self, prompt: &str, completions: Vec<String>) -> (String, LineEnd) {
        self.hold_for_question().await.fresh_line().await;
        let prompt = &[span(Style::Prompt, prompt)];
        let (completions, ahead) = (&completions, self.typeahead.replace(true));
        let read =
            |terminal: TerminalSessionClient| async move { terminal.read_line(prompt, true, completions, ahead).await };
        let answer = self.link.wait(read).await;
        self.fresh.set(true);
        match answer {
            Ok(answer) => (answer.line, answer.end),
            Err(TooLong) => {
                self.error(
                    "the line is too long and was discarded; put the text into a file and let the model read it",
                )
                .await;
                (String::new(), LineEnd::Cancelled)
            }
        }
    }

    /// As [`Self::read`]; ends when nothing was typed for this many seconds, and gives nothing then. What was typed is dropped.
    pub async fn read_until_idle(
        &self,
        prompt: &str,
        completions: Vec<String>,
        seconds: u64,
    ) -> Option<(String, LineEnd)> {
        let mut read = pin!(self.read(prompt, completions));
        match select(read.as_mut(), self.link.idle(seconds.saturating_mul(1000))).await {
            Either::First(line) => Some(line),
            Either::Second(()) => {
                let given_up = self.link.once(|terminal| async move { terminal.give_up().await }).await;
                if let Err(error) = given_up {
                    log::warning!("the terminal did not end the line: {error}");
                }
                match read.await {
                    // It was entered just before.
                    (line, LineEnd::Entered) => Some((line, LineEnd::Entered)),
                    _ => None,
                }
            }
        }
    }

    /// Takes everything off the screen.
    pub async fn clear(&self) {
        drop(self.hold_for_question().await);
        if let Err(error) = self.link.call(|terminal| async move { terminal.clear().await }).await {
            log::warning!("the screen was not cleared: {error}");
        }
    }

    /// Reads a line for a program, without history. It is cancelled if its reader stops waiting.
    ///
    /// # Errors
    /// The terminal is gone, or restarted before a line was entered.
    pub async fn input(&self, prompt: &str) -> Result<(String, LineEnd), CallError> {
        drop(self.hold_for_question().await);
        let prompt = &[span(Style::Dim, prompt)];
        let mut open = Open { screen: self, ended: false, decides: false };
        let read = |terminal: TerminalSessionClient| async move { terminal.read_line(prompt, false, &[], true).await };
        let answer = self.link.once(read).await;
        open.end(answer).map(|answer| (answer.line, answer.end))
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

/// The screen, held by a writer.
pub struct Held<'a> {
    screen: &'a Screen,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.screen.held.set(false);
        self.screen.freed.wake();
    }
}

impl Held<'_> {
    /// Shows text.
    pub async fn show(&self, spans: &[(Style, &str)]) {
        let mut message: Vec<Span> = Vec::new();
        let mut room = PIECE;
        for (style, text) in spans {
            let mut rest = *text;
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.floor_char_boundary(room));
                if piece.is_empty() {
                    if !self.send(&core::mem::take(&mut message)).await {
                        return;
                    }
                    room = PIECE;
                    continue;
                }
                self.screen.fresh.set(piece.ends_with('\n'));
                message.push(span(*style, piece));
                room = room.saturating_sub(piece.len());
                rest = after;
            }
        }
        if !message.is_empty() {
            self.send(&message).await;
        }
    }

    async fn send(&self, spans: &[Span]) -> bool {
        self.screen.link.call(|terminal| async move { terminal.write(spans).await }).await.is_ok()
    }

    /// Whether the cursor is at the left edge.
    pub fn is_fresh(&self) -> bool {
        self.screen.fresh.get()
    }

    /// Shows a line of several styles.
    async fn line(&self, spans: &[(Style, String)]) {
        let mut line = Vec::with_capacity(spans.len().saturating_add(2));
        if !self.screen.fresh.get() {
            line.push((Style::Plain, "\n"));
        }
        line.extend(spans.iter().map(|(style, text)| (*style, text.as_str())));
        line.push((Style::Plain, "\n"));
        self.show(&line).await;
    }

    /// Goes to the left edge.
    pub async fn fresh_line(&self) {
        if !self.screen.fresh.get() {
            self.show(&[(Style::Plain, "\n")]).await;
        }
    }

    /// Asks a question, with these lines before it; what was typed before it does not answer it.
    ///
    /// # Errors
    /// The terminal is gone, or restarted before it was answered: it is not asked again.
    pub async fn ask(&self, before: &[(Style, &str)], question: &str) -> Result<(String, LineEnd), CallError> {
        self.fresh_line().await;
        let details: &[Span] = &before.iter().map(|(style, text)| span(*style, text)).collect::<Vec<_>>();
        let question = &[span(Style::Question, question)];
        let mut open = Open::question(self.screen);
        let asked = self.screen.link.once(|terminal| async move { terminal.ask(question, details).await }).await;
        open.end(asked).map(|asked| (asked.answer, asked.end))
    }

    /// Shows a line of its own, laid out for this number of columns.
    pub async fn wrapped(&self, columns: usize, spans: &[(Style, &str)]) {
        let mut wrap = Wrap::new(columns, 0);
        let mut laid_out = |text: &str| wrap.push(&one_line(text));
        let spans: Vec<(Style, String)> = spans.iter().map(|(style, text)| (*style, laid_out(text))).collect();
        self.line(&spans).await;
    }

    /// Asks for a secret, with these lines before it.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn secret(&self, before: &[(Style, &str)], question: &str) -> Result<(String, LineEnd), CallError> {
        self.fresh_line().await;
        let asked = before.iter().copied().chain([(Style::Question, question)]);
        let question: &[Span] = &asked.map(|(style, text)| span(style, text)).collect::<Vec<_>>();
        let mut open = Open::question(self.screen);
        let answer = self.screen.link.once(|terminal| async move { terminal.read_secret(question).await }).await;
        open.end(answer).map(|answer| (answer.line, answer.end))
    }

    /// Behind a question that ended without an answer: takes, and does not show, what its person may be typing for it still.
    async fn settle(&self) {
        if !self.screen.expired.get() {
            return;
        }
        self.fresh_line().await;
        let over = &[span(Style::Question, "This question has ended. Press Enter to continue: ")];
        let mut open = Open::question(self.screen);
        let seen = self.screen.link.wait(|terminal| async move { terminal.read_secret(over).await }).await;
        if let Ok(Ok(seen)) = open.end(Ok(seen))
            && seen.end == LineEnd::Interrupted
        {
            self.screen.interrupts.happened();
        }
    }
}

/// A read on the screen. If its reader stops waiting, it is cancelled, so that it takes no keys.
struct Open<'a> {
    screen: &'a Screen,
    /// The terminal has ended it.
    ended: bool,
    /// It is a question to the person.
    decides: bool,
}

impl<'a> Open<'a> {
    fn question(screen: &'a Screen) -> Self {
        screen.others_speak();
        Self { screen, ended: false, decides: true }
    }

    /// It has come to its end: with an answer, or with its terminal.
    fn end<T>(&mut self, answer: Result<T, CallError>) -> Result<T, CallError> {
        self.ended = true;
        self.screen.fresh.set(true);
        self.screen.expired.set(self.decides && answer.is_err());
        answer
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.screen.expired.set(self.decides);
        let link = self.screen.link.clone();
        capos_rt::spawn(async move { link.once(|terminal| async move { terminal.give_up().await }).await });
    }
}

/// A piece of text.
pub fn span(style: Style, text: &str) -> Span {
    Span { text: text.to_string(), style }
}
