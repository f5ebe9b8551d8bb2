//! Measures the kernel: the first process of an image of its own, on a machine whose time-stamp
//! counter counts instructions. Each figure is a line `bench NAME VALUE UNIT: HOW` in the log; a name with
//! `@AXIS=POINT` is a point of a curve.
//!
//! On a machine of several processors it measures their throughput instead. With `tests=timer` on the kernel's command
//! line it tests when the timer interrupts them, and with `tests=calls` concurrent calls.
//!
//! With an argument it is the other side of one of its own measurements.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

mod at_once;
mod calls;
mod copies;
mod curves;
mod entries;
mod map;
mod paging;
mod partner;
mod recorded;
mod series;
mod spawn;
mod switch;
mod throughput;
mod timer;
mod touch;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use capos_measure::overhead;
use capos_process::{Granted, Image, Launch};
use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Context, Env, Error, log};
use capos_schema::cap::AsCap;
use capos_schema::kernel::{
    EndpointClient, IoPortsClient, Limits, MachineClient, MemoryObjectClient, NotificationClient, ObjectClient,
    ProcessClient, ResourceAccountClient,
};

use series::Series;
use spawn::Spawner;
use switch::Side;

const EXIT_PORT: u16 = 0xf4;
/// How often each thing is measured, and how often slower ones.
const ROUNDS: usize = 1001;
const FEW_ROUNDS: usize = 101;
/// Entries of one ENTER.
const BATCHES: [u32; 3] = [1, 8, 32];

/// The common state of all measurements.
struct Bench {
    env: Env,
    account: ResourceAccountClient,
    image: Image,
    /// The data that calls send.
    given: NotificationClient,
}

/// The other side of a measurement.
struct Partner {
    client: ObjectClient,
    process: ProcessClient,
}

impl Partner {
    /// Ends it, so that the next measurement finds as many processes as this one.
    async fn end(self) -> Result<(), Error> {
        self.process.kill("it was measured").await?;
        drop(self.process.wait().await?);
        // Its resources return before the next measurement.
        drop(self.client);
        capos_rt::yield_now().await;
        entries::drain();
        Ok(())
    }
}

impl Bench {
    /// Starts the other side and gives a capability to call it.
    async fn partner(&self, part: &str, badge: u64, interface: u64) -> Result<Partner, Error> {
        let endpoint: EndpointClient = self.account.create_endpoint().await?;
        let client = endpoint.mint(badge, interface).await?;
        let process = self.launch(part, vec![Granted::new("serve", &endpoint)]).await?;
        Ok(Partner { client, process })
    }

    async fn launch(&self, part: &str, grants: Vec<Granted>) -> Result<ProcessClient, Error> {
        let launch = Launch {
            name: part,
            image: &self.image,
            arguments: vec![part.to_string()],
            environment: Vec::new(),
            grants,
            limits: Limits {
                frames: 2048,
                capabilities: 2048,
                threads: 1,
                processes: 0,
                objects: 64,
                priority: 0,
                cpu_nanoseconds: 0,
            },
            account: &self.account,
        };
        Ok(launch.start().await?.process)
    }

    /// From one process to another that is ready.
    async fn switches(&self, series: &Series) -> Result<(), Error> {
        let notification = async || self.account.create_notification().await;
        let (own, other): (NotificationClient, NotificationClient) = (notification().await?, notification().await?);
        let page: MemoryObjectClient = self.account.create_memory(PAGE).await?;
        let grants = vec![Granted::new("own", &other), Granted::new("other", &own), Granted::new("page", &page)];
        let process = self.launch("switch", grants).await?;
        let side = Side::new(own, other, &page)?;
        let (name, overhead) = ("thread_switch", overhead());
        let mut samples = series.begin(name);
        (0..series.rounds).for_each(|_| side.turn(&mut samples, overhead));
        let how = "from an ENTER that waits, without an entry, to the next instruction of another process that is ready: \
                   system call, switch of thread, address space and vector registers, return of its own ENTER";
        series.tell(name, samples, 1, how);
        process.kill("it was measured").await?;
        drop(process.wait().await?);
        Ok(())
    }

    /// A process of 64 KiB, up to its first instruction.
    async fn spawns(&self, series: &Series, spawner: &Spawner) -> Result<(), Error> {
        let name = "spawn_64k";
        let mut samples = series.begin(name);
        for _ in 0..series.rounds {
            samples.add(0, spawner.spawn().await?, 0);
        }
        let how = "a process with 64 KiB of program and data, copied from where its file lies, rings and one thread, from \
                   the first call to the first instruction of the process, by hand";
        series.tell(name, samples, 1, how);
        Ok(())
    }

    /// The time to this program's first instruction.
    async fn start(&self) -> Result<(), Error> {
        let machine: MachineClient = self.env.cap("machine")?;
        let told = machine.statistics().await?;
        let value = told.init_start_tsc.saturating_sub(told.kernel_entry_tsc);
        let how =
            "from the kernel's first instruction to that of the first process, which is here the measuring program";
        log::info!("bench kernel_to_first {value} instructions: {how}");
        Ok(())
    }

    async fn figures(&self, spawner: &Spawner) -> Result<(), Error> {
        let series = Series::new(ROUNDS);
        self.null(&series).await?;
        self.ring_operation(&series)?;
        self.call_reply(&series).await?;
        self.call_reply_in_turns(&series).await?;
        self.call_reply_cap(&series).await?;
        self.switches(&series).await?;
        // The cost of generated clients is that of the compiler's code for them in a function of their own, as in a
        // program.
        Box::pin(self.null_call_typed(&series)).await?;
        Box::pin(self.typed_calls(&series)).await?;
        self.paging(&series).await?;
        copies::measure(self, &series).await?;
        let series = Series::new(FEW_ROUNDS);
        map::measure(self, &series).await?;
        self.spawns(&series, spawner).await
    }
}

/// This program's own file.
fn image(env: &Env) -> Result<Image, Error> {
    let boot: MemoryObjectClient = env.cap("boot")?;
    let mapping = memory::map_all(&boot, Access::Read)?;
    let bytes = mapping.read_vec(0, usize::try_from(mapping.len()).unwrap_or(0))?;
    let found = capos_ustar::find(&bytes, "init").context("boot.tar")?.context("boot.tar has no init")?;
    Image::from_bytes(Rc::from(found))
}

async fn measure_all(env: &Env) -> Result<(), Error> {
    let account: ResourceAccountClient = env.cap("account")?;
    let given = account.create_notification().await?;
    let spawner = Spawner::new(env, given.as_cap()).await?;
    let bench = Bench { env: env.clone(), account, image: image(env)?, given };
    let machine: MachineClient = env.cap("machine")?;
    let command_line = machine.info().await?.command_line;
    if command_line.contains("tests=timer") {
        return timer::test(&bench, env).await;
    }
    if command_line.contains("tests=calls") {
        return bench.test_calls(env).await;
    }
    if capos_rt::processors() > 1 {
        bench.throughput().await?;
    } else {
        bench.start().await?;
        bench.figures(&spawner).await?;
        bench.curves(&spawner).await?;
    }
    log::info!("all is measured");
    Ok(())
}

async fn run(env: Env) -> Result<(), Error> {
    if let Some(part) = env.arguments().first() {
        return partner::run(&env, part).await;
    }
    let value = match measure_all(&env).await {
        Ok(()) => 0x10,
        Err(error) => {
            log::error!("{error}");
            0x11
        }
    };
    let ports: IoPortsClient = env.cap("ports")?;
    ports.write(EXIT_PORT, 4, value).await?;
    Ok(())
}

capos_rt::program!(run);
