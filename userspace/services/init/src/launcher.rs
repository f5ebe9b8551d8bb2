//! Running the programs that the manifest lists.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_abi::Rights;
use capos_policy::{all_above, join};
use capos_process::{Collector, Granted, Image, Launch, Sink, Started, describe_exit};
use capos_rt::Server;
use capos_schema::authority::Label;
use capos_schema::cap::{AsCap, CallContext, CallError, Cap, Client};
use capos_schema::kernel::{ExitInfo, ResourceAccountClient, Usage};
use capos_schema::manifest::{Grant as Wanted, GrantSource, Service as Entry, Setting as NamedSetting};
use capos_schema::reflection::{self, InterfaceInfo};
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{
    Grant, LauncherClient, LauncherForSessionResults, LauncherRunResults, LauncherServer, LoggerClient,
    ProgramApprovalClient, ProgramInfo, ProgramMeterClient, ProgramNeed, ProgramResult, ProgramsUsage, StandardClient,
};

use capos_settings::{Kind, Setting, split};

use crate::grants::Given;
use crate::program_meter::{Meter, MeterObject, Waited};
use crate::steps::Steps;
use crate::system::System;

/// Output that is kept of a program, in bytes.
const MAX_OUTPUT: usize = 64 << 10;
/// Room of the answer for everything but the output.
const ANSWER_ROOM: usize = 2048;
/// How long a program may run whose output is kept, in nanoseconds, whichever caller waits for it. A session waits as
/// long as its profile states (`tool_timeout_ms`), which is 30 s if nothing else is asked for.
const MAX_TIME: u64 = 1_800_000_000_000;
/// Programs that run at one time: each keeps a call of its caller open, and others have to get through.
const MAX_RUNNING: u32 = 32;
/// The working directory of programs that a session runs, as a grant, as in the shell.
const HOME: &str = "home";
/// Names that a process holds whatever it is granted.
const RESERVED: &[&str] = &["account", "space", "table", "process", "serve"];

/// The kept output of a program.
#[derive(Default)]
struct Output {
    bytes: RefCell<Vec<u8>>,
}

impl Output {
    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.bytes.borrow_mut();
        let room = MAX_OUTPUT.saturating_sub(ANSWER_ROOM).saturating_sub(kept.len());
        kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// The kept output, as text within the permitted bytes.
    fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.bytes.take()).into_owned();
        text.truncate(text.floor_char_boundary(MAX_OUTPUT.saturating_sub(ANSWER_ROOM)));
        text
    }
}

impl Sink for Output {
    async fn take(&self, bytes: &[u8]) -> Result<(), CallError> {
        self.keep(bytes);
        Ok(())
    }
}

/// The accounts of programs that run, and of ended ones that still hold something.
#[derive(Default)]
struct Accounts {
    open: RefCell<Vec<ResourceAccountClient>>,
}

impl Accounts {
    /// The usage of an account. One that does not answer holds nothing.
    async fn held(account: &ResourceAccountClient) -> Usage {
        account.usage().await.map(|found| found.usage).unwrap_or_default()
    }

    /// A program has ended: its account is forgotten, unless it holds something.
    async fn settle(&self, account: &ResourceAccountClient, name: &str) {
        let held = Self::held(account).await;
        if (Usage { cpu_nanoseconds: 0, ..held.clone() }) == Usage::default() {
            self.open.borrow_mut().retain(|other| other != account);
        } else {
            capos_rt::log::error!("`{name}` has ended, and its account still holds {held:?}");
        }
    }
}

/// A program that runs. It ends with this value, and what is served to it with it.
struct Running<'a> {
    started: Started,
    name: String,
    accounts: Rc<Accounts>,
    /// Objects of its own.
    _served: Served<'a>,
    /// Why it is ended, if it has not ended by itself.
    reason: &'static str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let (started, reason) = (self.started.clone(), self.reason);
        let (accounts, name) = (self.accounts.clone(), core::mem::take(&mut self.name));
        drop(capos_rt::spawn(async move {
            // That it has ended already is as good.
            drop(started.process.kill(reason).await);
            accounts.settle(&started.account, &name).await;
        }));
    }
}

/// Objects that are served to one program, and to no other. They end with this value.
struct Served<'a> {
    server: &'a Server,
    caps: Vec<Cap>,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        for cap in &self.caps {
            self.server.unexport(cap);
        }
    }
}

/// Counts a program as running for as long as it lives.
struct Place<'a>(&'a Cell<u32>);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Additions to a program's manifest entry at its start.
struct Start {
    arguments: Vec<String>,
    environment: Vec<String>,
    grants: Vec<Granted>,
}

