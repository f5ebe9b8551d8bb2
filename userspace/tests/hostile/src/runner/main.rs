//! The first process of the hostile test image: starts one attack after another, each in a process
//! of its own with an account of its own, and judges the outcome.
//!
//! An attack has passed if three conditions hold. Its process ended as expected. A concurrent process answered all the
//! time. The machine's free memory, the kernel's heap and the runner's account are unchanged to the byte. The last line
//! is `N passed, N failed`; then the machine is ended through the debug-exit device, with value 0x10 if all passed and
//! 0x11 otherwise.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

mod few_frames;
mod neighbour;
mod plan;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use capos_abi::Rights;
use capos_process::{Granted, Image, Launch, Started};
use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Clock, Context, Env, Error, log};
use capos_schema::cap::{AsCap, CallError, Client};
use capos_schema::hello::GreeterClient;
use capos_schema::kernel::{
    DebugLogClient, DmaDomainClient, EndpointClient, EntropyClient, ExitInfo, ExitInfoCause, InterruptControllerClient,
    IoPortsClient, Limits, MachineClient, MachineStatistics, MemoryObjectClient, MmioClient, PagerClient,
    ResourceAccountClient, TimerClient, Usage,
};

use neighbour::Neighbour;
use plan::{Attacker, Expect, FEW_FRAMES, PLANS, Plan, Size};

/// The debug-exit device.
const EXIT_PORT: u16 = 0xf4;
const PASSED: u32 = 0x10;
const FAILED: u32 = 0x11;
/// How long an attack may take, in nanoseconds of the machine's time.
const LIMIT: u64 = 60_000_000_000;
/// How long an endless attack may run.
const WHILE: u64 = 60_000_000;
/// Readers of the log that the kernel keeps room for once there were as many.
const LOG_READERS: usize = 8;
/// How long memory may stay that devices can reach, in nanoseconds.
const LINGER: u64 = 5_000_000_000;
/// Pages of the weights.
const WEIGHTS: u64 = 64;
/// Bytes by which the runner's own heap is grown at the start, so that it does not grow later.
const HEAP: usize = 2 << 20;

struct Runner {
    account: ResourceAccountClient,
    machine: MachineClient,
    clock: Clock,
    log: DebugLogClient,
    timer: TimerClient,
    ports: IoPortsClient,
    dma: DmaDomainClient,
    entropy: EntropyClient,
    mmio: MmioClient,
    interrupts: InterruptControllerClient,
    bare: Image,
    on_std: Image,
    file_server: Image,
    canary: GreeterClient,
}

/// The figures that an attack must leave unchanged.
#[derive(PartialEq, Eq, Clone, Copy)]
struct Measure {
    /// Free frames and those of the kernel's heap: how many of the heap's frames the same bytes take depends on
    /// the allocations between them.
    frames: u64,
    heap_bytes: u64,
    cached_frames: u64,
    processes: u32,
    threads: u32,
    /// The usage of the runner's account: frames, capabilities, threads, processes, objects.
    account: [u64; 5],
}

impl Measure {
    fn of(statistics: &MachineStatistics, account: &Usage) -> Self {
        Self {
            frames: statistics.free_frames.saturating_add(statistics.heap_frames),
            heap_bytes: statistics.heap_bytes,
            cached_frames: statistics.cached_frames,
            processes: statistics.processes,
            threads: statistics.threads,
            account: [
                account.frames,
                account.capabilities.into(),
                account.threads.into(),
                account.processes.into(),
                account.objects.into(),
            ],
        }
    }

    fn compare(self, after: Self) -> Result<(), String> {
        if self == after {
            return Ok(());
        }
        Err(format!(
            "what was taken did not come back: frames free or in the kernel heap {} -> {}, kernel heap {} -> {} bytes, cached frames {} -> {}, processes {} -> {}, threads {} -> {}, the runner's account {:?} -> {:?}",
            self.frames,
            after.frames,
            self.heap_bytes,
            after.heap_bytes,
            self.cached_frames,
            after.cached_frames,
            self.processes,
            after.processes,
            self.threads,
            after.threads,
            self.account,
            after.account
        ))
    }
}

/// The boot package.
fn boot_package(env: &Env) -> Result<Vec<u8>, Error> {
    let boot: MemoryObjectClient = env.cap("boot")?;
    let mapping = memory::map_all(&boot, Access::Read)?;
    Ok(mapping.read_vec(0, usize::try_from(mapping.len()).unwrap_or(0))?)
}

