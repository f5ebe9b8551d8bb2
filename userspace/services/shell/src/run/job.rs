//! A job: the programs of one line, from their start to their end.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_agent::DirectCall;
use capos_async_lock::Waiters;
use capos_rt::exit_code::{ABORTED, OUT_OF_MEMORY, PANIC};
use capos_rt::{CancelToken, Either, ServeOptions, Server, TaskGroup, log, select};
use capos_runner::asking::Asking;
use capos_schema::cap::{CallError, Client};
use capos_schema::kernel::{CapabilityTableClient, ExitInfo, ExitInfoCause, ObjectClient};
use capos_schema::models::Outcome;
use capos_schema::system::{Grant, LauncherClient, StandardClient, StandardInputClient};

use super::pipe::Pipe;
use super::streams::{Output, PipeWriter, Printer, Reader};
use crate::console::Runner;
use crate::screen::Screen;

/// A write of 32 KiB and what stands around it. Each program has one call under way, or three in a poll.
const OPTIONS: ServeOptions = ServeOptions { buffers: 2, message_bytes: 40 << 10, concurrent: 32 };
const ALL_RIGHTS: u32 = u32::MAX;

/// A program that may be started, and whose record says that it begins.
pub struct Permitted {
    pub program: String,
    pub arguments: Vec<String>,
    pub environment: Vec<String>,
    /// What it is given, as a text.
    pub words: String,
    pub own: Vec<String>,
    pub grants: Vec<Grant>,
    pub call: DirectCall<Runner>,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With code 0.
    Well,
    /// With another code.
    Code(i32),
    /// By itself; the text says how.
    Died(String),
    /// By the person.
    Stopped,
    /// It was never started.
    NotRun(String),
}

impl End {
    fn of(exit: &ExitInfo) -> Self {
        match exit.cause {
            ExitInfoCause::Exited if exit.code == 0 => Self::Well,
            ExitInfoCause::Exited => Self::Code(exit.code),
            ExitInfoCause::Killed | ExitInfoCause::Fault | ExitInfoCause::CpuTime => Self::Died(exit.report.clone()),
        }
    }

    /// What there is to say of it.
    pub fn words(&self, program: &str) -> Option<String> {
        Some(match self {
            Self::Well => return None,
            Self::Code(PANIC) => format!("{program} exited with code {PANIC}: it panicked"),
            Self::Code(OUT_OF_MEMORY) => format!("{program} exited with code {OUT_OF_MEMORY}: it ran out of memory"),
            Self::Code(ABORTED) => format!("{program} exited with code {ABORTED}: it aborted"),
            Self::Code(code) => format!("{program} exited with code {code}"),
            Self::Died(report) => format!("{program} died: {report}"),
            Self::Stopped => format!("{program} was stopped"),
            Self::NotRun(why) => format!("{program} could not be run: {why}"),
        })
    }

    /// For the audit log.
    fn outcome(&self) -> Outcome {
        match self {
            Self::Well => Outcome::Ok,
            Self::Stopped => Outcome::Cancelled,
            Self::Code(_) | Self::Died(_) | Self::NotRun(_) => Outcome::ExecutionError,
        }
    }
}

/// One program of a job.
pub struct Program {
    pub name: String,
    /// What it was given, as a text.
    pub given: String,
    end: RefCell<Option<End>>,
}

/// Programs that run together.
pub struct Job {
    pub number: u32,
    /// The line that began it.
    pub line: String,
    pub programs: Vec<Program>,
    pub output: Rc<Output>,
    /// Ends all of its programs.
    stop: CancelToken,
    /// How many have not ended.
    running: Cell<usize>,
    changed: Waiters,
    /// What it serves to its programs.
    tasks: TaskGroup,
}

/// The streams of one program.
struct Streams {
    input: Rc<Reader>,
    out: Sink,
    err: Rc<Printer>,
}

enum Sink {
    Screen(Rc<Printer>),
    Pipe(Rc<Pipe>),
}

impl Streams {
    /// Capabilities to them.
    fn grants(&self, server: &Rc<Server>) -> Result<[Grant; 3], CallError> {
        let out = match &self.out {
            Sink::Screen(printer) => StandardClient::serve(server, printer.clone())?,
            Sink::Pipe(pipe) => StandardClient::serve(server, Rc::new(PipeWriter(pipe.clone())))?,
        };
        let err = StandardClient::serve(server, self.err.clone())?;
        let input = StandardInputClient::serve(server, self.input.clone())?;
        let grant = |name: &str, capability: ObjectClient, interface: u64| Grant {
            name: name.to_string(),
            capability,
            interface,
            rights: ALL_RIGHTS,
        };
        Ok([
            grant("in", input.cast(), StandardInputClient::INTERFACE_ID),
            grant("out", out.cast(), StandardClient::INTERFACE_ID),
            grant("err", err.cast(), StandardClient::INTERFACE_ID),
        ])
    }

    /// The program has ended: the other programs of the line are told.
    async fn close(&self) {
        self.input.close_now();
        match &self.out {
            Sink::Screen(printer) => printer.finish().await,
            Sink::Pipe(pipe) => pipe.close_writer(),
        }
        self.err.finish().await;
    }
}

