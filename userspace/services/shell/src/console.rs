//! The console as a session's surface.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::Cell;

use capos_agent::Tool;
use capos_agent::world::{Answer, Ask, Excess, More, Secret, Show};
use capos_runner::{OwnCall, Surface};
use capos_schema::authority::{ConsentReach, Reply};
use capos_schema::cap::LocalBoxFuture;
use capos_schema::models::PermissionMode;
use capos_schema::terminal::Style;
use serde_json::{Map, Value};

use crate::approver;
use crate::background::announce::Announcer;
use crate::background::questions::Given;
use crate::background::reminders::{self, Reminders};
use crate::background::{self, Backgrounds};
use crate::command::setup::{SetUp, Successor};
use crate::render::{self, Progress};
use crate::screen::Screen;

/// What one session's loop runs on, at the console.
pub type Runner = capos_runner::Runner<Console>;

/// What the loops of a session at the console share.
pub type Base = capos_runner::Base<Console>;

/// The console.
pub struct Console {
    pub screen: Rc<Screen>,
    pub progress: Progress,
    /// Runs in parallel with the prompt.
    pub backgrounds: Backgrounds,
    /// Texts that the person is shown later.
    pub reminders: Reminders,
    /// Shows the lines about both.
    pub announcer: Rc<Announcer>,
    /// Ctrl-C presses when the line was entered; any more are about what it began.
    interrupts: Cell<u64>,
    /// The session that takes the place of this one.
    pub successor: Successor,
    /// What the audit log calls it.
    name: &'static str,
}

impl Console {
    /// On this screen, for a session of a program with this name.
    pub fn new(screen: Rc<Screen>, name: &'static str) -> Self {
        let (progress, backgrounds, announcer) =
            (Progress::default(), Backgrounds::default(), Announcer::new(screen.clone()));
        Self {
            screen,
            progress,
            backgrounds,
            reminders: Reminders::default(),
            announcer,
            interrupts: Cell::new(0),
            successor: Successor::default(),
            name,
        }
    }

    /// A line was entered: Ctrl-C from now on is about what it begins.
    pub fn begin_line(&self) {
        self.interrupts.set(self.screen.interrupts().count());
    }
}

impl Surface for Console {
    type Form = SetUp;

    fn name(&self) -> String {
        String::from(self.name)
    }

    async fn tell(&self, style: Style, text: &str) {
        self.screen.wrapped(&[(style, text)]).await;
    }

    fn teller(&self) -> impl Fn(String) -> LocalBoxFuture<'static, ()> + 'static {
        let screen = self.screen.clone();
        move |secret| {
            let screen = screen.clone();
            Box::pin(async move {
                screen.spans(&[(Style::Bold, &secret), (Style::Dim, "  (shown to you, and not to the model)")]).await;
            })
        }
    }

    fn interrupt(&self) -> LocalBoxFuture<'static, ()> {
        let (interrupts, known) = (self.screen.interrupts().clone(), self.interrupts.get());
        Box::pin(async move { interrupts.after(known).await })
    }

    fn form(runner: &Runner, tool: &Tool) -> Option<SetUp> {
        SetUp::of(runner, tool)
    }

    fn own_call(base: &Rc<Base>, tool: &Tool, given: &Map<String, Value>) -> Option<Result<OwnCall, String>> {
        reminders::call(base, tool, given)
    }

    async fn consent(runner: &Runner, ask: &Ask<'_>) -> Result<ConsentReach, Reply> {
        let Some(run) = runner.background() else { return approver::consent(runner, ask).await };
        match background::ask(runner, run, ask, PermissionMode::Consent).await {
            Given::Agreed => Ok(ConsentReach::default()),
            Given::Passphrase(_) | Given::Declined => Err(Reply::Declined),
        }
    }

    async fn passphrase(runner: &Runner, ask: &Ask<'_>) -> Secret {
        let Some(run) = runner.background() else { return approver::passphrase(runner, ask).await };
        match background::ask(runner, run, ask, PermissionMode::StepUp).await {
            Given::Passphrase(passphrase) => Secret::Given(passphrase),
            Given::Agreed | Given::Declined => Secret::Declined,
        }
    }

    async fn go_on(runner: &Runner, calls: u32, more: u32) -> Answer {
        // The person is not asked about a background run at once: it pauses.
        if runner.background().is_some() { Answer::Lost } else { approver::go_on(runner, calls, more).await }
    }

    async fn more(runner: &Runner, excess: &Excess) -> More {
        if runner.background().is_some() { More::No } else { approver::more(runner, excess).await }
    }

    async fn show(runner: &Runner, show: Show<'_>) {
        match runner.background() {
            Some(run) => background::show(runner, run, show),
            None => render::show(runner, show).await,
        }
    }
}
