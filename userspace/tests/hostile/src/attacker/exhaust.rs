//! Asking for more than there is.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_abi::entry::Operation;
use capos_abi::{Rights, Status};
use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Context, Error, raw};
use capos_schema::cap::{AsCap, CallError};
use capos_schema::kernel::{
    AddressSpaceAccess, ExitInfoCause, Limits, MemoryObjectClient, ProcessClient, ResourceAccountClient, Usage,
};

use crate::kit::{self, Answers, Kit};

/// CPU time that the runner gives to attacks that are to use it up.
const LITTLE_TIME: u64 = 300_000_000;
/// No attack gets this many of anything.
const TOO_MANY: usize = 1_000_000;

/// Asks until it is rejected; returns what it got.
async fn until_refused<T, F: Future<Output = Result<T, CallError>>>(
    what: &str,
    mut ask: impl FnMut() -> F,
) -> Result<Vec<T>, Error> {
    let mut got = Vec::new();
    loop {
        match ask().await {
            Ok(one) => got.push(one),
            Err(error) => {
                let words = format!("{error}");
                let expected = ["limit", "memory", "room", "cover"].iter().any(|word| words.contains(word));
                kit::ensure(expected, || format!("{what} were refused with: {words}"))?;
                break;
            }
        }
        kit::ensure(got.len() < TOO_MANY, || format!("there is no limit for {what}"))?;
    }
    kit::ensure(!got.is_empty(), || format!("{what} were refused from the start"))?;
    Ok(got)
}

/// Has dropped capabilities released: before the answer of any call.
async fn settle(kit: &Kit) -> Result<(), Error> {
    capos_rt::yield_now().await;
    kit.account.usage().await?;
    Ok(())
}

/// Memory, until the account is empty; three times, with everything freed in between.
pub async fn frames(kit: &Kit) -> Result<(), Error> {
    let mut counts = Vec::new();
    for _ in 0..3 {
        let got = until_refused("frames", || kit.account.create_memory(16 * PAGE)).await?;
        counts.push(got.len());
        drop(got);
        kit.still_served()?;
        settle(kit).await?;
    }
    kit::ensure(counts.windows(2).all(|pair| matches!(pair, [a, b] if a == b)), || {
        format!("each time a different amount could be had: {counts:?}")
    })?;
    for bytes in [u64::MAX, u64::MAX - 4095, 1 << 63, 1 << 47, 1 << 46, 1 << 40, 0] {
        kit::ensure(kit.account.create_memory(bytes).await.is_err(), || {
            format!("{bytes:#x} bytes of memory were given")
        })?;
    }
    kit.still_served()
}

/// Page tables: single pages mapped as far apart as possible.
pub async fn page_tables(kit: &Kit) -> Result<(), Error> {
    let memory = memory::create(PAGE)?;
    let access = AddressSpaceAccess { read: true, write: false, execute: false };
    let mut step = 0_u64;
    let got = until_refused("page tables", || {
        step += 1;
        // A gigabyte apart, so that each takes two tables of its own.
        kit.space.map(memory.as_cap(), 0x4000_0000_0000 + (step << 30), 0, PAGE, &access)
    })
    .await?;
    for step in 1..=got.len() as u64 {
        kit.space.unmap(0x4000_0000_0000 + (step << 30), PAGE).await.context("unmapping")?;
    }
    kit.still_served()
}

/// Capability slots.
pub async fn capabilities(kit: &Kit) -> Result<(), Error> {
    let got = until_refused("capabilities", || kit.table.derive(kit::id(&kit.notification), u32::MAX)).await?;
    for id in got {
        kit::expect(&kit::release(4, id), Status::Ok)?;
    }
    kit.still_served()
}

/// Objects: endpoints and notifications in turn.
pub async fn objects(kit: &Kit) -> Result<(), Error> {
    let endpoints = until_refused("endpoints", || kit.account.create_endpoint()).await?;
    let more = kit.account.create_notification().await;
    kit::ensure(more.is_err(), || "a notification was given where an endpoint was refused".into())?;
    drop(endpoints);
    settle(kit).await?;
    let notifications = until_refused("notifications", || kit.account.create_notification()).await?;
    drop(notifications);
    kit.still_served()
}