/// Runs programs.
pub struct ProgramLauncher {
    system: Rc<System>,
    running: Rc<Cell<u32>>,
    accounts: Rc<Accounts>,
    /// What its session has in place of what the manifest calls so.
    home: Option<(String, DirectoryClient)>,
    /// What its programs have used.
    meter: Rc<Meter>,
    /// Whom programs that are about to be run ask before a step, by number.
    expected: RefCell<BTreeMap<u64, ProgramApprovalClient>>,
    numbers: Cell<u64>,
}

/// Whether the launcher may give a capability to any program's caller: time and chance, and under the program's name a way to
/// write to the log, and to ask the caller's person.
fn own(wanted: &Wanted) -> bool {
    match &wanted.source {
        GrantSource::Kernel(name) => name == "timer" || name == "entropy",
        GrantSource::Service(_) => wanted.interface == LoggerClient::INTERFACE_ID || asks(wanted),
        _ => false,
    }
}

/// Whether a grant is the right to ask the person before a step, which is made for each program.
fn asks(wanted: &Wanted) -> bool {
    wanted.interface == ProgramApprovalClient::INTERFACE_ID
}

/// The labels that a program's data may carry because of its capabilities, besides those of files.
fn of_grants(entry: &Entry) -> Label {
    let interfaces = entry.grants.iter().filter_map(|wanted| reflection::interface(wanted.interface));
    let classes = interfaces.flat_map(InterfaceInfo::labels).map(String::from).collect();
    join(&Label { classes }, &Label::default())
}

/// The values at the beginning of a program's arguments, as lines of its environment, and its other arguments.
fn settings(entry: &Entry, arguments: Vec<String>) -> Result<(Vec<String>, Vec<String>), CallError> {
    let of = |setting: &NamedSetting| {
        let kind = Kind::from_name(&setting.kind);
        let kind =
            kind.ok_or_else(|| CallError::failed(format!("the manifest has a setting of type {}", setting.kind)))?;
        Ok(Setting { name: setting.name.clone(), kind })
    };
    let settings = entry.settings.iter().map(of).collect::<Result<Vec<_>, CallError>>()?;
    split(&settings, arguments).map_err(|why| {
        let why = format!("`{}` is not started: {why}; its settings come first, each as NAME=VALUE", entry.name);
        CallError::invalid_argument(why)
    })
}

/// The line of the environment that makes a program start in the directory of files that it is granted, if there is
/// one.
fn working(entry: &Entry) -> Vec<String> {
    let is_home = |wanted: &Wanted| wanted.name == HOME && wanted.interface == DirectoryClient::INTERFACE_ID;
    entry.grants.iter().any(is_home).then(|| format!("PWD=/{HOME}")).into_iter().collect()
}

impl ProgramLauncher {
    /// A launcher of the manifest's programs.
    pub fn new(system: Rc<System>) -> Self {
        let (running, accounts, home, meter, expected, numbers) = Default::default();
        Self { system, running, accounts, home, meter, expected, numbers }
    }

    fn entry(&self, program: &str) -> Result<&Entry, CallError> {
        let programs = &self.system.programs;
        programs.iter().find(|entry| entry.name == program).ok_or_else(|| {
            let names: Vec<&str> = programs.iter().map(|entry| entry.name.as_str()).collect();
            CallError::invalid_argument(format!("there is no program `{program}`; there are {}", names.join(", ")))
        })
    }

