//! A scratch file system in memory.
//!
//! Provides: `Directory` (0). Its argument is the budget in bytes. Where it is given a `source` directory, it
//! begins as a copy of it.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod fill;
mod locks;
mod server;

use alloc::format;
use alloc::rc::Rc;
use capos_plural::count;
use capos_rt::{Context, Env, Error, ServeOptions, log};
use capos_schema::cap::Dispatch;
use capos_schema::kernel::TimerClient;
use capos_schema::storage::{DirectoryClient, DirectoryService};
use fill::fill;
use server::{DirectoryObject, Volume};

/// A write carries up to 256 KiB.
const OPTIONS: ServeOptions = ServeOptions { buffers: 2, message_bytes: 320 << 10, concurrent: 32 };

async fn run(env: Env) -> Result<(), Error> {
    let budget: u64 =
        env.arguments().first().and_then(|text| text.parse().ok()).context("argument 0 must be the budget in bytes")?;
    let volume = Volume::new(budget, env.cap::<TimerClient>("timer")?, env.server().clone(), env.clock()?.now());
    if let Some(medium) = env.optional::<DirectoryClient>("medium")? {
        // The first of these folders that the medium has becomes the home.
        for top in env.arguments().iter().skip(1) {
            if medium.stat(top).await.is_ok() {
                let filled = fill(volume.tree(), &medium, top).await.with_context(|| format!("copying {top}"))?;
                log::info!("{} from {top}", count(filled.files, "file"));
                if filled.left_out > 0 {
                    log::warning!("{top}: left out {}", count(filled.left_out, "entry"));
                }
                break;
            }
        }
    }
    let found = volume.clone();
    env.server().serve_durable(move |key| {
        let root: Rc<dyn Dispatch> = Rc::new(DirectoryService(Rc::new(found.durable(key))));
        Some(root)
    });
    env.serve(0, Rc::new(DirectoryService(DirectoryObject::root(&volume, true))));
    env.run_with(OPTIONS).await
}
capos_rt::program!(run);
