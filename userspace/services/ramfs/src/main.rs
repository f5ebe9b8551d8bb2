//! A scratch file system in memory.
//!
//! Provides: `Directory` (0). Its argument is the budget in bytes. Where it is given a `source` directory, it
//! begins as a copy of it.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

use alloc::format;
use alloc::rc::Rc;
use core::cell::RefCell;

use capos_file_server::{DirectoryObject, OPTIONS, Volume, fill};
use capos_plural::count;
use capos_rt::{Context, Env, Error, log};
use capos_schema::kernel::TimerClient;
use capos_schema::storage::{DirectoryClient, DirectoryService};
use capos_tree::Tree;

async fn run(env: Env) -> Result<(), Error> {
    let budget: u64 =
        env.arguments().first().and_then(|text| text.parse().ok()).context("argument 0 must be the budget in bytes")?;
    let (timer, now) = (env.cap::<TimerClient>("timer")?, env.clock()?.now());
    let volume = Volume::new((RefCell::new(Tree::new(budget)), 0), timer, env.server().clone(), now, None);
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
    env.server().serve_durable(move |key| found.find(key));
    env.serve(0, Rc::new(DirectoryService(DirectoryObject::root(&volume, true))));
    env.run_with(OPTIONS).await
}
capos_rt::program!(run);