    fn place(&self) -> Result<Place<'_>, CallError> {
        if self.running.get() >= MAX_RUNNING {
            return Err(CallError::overloaded(format!(
                "{MAX_RUNNING} programs run, and no more are permitted; try again when one has ended"
            )));
        }
        if let Some(why) = self.meter.is_spent() {
            return Err(CallError::overloaded(format!("{why}; /budget shows it")));
        }
        self.running.set(self.running.get().saturating_add(1));
        Ok(Place(&self.running))
    }

    /// Starts a program with the grants of its manifest entry and of its caller.
    async fn start(&self, entry: &Entry, given: Given, with: Start) -> Result<Started, CallError> {
        let system = &self.system;
        let (settings, arguments) = settings(entry, with.arguments)?;
        let image = Image::open(&system.medium, &entry.program).await?;
        let lines = [entry.environment.clone(), given.environment, with.environment, settings];
        let started = Launch {
            name: &entry.name,
            image: &image,
            arguments: [entry.arguments.clone(), arguments].concat(),
            environment: lines.concat(),
            grants: [given.grants, with.grants].concat(),
            limits: entry.limits.clone(),
            account: &system.account,
        }
        .start()
        .await?;
        self.accounts.open.borrow_mut().push(started.account.clone());
        capos_rt::log::info!("program `{}` was started", entry.name);
        Ok(started)
    }

    /// A started program, to be ended with the value.
    fn running<'a>(&'a self, entry: &Entry, started: Started, served: Served<'a>, reason: &'static str) -> Running<'a> {
        let (name, accounts) = (entry.name.clone(), self.accounts.clone());
        Running { started, name, accounts, _served: served, reason }
    }

    /// A program's entry without the grants that are made for each program, and these, which are served to it alone and added to
    /// `grants`. The program asks by `approval`.
    fn apart(
        &self,
        entry: &Entry,
        approval: Option<&ProgramApprovalClient>,
        grants: &mut Vec<Granted>,
    ) -> Result<(Entry, Served<'_>), CallError> {
        let (own, given): (Vec<Wanted>, Vec<Wanted>) = entry.grants.iter().cloned().partition(asks);
        let server = &self.system.server;
        let mut served = Served { server, caps: Vec::new() };
        for wanted in own {
            let steps = Steps::of(&entry.name, approval.cloned());
            let client = ProgramApprovalClient::serve(server, Rc::new(steps))?;
            served.caps.push(client.as_cap().clone());
            grants.push(Granted::new(&wanted.name, &client));
        }
        Ok((Entry { grants: given, ..entry.clone() }, served))
    }
}

impl LauncherServer for ProgramLauncher {
    async fn run(
        &self,
        _cx: &CallContext,
        program: String,
        arguments: Vec<String>,
        label: Option<Label>,
        approval: u64,
    ) -> Result<LauncherRunResults, CallError> {
        let approval = self.expected.borrow_mut().remove(&approval);
        let _place = self.place()?;
        let system = &self.system;
        let entry = self.entry(&program)?;
        let label = join(&label.unwrap_or_default(), &of_grants(entry));
        let mut grants = Vec::new();
        let (of_system, mut served) = self.apart(entry, approval.as_ref(), &mut grants)?;
        let given = system.give(&of_system, Some((&label, self.home.as_ref()))).await?;
        let labelled: Vec<DirectoryClient> = given.labelled.values().cloned().collect();
        let output = Rc::new(Collector::<Output>::default());
        let out = StandardClient::serve(&system.server, output.clone())?;
        served.caps.push(out.as_cap().clone());
        grants.push(Granted::new("out", &out));
        let with = Start { arguments, environment: working(entry), grants };
        let started = self.start(entry, given, with).await?;
        let reason = "its caller no longer waits for it";
        let mut running = self.running(entry, started, served, reason);
        let result = self.meter.wait(&running.started, &system.clock, MAX_TIME).await;
        running.reason = match result {
            Waited::Spent(why) => why,
            _ => "its time was over",
        };
        drop(running);
        let (code, report) = match result {
            Waited::Exited(Ok(exit)) => (exit.code, describe_exit(&exit)),
            Waited::Exited(Err(error)) => return Err(error),
            Waited::Spent(why) => (-1, format!("it was ended: {why}")),
            Waited::Late => {
                (-1, format!("it was ended after {} s, the most that is permitted", MAX_TIME / 1_000_000_000))
            }
        };
        let mut all = label;
        for directory in labelled {
            // If the file server has restarted meanwhile, it is unknown what the program has read.
            all = join(&all, &directory.label().await.unwrap_or_else(|_| all_above()));
        }
        Ok(LauncherRunResults { result: ProgramResult { code, report, output: output.0.text() }, label: all })
    }

    async fn programs(&self, _cx: &CallContext) -> Result<Vec<String>, CallError> {
        Ok(self.system.programs.iter().map(|entry| entry.name.clone()).collect())
    }

    async fn describe(&self, _cx: &CallContext) -> Result<Vec<ProgramInfo>, CallError> {
        let need = |wanted: &Wanted| ProgramNeed {
            name: wanted.name.clone(),
            interface: wanted.interface,
            from: wanted.from.clone(),
            read_only: wanted.read_only,
            own: own(wanted),
        };
        let info = |entry: &Entry| ProgramInfo {
            name: entry.name.clone(),
            description: entry.description.clone(),
            needs: entry.grants.iter().map(need).collect(),
            limits: entry.limits.clone(),
            settings: entry.settings.iter().map(|setting| format!("{}={}", setting.name, setting.kind)).collect(),
        };
        Ok(self.system.programs.iter().map(info).collect())
    }