/// Accounts and processes, and processes without room for their capability in the answer.
pub async fn processes(kit: &Kit) -> Result<(), Error> {
    let small =
        Limits { frames: 8, capabilities: 4, threads: 1, processes: 0, objects: 1, priority: 0, cpu_nanoseconds: 0 };
    let got = until_refused("processes", || kit.account.create_process("many", &small)).await?;
    drop(got);
    settle(kit).await?;
    let none = Limits { frames: 0, ..small.clone() };
    kit::ensure(kit.account.create_process("none", &none).await.is_err(), || {
        "a process without a frame was made".into()
    })?;
    let most = Limits {
        frames: u64::MAX,
        capabilities: u32::MAX,
        threads: u32::MAX,
        processes: u32::MAX,
        objects: u32::MAX,
        priority: 0,
        cpu_nanoseconds: 0,
    };
    kit::ensure(kit.account.carve(&most).await.is_err(), || "more was carved than there is".into())?;
    for name in ["", "a\nb", "\u{1b}[2J", &"x".repeat(65)] {
        let result = kit.account.create_process(name, &small).await;
        kit::ensure(result.is_err(), || format!("a process with the name {name:?} was made"))?;
    }
    let accounts = until_refused("accounts", || kit.account.carve(&small)).await?;
    drop(accounts);
    no_room_for_the_answer(kit, &small)?;
    kit.still_served()
}

/// Makes objects in calls that accept no capability, or not enough bytes: they must not stay.
fn no_room_for_the_answer(kit: &Kit, limits: &Limits) -> Result<(), Error> {
    use capos_abi::entry::{Buffer, CapArray};
    let account = capos_schema::kernel::ResourceAccountClient::INTERFACE_ID;
    // createProcess: a name and limits, laid out by hand since clients always accept capabilities.
    let amounts = u64::from(limits.capabilities) | u64::from(limits.threads) << 32;
    let more = u64::from(limits.processes) | u64::from(limits.objects) << 32;
    let words = [2 << 48, 4 << 2 | 1 | 2 << 32 | 2 << 35, 3 << 32, limits.frames, amounts, more, u64::from(b'x')];
    for (at, word) in (0..).zip(words) {
        kit::write(kit.params + at * 8, word);
    }
    for _ in 0..20 {
        for method in [2, 3, 4, 5] {
            let params = Buffer { address: kit.params, length: if method == 4 { 56 } else { 8 } };
            for length in [0, 8, 256] {
                let results = Buffer { address: if length == 0 { 0 } else { kit.results }, length };
                let entry = kit::call(6, kit::id(&kit.account), account, method, params, results, CapArray::default());
                let status = kit::status_of(&entry)?;
                kit::ensure(status != 0, || format!("method {method} answered without room for its capability"))?;
            }
        }
    }
    for at in 0..8 {
        kit::write(kit.params + at * 8, 0);
    }
    Ok(())
}

/// A page of code that loops for ever, mapped in a process.
async fn idle_process(kit: &Kit) -> Result<ProcessClient, Error> {
    let limits = Limits {
        frames: 256,
        capabilities: 16,
        threads: 8,
        processes: 0,
        objects: 24,
        priority: 0,
        cpu_nanoseconds: 0,
    };
    let process = kit.account.create_process("looper", &limits).await.context("a process")?;
    let code: MemoryObjectClient = memory::create(PAGE)?;
    // jmp to itself.
    memory::map(&code, 0, PAGE, Access::ReadWrite)?.write(0, &[0xeb, 0xfe])?;
    let access = AddressSpaceAccess { read: true, write: false, execute: true };
    process.address_space().await?.map(code.as_cap(), 0x40_0000, 0, PAGE, &access).await.context("its code")?;
    Ok(process)
}

async fn loop_thread(process: &ProcessClient, number: u64) -> Result<(), CallError> {
    let ring = 0x5000_0000_0000 + number * 0x10_0000;
    process.create_thread(0x40_0000, 0, 0, 0, ring, 2, 2, 0).await.map(drop)
}

