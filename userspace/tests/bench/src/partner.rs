//! The other side of a measurement, in a process of its own.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_abi::syscall::NO_DEADLINE;
use capos_measure::compute;
use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Env, Error, raw};
use capos_schema::cap::{AsCap, CallContext, CallError};
use capos_schema::hello::{GreeterServer, GreeterService};
use capos_schema::kernel::{EndpointClient, MemoryObjectClient};

use crate::entries::{self, MESSAGE, RECEIVED};
use crate::switch::Side;
use crate::{at_once, throughput, timer};

/// The tag of the first RECV of several.
const FIRST_CALL: u64 = 100;

struct Echo;

impl GreeterServer for Echo {
    async fn greet(&self, _: &CallContext, name: String) -> Result<String, CallError> {
        Ok(name)
    }
}

/// The fate of a capability that came with a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Received {
    /// There is none.
    None,
    Kept,
    Released,
}

/// Steps of arithmetic before a slow answer: many times what a call takes.
const SLOW: u64 = 20_000;

/// Answers calls with as many bytes as they brought, one system call and one entry for each.
fn echo(env: &Env, received: Received) -> Result<(), Error> {
    let endpoint: EndpointClient = env.cap("serve")?;
    let (endpoint, memory) = (endpoint.as_cap().id(), entries::page());
    let ring = entries::ring().ok_or_else(|| Error::new("the thread has no rings"))?;
    entries::queue(&ring, &entries::receive_entry(2, endpoint, memory));
    raw::enter(1, 1, NO_DEADLINE);
    while ring.pop().is_some() {
        if received == Received::Released {
            entries::queue(&ring, &entries::release_entry(entries::read(memory + RECEIVED)));
        }
        entries::queue(&ring, &entries::answer_and_receive(2, entries::read(memory + 16), endpoint, memory));
        if received == Received::Released {
            // The completion of the release is there at once; that of the next call is waited for.
            raw::enter(2, 2, NO_DEADLINE);
            let _ = ring.pop();
        } else {
            raw::enter(1, 1, NO_DEADLINE);
        }
    }
    Err(Error::new("a wait for a call ended without one"))
}

/// The same without capabilities, and slowly. It is apart because the other's instructions are counted.
fn echo_slowly(env: &Env) -> Result<(), Error> {
    let endpoint: EndpointClient = env.cap("serve")?;
    let (endpoint, memory) = (endpoint.as_cap().id(), entries::page());
    let ring = entries::ring().ok_or_else(|| Error::new("the thread has no rings"))?;
    entries::queue(&ring, &entries::receive_entry(2, endpoint, memory));
    raw::enter(1, 1, NO_DEADLINE);
    while ring.pop().is_some() {
        core::hint::black_box(compute(SLOW));
        entries::queue(&ring, &entries::answer_and_receive(2, entries::read(memory + 16), endpoint, memory));
        raw::enter(1, 1, NO_DEADLINE);
    }
    Err(Error::new("a wait for a call ended without one"))
}

/// The same at two endpoints: a message for one of its buffers may come while the other's call is bound on another
/// processor.
fn echo_at_two(env: &Env) -> Result<(), Error> {
    let endpoints: [EndpointClient; 2] = [env.cap("serve")?, env.cap("other")?];
    let places = endpoints.each_ref().map(|endpoint| (endpoint.as_cap().id(), entries::page()));
    let ring = entries::ring().ok_or_else(|| Error::new("the thread has no rings"))?;
    for (tag, (endpoint, memory)) in (0..).zip(&places) {
        entries::queue(&ring, &entries::receive_entry(tag, *endpoint, *memory));
    }
    let mut queued = 2;
    loop {
        let taken = raw::enter(queued, 1, NO_DEADLINE);
        if taken != u64::from(queued) {
            return Err(Error::new(format!("{taken} entries were taken in place of {queued}")));
        }
        queued = 0;
        while let Some(completion) = ring.pop() {
            let tag = completion.user_data & !raw::TAG;
            let place = usize::try_from(tag).ok().and_then(|tag| places.get(tag));
            if let Some((endpoint, memory)) = place {
                let reply = entries::read(memory + 16);
                entries::queue(&ring, &entries::answer_and_receive(tag, reply, *endpoint, *memory));
                queued += 1;
            }
        }
    }
}

