//! The home directory, in the store.
//!
//! Provides: `Directory` (0). Its arguments are folders of the medium: at the first opening ever the home begins as a copy of the
//! first of them that there is. It answers calls when the store's volume is open.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

use alloc::format;
use alloc::rc::Rc;

use capos_file_server::{DirectoryObject, OPTIONS, Volume, fill};
use capos_files::Files;
use capos_plural::count;
use capos_rt::{Context, Env, Error, log};
use capos_schema::kernel::{ResourceAccountClient, TimerClient};
use capos_schema::storage::{DirectoryClient, DirectoryService};
use capos_schema::store::NamespaceClient;

/// Copies a folder of the medium into a home that never had any files.
async fn begin(env: &Env, files: &Files<NamespaceClient>) -> Result<(), Error> {
    if files.is_filled().await.context("looking at the home")? {
        return Ok(());
    }
    if let Some(medium) = env.optional::<DirectoryClient>("medium")? {
        for top in env.arguments() {
            if medium.stat(top).await.is_ok() {
                let filled = fill(files, &medium, top).await.with_context(|| format!("copying {top}"))?;
                log::info!("the home begins with {} from {top}", count(filled.files, "file"));
                if filled.left_out > 0 {
                    log::warning!("{top}: left out {}", count(filled.left_out, "entry"));
                }
                break;
            }
        }
    }
    // All of it is on the medium, or the next start begins again.
    files.set_filled().await.context("saving the first files")
}

async fn run(env: Env) -> Result<(), Error> {
    let namespace = env.cap::<NamespaceClient>("store")?;
    let lasting = namespace.opened().await.context("waiting for the store")?;
    let files = Files::open(namespace).await.context("opening the home")?;
    begin(&env, &files).await?;
    if !lasting {
        log::info!("there is no data disk: the home ends with the machine");
    }
    let (timer, account) = (env.cap::<TimerClient>("timer")?, env.cap::<ResourceAccountClient>("account")?);
    let volume = Volume::new(files, timer, env.server().clone(), env.clock()?.now(), Some(account));
    volume.serve_durable();
    capos_rt::spawn(volume.clone().keep_synced());
    env.serve(0, Rc::new(DirectoryService(DirectoryObject::root(&volume, true))));
    env.run_with(OPTIONS).await
}
capos_rt::program!(run);