/// Has another process use CPU time for ever, and waits: with its own time, or with time that it gives the other.
pub async fn child_spends(kit: &Kit, time: u64) -> Result<(), Error> {
    let process = idle_process(kit).await?;
    if time != 0 {
        let limits = process.account().await?.usage().await?.limits;
        let limits = process.account().await?.cut(&Limits { cpu_nanoseconds: time, ..limits }).await?;
        kit::ensure(limits.cpu_nanoseconds == time, || format!("the child may use {limits:?}"))?;
        let left = kit.account.usage().await?.cpu_left;
        kit::ensure(left <= LITTLE_TIME - time, || format!("{left} ns are left, and {time} were given away"))?;
        // More than there is.
        let limits = Limits { cpu_nanoseconds: left + 1, ..limits };
        kit::ensure(kit.account.carve(&limits).await.is_err(), || "time that there is not was given away".into())?;
    }
    for number in 1..4 {
        loop_thread(&process, number).await?;
    }
    let exit = process.wait().await?;
    let spent = process.account().await?.usage().await?.usage.cpu_nanoseconds;
    kit::ensure(exit.cause == ExitInfoCause::CpuTime && spent >= time, || {
        format!("it ended by {:?} with {spent} ns used: {}", exit.cause, exit.report)
    })?;
    kit.still_served()?;
    // The rest is used here.
    crate::noise::spin()
}

/// Cuts an account: its limits shrink to its usage, and its parent has the rest; its threads end when they have used
/// their remaining time.
pub async fn cut_account(kit: &Kit) -> Result<(), Error> {
    // The first time this process's own heap may grow.
    cut_one(kit).await?;
    settle(kit).await?;
    let before = kit.account.usage().await?.usage;
    cut_one(kit).await?;
    settle(kit).await?;
    let end = kit.account.usage().await?.usage;
    kit::ensure((end.frames, end.objects) == (before.frames, before.objects), || format!("{before:?} became {end:?}"))?;
    kit.still_served()
}

async fn cut_one(kit: &Kit) -> Result<(), Error> {
    let process = idle_process(kit).await?;
    let account = process.account().await?;
    let (own, held) = (kit.account.usage().await?.usage, account.usage().await?);
    kit::ensure(held.cpu_left == u64::MAX && held.limits.cpu_nanoseconds == 0, || format!("{held:?}"))?;
    let few =
        Limits { frames: 64, capabilities: 0, threads: 1, processes: 0, objects: 4, priority: 0, cpu_nanoseconds: 0 };
    let cut = account.cut(&few).await?;
    kit::ensure((cut.frames, cut.threads, cut.objects) == (64, 1, 4), || format!("it was cut to {cut:?}"))?;
    let after = kit.account.usage().await?.usage;
    let back = (own.frames - after.frames, own.threads - after.threads, own.objects - after.objects);
    kit::ensure(back == (192, 7, 20), || format!("{back:?} came back"))?;
    // A limit is never raised.
    let again = account.cut(&Limits { frames: 1 << 40, threads: 99, objects: 99, ..few.clone() }).await?;
    kit::ensure(again.frames == cut.frames && again.threads == 1, || format!("it was raised to {again:?}"))?;
    let rights = Rights::READ.union(Rights::CALL);
    let weak: ResourceAccountClient = capos_rt::adopt(kit.table.derive(kit::id(&account), rights.0).await?);
    kit::ensure(weak.cut(&few).await.is_err(), || "who may not manage it cuts it".into())?;
    loop_thread(&process, 1).await?;
    kit::ensure(loop_thread(&process, 2).await.is_err(), || "a thread was made beyond the limit".into())?;
    // It runs already, on another processor perhaps, without a limit.
    account.cut(&Limits { cpu_nanoseconds: 5_000_000, ..few.clone() }).await?;
    let exit = process.wait().await?;
    kit::ensure(exit.cause == ExitInfoCause::CpuTime && exit.report.contains("its limit of CPU time"), || {
        format!("it ended by {:?}: {}", exit.cause, exit.report)
    })?;
    kit::ensure(account.cut(&few).await.is_err(), || "an account that has retired was cut".into())?;
    Ok(())
}

