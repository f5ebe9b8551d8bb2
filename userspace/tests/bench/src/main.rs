//! Measures the kernel: the first process of an image of its own, on a machine whose time-stamp
//! counter counts instructions. Each figure is a line `bench NAME VALUE UNIT: HOW` in the log.
//!
//! With an argument it is the other side of one of its own measurements.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

mod entries;
mod partner;
mod touch;

use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use capos_abi::RawEntry;
use capos_abi::syscall::NO_DEADLINE;
use capos_measure::{Samples, count, overhead};
use capos_process::{Granted, Image, Launch};
use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Context, Env, Error, log, raw};
use capos_schema::cap::{AsCap, Client};
use capos_schema::hello::GreeterClient;
use capos_schema::kernel::{
    EndpointClient, IoPortsClient, Limits, MemoryObjectClient, NotificationClient, ObjectClient, PagerClient,
    ResourceAccountClient,
};

use touch::touch;

const EXIT_PORT: u16 = 0xf4;
/// How often each thing is measured.
const ROUNDS: usize = 1001;
/// Pages of the memory that is paged in.
const PAGES: u64 = 2048;
/// Resident pages that the kernel maps at one fault, at most.
const AROUND: u64 = 16;

struct Bench {
    env: Env,
    account: ResourceAccountClient,
    image: Image,
}

/// A figure is measured from here on: `capos profile` waits for it.
fn begin(name: &str) {
    log::info!("measures {name}.");
}

fn tell(name: &str, samples: Samples, per: u64, how: &str) {
    let (value, words) = samples.median(per);
    log::info!("bench {name} {value} instructions: {how}; {words}");
}

impl Bench {
    /// Starts the other side and gives a capability to call it.
    async fn partner(&self, part: &str, badge: u64, interface: u64) -> Result<ObjectClient, Error> {
        let endpoint: EndpointClient = self.account.create_endpoint().await?;
        let client = endpoint.mint(badge, interface).await?;
        let launch = Launch {
            name: part,
            image: &self.image,
            arguments: vec![part.to_string()],
            environment: Vec::new(),
            grants: vec![Granted::new("serve", &endpoint)],
            limits: Limits { frames: 2048, capabilities: 256, threads: 1, processes: 0, objects: 64, priority: 0 },
            account: &self.account,
        };
        // It runs until the machine ends.
        core::mem::forget(launch.start().await?);
        Ok(client)
    }

    /// The cost of ENTER with one entry that is answered at once.
    fn entry(&self, name: &str, entry: &RawEntry, how: &str) -> Result<(), Error> {
        begin(name);
        let overhead = overhead();
        let mut samples = Samples::with_room(ROUNDS);
        for _ in 0..ROUNDS {
            entries::push(entry);
            let from = count();
            raw::enter(1, 1, NO_DEADLINE);
            samples.add(from, count(), overhead);
            let status = entries::drain();
            if status != 0 {
                return Err(Error::new(alloc::format!("measuring {name}: status {status}")));
            }
        }
        tell(name, samples, 1, how);
        Ok(())
    }

    async fn calls(&self) -> Result<(), Error> {
        let memory = entries::page();
        self.entry("null_entry", &entries::nothing(), "one NOP, from ENTER to its return")?;
        let notification: NotificationClient = self.account.create_notification().await?;
        let poll = entries::call(notification.as_cap().id(), NotificationClient::INTERFACE_ID, 0, 8, memory);
        self.entry("null_call", &poll, "Notification.poll of a kernel object, from ENTER to its return")?;
        let echo = self.partner("echo", 0, entries::INTERFACE).await?;
        for at in 0..8 {
            entries::write(memory + at * 8, at);
        }
        let call = entries::call(echo.as_cap().id(), entries::INTERFACE, 0, entries::MESSAGE, memory);
        let how = "64 bytes to another process and 64 back, from ENTER to its return, both sides by hand";
        self.entry("call_reply_64", &call, how)
    }

    /// The same through generated code and the executor, on both sides.
    async fn typed_calls(&self) -> Result<(), Error> {
        // Ordinal 0, client 1. Root, list pointer and 48 bytes of text are 64 bytes.
        let greeter: GreeterClient = self.partner("greeter", 1 << 16, GreeterClient::INTERFACE_ID).await?.cast();
        let name = "x".repeat(47);
        begin("call_reply_64_typed");
        let overhead = overhead();
        let mut samples = Samples::with_room(ROUNDS);
        for _ in 0..ROUNDS {
            let from = count();
            let answer = greeter.greet(&name).await?;
            samples.add(from, count(), overhead);
            drop(answer);
        }
        let how = "the same with generated client and server and their executors";
        tell("call_reply_64_typed", samples, 1, how);
        Ok(())
    }

    async fn pages(&self, part: &str) -> Result<MemoryObjectClient, Error> {
        let pager: PagerClient = self.partner(part, 1, PagerClient::INTERFACE_ID).await?.cast();
        Ok(self.account.create_paged_memory(PAGES * PAGE, &pager).await?)
    }

    /// Touches every page of memory that is not in yet; the cost of a page.
    fn cold(&self, name: &str, memory: &MemoryObjectClient, how: &str) -> Result<(), Error> {
        let mapping = memory::map(memory, 0, PAGES * PAGE, Access::Read)?;
        begin(name);
        let overhead = overhead();
        // One sample is a window's worth of pages: its first touch brings in the rest.
        let (pages, windows) = (32, PAGES / 32);
        let mut samples = Samples::with_room(usize::try_from(windows).unwrap_or(0));
        for window in 0..windows {
            let start = mapping.address() + window * pages * PAGE;
            let from = count();
            for page in 0..pages {
                touch(start + page * PAGE);
            }
            samples.add(from, count(), overhead);
        }
        tell(name, samples, pages, how);
        Ok(())
    }

    /// Touches pages that are in, but not mapped yet.
    fn cached(&self, memory: &MemoryObjectClient) -> Result<(), Error> {
        let overhead = overhead();
        for (name, step, how) in [
            ("fault_cached", AROUND, "first touch of a page in the page cache, which maps it and the 15 after it"),
            ("fault_cached_per_page", 1, "the same, per page mapped"),
        ] {
            let mapping = memory::map(memory, 0, PAGES * PAGE, Access::Read)?;
            begin(name);
            let mut samples = Samples::with_room(usize::try_from(PAGES / AROUND).unwrap_or(0));
            for fault in 0..PAGES / AROUND {
                let address = mapping.address() + fault * AROUND * PAGE;
                let from = count();
                touch(address);
                samples.add(from, count(), overhead);
            }
            tell(name, samples, AROUND / step, how);
        }
        Ok(())
    }

    async fn paging(&self) -> Result<(), Error> {
        let empty = self.pages("empty-pager").await?;
        self.cold(
            "page_in_4k_kernel",
            &empty,
            "cold page-in per 4 KiB, 32 at a time, from a pager that writes nothing",
        )?;
        let full = self.pages("pager").await?;
        self.cold("page_in_4k_memory", &full, "the same from a pager that maps its window and writes every byte")?;
        self.cached(&full)
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
    let bench = Bench { env: env.clone(), account: env.cap("account")?, image: image(env)? };
    bench.calls().await?;
    bench.typed_calls().await?;
    bench.paging().await?;
    drop(bench.env);
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
