//! The other side of a measurement, in a process of its own.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;

use capos_abi::syscall::NO_DEADLINE;
use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Env, Error, raw};
use capos_schema::cap::{AsCap, CallContext, CallError};
use capos_schema::hello::{GreeterServer, GreeterService};
use capos_schema::kernel::{EndpointClient, MemoryObjectClient};

use crate::entries::{self, MESSAGE};

struct Echo;

impl GreeterServer for Echo {
    async fn greet(&self, _: &CallContext, name: String) -> Result<String, CallError> {
        Ok(name)
    }
}

/// Answers calls with as many bytes as they brought, one system call for each.
fn echo(env: &Env) -> Result<(), Error> {
    let endpoint: EndpointClient = env.cap("serve")?;
    let (endpoint, memory) = (endpoint.as_cap().id(), entries::page());
    entries::push(&entries::receive(endpoint, memory));
    let mut queued = 1;
    loop {
        // The answer's own completion may lie there; the next call's is waited for.
        raw::enter(queued, queued, NO_DEADLINE);
        entries::drain();
        entries::push(&entries::answer(entries::read(memory + 16), memory + 40, MESSAGE));
        entries::push(&entries::receive(endpoint, memory));
        queued = 2;
    }
}

/// Supplies pages. `touched` says whether it fills them, as a pager without a device must.
fn supply(env: &Env, touched: bool) -> Result<(), Error> {
    let endpoint: EndpointClient = env.cap("serve")?;
    let (endpoint, memory) = (endpoint.as_cap().id(), entries::page());
    loop {
        entries::push(&entries::receive(endpoint, memory));
        raw::enter(1, 1, NO_DEADLINE);
        entries::drain();
        let (reply, bytes) = (entries::read(memory + 16), entries::read(memory + 56));
        let window: MemoryObjectClient = capos_rt::adopt(entries::read(memory + 4000));
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
        "echo" => echo(env),
        "greeter" => {
            env.serve(0, Rc::new(GreeterService(Rc::new(Echo))));
            env.run().await
        }
        "pager" => supply(env, true),
        "empty-pager" => supply(env, false),
        _ => Err(Error::new(format!("there is no part `{part}`"))),
    }
}
