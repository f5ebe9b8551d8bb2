//! The store: the data volume, and what every service that keeps something has on it.
//!
//! Provides: `Namespace` (0), for each client its own; `Vault` (1), the volume and its keys. It looks for the data disk by
//! itself, and holds the only capability to write disks. Without a data disk the same code runs over memory.
//!
//! A call works on the disk until it is done, while all other tasks of the process stop: the drivers never call the store.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod disk;
mod folder;
mod here;
mod holder;
mod search;
mod served;

use alloc::rc::Rc;

use capos_rt::{Context, Env, Error, ServeOptions, spawn};
use capos_schema::store::{NamespaceService, VaultService};
use capos_store_service::shares::Shares;
use holder::{Holder, Settings};
use served::{NamespaceObject, VaultObject};

/// A batch has 512 KiB at most.
const OPTIONS: ServeOptions = ServeOptions { buffers: 2, message_bytes: 576 << 10, concurrent: 32 };

/// A number of the environment.
fn number(env: &Env, name: &str, usual: u64) -> Result<u64, Error> {
    match env.variable(name) {
        Some(text) => text.parse().ok().with_context(|| alloc::format!("{name} is no number")),
        None => Ok(usual),
    }
}

async fn run(env: Env) -> Result<(), Error> {
    let shares = |name: &'static str| {
        Shares::parse(env.variable(name).unwrap_or_default()).map_err(Error::new).with_context(|| name)
    };
    let settings = Settings {
        memory_kib: number(&env, "MEMORY_KIB", 8192)?,
        key_milliseconds: number(&env, "KEY_MILLISECONDS", 2000)?,
    };
    let holder = Holder::new(&env, (shares("SHARES")?, shares("MEMORY_SHARES")?), settings)?;
    spawn(search::search(holder.clone()));
    let (idle, clock) = (holder.clone(), env.clock()?);
    spawn(async move { idle.settle_when_idle(&clock).await });
    let found = holder.clone();
    env.serve_clients(0, move |client| {
        Rc::new(NamespaceService(Rc::new(NamespaceObject { holder: found.clone(), client: client.name.clone() })))
    });
    env.serve(1, Rc::new(VaultService(Rc::new(VaultObject(holder)))));
    env.run_with(OPTIONS).await
}
capos_rt::program!(run);