/// The same for calls that come together: all that have come are answered by one system call.
fn echo_batch(env: &Env, batch: u64) -> Result<(), Error> {
    let endpoint: EndpointClient = env.cap("serve")?;
    let endpoint = endpoint.as_cap().id();
    let memory: Vec<u64> = (0..batch).map(|_| entries::page()).collect();
    for (tag, memory) in (0..).zip(&memory) {
        entries::push(&entries::receive(FIRST_CALL + tag, endpoint, *memory));
    }
    let (mut queued, mut minimum) = (u32::try_from(batch).unwrap_or(0), 1);
    loop {
        raw::enter(queued, minimum, NO_DEADLINE);
        (queued, minimum) = (0, 1);
        while let Some(completion) = raw::pop() {
            let tag = completion.user_data & !raw::TAG;
            let call = usize::try_from(tag.wrapping_sub(FIRST_CALL)).unwrap_or(usize::MAX);
            if let Some(memory) = memory.get(call) {
                entries::push(&entries::answer(entries::read(memory + 16), memory + 40, MESSAGE));
                entries::push(&entries::receive(tag, endpoint, *memory));
                // The answer's completion comes at once.
                (queued, minimum) = (queued + 2, minimum + 1);
            }
        }
    }
}

/// Supplies pages. `touched` says whether it fills them, as a pager without a device must.
fn supply(env: &Env, touched: bool) -> Result<(), Error> {
    let endpoint: EndpointClient = env.cap("serve")?;
    let (endpoint, memory) = (endpoint.as_cap().id(), entries::page());
    loop {
        entries::push(&entries::receive(2, endpoint, memory));
        raw::enter(1, 1, NO_DEADLINE);
        entries::drain();
        let (reply, bytes) = (entries::read(memory + 16), entries::read(memory + 56));
        let window: MemoryObjectClient = capos_rt::adopt(entries::read(memory + RECEIVED));
        if touched {
            let mapping = memory::map(&window, 0, bytes, Access::ReadWrite)?;
            let page = [0xa5; PAGE as usize];
            for at in 0..bytes / PAGE {
                mapping.write(at * PAGE, &page)?;
            }
        }
        entries::push(&entries::answer(reply, memory, 0));
        raw::enter(1, 1, NO_DEADLINE);
        entries::drain();
    }
}

/// Plays one part for ever.
pub async fn run(env: &Env, part: &str) -> Result<(), Error> {
    match part {
        "echo" => echo(env, Received::None),
        "echo-slowly" => echo_slowly(env),
        "echo-at-two" => echo_at_two(env),
        "echo-keep" => echo(env, Received::Kept),
        "echo-release" => echo(env, Received::Released),
        "switch" => Side::new(env.cap("own")?, env.cap("other")?, &env.cap("page")?)?.run(),
        "call" => throughput::call(env),
        "call-two" => at_once::call_two(env),
        "call-until-refused" => at_once::call_until_refused(env),
        "poll-until-refused" => at_once::poll_until_refused(env),
        "compute" => throughput::work(),
        "spin" => timer::spin(),
        "greeter" => {
            env.serve(0, Rc::new(GreeterService(Rc::new(Echo))));
            env.run().await
        }
        "pager" => supply(env, true),
        "empty-pager" => supply(env, false),
        _ => match part.strip_prefix("echo-").and_then(|batch| batch.parse().ok()) {
            Some(batch) => echo_batch(env, batch),
            None => Err(Error::new(format!("there is no part `{part}`"))),
        },
    }
}