/// A program of the boot package.
fn image(package: &[u8], name: &str) -> Result<Image, Error> {
    let found = capos_ustar::find(package, name).context("the boot package")?;
    let found = found.with_context(|| format!("the boot package has no `{name}`"))?;
    Image::from_bytes(Rc::from(found))
}

fn judge(exit: &ExitInfo, expect: Expect) -> Result<(), String> {
    if exit.report.chars().any(char::is_control) {
        return Err(format!("its report holds control characters: {:?}", exit.report));
    }
    let found = match exit.cause {
        ExitInfoCause::Exited => format!("it ended with code {}", exit.code),
        ExitInfoCause::Killed => format!("it was ended: {}", exit.report),
        ExitInfoCause::Fault => format!("it died: {}", exit.report),
        ExitInfoCause::CpuTime => format!("its CPU time ran out: {}", exit.report),
    };
    let good = match (expect, exit.cause) {
        (Expect::Returns | Expect::ReturnsOrDies, ExitInfoCause::Exited) => exit.code == 0,
        (Expect::Anyhow, ExitInfoCause::Exited) => true,
        (Expect::ReturnsOrDies | Expect::Anyhow, ExitInfoCause::Fault) => exit.report.len() > 10,
        (Expect::Dies(words), ExitInfoCause::Fault) => words.iter().all(|words| exit.report.contains(words)),
        (Expect::Exits(code), ExitInfoCause::Exited) => exit.code == code,
        (Expect::Runs, ExitInfoCause::Killed) => true,
        (Expect::RunsOut, ExitInfoCause::CpuTime) => exit.report.contains("CPU time"),
        _ => false,
    };
    let wanted = match expect {
        Expect::Returns => "it should have ended with code 0".to_string(),
        Expect::Dies(words) => format!("it should have died with the words {words:?}"),
        Expect::ReturnsOrDies => "it should have ended with code 0 or died with a report".to_string(),
        Expect::Anyhow => "it should have ended by itself or died with a report".to_string(),
        Expect::Exits(code) => format!("it should have ended with code {code}"),
        Expect::Runs => "it should have run on".to_string(),
        Expect::RunsOut => "it should have used up its CPU time".to_string(),
    };
    if good { Ok(()) } else { Err(format!("{found}; {wanted}")) }
}

fn words(error: CallError) -> String {
    format!("{error}")
}

impl Runner {
    async fn launch(
        &self,
        image: &Image,
        name: &str,
        arguments: &[&str],
        mut grants: Vec<Granted>,
        limits: Limits,
    ) -> Result<Started, String> {
        grants.push(Granted::new("log", &self.log));
        grants.push(Granted::new("timer", &self.timer));
        let launch = Launch {
            name,
            image,
            arguments: arguments.iter().map(ToString::to_string).collect(),
            environment: Vec::new(),
            grants,
            limits,
            account: &self.account,
        };
        launch.start().await.map_err(|error| format!("{error}"))
    }

    async fn measure(&self) -> Result<Measure, String> {
        // A call first: dropped capabilities are released before its answer.
        self.sing_after_releases().await?;
        self.fill_log_readers().await;
        self.sing_after_releases().await?;
        let account = self.account.usage().await.map_err(words)?;
        Ok(Measure::of(&self.machine.statistics().await.map_err(words)?, &account.usage))
    }

    async fn sing_after_releases(&self) -> Result<(), String> {
        capos_rt::yield_now().await;
        self.sing(1).await
    }

    /// Brings the kernel's list of the log's readers to one size: it keeps the room of a few, and gives back that of
    /// many.
    async fn fill_log_readers(&self) {
        let mut readers = Vec::new();
        for _ in 0..LOG_READERS {
            let mut reader = Box::pin(self.log.read(u64::MAX));
            drop(capos_rt::timeout(1, &mut reader).await);
            readers.push(reader);
        }
    }

    /// The canary must answer during every attack.
    async fn sing(&self, times: u32) -> Result<(), String> {
        for _ in 0..times {
            let song = capos_rt::timeout(LIMIT, self.canary.greet("the runner")).await;
            match song {
                Ok(Ok(Ok(words))) if words == "the runner hears the canary sing" => {}
                Ok(Ok(Ok(words))) => return Err(format!("the canary sang {words:?}")),
                Ok(Ok(Err(error))) => return Err(format!("the canary is silent: {error}")),
                Ok(Err(_)) => return Err("the canary did not answer".into()),
                Err(error) => return Err(format!("{error}")),
            }
        }
        Ok(())
    }

