//! The screen, on a terminal of the test's own, in a process whose time is virtual.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use core::future::pending;
use core::task::{Context, Poll};

use capos_agent::{Either, race};
use capos_rt::Clock;
use capos_rt::simulated::{Object, run};
use capos_schema::cap::{AsCap, Begun, CallContext, CallError, Cap, CapTransport, Client, Message, ReadResult, Status};
use capos_schema::local::Local;
use capos_schema::terminal::{
    LineEnd, Span, Style, TerminalClient, TerminalServer, TerminalSessionAskResults, TerminalSessionClient,
    TerminalSessionReadLineResults, TerminalSessionReadSecretResults, TerminalSessionServer,
    TerminalSessionSizeResults,
};
use proptest::prelude::*;

use crate::link::Link;
use crate::screen::Screen;

const MS: u64 = 1_000_000;
/// The longest that a person of these tests takes.
const LONG: u64 = 1_000_000 * MS;

/// A terminal that notes what it is told. Its person answers each read after a time.
struct Terminal {
    clock: Clock,
    told: RefCell<Vec<String>>,
    answers: RefCell<VecDeque<(u64, &'static str)>>,
    /// How often it is opened in vain before it runs again; while it does not run, sessions are gone.
    down: Cell<u32>,
    /// The next line has no room.
    too_long: Cell<bool>,
    /// The read in progress was given up.
    given_up: Cell<bool>,
    /// When a key was last pressed.
    typed: Cell<u64>,
}

impl Terminal {
    fn tell(&self, text: String) {
        self.told.borrow_mut().push(text);
    }

    async fn answer(&self, what: &str, prompt: &[Span], more: &str) -> Result<(String, LineEnd), CallError> {
        self.running()?;
        self.tell(format!("{what} {}{more}", joined(prompt)));
        let (takes, line) = self.answers.borrow_mut().pop_front().unwrap_or((LONG, ""));
        self.given_up.set(false);
        let given_up = async {
            while !self.given_up.get() {
                self.clock.sleep(MS).await;
            }
        };
        if let Either::Right(()) = race(self.clock.sleep(takes), given_up).await {
            return Ok((String::new(), LineEnd::Cancelled));
        }
        self.typed.set(self.clock.now());
        self.running()?;
        self.tell("answered".to_string());
        Ok(if line == "^C" { (String::new(), LineEnd::Interrupted) } else { (line.to_string(), LineEnd::Entered) })
    }

    fn running(&self) -> Result<(), CallError> {
        if self.down.get() > 0 { Err(CallError::disconnected("it restarts")) } else { Ok(()) }
    }
}

fn joined(spans: &[Span]) -> String {
    spans.iter().map(|span| span.text.as_str()).collect()
}

struct Opens(Rc<Terminal>);
struct Session(Rc<Terminal>);

impl TerminalServer for Opens {
    async fn open(&self, _: &CallContext, _: String) -> Result<TerminalSessionClient, CallError> {
        if let Some(left) = self.0.down.get().checked_sub(1) {
            self.0.down.set(left);
            return Err(CallError::failed("service `terminal` has failed"));
        }
        let client = TerminalSessionClient::serve(&Rc::new(Local::default()), Rc::new(Session(self.0.clone())))?;
        let narrow = Narrow { inner: client.as_cap().clone(), of: self.0.clone() };
        Ok(TerminalSessionClient::from_cap(Cap::new(narrow)))
    }
}

/// A session whose caller may have no room for a line.
struct Narrow {
    inner: Cap,
    of: Rc<Terminal>,
}

impl CapTransport for Narrow {
    fn begin(
        &self,
        method: (u64, u16),
        params: Message,
        results: u32,
        context: &mut Context<'_>,
        read: ReadResult<'_>,
    ) -> Begun {
        if method.1 == 1 && self.of.too_long.replace(false) {
            return Begun::Ended(Err(CallError::Transport(Status::TooLarge)));
        }
        self.inner.transport().begin(method, params, results, context, read)
    }

    fn poll_call(&self, number: u64, context: &mut Context<'_>, read: ReadResult<'_>) -> Poll<()> {
        self.inner.transport().poll_call(number, context, read)
    }

