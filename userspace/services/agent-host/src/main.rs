//! The agent host: a session of the agent for a client.
//!
//! A client asks for things by the client port, which reads what it sends. It holds no capability: it proposes prompts, answers
//! what it is asked, and cancels. The host logs in with what the client gives, and runs the session as the shell does, by
//! `capos-runner`, with the client as the surface. One process serves one session; it ends with it, and init starts the next.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod client;
mod create;
mod events;
mod host;
mod messages;
mod outbox;
mod questions;
mod shared;
mod task;

use capos_rt::{Env, Error};
use capos_runner::Capabilities;
use capos_schema::authority::AuthorityBrokerClient;
use capos_schema::clients::ClientPortClient;
use capos_schema::kernel::{CapabilityTableClient, EntropyClient};
use host::Host;

/// Bytes of results that a call of the port brings: a request with the longest prompt.
const REQUEST: u32 = 320 << 10;

async fn start(env: Env) -> Result<(), Error> {
    let held = Capabilities {
        broker: env.cap::<AuthorityBrokerClient>("broker")?,
        clock: env.clock()?,
        entropy: env.cap::<EntropyClient>("entropy")?,
        table: env.cap::<CapabilityTableClient>("table")?,
    };
    let port = capos_rt::with_results(&env.cap::<ClientPortClient>("port")?, REQUEST);
    Host::new(held, port).serve().await;
    Ok(())
}
capos_rt::program!(start);