    /// Waits for a process to end as expected; ends it if it is meant to run on.
    async fn end(&self, started: &Started, expect: Expect) -> Result<(), String> {
        if matches!(expect, Expect::Runs) {
            let until = self.clock.now().saturating_add(WHILE);
            while self.clock.now() < until {
                self.sing(1).await?;
            }
            let info = started.process.info().await.map_err(words)?;
            if info.alive {
                started.process.kill("it has run long enough").await.map_err(words)?;
            }
        }
        match capos_rt::timeout(LIMIT, started.process.wait()).await {
            Ok(Ok(Ok(exit))) => judge(&exit, expect),
            Ok(Ok(Err(error))) => Err(format!("waiting for its end: {error}")),
            Ok(Err(_)) => {
                started.process.kill("it took too long").await.map_err(words)?;
                drop(started.process.wait().await);
                Err("it did not end within its time".into())
            }
            Err(error) => Err(format!("{error}")),
        }
    }

    /// A process that was ended for its CPU time has used all of it, and its account says so. Time that it gave to
    /// another process and that was not used would be missing from its limit.
    async fn spent(&self, started: &Started) -> Result<(), String> {
        let found = started.account.usage().await.map_err(words)?;
        let (used, limit) = (found.usage.cpu_nanoseconds, found.limits.cpu_nanoseconds);
        if limit != plan::LITTLE_TIME || used < limit || found.cpu_left != 0 {
            return Err(format!("it was ended with {used} of {limit} ns used, {} left", found.cpu_left));
        }
        Ok(())
    }

    /// Runs one attack, and its pager in parallel.
    async fn attack(&self, plan: &Plan) -> Result<(), String> {
        let mut grants = Vec::new();
        let mut pager = None;
        if let Some((way, expect)) = plan.pager {
            let endpoint: EndpointClient = self.account.create_endpoint().await.map_err(words)?;
            let client = endpoint.mint(1, PagerClient::INTERFACE_ID).await.map_err(words)?;
            let client: PagerClient = client.cast();
            let weights = self.account.create_paged_memory(WEIGHTS * PAGE, &client).await.map_err(words)?;
            // Without the capability to look into the page cache, and without those that a session would not have.
            let read = Rights::READ.union(Rights::GRANT).union(Rights::CALL);
            let weights = weights.attenuated(read);
            let own = vec![Granted::new("serve", &endpoint), Granted::new("weights", &weights)];
            let started = self.launch(&self.bare, "pager", &["pager", way], own, Size::Ordinary.limits(0)).await?;
            pager = Some((started, expect));
            grants.push(Granted::new("weights", &weights));
        }
        if plan.attack == "random-operations" {
            grants.push(Granted::new("interrupts", &self.interrupts));
        }
        if plan.attack == "devices" || plan.lingers() {
            // Four ports that do nothing, and a driver's capabilities.
            let ports = self.ports.narrow(0x80, 4).await.map_err(words)?;
            grants.push(Granted::new("ports", &ports));
            grants.push(Granted::new("dma", &self.dma));
            grants.push(Granted::new("entropy", &self.entropy));
            grants.push(Granted::new("mmio", &self.mmio));
        }
        let mut neighbour = None;
        if plan.attacker == Attacker::Std {
            neighbour = Some(Neighbour::settle(self).await?);
            grants.extend(neighbour.iter().flat_map(Neighbour::grants));
        }
        let left = self.account.usage().await.map_err(words)?;
        let frames = left.limits.frames.saturating_sub(left.usage.frames);
        let mut arguments = vec![plan.attack, plan.argument];
        let many = neighbour::many_arguments(plan);
        arguments.extend(many.iter().map(String::as_str));
        let image = if plan.attacker == Attacker::Std { &self.on_std } else { &self.bare };
        let started = self.launch(image, plan.attack, &arguments, grants, plan.size.limits(frames)).await?;
        let sung = self.sing(5).await;
        let mut result = self.end(&started, plan.expect).await;
        if plan.expect == Expect::RunsOut {
            result = result.and(self.spent(&started).await);
        }
        drop(started);
        if let Some(neighbour) = neighbour {
            let unharmed = neighbour.leave(self).await;
            result = result.and(unharmed.map_err(|why| format!("its neighbour: {why}")));
        }
        if let Some((started, expect)) = pager {
            let ended = self.end(&started, expect).await;
            result = result.and(ended.map_err(|why| format!("its pager: {why}")));
        }
        sung.and(result)
    }

    async fn run(&self, plan: &Plan) -> Result<(), String> {
        let before = self.measure().await?;
        let result = if plan.attack == FEW_FRAMES { few_frames::run(self).await } else { self.attack(plan).await };
        let mut after = self.measure().await?;
        if plan.lingers() {
            // Memory that a device may still write to is quarantined for a second after its driver has died.
            let until = self.clock.now().saturating_add(LINGER);
            while before != after && self.clock.now() < until {
                after = self.measure().await?;
            }
        }
        result.and(before.compare(after))
    }
}