/// What a job takes besides its programs.
pub struct Surroundings {
    pub launcher: LauncherClient,
    pub table: CapabilityTableClient,
    pub screen: Rc<Screen>,
}

impl Job {
    /// Starts the programs of a line.
    ///
    /// # Errors
    /// There is no room for what it serves to them; what was permitted is recorded as not run.
    pub async fn start(
        number: u32,
        line: String,
        foreground: bool,
        permitted: Vec<Permitted>,
        around: Surroundings,
    ) -> Result<Rc<Self>, String> {
        let account = capos_rt::memory::account();
        let endpoint = match account {
            Ok(account) => account.create_endpoint().await,
            Err(error) => Err(error),
        };
        let endpoint = match endpoint {
            Ok(endpoint) => endpoint,
            Err(error) => {
                let why = format!("the shell cannot start another job: {error}");
                for one in permitted {
                    one.call.finish(Outcome::Cancelled, &why).await;
                }
                return Err(why);
            }
        };
        let server = Rc::new(Server::at(endpoint, around.table.clone()));
        let programs = permitted.iter().map(|one| Program {
            name: one.program.clone(),
            given: one.words.clone(),
            end: RefCell::new(None),
        });
        let job = Rc::new(Self {
            number,
            line,
            programs: programs.collect(),
            output: Output::new(around.screen.clone(), foreground),
            stop: CancelToken::new(),
            running: Cell::new(permitted.len()),
            changed: Waiters::default(),
            tasks: TaskGroup::new(),
        });
        let served = server.clone();
        job.tasks.spawn(async move {
            if let Err(why) = served.run(OPTIONS).await {
                log::error!("a job's streams are gone: {why}");
            }
        });
        let last = permitted.len().saturating_sub(1);
        let mut before: Option<Rc<Pipe>> = None;
        for (at, one) in permitted.into_iter().enumerate() {
            let input = match before.take() {
                Some(pipe) => Reader::pipe(pipe),
                None if foreground => Reader::keyboard(around.screen.clone(), &one.program, job.stop.clone()),
                None => {
                    let pipe: Rc<Pipe> = Rc::default();
                    pipe.close_writer();
                    Reader::pipe(pipe)
                }
            };
            let out = if at == last {
                Sink::Screen(Printer::new(job.output.clone()))
            } else {
                let pipe: Rc<Pipe> = Rc::default();
                before = Some(pipe.clone());
                Sink::Pipe(pipe)
            };
            let streams = Streams { input, out, err: Printer::new(job.output.clone()) };
            let (task, launcher, server) = (job.clone(), around.launcher.clone(), server.clone());
            // The person is asked where they wait for the program.
            let asks = foreground.then(|| around.table.clone());
            // Its record is written even if the job is no longer waited for.
            drop(capos_rt::spawn(async move { task.run(at, one, streams, (launcher, asks), server).await }));
        }
        Ok(job)
    }

    async fn run(
        self: Rc<Self>,
        at: usize,
        one: Permitted,
        streams: Streams,
        (launcher, asks): (LauncherClient, Option<CapabilityTableClient>),
        server: Rc<Server>,
    ) {
        let Permitted { program, arguments, environment, own, mut grants, call, .. } = one;
        let asking = async {
            match asks {
                Some(table) => Asking::of(&launcher, call.asker(), table).await,
                None => None,
            }
        };
        // None if the person has stopped it.
        let asking = match select(self.stop.cancelled(), asking).await {
            Either::First(()) => None,
            Either::Second(asking) => asking,
        };
        let end = match streams.grants(&server) {
            Ok(own_streams) => {
                grants.extend(own_streams);
                let number = asking.as_ref().map_or(0, |asking| asking.number);
                let run = launcher.run_with(&program, &arguments, &environment, &own, &grants, number);
                match select(select(self.stop.cancelled(), call.cancelled()), run).await {
                    Either::First(_) => {
                        // Ctrl-C at the question of one program ends the others of its line, too.
                        self.stop();
                        End::Stopped
                    }
                    Either::Second(Ok(exit)) => End::of(&exit),
                    Either::Second(Err(why)) => End::NotRun(why.to_string()),
                }
            }
            Err(why) => End::NotRun(why.to_string()),
        };
        // Questions end here: their records stand before that of the call.
        drop((grants, server, asking));
        streams.close().await;
        call.finish(end.outcome(), &end.words(&program).unwrap_or_default()).await;
        if let Some(place) = self.programs.get(at) {
            *place.end.borrow_mut() = Some(end);
        }
        self.running.set(self.running.get().saturating_sub(1));
        if self.running.get() == 0 {
            // No caller is left.
            self.tasks.cancel();
        }
        self.changed.wake();
    }

    /// Whether all of its programs have ended.
    pub fn is_ended(&self) -> bool {
        self.running.get() == 0
    }

    /// Waits until they have.
    pub async fn ended(&self) {
        self.changed.until(|| self.is_ended().then_some(())).await;
    }

    /// Ends them.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Whether the person has ended it.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// What there is to say of how its programs ended.
    pub fn ends(&self) -> Vec<String> {
        let words = self.programs.iter().filter_map(|one| one.end.borrow().as_ref()?.words(&one.name));
        words.collect()
    }
}
