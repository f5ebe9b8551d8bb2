//! Calls on several processors at once: a test. Pairs of processes call each other without end. Meanwhile other
//! processes, which do the same or call a kernel object in registers, are ended or lose their capabilities in the
//! middle of a call. Memory is mapped and unmapped. Every answer must be right, undisturbed pairs must get all of
//! theirs, and in the end no object may be left over.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use capos_abi::syscall::NO_DEADLINE;
use capos_abi::{RawEntry, Rights};
use capos_process::Granted;
use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Context, Env, Error, log, notify, raw};
use capos_schema::cap::AsCap;
use capos_schema::kernel::{
    CapabilityTableClient, EndpointClient, ExitInfoCause, MachineClient, NotificationClient, ObjectClient,
    ProcessClient,
};

use crate::entries::{self, CAPS, RESULTS};
use crate::throughput::{self, CALLS};
use crate::{Bench, calls, timer};

/// How often a process is disturbed in each run of the test.
const ROUNDS: u64 = 9;
/// Pairs that are left undisturbed.
const PAIRS: usize = 2;
/// Processes that call one server and are disturbed: the first sends a capability along each time.
const CALLERS: u64 = 3;
/// Processes that call a server of their own and are disturbed, so that their calls are bound: the first sends a
/// capability along.
const ALONE: u64 = 2;
/// The exit code of a process whose call had a wrong answer. No status has this number.
const WRONG: i32 = 1 << 20;

/// The part of a process that calls until it is rejected: its exit code is the status. `given` is sent along, if there
/// is one.
pub fn call_until_refused(env: &Env) -> Result<(), Error> {
    let target: ObjectClient = env.cap("target")?;
    let memory = calls::message();
    let mut sent = 0;
    if let Ok(given) = env.cap::<NotificationClient>("given") {
        entries::write(memory + CAPS, given.as_cap().id());
        entries::write(memory + CAPS + 8, u64::from(Rights::ALL.0));
        sent = 1;
        core::mem::forget(given);
    }
    let call = entries::call(target.as_cap().id(), (entries::INTERFACE, 0), entries::MESSAGE, memory, (sent, 0));
    for round in 0_u64.. {
        match throughput::ask(&call, memory, round) {
            Ok(true) => {}
            Ok(false) => capos_rt::exit(WRONG),
            Err(status) => capos_rt::exit(status),
        }
    }
    Ok(())
}

/// The part of a process that always has a call in flight with each of two others, and calls again as soon as one is
/// answered. While it waits for one server, the other's answer may come from another processor. Its exit code says how
/// many answers were right.
pub fn call_two(env: &Env) -> Result<(), Error> {
    let targets: [ObjectClient; 2] = [env.cap("target")?, env.cap("other")?];
    let mut tag = 0;
    let calls = targets.each_ref().map(|target| {
        let memory = calls::message();
        tag += 1;
        let (cap, method) = (target.as_cap().id(), (entries::INTERFACE, 0));
        (tag, entries::tagged_call(tag, cap, method, entries::MESSAGE, memory, (0, 0)), memory)
    });
    let (mut made, mut right) = (0, 0);
    let mut make = |call: &RawEntry, memory: u64| {
        if made == CALLS {
            return 0;
        }
        made += 1;
        entries::write(memory, u64::from(made.cast_unsigned()));
        entries::push(call);
        1
    };
    let mut queued: u32 = calls.iter().map(|(_, call, memory)| make(call, *memory)).sum();
    let mut under_way = queued;
    while under_way > 0 {
        if raw::enter(queued, 1, NO_DEADLINE) != u64::from(queued) {
            capos_rt::exit(WRONG);
        }
        queued = 0;
        while let Some(completion) = raw::pop() {
            if completion.status != 0 {
                capos_rt::exit(completion.status);
            }
            under_way -= 1;
            let found = calls.iter().find(|(tag, ..)| *tag == completion.user_data & !raw::TAG);
            let Some((_, call, memory)) = found else { capos_rt::exit(WRONG) };
            // Its content must not suffice for the next answer.
            right += i32::from(throughput::is_answered(*memory));
            entries::write(memory + RESULTS, 0);
            queued += make(call, *memory);
        }
        under_way += queued;
    }
    capos_rt::exit(right)
}