    fn id(&self) -> u64 {
        self.inner.transport().id()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl TerminalSessionServer for Session {
    async fn write(&self, _: &CallContext, spans: Vec<Span>) -> Result<(), CallError> {
        self.0.running()?;
        self.0.clock.sleep(MS).await;
        self.0.tell(joined(&spans));
        Ok(())
    }

    async fn read_line(
        &self,
        _: &CallContext,
        prompt: Vec<Span>,
        _: bool,
        _: Vec<String>,
        ahead: bool,
    ) -> Result<TerminalSessionReadLineResults, CallError> {
        let (line, end) = self.0.answer("line", &prompt, if ahead { "+" } else { "" }).await?;
        Ok(TerminalSessionReadLineResults { line, end })
    }

    async fn read_secret(
        &self,
        _: &CallContext,
        prompt: Vec<Span>,
    ) -> Result<TerminalSessionReadSecretResults, CallError> {
        let (line, end) = self.0.answer("secret", &prompt, "").await?;
        Ok(TerminalSessionReadSecretResults { line, end })
    }

    async fn ask(
        &self,
        _: &CallContext,
        question: Vec<Span>,
        details: Vec<Span>,
    ) -> Result<TerminalSessionAskResults, CallError> {
        let (answer, end) = self.0.answer("ask", &question, &format!(" after {}", joined(&details))).await?;
        Ok(TerminalSessionAskResults { answer, end })
    }

    async fn wait_interrupt(&self, _: &CallContext) -> Result<u64, CallError> {
        pending().await
    }

    async fn size(&self, _: &CallContext) -> Result<TerminalSessionSizeResults, CallError> {
        Ok(TerminalSessionSizeResults { columns: 80, rows: 24 })
    }

    async fn status(&self, _: &CallContext, text: String, _: Style) -> Result<(), CallError> {
        self.0.tell(text);
        Ok(())
    }

    async fn give_up(&self, _: &CallContext) -> Result<(), CallError> {
        self.0.tell("given up".to_string());
        self.0.given_up.set(true);
        Ok(())
    }

    async fn idle(&self, _: &CallContext) -> Result<u64, CallError> {
        Ok((self.0.clock.now() - self.0.typed.get()) / MS)
    }

    async fn clear(&self, _: &CallContext) -> Result<(), CallError> {
        Ok(())
    }
}

/// Does something at a screen whose person answers so; gives what the terminal was told.
fn at_screen(answers: &[(u64, &'static str)], act: impl AsyncFnOnce(Rc<Screen>, Rc<Terminal>, Clock)) -> Vec<String> {
    run(&[("timer", Object::Timer)], async |env| {
        let clock = env.clock().unwrap();
        let terminal = Rc::new(Terminal {
            clock: clock.clone(),
            told: RefCell::default(),
            answers: RefCell::new(answers.iter().copied().collect()),
            down: Cell::new(0),
            too_long: Cell::new(false),
            given_up: Cell::new(false),
            typed: Cell::new(clock.now()),
        });
        let client = TerminalClient::serve(&Rc::new(Local::default()), Rc::new(Opens(terminal.clone()))).unwrap();
        let screen = Rc::new(Screen::new(Link::open(client, clock.clone()).await));
        act(screen, terminal.clone(), clock).await;
        terminal.told.take()
    })
}

#[test]
fn a_line_of_several_parts_is_told_at_once() {
    let told = at_screen(&[], async |screen, _, _| {
        screen.write(Style::Model, "half a line").await;
        screen.spans(&[(Style::Success, "  ok "), (Style::Dim, "done")]).await;
        screen.line(Style::Plain, "next\ncapos> ").await;
    });
    assert_eq!(told, ["half a line", "\n  ok done\n", "next\\ncapos> \n"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    /// Other output may come at any time, and the person may answer in time or not. No output stands between the first
    /// word of a question and its end, and none is lost.
    #[test]
    fn nothing_comes_between_a_question_and_its_answer(
        lines in proptest::collection::vec(0_u64..60, 0..12),
        pages in 1_usize..4,
        answers in 1_u64..30,
        patience in 1_u64..60,
    ) {
        let told = at_screen(&[(answers * MS, ""); 4], async |screen, _, clock| {
            let mut writers = Vec::new();
            for at in &lines {
                let (screen, clock, at) = (screen.clone(), clock.clone(), *at);
                writers.push(capos_rt::spawn(async move {
                    clock.sleep(at * MS).await;
                    match at % 3 {
                        0 => screen.line(Style::Tool, "other").await,
                        1 => screen.write(Style::Model, "other\n").await,
                        _ => screen.wrapped(&[(Style::Tool, "ot"), (Style::Dim, "her")]).await,
                    }
                }));
            }
            clock.sleep(10 * MS).await;
            let question = async {
                let held = screen.hold_for_question().await;
                for page in 0..pages {
                    held.show(&[(Style::Bold, "begins\n")]).await;
                    if page % 2 == 0 {
                        let _ = held.ask(&[(Style::Bold, "more\n")], "? ").await;
                    } else {
                        let _ = held.secret(&[], "? ").await;
                    }
                }
                held.show(&[(Style::Bold, "ends\n")]).await;
            };
            let _ = race(question, clock.sleep(patience * MS)).await;
            for writer in writers {
                writer.await;
            }
        });
        prop_assert_eq!(told.iter().filter(|text| text.contains("other")).count(), lines.len());
        let first = told.iter().position(|text| text == "begins\n");
        let last = told.iter().rposition(|text| text == "ends\n" || text == "given up" || text == "begins\n");
        if let (Some(first), Some(last)) = (first, last) {
            for text in told.get(first..=last).unwrap_or_default() {
                prop_assert!(!text.contains("other"), "{:?}", told);
            }
        }
    }
}

#[test]
fn what_is_typed_while_others_speak_is_no_line() {
    let told = at_screen(&[(0, ""); 6], async |screen, _, _| {
        for _ in 0..2 {
            screen.read("> ", Vec::new()).await;
        }
        screen.others_speak();
        screen.read("> ", Vec::new()).await;
        let _ = screen.hold_for_question().await.secret(&[], "passphrase: ").await;
        screen.read("> ", Vec::new()).await;
    });
    let prompts: Vec<&str> = told.iter().filter(|text| *text != "answered").map(String::as_str).collect();
    assert_eq!(prompts, ["line > ", "line > +", "line > ", "secret passphrase: ", "line > "]);
}

/// Keys typed for a question that has expired are not shown, and answer nothing.
#[test]
fn a_question_that_expired_is_acknowledged_before_anything_is_read() {
    let answers = [(50 * MS, "open sesame"), (5 * MS, "sesame"), (MS, "y"), (MS, "")];
    for kind in ["ask", "line"] {
        let told = at_screen(&answers, async |screen, _, clock| {
            let asking = async { screen.hold_for_question().await.secret(&[], "passphrase: ").await };
            assert!(matches!(race(asking, clock.sleep(MS)).await, Either::Right(())));
            screen.line(Style::Plain, "late").await;
            if kind == "ask" {
                let held = screen.hold_for_question().await;
                assert_eq!(held.ask(&[], "sure? ").await.unwrap().0, "y");
            } else {
                assert_eq!(screen.read("> ", Vec::new()).await.0, "y");
            }
        });
        let then = if kind == "ask" { "ask sure?  after " } else { "line > " };
        let over = "secret This question has ended. Press Enter to continue: ";
        assert_eq!(told, ["secret passphrase: ", "given up", "late\n", over, "answered", then, "answered"]);
    }
}

#[test]
fn a_line_that_is_too_long_is_refused_with_a_message() {
    let told = at_screen(&[(0, "short")], async |screen, terminal, _| {
        terminal.too_long.set(true);
        assert_eq!(screen.read("> ", Vec::new()).await, (String::new(), LineEnd::Cancelled));
        assert_eq!(screen.read("> ", Vec::new()).await, ("short".into(), LineEnd::Entered));
    });
    assert!(told[0].starts_with("the line is too long and was discarded"), "{told:?}");
}

#[test]
fn a_prompt_waits_for_a_terminal_and_a_question_does_not() {
    let told = at_screen(&[(9 * MS, "a"), (9 * MS, "b"), (MS, "c"), (MS, "d")], async |screen, terminal, clock| {
        let dies = |terminal: Rc<Terminal>, clock: Clock| {
            drop(capos_rt::spawn(async move {
                clock.sleep(5 * MS).await;
                terminal.down.set(100);
            }));
        };
        dies(terminal.clone(), clock.clone());
        let before = clock.now();
        assert_eq!(screen.read("> ", Vec::new()).await.0, "b");
        assert!(clock.now() - before > 90_000 * MS, "it was not there for a hundred looks");
        dies(terminal.clone(), clock.clone());
        terminal.answers.borrow_mut().push_front((9 * MS, "y"));
        assert!(screen.hold_for_question().await.ask(&[], "sure? ").await.is_err());
        assert_eq!(screen.read("> ", Vec::new()).await.0, "d");
    });
    let over = "secret This question has ended. Press Enter to continue: ";
    let read: Vec<&str> = told.iter().filter(|text| *text != "answered").map(String::as_str).collect();
    assert_eq!(read, ["line > ", "line > ", "ask sure?  after ", over, "line > "]);
}

/// A prompt ends when no key was pressed for a minute, and not before.
#[test]
fn an_idle_prompt_ends() {
    let told = at_screen(&[(59_000 * MS, "in time"), (LONG, "")], async |screen, _, clock| {
        let read = async || screen.read_until_idle("> ", Vec::new(), 60).await;
        assert_eq!(read().await, Some(("in time".into(), LineEnd::Entered)));
        let before = clock.now();
        assert_eq!(read().await, None);
        let waited = clock.now() - before;
        assert!((60_000 * MS..62_000 * MS).contains(&waited), "it ended after {} ms", waited / MS);
    });
    assert_eq!(told, ["line > ", "answered", "line > +", "given up"]);
}
