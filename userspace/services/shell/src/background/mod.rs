//! Runs in parallel with the prompt. Each has a conversation of its own, and a part of the session's budget.

pub mod announce;
mod output;
pub mod questions;
pub mod reminders;
pub mod schedule;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_agent::world::{Ask, Host, RunState, Show};
use capos_agent::{Course, Either, Signal, TurnEnd, race};
use capos_async_lock::Waiters;
use capos_runner::{Begun, Beside};
use capos_schema::models::{Outcome, PermissionMode};
use capos_schema::terminal::Style;

use crate::console::{Console, Runner};
use crate::escape::{first_line, in_quotes, name};
use crate::render::{self, Finished};
use crate::session::Session;
use output::Output;
use questions::{Given, Questions};
use schedule::When;

/// Runs that are in progress at one time, and all that are listed. Those that ended first are forgotten first.
pub const AT_ONCE: usize = 2;
const LISTED: usize = 8;
/// Letters of a request that are shown.
const REQUEST: usize = 50;
/// How long a run may take to end with its session, in nanoseconds.
const PATIENCE: u64 = 10_000_000_000;
/// How a run that has not ended its work is continued.
const GOES_ON: &str = "/resume and /continue go on with it";

/// Where a run is.
#[derive(Clone)]
enum State {
    /// It begins later.
    Waits(When),
    /// Its time has come, and as many run as may.
    Queued,
    /// It begins.
    Begins,
    /// In this conversation.
    Runs(String, Rc<Course>),
    /// How.
    Ended(String),
}

/// A run in parallel with the prompt.
pub struct Background {
    pub number: u32,
    request: String,
    output: Output,
    state: RefCell<State>,
    cancel: Signal,
    over: Signal,
    /// Its session ends, which says so itself.
    quiet: Cell<bool>,
}

impl Background {
    fn is_over(&self) -> bool {
        self.over.is_set()
    }

    fn takes_place(&self) -> bool {
        matches!(*self.state.borrow(), State::Begins | State::Runs(..))
    }

    /// Where it is, if it is at work in this conversation.
    fn state_in(&self, conversation: &str) -> Option<RunState> {
        match &*self.state.borrow() {
            State::Runs(id, course) if id == conversation => Some(course.run_state()),
            _ => None,
        }
    }

    /// The beginning of its request.
    pub fn title(&self) -> String {
        in_quotes(&first_line(&self.request, REQUEST), REQUEST)
    }

    /// How it is, for a list. `unix` is the time of the day, in milliseconds since 1970.
    pub fn status(&self, now: u64, unix: Option<u64>) -> String {
        match &*self.state.borrow() {
            State::Waits(when) => format!("begins in {}", schedule::text(when.left(now, unix))),
            State::Queued => "begins when another one has ended".to_string(),
            State::Begins => "begins".to_string(),
            State::Runs(_, course) => course.run_state().words().to_string(),
            State::Ended(how) => how.clone(),
        }
    }

    /// What it said, and how many lines before that are not kept.
    pub fn output(&self) -> (usize, Vec<(Style, String)>) {
        self.output.all()
    }
}

/// The background runs of a session, and their open questions.
#[derive(Default)]
pub struct Backgrounds {
    list: RefCell<Vec<Rc<Background>>>,
    number: Cell<u32>,
    freed: Waiters,
    pub questions: Rc<Questions>,
}

impl Backgrounds {
    /// All, oldest first.
    pub fn all(&self) -> Vec<Rc<Background>> {
        self.list.borrow().clone()
    }

    /// The run with this number.
    pub fn find(&self, number: u32) -> Option<Rc<Background>> {
        self.list.borrow().iter().find(|one| one.number == number).cloned()
    }

    /// The number of the run that is at work in a conversation, and where it is.
    pub fn in_conversation(&self, id: &str) -> Option<(u32, RunState)> {
        self.list.borrow().iter().find_map(|one| Some((one.number, one.state_in(id)?)))
    }