/// Threads that all loop for ever.
pub async fn threads(kit: &Kit) -> Result<(), Error> {
    let process = idle_process(kit).await?;
    let mut number = 0;
    let got = until_refused("threads", || {
        number += 1;
        loop_thread(&process, number)
    })
    .await?;
    kit::ensure(got.len() == 8, || format!("{} threads in place of 8", got.len()))?;
    // Impossible rings, at impossible addresses.
    let other = idle_process(kit).await?;
    for (ring, submissions, completions) in [
        (0x5000_0000_0000, 0, 0),
        (0x5000_0000_0000, 3, 8),
        (0x5000_0000_0000, 8, 4),
        (0x5000_0000_0000, 8192, 8192),
        (0x5000_0000_0000, u32::MAX, u32::MAX),
        (0, 2, 2),
        (0x5000_0000_0001, 2, 2),
        (0x40_0000, 2, 2),
        (0xffff_8000_0000_0000, 2, 2),
        (u64::MAX - 4095, 2, 2),
    ] {
        let result = other.create_thread(0x40_0000, 0, 0, 0, ring, submissions, completions, 0).await;
        kit::ensure(result.is_err(), || format!("rings of {submissions} and {completions} at {ring:#x} were made"))?;
    }
    process.kill("enough").await?;
    kit.still_served()
}

/// Threads with impossible registers: each ends its process with a report.
pub async fn bad_threads(kit: &Kit) -> Result<(), Error> {
    let cases = [
        (0xffff_ffff_8000_0000_u64, 0_u64, 0_u64),
        (0x8000_0000_0000, 0, 0),
        (u64::MAX, u64::MAX, 0),
        (0x40_0000, 0x8000_0000_0000, 0x8000_0000_0000),
        (0x40_0000, 0xffff_8000_0000_0000, 0xffff_ffff_8000_0000),
        (0, 0, 0),
    ];
    for (entry, stack, thread_pointer) in cases {
        let process = idle_process(kit).await?;
        let made = process.create_thread(entry, stack, 0, 0, 0x5000_0000_0000, 2, 2, thread_pointer).await.map(drop);
        if made.is_ok() && entry != 0x40_0000 {
            let exit = process.wait().await?;
            kit::ensure(exit.report.contains("jumped") || exit.report.contains("exception"), || {
                format!("a thread at {entry:#x} ended its process with: {}", exit.report)
            })?;
        }
        // One that can run, loops: it is ended.
        process.kill("enough").await.or_else(|error| if entry == 0x40_0000 { Err(error) } else { Ok(()) })?;
    }
    kit.still_served()
}

/// Carves each account from the one before, and keeps none but the last: the chain must have an end, and
/// must come down again.
pub async fn account_chain(kit: &Kit) -> Result<(), Error> {
    let mut last = kit.account.clone();
    let mut length = 0_u32;
    let end = loop {
        let usage = last.usage().await?;
        let objects = usage.limits.objects.saturating_sub(usage.usage.objects);
        let limits = Limits {
            frames: 0,
            capabilities: 0,
            threads: 0,
            processes: 0,
            objects: objects.saturating_sub(1),
            priority: 0,
            cpu_nanoseconds: 0,
        };
        match last.carve(&limits).await {
            Ok(account) => last = account,
            Err(error) => break error.to_string(),
        }
        length += 1;
        kit::ensure(length < 10_000, || "the chain of accounts has no end".into())?;
    };
    kit::ensure(end.contains("carved from each other"), || format!("after {length} accounts: {end}"))?;
    drop(last);
    kit.still_served()
}