fn name(plan: &Plan) -> String {
    let mut name = plan.attack.to_string();
    if !plan.argument.is_empty() {
        name = format!("{name}:{}", plan.argument);
    }
    if let Some((way, _)) = plan.pager {
        name = format!("{name} with pager:{way}");
    }
    name
}

async fn prepare(env: &Env) -> Result<Runner, Error> {
    drop(Vec::<u8>::with_capacity(HEAP));
    let account: ResourceAccountClient = env.cap("account")?;
    let package = boot_package(env)?;
    let log: DebugLogClient = env.cap("log")?;
    let timer: TimerClient = env.cap("timer")?;
    let endpoint = account.create_endpoint().await?;
    // Ordinal 0 of its interfaces, client 1.
    let canary = endpoint.mint(1 << 16, GreeterClient::INTERFACE_ID).await?;
    let runner = Runner {
        machine: env.cap("machine")?,
        ports: env.cap("ports")?,
        dma: env.cap("dma")?,
        entropy: env.cap("entropy")?,
        mmio: env.cap("mmio")?,
        interrupts: env.cap("interrupts")?,
        clock: Clock::new(timer.clone()),
        account,
        log,
        timer,
        bare: image(&package, "hostile")?,
        on_std: image(&package, "hostile-std")?,
        file_server: image(&package, "ramfs")?,
        canary: canary.cast(),
    };
    let grants = vec![Granted::new("serve", &endpoint)];
    let started = runner
        .launch(&runner.bare, "canary", &["canary"], grants, Size::Ordinary.limits(0))
        .await
        .map_err(Error::new)?;
    // It sings to the end.
    core::mem::forget(started);
    runner.sing(1).await.map_err(Error::new)?;
    // Objects that are made once and kept are made now: the kernel's list of interrupts too.
    drop(runner.interrupts.message().await?);
    for _ in 0..2 {
        for plan in PLANS.iter().filter(|plan| {
            plan.attack.ends_with("nothing")
                || (plan.attack == "read-weights" && plan.pager.is_some_and(|pager| pager.0 == "honest"))
        }) {
            drop(runner.run(plan).await);
        }
    }
    Ok(runner)
}

/// The attacks to run: all, or by words of the kernel's command line. `only=PART` runs those whose
/// name contains it; `fuzz=N` runs the random ones with N seeds in place of the list, from `seed=`, in hexadecimal, or 1 on.
fn chosen(command_line: &str) -> Vec<Plan> {
    let word = |key: &str| command_line.split_whitespace().find_map(|word| word.strip_prefix(key));
    let only = word("only=").unwrap_or("");
    let rounds: u64 = word("fuzz=").and_then(|rounds| rounds.parse().ok()).unwrap_or(0);
    let first = word("seed=").and_then(|seed| u64::from_str_radix(seed, 16).ok()).unwrap_or(1);
    let mut plans = Vec::new();
    for seed in first..first.saturating_add(rounds) {
        // Needed to the end, and there are few.
        let argument: &'static str = Box::leak(format!("{seed:x}").into_boxed_str());
        plans.extend(plan::RANDOM.iter().map(|random| Plan { argument, ..*random }));
    }
    if rounds == 0 {
        plans.extend(PLANS);
    }
    plans.retain(|plan| name(plan).contains(only));
    plans
}

async fn run_all(env: &Env) -> Result<u32, Error> {
    let runner = prepare(env).await?;
    let (mut passed, mut failed) = (0_u32, 0_u32);
    for plan in &chosen(&runner.machine.info().await?.command_line) {
        match runner.run(plan).await {
            Ok(()) => {
                passed += 1;
                log::info!("ok {}", name(plan));
            }
            Err(why) => {
                failed += 1;
                log::info!("FAILED {}: {why}", name(plan));
            }
        }
    }
    log::info!("{passed} passed, {failed} failed");
    Ok(failed)
}

async fn run(env: Env) -> Result<(), Error> {
    let value = match run_all(&env).await {
        Ok(0) => PASSED,
        Ok(_) => FAILED,
        Err(error) => {
            log::error!("FAILED the runner: {error}");
            FAILED
        }
    };
    let ports: IoPortsClient = env.cap("ports")?;
    ports.as_cap();
    ports.write(EXIT_PORT, 4, value).await?;
    Ok(())
}

capos_rt::program!(run);