    /// Nothing at the prompt changes a conversation in which a run is at work.
    ///
    /// # Errors
    /// One is.
    pub fn check(&self, id: &str) -> Result<(), String> {
        match self.in_conversation(id) {
            None => Ok(()),
            Some((number, _)) => Err(format!(
                "background run {number} is at work in this conversation; wait for its end, or end it with /background \
                 cancel {number}"
            )),
        }
    }

    fn places(&self) -> usize {
        let taken = self.list.borrow().iter().filter(|one| one.takes_place()).count();
        AT_ONCE.saturating_sub(taken)
    }

    /// Adds a run.
    ///
    /// # Errors
    /// As many are listed as may be, and none of them has ended; or it is to begin at once, and as many are in progress as may.
    fn add(&self, request: &str, when: Option<When>) -> Result<Rc<Background>, String> {
        if when.is_none() && self.places() == 0 {
            return Err(format!(
                "{AT_ONCE} background runs are in progress, which is the limit; /background lists them, /background cancel N \
                 ends one"
            ));
        }
        let mut list = self.list.borrow_mut();
        if list.len() >= LISTED {
            let ended = list.iter().position(|one| one.is_over());
            let ended = ended.ok_or_else(|| {
                format!("{LISTED} background runs wait or are in progress, which is the limit; /background cancel N ends one")
            })?;
            list.remove(ended);
        }
        self.number.set(self.number.get().saturating_add(1));
        let background = Rc::new(Background {
            number: self.number.get(),
            request: request.to_string(),
            output: Output::default(),
            state: RefCell::new(when.map_or(State::Begins, State::Waits)),
            cancel: Signal::default(),
            over: Signal::default(),
            quiet: Cell::new(false),
        });
        list.push(background.clone());
        Ok(background)
    }

    /// Ends all that wait or are in progress, and says so. What they had done is kept.
    pub async fn stop_all(&self, runner: &Runner) {
        for one in self.all().into_iter().filter(|one| !one.is_over()) {
            one.quiet.set(true);
            one.cancel.set();
            let _ended = race(one.over.wait(), runner.sleep_until(runner.now().saturating_add(PATIENCE))).await;
            let how = match &*one.state.borrow() {
                State::Ended(how) => how.clone(),
                _ => format!("still runs; {GOES_ON}"),
            };
            let text = format!("background run {} {how}, as the session ends", one.number);
            runner.screen.wrapped(&[(Style::Warning, &text)]).await;
        }
    }
}

/// Begins a run in parallel with the prompt, at once or later.
///
/// # Errors
/// There is no room for it, no model, or it would begin after the session's time.
pub fn begin(session: &Session, request: &str, when: Option<When>) -> Result<Rc<Background>, String> {
    let runner = &session.runner;
    let model = runner.model.info().ok_or("this session has no model; /model lists the models")?;
    if !model.supports_tools {
        return Err(format!("the model {} cannot call tools; choose another with /model", name(&model.id)));
    }
    let start = session.beside()?;
    if let Some(when) = when {
        schedule::check_end(when, runner)
            .map_err(|why| format!("{why}, and a run begins only while its session lasts"))?;
    }
    let background = runner.backgrounds.add(request, when)?;
    drop(capos_rt::spawn(drive(background.clone(), start, when)));
    Ok(background)
}

/// Ends a run as Ctrl-C ends that of the prompt.
///
/// # Errors
/// It has ended.
pub fn cancel(background: &Background) -> Result<(), String> {
    if background.is_over() {
        return Err(format!("background run {} has ended already", background.number));
    }
    background.cancel.set();
    Ok(())
}

async fn drive(background: Rc<Background>, start: Beside<Console>, when: Option<When>) {
    let runner = start.runner.clone();
    let (style, how) = match ready(&background, &start, when).await {
        Ok(begun) => run(&background, begun).await,
        Err(why) => (Style::Warning, why),
    };
    *background.state.borrow_mut() = State::Ended(how.clone());
    background.over.set();
    runner.backgrounds.freed.wake();
    if !background.quiet.get() {
        let number = background.number;
        let text = format!("background run {number} {how}; /background show {number} shows what it said");
        runner.announcer.announce(style, &text);
    }
}