/// Uses everything of a process that is dead.
pub async fn dead_process(kit: &Kit) -> Result<(), Error> {
    let process = idle_process(kit).await?;
    let (space, account, table) = (process.address_space().await?, process.account().await?, process.table().await?);
    loop_thread(&process, 1).await?;
    let thread = process.create_thread(0x40_0000, 0, 0, 0, 0x5100_0000_0000, 2, 2, 0).await?;
    process.kill("the end").await?;
    process.kill("once more").await?;
    for _ in 0..2 {
        let exit = process.wait().await?;
        kit::ensure(exit.report.contains("the end"), || format!("it ended with: {}", exit.report))?;
    }
    let access = AddressSpaceAccess { read: true, write: false, execute: false };
    let memory = memory::create(PAGE)?;
    kit::ensure(space.map(memory.as_cap(), 0x6000_0000_0000, 0, PAGE, &access).await.is_err(), || "it maps".into())?;
    kit::ensure(space.unmap(0x40_0000, PAGE).await.is_err(), || "it unmaps".into())?;
    kit::ensure(process.grant(&memory, u32::MAX).await.is_err(), || "it takes capabilities".into())?;
    kit::ensure(loop_thread(&process, 3).await.is_err(), || "it starts threads".into())?;
    kit::ensure(capos_rt::capabilities(&table).await.map_or(true, |list| list.is_empty()), || {
        "it holds capabilities".into()
    })?;
    kit::ensure(table.derive(1 << 32, u32::MAX).await.is_err(), || "it derives".into())?;
    kit::ensure(table.revoke(1 << 32).await.is_err(), || "it revokes".into())?;
    drop(thread.kill().await);
    let info = process.info().await?;
    kit::ensure(!info.alive && info.threads == 0, || format!("it lives: {info:?}"))?;
    // Its account is one with this process's own, and nothing can be made with it.
    let usage = account.usage().await?;
    let nothing = usage.limits.frames == 0 && usage.limits.objects == 0 && usage.usage.frames == 0;
    kit::ensure(nothing, || format!("the account of a dead process: {usage:?}"))?;
    kit::ensure(account.create_memory(PAGE).await.is_err(), || "it pays for memory".into())?;
    kit::ensure(account.create_endpoint().await.is_err(), || "it pays for endpoints".into())?;
    kit.still_served()
}

/// Keeps the objects that a dead process made. Only they are missing from this one's account, in every
/// resource, and each part returns when it is released.
pub async fn kept_objects(kit: &Kit) -> Result<(), Error> {
    // The first time, this process's runtime allocates the memory that it then keeps.
    drop(keep_objects(kit).await);
    keep_objects(kit).await?;
    kit.still_served()
}

async fn keep_objects(kit: &Kit) -> Result<(), Error> {
    let held = async || {
        settle(kit).await?;
        let Usage { frames, capabilities, threads, processes, objects, .. } = kit.account.usage().await?.usage;
        Ok::<_, Error>([frames, capabilities.into(), threads.into(), processes.into(), objects.into()])
    };
    let before = held().await?;
    let process = idle_process(kit).await?;
    let account = process.account().await?;
    let limits =
        Limits { frames: 2, capabilities: 1, threads: 1, processes: 0, objects: 2, priority: 0, cpu_nanoseconds: 0 };
    let (named, given) = (account.carve(&limits).await?, account.carve(&limits).await?);
    let endpoint = account.create_endpoint().await?;
    let notification = named.create_notification().await?;
    let memory = account.create_memory(3 * PAGE).await?;
    drop(named);
    process.kill("the end").await?;
    process.wait().await?;
    kit::ensure(account.create_notification().await.is_err(), || "a dead process's account pays".into())?;
    drop(account);
    let mut left = before;
    let mut check = async |what: &str, change: [i64; 5]| {
        for (left, change) in left.iter_mut().zip(change) {
            *left = left.saturating_add_signed(change);
        }
        let now = held().await?;
        kit::ensure(now == left, || {
            format!("{what}: {now:?} in place of {left:?} frames, capabilities, threads, processes, objects")
        })
    };
    // The endpoint, the notification with its account, the memory, the limits of the account that is kept
    // and itself, the process; and the capabilities to the five of them.
    check("after its end", [3 + 2, 5 + 1, 1, 1, 1 + 2 + 1 + 3]).await?;
    drop(memory);
    check("without the memory", [-3, -1, 0, 0, -1]).await?;
    drop(endpoint);
    check("without the endpoint", [0, -1, 0, 0, -1]).await?;
    drop(notification);
    check("without the notification", [0, -1, 0, 0, -2]).await?;
    drop(given);
    check("without the account", [-2, -2, -1, 0, -3]).await?;
    drop(process);
    check("without the process", [0, -1, 0, -1, 0]).await?;
    kit::ensure(held().await? == before, || "the account is not what it was".into())
}