/// The part of a process that asks for a notification's bits in registers until it is rejected: its exit code is the
/// status. Bits that come are one signal, whole.
pub fn poll_until_refused(env: &Env) -> Result<(), Error> {
    let target: NotificationClient = env.cap("target")?;
    let (cap, poll) = (target.as_cap().id(), calls::poll(&target));
    loop {
        let status = match raw::invoke(cap, NotificationClient::INTERFACE_ID, calls::POLL) {
            Some(0 | SIGNALS) => 0,
            Some(_) => WRONG,
            None => {
                // Others may have kept the kernel busy. A call through the ring.
                entries::push(&poll);
                raw::enter(1, 1, NO_DEADLINE);
                entries::drain()
            }
        };
        if status != 0 {
            capos_rt::exit(status);
        }
    }
}

/// The bits that are signalled to it.
const SIGNALS: u64 = 0x5a5a_0000_a5a5;

/// Which of them are ended.
const ENDED: [usize; 2] = [1, 4];

/// The disturbance of calling processes, before their capability is revoked.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    /// The server is ended.
    ServerEnded,
    /// One of those that call is ended.
    CallerEnded,
    /// Nothing but that.
    None,
}

const DISTURBANCES: [Disturbance; 3] = [Disturbance::ServerEnded, Disturbance::CallerEnded, Disturbance::None];

/// The kernel's memory: frames in use except those of its heap, and bytes of its heap.
async fn held(machine: &MachineClient) -> Result<(u64, u64), Error> {
    let told = machine.statistics().await?;
    Ok((told.total_frames.saturating_sub(told.free_frames).saturating_sub(told.heap_frames), told.heap_bytes))
}