/// Waits for its time and its place, and begins it.
async fn ready(background: &Background, start: &Beside<Console>, when: Option<When>) -> Result<Begun<Console>, String> {
    let (runner, number) = (&start.runner, background.number);
    let cancelled = || "was cancelled before it began".to_string();
    if let Some(when) = when {
        // A run that has begun does not come back here.
        if !schedule::until(when, runner, &background.cancel).await {
            return Err(cancelled());
        }
        *background.state.borrow_mut() = State::Queued;
        let place = runner.backgrounds.freed.until(|| {
            let is_free = runner.backgrounds.places() > 0;
            // It has the place from here on.
            is_free.then(|| *background.state.borrow_mut() = State::Begins)
        });
        if let Either::Left(()) = race(background.cancel.wait(), place).await {
            return Err(cancelled());
        }
    }
    let begun = start.begin(number, &background.request, background.cancel.clone()).await;
    let begun = begun.map_err(|why| format!("did not begin: {why}"))?;
    *background.state.borrow_mut() = State::Runs(begun.conversation().id.clone(), begun.course());
    if when.is_some() {
        runner.announcer.announce(Style::Dim, &format!("background run {number} begins: {}", background.title()));
    }
    Ok(begun)
}

async fn run(background: &Background, begun: Begun<Console>) -> (Style, String) {
    let (end, state) = begun.run(&background.request).await;
    let words = state.words();
    match end {
        TurnEnd::Answered | TurnEnd::Off => (Style::Success, words.to_string()),
        TurnEnd::Interrupted => (Style::Dim, format!("{words}; {GOES_ON}")),
        end => (Style::Warning, format!("{words}, {}; {GOES_ON}", first_line(&end.why(), render::WIDTH))),
    }
}

/// Opens a question of a background run, and waits for its answer.
pub async fn ask(runner: &Runner, run: u32, ask: &Ask<'_>, mode: PermissionMode) -> Given {
    let waiting = runner.backgrounds.questions.open(run, (ask, mode, runner.told_of.get()));
    let number = waiting.question.number;
    let text = format!(
        "background run {run} asks about a call of {}; /approvals show {number} shows the question",
        name(&ask.tool.descriptor.name)
    );
    runner.announcer.announce(Style::Warning, &text);
    let given = waiting.answer().await;
    runner.told_of.set(waiting.question.told.get());
    given
}

/// Columns for the rows of results: the width of the screen on which they will be read is not known yet.
const COLUMNS: usize = 80;

/// Keeps what a background run shows.
pub fn show(runner: &Runner, run: u32, show: Show<'_>) {
    let Some(background) = runner.backgrounds.find(run) else { return };
    let output = &background.output;
    match show {
        Show::Text(text) => output.text(text),
        Show::AnswerEnd { .. } => output.end(),
        Show::AnswerDropped => output.line(Style::Dim, "[…]"),
        Show::Proposed { name, arguments, .. } => output.line(Style::Tool, &render::proposed(name, arguments)),
        Show::Finished { name, arguments, outcome, text, .. } => {
            let style = if outcome == Outcome::Ok { Style::Success } else { Style::Error };
            let Finished { mark, line, rows } = render::finished((name, arguments), (outcome, text), COLUMNS);
            output.line(style, &format!("{mark}{line}"));
            rows.lines().for_each(|row| output.line(Style::Plain, row));
        }
        Show::Summarised { messages } => output.line(Style::Dim, &render::summarised(messages)),
        Show::Notice(text) => output.line(Style::Warning, text),
        Show::State(_) | Show::Progress { .. } | Show::CallPiece { .. } | Show::Loose { .. } | Show::Started { .. } => {
        }
    }
}