/// Leaves processes behind that no other process holds: one that holds itself and never starts, two
/// that hold each other, and one that loops for ever.
pub async fn orphans(kit: &Kit) -> Result<(), Error> {
    let all = u32::MAX;
    let alone = idle_process(kit).await?;
    alone.grant(&alone, all).await.context("a process's capability to itself")?;
    let (one, other) = (idle_process(kit).await?, idle_process(kit).await?);
    one.grant(&other, all).await?;
    other.grant(&one, all).await?;
    let looper = idle_process(kit).await?;
    loop_thread(&looper, 1).await?;
    // They are not even known to this process any more when it ends.
    drop((alone, one, other, looper));
    capos_rt::yield_now().await;
    kit.still_served()
}

/// The rings: more entries than completions fit, and none of them read.
pub async fn ring_slots(_kit: &Kit) -> Result<(), Error> {
    let mut taken = 0;
    for round in 0..6_u64 {
        for at in 0..64 {
            // SAFETY: a NOP names no memory.
            if !unsafe { raw::push(&kit::encode(round * 64 + at, Operation::Nop)) } {
                break;
            }
        }
        taken += raw::enter(u32::MAX, 0, 0);
    }
    kit::ensure(taken == 128, || format!("{taken} entries were taken with room for 128 answers"))?;
    let again = raw::enter(u32::MAX, 0, 0);
    kit::ensure(again == 0, || format!("{again} more were taken"))?;
    let mut next = 0;
    loop {
        while let Some(completion) = raw::pop() {
            kit::ensure(completion.user_data == next | raw::TAG && completion.status == 0, || {
                format!("completion {} in place of {next}", completion.user_data)
            })?;
            next += 1;
        }
        if raw::enter(u32::MAX, 0, 0) == 0 {
            break;
        }
    }
    // 128 were taken at once, and the 64 in the submission ring after that.
    kit::ensure(next == 192, || format!("{next} answers in place of 192"))
}

/// Operations in flight: as many as completions fit.
pub async fn in_flight(kit: &Kit) -> Result<(), Error> {
    let mut answers = Answers::new();
    let mut taken = 0;
    for tag in 1..=200 {
        taken += kit::submit(&[kit.receive(tag)]);
    }
    kit::ensure(taken == 128, || format!("{taken} receives are in flight with room for 128 answers"))?;
    // Nothing more can be asked for, a cancellation neither: the process has tied its own hands,
    // and a wait with a limit still comes back.
    let end = raw::enter(1, 0, 0);
    kit::ensure(end == 0, || "an entry was taken without room for its answer".into())?;
    raw::enter(0, 1, 1);
    kit::ensure(answers.get(1).is_none(), || "a receive was answered".into())?;
    capos_rt::exit(0)
}

/// All the memory of the machine that the account permits.
pub async fn machine(kit: &Kit) -> Result<(), Error> {
    let mut held = Vec::new();
    let mut bytes = 1_u64 << 30;
    while bytes >= PAGE {
        match kit.account.create_memory(bytes).await {
            Ok(memory) => held.push(memory),
            Err(_) => bytes /= 2,
        }
        kit::ensure(held.len() < TOO_MANY, || "there is no limit".into())?;
    }
    // With nothing left, everything that needs memory is refused and nothing breaks.
    let mut refused = 0;
    for _ in 0..200 {
        let made = kit.account.create_endpoint().await.is_ok() && kit.account.create_notification().await.is_ok();
        let derived = kit.table.derive(kit::id(&kit.notification), u32::MAX).await.is_ok();
        refused += u32::from(!made) + u32::from(!derived);
    }
    let total: usize = held.len();
    let words: String = format!("{total} pieces held, {refused} refused");
    kit::ensure(total > 0, || words)?;
    kit.still_served()
}

/// Kernel memory through small objects and capabilities, up to the limit of a very large account.
pub async fn kernel_heap(kit: &Kit) -> Result<(), Error> {
    let mut made = 0_u32;
    'fill: loop {
        for _ in 0..64 {
            if kit.table.derive(kit::id(&kit.notification), u32::MAX).await.is_err() {
                break 'fill;
            }
            made += 1;
        }
        kit::ensure((made as usize) < TOO_MANY, || "there is no limit".into())?;
    }
    kit::ensure(made > 1000, || format!("only {made} capabilities"))?;
    kit.still_served()
}
