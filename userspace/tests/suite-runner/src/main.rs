//! Runs upstream test programs, each in a process of its own, one after another, and logs their output. The file
//! `suites.jsonl` of the boot medium names them. Each program is first asked for its tests, then runs them.
//!
//! Each line begins with a word that no test program can write: `suite` begins one, `said` is a line of it, `ended`
//! says how it ended, `done` that all have been run.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod output;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_process::Collector;
use capos_rt::{Clock, Context, Either, Env, Error, ServeOptions, Server, select, spawn};
use capos_schema::cap::{AsCap, Client, Rights};
use capos_schema::kernel::{
    DebugLogClient, EntropyClient, ExitInfo, ExitInfoCause, IoPortsClient, Limits, ProcessClient,
    ResourceAccountClient, TimerClient,
};
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{Grant, ProcessSpawnerClient, StandardClient};
use serde::Deserialize;

use output::Output;

/// The programs to run, on the boot medium: a JSON object in each line.
const PLAN: &str = "suites.jsonl";
/// Bytes of one read of it.
const PIECE: u32 = 32 << 10;
/// The debug-exit device, and the value that means that everything was run.
const EXIT_PORT: u16 = 0xf4;
const DONE: u32 = 0x10;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// How long a program may take to name its tests.
const LIST_SECONDS: u64 = 60;

/// A test program.
#[derive(Deserialize)]
struct Suite {
    name: String,
    program: String,
    arguments: Vec<String>,
    seconds: u64,
    memory_kib: u64,
    threads: u32,
}

struct Runner {
    server: Rc<Server>,
    spawner: ProcessSpawnerClient,
    clock: Clock,
    log: DebugLogClient,
    medium: DirectoryClient,
    /// The grants of every test program besides its output and its own file.
    timer: TimerClient,
    entropy: EntropyClient,
    tmp: DirectoryClient,
}

/// A grant of all that the capability can do but to be passed on.
fn grant<C: Client>(name: &str, client: &C) -> Grant {
    Grant {
        name: name.to_string(),
        capability: Client::from_cap(client.as_cap().clone()),
        interface: C::INTERFACE_ID,
        rights: Rights::CALL.0,
    }
}

async fn read_plan(medium: &DirectoryClient) -> Result<Vec<Suite>, Error> {
    let file = medium.open(PLAN).await.with_context(|| format!("opening /{PLAN}"))?;
    let mut text = Vec::new();
    loop {
        let piece = file.read(text.len() as u64, PIECE).await.with_context(|| format!("reading /{PLAN}"))?;
        if piece.is_empty() {
            break;
        }
        text.extend_from_slice(&piece);
    }
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let suites: Result<Vec<Suite>, serde_json::Error> = lines.map(serde_json::from_slice).collect();
    suites.map_err(|error| Error::new(format!("/{PLAN}: {error}")))
}

/// How a program ended. The host takes code 0 for an end as it should be.
fn words(exit: &ExitInfo) -> String {
    match exit.cause {
        ExitInfoCause::Exited => format!("exited with code {}", exit.code),
        ExitInfoCause::Killed | ExitInfoCause::Fault | ExitInfoCause::CpuTime => exit.report.clone(),
    }
}

impl Runner {
    /// Runs the program with these arguments to its end, or to the end of its time. Says how it ended.
    async fn execute(&self, suite: &Suite, arguments: &[String], seconds: u64) -> Result<String, Error> {
        let output = Rc::new(Collector(Output::new(self.log.clone())));
        let out = StandardClient::serve(&self.server, output.clone())?;
        let result = self.process(suite, arguments, seconds, &out).await;
        self.server.unexport(out.as_cap());
        output.0.finish().await?;
        result
    }

    async fn process(
        &self,
        suite: &Suite,
        arguments: &[String],
        seconds: u64,
        out: &StandardClient,
    ) -> Result<String, Error> {
        let program = self.medium.open(suite.program.trim_start_matches('/')).await?;
        let grants = [
            grant("out", out),
            grant("program", &program),
            grant("timer", &self.timer),
            grant("entropy", &self.entropy),
            grant("tmp", &self.tmp),
        ];
        let limits = Limits {
            frames: suite.memory_kib.div_ceil(4),
            capabilities: 1024,
            threads: suite.threads,
            processes: 0,
            objects: 1024,
            priority: 0,
            cpu_nanoseconds: 0,
        };
        let process: ProcessClient =
            self.spawner.spawn(&suite.name, &suite.program, arguments, &grants, &limits).await?;
        match select(process.wait(), self.clock.sleep(seconds.saturating_mul(SECOND))).await {
            Either::First(exit) => Ok(words(&exit?)),
            Either::Second(()) => {
                process.kill("its time was over").await?;
                Ok(format!("it was ended after {seconds} s"))
            }
        }
    }

    async fn line(&self, line: &str) -> Result<(), Error> {
        Ok(self.log.write(line).await?)
    }

    async fn run(&self, suite: &Suite) -> Result<(), Error> {
        let list = Vec::from(["--list".to_string()]);
        for (what, arguments, seconds) in [("list", &list, LIST_SECONDS), ("run", &suite.arguments, suite.seconds)] {
            self.line(&format!("suite {what} {}", suite.name)).await?;
            let end = match self.execute(suite, arguments, seconds).await {
                Ok(end) => end,
                Err(error) => format!("it could not be run: {error}"),
            };
            self.line(&format!("ended {}: {end}", suite.name)).await?;
        }
        Ok(())
    }
}

async fn start(env: Env) -> Result<(), Error> {
    let medium = env.cap("medium")?;
    let suites = read_plan(&medium).await?;
    let account: ResourceAccountClient = env.cap("account")?;
    let endpoint = account.create_endpoint().await.context("making an endpoint for what programs write")?;
    let server = Rc::new(Server::at(endpoint, env.cap("table")?));
    let runner = Runner {
        server: server.clone(),
        medium,
        spawner: env.cap("spawner")?,
        clock: env.clock()?,
        log: env.cap("log")?,
        timer: env.cap("timer")?,
        entropy: env.cap("entropy")?,
        tmp: env.cap("tmp")?,
    };
    let options = ServeOptions { buffers: 4, message_bytes: 64 << 10, concurrent: 16 };
    // It ends with the process.
    drop(spawn(async move { drop(server.run(options).await) }));
    for suite in &suites {
        runner.run(suite).await?;
    }
    runner.line(&format!("done {} programs", suites.len())).await?;
    let ports: IoPortsClient = env.cap("ports")?;
    ports.write(EXIT_PORT, 4, DONE).await?;
    Ok(())
}
capos_rt::program!(start);