    async fn run_with(
        &self,
        _cx: &CallContext,
        program: String,
        arguments: Vec<String>,
        environment: Vec<String>,
        wanted: Vec<String>,
        grants: Vec<Grant>,
        approval: u64,
    ) -> Result<ExitInfo, CallError> {
        let approval = self.expected.borrow_mut().remove(&approval);
        let _place = self.place()?;
        let entry = self.entry(&program)?;
        let mut chosen: Vec<Wanted> = Vec::new();
        for name in wanted {
            let found = entry.grants.iter().find(|grant| grant.name == name && own(grant));
            let found = found.ok_or_else(|| {
                let why = format!("the launcher does not give `{name}` to `{program}`; grant a capability of your own");
                CallError::invalid_argument(why)
            })?;
            chosen.push(found.clone());
        }
        let mut names: Vec<&str> = chosen.iter().map(|grant| grant.name.as_str()).collect();
        for grant in &grants {
            if grant.name.is_empty() || RESERVED.contains(&grant.name.as_str()) || names.contains(&grant.name.as_str())
            {
                let why = format!(
                    "`{}` cannot name a capability for `{program}`: it is empty, reserved or taken",
                    grant.name
                );
                return Err(CallError::invalid_argument(why));
            }
            names.push(&grant.name);
        }
        let mut grants: Vec<Granted> = grants
            .into_iter()
            .map(|grant| Granted {
                name: grant.name,
                cap: grant.capability.into_cap(),
                interface: grant.interface,
                rights: Rights(grant.rights),
            })
            .collect();
        let (of_system, served) =
            self.apart(&Entry { grants: chosen, ..entry.clone() }, approval.as_ref(), &mut grants)?;
        // The launcher's own grants contain no directories.
        let given = self.system.give(&of_system, None).await?;
        let started = self.start(entry, given, Start { arguments, environment, grants }).await?;
        let mut running = self.running(entry, started, served, "its launcher no longer waits for it");
        let exit = match self.meter.wait(&running.started, &self.system.clock, u64::MAX).await {
            Waited::Exited(exit) => exit,
            Waited::Spent(why) => {
                running.reason = why;
                // Its end tells why, to whoever reads its report.
                drop(running.started.process.kill(why).await);
                running.started.process.wait().await
            }
            Waited::Late => running.started.process.wait().await,
        };
        // A task that learns of its end finds no trace of it.
        self.accounts.settle(&running.started.account, &running.name).await;
        exit
    }

    async fn for_session(
        &self,
        _cx: &CallContext,
        from: String,
        home: Option<DirectoryClient>,
    ) -> Result<LauncherForSessionResults, CallError> {
        let (system, running, accounts) = (self.system.clone(), self.running.clone(), self.accounts.clone());
        // Those of sessions that have ended make room.
        system.server.sweep();
        let (home, meter) = (home.map(|home| (from, home)), Rc::<Meter>::default());
        let object = Rc::new(MeterObject(meter.clone()));
        let launcher = LauncherClient::serve(
            &system.server,
            Rc::new(Self { running, accounts, home, meter, ..Self::new(system.clone()) }),
        )?;
        Ok(LauncherForSessionResults { launcher, meter: ProgramMeterClient::serve(&system.server, object)? })
    }

    async fn expect(&self, _cx: &CallContext, approval: ProgramApprovalClient) -> Result<u64, CallError> {
        let number = self.numbers.get().saturating_add(1);
        self.numbers.set(number);
        let mut expected = self.expected.borrow_mut();
        if expected.len() >= MAX_RUNNING as usize {
            // Of a call that never came.
            expected.pop_first();
        }
        expected.insert(number, approval);
        Ok(number)
    }

    async fn usage(&self, _cx: &CallContext) -> Result<ProgramsUsage, CallError> {
        let open = self.accounts.open.borrow().clone();
        let mut sum = Usage::default();
        for account in &open {
            let held = Accounts::held(account).await;
            sum.frames = sum.frames.saturating_add(held.frames);
            sum.capabilities = sum.capabilities.saturating_add(held.capabilities);
            sum.threads = sum.threads.saturating_add(held.threads);
            sum.processes = sum.processes.saturating_add(held.processes);
            sum.objects = sum.objects.saturating_add(held.objects);
            sum.cpu_nanoseconds = sum.cpu_nanoseconds.saturating_add(held.cpu_nanoseconds);
        }
        Ok(ProgramsUsage { running: self.running.get(), usage: sum })
    }
}
