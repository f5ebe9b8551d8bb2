//! Sessions of the terminal, served.

use crate::screen::{Answer, Screen};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use capos_schema::cap::{CallContext, CallError, Export};
use capos_schema::terminal::{
    LineEnd, Span, Style, TerminalServer, TerminalSessionAskResults, TerminalSessionClient,
    TerminalSessionReadLineResults, TerminalSessionReadSecretResults, TerminalSessionServer,
    TerminalSessionSizeResults,
};
use capos_terminal::{Read, Sanitiser, sanitise};
use core::cell::{Cell, RefCell};

/// The terminal.
pub struct TerminalObject {
    /// The one screen.
    pub screen: Rc<Screen>,
    /// Makes sessions.
    pub exporter: Rc<dyn Export>,
}

impl TerminalServer for TerminalObject {
    async fn open(&self, _cx: &CallContext, label: String) -> Result<TerminalSessionClient, CallError> {
        capos_rt::log::info!("session `{}` opened", sanitise(label.as_bytes()).as_str());
        let session = Session {
            screen: self.screen.clone(),
            sanitiser: RefCell::default(),
            style: RefCell::default(),
            told: Cell::default(),
        };
        TerminalSessionClient::serve(&self.exporter, Rc::new(session))
    }
}

/// One session. What it writes goes through one sanitiser, so that a sequence cut into pieces is seen whole.
struct Session {
    screen: Rc<Screen>,
    sanitiser: RefCell<Sanitiser>,
    style: RefCell<capos_terminal::Style>,
    /// Columns and rows that it was told last.
    told: Cell<Option<(u16, u16)>>,
}

fn style(style: Style) -> capos_terminal::Style {
    match style {
        Style::Plain => capos_terminal::Style::Plain,
        Style::Bold => capos_terminal::Style::Bold,
        Style::Dim => capos_terminal::Style::Dim,
        Style::Heading => capos_terminal::Style::Heading,
        Style::Warning => capos_terminal::Style::Warning,
        Style::Error => capos_terminal::Style::Error,
        Style::Tool => capos_terminal::Style::Tool,
        Style::Prompt => capos_terminal::Style::Prompt,
        Style::Model => capos_terminal::Style::Model,
        Style::Question => capos_terminal::Style::Question,
        Style::Success => capos_terminal::Style::Success,
    }
}

fn joined(spans: &[Span]) -> String {
    spans.iter().map(|span| span.text.as_str()).collect()
}

impl Session {
    async fn show(&self, spans: &[Span]) {
        for span in spans {
            let style = style(span.style);
            if *self.style.borrow() != style {
                // A piece of a character or sequence does not continue in another style.
                let rest = self.sanitiser.borrow_mut().finish();
                let before = self.style.replace(style);
                self.screen.write(before, &rest).await;
            }
            let clean = self.sanitiser.borrow_mut().push(span.text.as_bytes());
            self.screen.write(style, &clean).await;
        }
    }

    async fn settle(&self) {
        let rest = self.sanitiser.borrow_mut().finish();
        let style = *self.style.borrow();
        self.screen.write(style, &rest).await;
    }

    async fn read(&self, read: Read) -> (String, LineEnd) {
        self.settle().await;
        match self.screen.read(read).await {
            Answer::Line(line) => (line, LineEnd::Entered),
            Answer::Interrupted => (String::new(), LineEnd::Interrupted),
            Answer::End => (String::new(), LineEnd::EndOfInput),
            Answer::Superseded => (String::new(), LineEnd::Cancelled),
        }
    }
}

impl Session {
    /// A question with lines above it, which its asker has laid out for the size that it was told.
    fn laid_out(&self, above: &[Span], question: &[Span], read: Read) -> Read {
        if above.is_empty() {
            return read;
        }
        let above = above.iter().map(|span| (style(span.style), sanitise(span.text.as_bytes())));
        let prompt = above.chain([(capos_terminal::Style::Question, sanitise(joined(question).as_bytes()))]).collect();
        Read { prompt, laid_out: self.told.get(), ..read }
    }
}

impl TerminalSessionServer for Session {
    async fn write(&self, _cx: &CallContext, spans: Vec<Span>) -> Result<(), CallError> {
        self.show(&spans).await;
        Ok(())
    }

    async fn read_line(
        &self,
        _cx: &CallContext,
        prompt: Vec<Span>,
        history: bool,
        completions: Vec<String>,
        typeahead: bool,
    ) -> Result<TerminalSessionReadLineResults, CallError> {
        let read = Read { keep: history, completions, typeahead, ..Read::line(&joined(&prompt)) };
        let (line, end) = self.read(read).await;
        Ok(TerminalSessionReadLineResults { line, end })
    }

    async fn read_secret(
        &self,
        _cx: &CallContext,
        prompt: Vec<Span>,
    ) -> Result<TerminalSessionReadSecretResults, CallError> {
        let (question, above) =
            prompt.split_last_chunk::<1>().map_or((&[][..], &[][..]), |(above, last)| (&last[..], above));
        let read = Read::secret(&joined(question));
        let (line, end) = self.read(self.laid_out(above, question, read)).await;
        Ok(TerminalSessionReadSecretResults { line, end })
    }

    async fn ask(
        &self,
        _cx: &CallContext,
        question: Vec<Span>,
        details: Vec<Span>,
    ) -> Result<TerminalSessionAskResults, CallError> {
        let read = Read::question(&joined(&question));
        let (line, end) = self.read(self.laid_out(&details, &question, read)).await;
        Ok(TerminalSessionAskResults { answer: line, end })
    }

    async fn wait_interrupt(&self, cx: &CallContext) -> Result<u64, CallError> {
        // A caller that has died waits for nothing: its place among the calls that this process answers is free for
        // another.
        let gone = async {
            if capos_rt::cancelled(cx).await.is_err() {
                core::future::pending::<()>().await;
            }
        };
        match capos_rt::select(self.screen.interrupt(), gone).await {
            capos_rt::Either::First(count) => Ok(count),
            capos_rt::Either::Second(()) => Err(CallError::disconnected("nobody waits for Ctrl-C any more")),
        }
    }

    async fn size(&self, _cx: &CallContext) -> Result<TerminalSessionSizeResults, CallError> {
        let (columns, rows) = self.screen.size();
        self.told.set(Some((columns, rows)));
        Ok(TerminalSessionSizeResults { columns, rows })
    }

    async fn status(&self, _cx: &CallContext, text: String, shown: Style) -> Result<(), CallError> {
        self.settle().await;
        self.screen.status(style(shown), &sanitise(text.as_bytes())).await;
        Ok(())
    }

    async fn give_up(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.screen.give_up();
        Ok(())
    }

    async fn idle(&self, _cx: &CallContext) -> Result<u64, CallError> {
        Ok(self.screen.idle())
    }

    async fn clear(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.settle().await;
        self.screen.clear().await;
        Ok(())
    }
}