impl Bench {
    /// Maps memory, writes to it and unmaps it, `times` times. Other processors wait for that if they are in the
    /// kernel, and otherwise must forget the translation.
    async fn map_and_unmap(&self, times: u64) -> Result<(), Error> {
        for time in 0..times {
            let block = self.account.create_memory(16 * PAGE).await?;
            let mapping = memory::map(&block, 0, 16 * PAGE, Access::ReadWrite)?;
            for page in 0..16 {
                mapping.write(page * PAGE, &time.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// One round: processes call, are disturbed, and are ended.
    async fn disturb(&self, table: &CapabilityTableClient, round: u64, what: Disturbance) -> Result<(), Error> {
        let endpoint: EndpointClient = self.account.create_endpoint().await?;
        let client = endpoint.mint(round, entries::INTERFACE).await?;
        let mut servers = vec![self.launch("echo-release", vec![Granted::new("serve", &endpoint)]).await?];
        let mut callers: Vec<ProcessClient> = Vec::new();
        let mut clients = vec![client.clone()];
        for caller in 0..CALLERS {
            let mut grants = vec![Granted::new("target", &client)];
            if caller == 0 {
                grants.push(Granted::new("given", &self.given));
            }
            callers.push(self.launch("call-until-refused", grants).await?);
        }
        for caller in 0..ALONE {
            let endpoint: EndpointClient = self.account.create_endpoint().await?;
            let client = endpoint.mint(round, entries::INTERFACE).await?;
            servers.push(self.launch("echo", vec![Granted::new("serve", &endpoint)]).await?);
            let mut grants = vec![Granted::new("target", &client)];
            // The server keeps the capabilities that come with calls, until its table is full and the call is rejected.
            if caller == 0 && round.is_multiple_of(4) {
                grants.push(Granted::new("given", &self.given));
            }
            callers.push(self.launch("call-until-refused", grants).await?);
            clients.push(client);
        }
        let notification: NotificationClient = self.account.create_notification().await?;
        callers.push(self.launch("poll-until-refused", vec![Granted::new("target", &notification)]).await?);
        for _ in 0..round {
            notify(&notification, SIGNALS).await.map_err(|status| Error::new(format!("signalling: {status}")))?;
        }
        self.map_and_unmap(1 + round % 7).await?;
        match what {
            Disturbance::ServerEnded => {
                for server in &servers {
                    server.kill("its callers are to notice").await?;
                }
            }
            Disturbance::CallerEnded => {
                for (_, caller) in callers.iter().enumerate().filter(|(at, _)| ENDED.contains(at)) {
                    caller.kill("the others are not to notice").await?;
                }
            }
            Disturbance::None => {}
        }
        self.map_and_unmap(1 + round % 3).await?;
        // The caller gets an error, whether the call is being answered, waits in the line, or is yet to be made.
        for client in clients {
            table.revoke(client.as_cap().id()).await?;
        }
        table.revoke(notification.as_cap().id()).await?;
        for (at, caller) in callers.into_iter().enumerate() {
            let exit = caller.wait().await?;
            let killed = matches!(what, Disturbance::CallerEnded) && ENDED.contains(&at);
            let expected = match exit.cause {
                ExitInfoCause::Killed => killed,
                ExitInfoCause::Exited => !killed && exit.code < 0,
                _ => false,
            };
            if !expected {
                let (cause, code, report) = (exit.cause, exit.code, exit.report);
                return Err(Error::new(format!("caller {at} ended by {cause:?} with {code}: {report}")));
            }
        }
        for server in servers {
            drop(server.kill("it was disturbed enough").await);
            let exit = server.wait().await?;
            if exit.cause != ExitInfoCause::Killed {
                return Err(Error::new(format!("the server ended by itself: {}", exit.report)));
            }
        }
        Ok(())
    }

    /// All rounds, in parallel with undisturbed pairs.
    async fn disturb_all(&self, table: &CapabilityTableClient) -> Result<(), Error> {
        let mut servers = Vec::new();
        let mut undisturbed = Vec::new();
        for _ in 0..PAIRS {
            let server = self.partner("echo", 0, entries::INTERFACE).await?;
            undisturbed.push(self.launch("call", vec![Granted::new("target", &server.client)]).await?);
            servers.push(server);
        }
        // The server of these waits for both of them at once.
        let (one, other): (EndpointClient, EndpointClient) =
            (self.account.create_endpoint().await?, self.account.create_endpoint().await?);
        let both = self.launch("echo-at-two", vec![Granted::new("serve", &one), Granted::new("other", &other)]).await?;
        for endpoint in [&one, &other] {
            let client = endpoint.mint(0, entries::INTERFACE).await?;
            undisturbed.push(self.launch("call", vec![Granted::new("target", &client)]).await?);
        }
        // Two have calls in flight with two servers each. One server of the first takes its time, so that the other's
        // calls repeat and are bound meanwhile.
        for slow in ["echo-slowly", "echo"] {
            let (one, other) =
                (self.partner("echo", 0, entries::INTERFACE).await?, self.partner(slow, 0, entries::INTERFACE).await?);
            let grants = vec![Granted::new("target", &one.client), Granted::new("other", &other.client)];
            undisturbed.push(self.launch("call-two", grants).await?);
            servers.extend([one, other]);
        }
        for (round, what) in (0..ROUNDS).zip(DISTURBANCES.into_iter().cycle()) {
            self.disturb(table, round, what).await.with_context(|| format!("round {round}, {what:?}"))?;
        }
        self.judged(undisturbed, CALLS).await.context("who was left alone")?;
        for server in servers {
            server.end().await?;
        }
        both.kill("nobody calls it any more").await?;
        let exit = both.wait().await?;
        if exit.cause != ExitInfoCause::Killed {
            return Err(Error::new(format!("who answers at two endpoints ended by itself: {}", exit.report)));
        }
        // Its endpoints return before anybody counts: the list of an endpoint keeps the room for calls that came before the
        // server first received, and whether any did depends on the host.
        drop((one, other, both));
        capos_rt::yield_now().await;
        entries::drain();
        Ok(())
    }

    async fn calls_beside_ends(&self, env: &Env) -> Result<(), Error> {
        let (table, machine) = (env.cap::<CapabilityTableClient>("table")?, env.cap::<MachineClient>("machine")?);
        // The first time this process allocates the memory that it keeps.
        self.disturb_all(&table).await?;
        let before = held(&machine).await?;
        self.disturb_all(&table).await?;
        let after = held(&machine).await?;
        if before != after {
            return Err(Error::new(format!(
                "{before:?} frames and bytes of the kernel's heap were held, {after:?} are now"
            )));
        }
        let ended = 2 * ROUNDS * (CALLERS + 2 * ALONE + 2);
        let calls = 2 * (PAIRS as u64 + 4) * u64::from(CALLS.cast_unsigned());
        log::info!("{ended} processes ended beside {calls} calls");
        Ok(())
    }

    /// The test.
    pub async fn test_calls(&self, env: &Env) -> Result<(), Error> {
        timer::tell([("calls-beside-ends", self.calls_beside_ends(env).await)])
    }
}
