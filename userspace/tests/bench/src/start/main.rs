//! Measures the time to the first output of a program on `std`, and of one on the runtime alone: from opening its file
//! to the call that carries its first line. Lines `bench NAME VALUE UNIT: HOW` go to the log, and then how the two
//! compare.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

use capos_measure::{Samples, count};
use capos_process::{Granted, Image, Launch};
use capos_rt::{Context, Either, Env, Error, ServeOptions, Server, log, select};
use capos_schema::cap::{AsCap, CallContext, CallError};
use capos_schema::kernel::{Limits, NotificationClient, ResourceAccountClient};
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{LogLevel, LoggerClient, LoggerServer, SystemStatusClient};

/// The two programs, the smallest of each kind. Both greet.
const BARE: &str = "bin/hello-bare";
const STD: &str = "bin/hello-std";
/// How often each is started out of the page cache.
const ROUNDS: usize = 15;
const LIMITS: Limits =
    Limits { frames: 2048, capabilities: 256, threads: 1, processes: 0, objects: 64, priority: 0, cpu_nanoseconds: 0 };

/// Notes when the first line comes.
struct FirstLine {
    came: Cell<Option<u64>>,
    told: NotificationClient,
}

impl LoggerServer for FirstLine {
    async fn write(&self, _cx: &CallContext, _level: LogLevel, _text: String) -> Result<(), CallError> {
        if self.came.get().is_none() {
            self.came.set(Some(count()));
            capos_rt::notify(&self.told, 1).await.map_err(CallError::Transport)?;
        }
        Ok(())
    }
}

struct Bench {
    server: Rc<Server>,
    account: ResourceAccountClient,
    medium: DirectoryClient,
    status: SystemStatusClient,
}

impl Bench {
    /// Instructions from opening a program's file to its first line. While all wait for the disk, none are counted.
    async fn start(&self, path: &str) -> Result<u64, Error> {
        let told: NotificationClient = self.account.create_notification().await?;
        let line = Rc::new(FirstLine { came: Cell::new(None), told: told.clone() });
        let logger = LoggerClient::serve(&self.server, line.clone())?;
        let idle = self.status.statistics().await?.idle_nanoseconds;
        let from = count();
        let image = Image::open(&self.medium, path).await?;
        let launch = Launch {
            name: "measured",
            image: &image,
            arguments: Vec::new(),
            environment: Vec::new(),
            grants: Vec::from([Granted::new("logger", &logger)]),
            limits: LIMITS,
            account: &self.account,
        };
        let started = launch.start().await?;
        capos_rt::wait(&told).await?;
        let to = line.came.get().context("its first line was told and is not there")?;
        let idle = self.status.statistics().await?.idle_nanoseconds.saturating_sub(idle);
        // If it has ended by itself, that is as good.
        let _ = started.process.kill("it was measured").await;
        drop(started.process.wait().await?);
        self.server.unexport(logger.as_cap());
        Ok(to.saturating_sub(from).saturating_sub(idle))
    }

    /// Logs a program's first start, and the median of starts out of the page cache.
    async fn measure(&self, name: &str, path: &str, what: &str) -> Result<u64, Error> {
        let cold = self.start(path).await?;
        log::info!("bench {name}_cold {cold} instructions: {what}, its file read from the disk");
        let mut samples = Samples::with_room(ROUNDS);
        for _ in 0..ROUNDS {
            samples.add(0, self.start(path).await?, 0);
        }
        let (value, words) = samples.median(1);
        log::info!("bench {name} {value} instructions: {what}, its file in the page cache; {words}");
        Ok(value)
    }
}

async fn run(env: Env) -> Result<(), Error> {
    let account: ResourceAccountClient = env.cap("account")?;
    let server = Rc::new(Server::at(account.create_endpoint().await?, env.cap("table")?));
    let bench = Bench { server: server.clone(), account, medium: env.cap("medium")?, status: env.cap("status")? };
    match select(server.run(ServeOptions::default()), compare(&bench)).await {
        Either::First(ended) => ended,
        Either::Second(compared) => compared,
    }
}

async fn compare(bench: &Bench) -> Result<(), Error> {
    let what = "from opening the program's file to its first line";
    let bare = bench.measure("start_bare", BARE, what).await?;
    let std = bench.measure("start_std", STD, &alloc::format!("{what}, on std")).await?;
    let percent = std.saturating_mul(100) / bare.max(1);
    // Fewer than the bare one would say that the bare one is slow, and the comparison nothing.
    let verdict = match percent {
        0..100 => "FEWER, SO THE BARE ONE IS SLOW",
        100..200 => "not fewer, and less than twice as many",
        _ => "TWICE AS MANY OR MORE",
    };
    log::info!("compared: a program on std starts in {percent} % of the instructions of one without: {verdict}");
    Ok(())
}

capos_rt::program!(run);
