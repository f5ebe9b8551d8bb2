//! Verifies model weights, pages them in block by checked block, and serves the model catalog.
//!
//! Provides: `ModelCatalog` (0) and `ModelAdmin` (1).
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod catalog;
mod medium;
mod report;
mod weights;
mod worker;

use alloc::rc::Rc;
use capos_plural::count;
use capos_rt::{Context, Env, Error, log};
use capos_schema::audit::AuditWriterClient;
use capos_schema::kernel::{CapabilityTableClient, MemoryObjectClient, ResourceAccountClient, TimerClient};
use capos_schema::models::{ModelAdminService, ModelCatalogService};
use capos_schema::storage::DirectoryClient;
use capos_schema::system::ProcessSpawnerClient;
use capos_verity::TrustStore;
use catalog::Catalog;
use core::cell::RefCell;
use report::Report;
use worker::Forge;

/// Keys whose signatures are believed.
const TRUST: &str = "etc/trust";
/// Where models lie.
const MODELS: &str = "boot/models";
/// The script of a scenario, and the one that is shipped.
const SCRIPTS: [&str; 2] = ["scenario/model.jsonl", "etc/demo.jsonl"];
/// A trust store larger than this is not read.
const MAX_TRUST: usize = 64 * 1024;

/// The script that workers play: the scenario's where there is one.
async fn script(medium: &DirectoryClient) -> Result<Option<(MemoryObjectClient, u64)>, Error> {
    for path in SCRIPTS {
        if let Ok(file) = medium.open(path).await {
            let found = file.memory().await.with_context(|| alloc::format!("mapping {path}"))?;
            log::info!("workers play {path}, {}", count(found.bytes, "byte"));
            return Ok(Some((found.memory, found.bytes)));
        }
    }
    Ok(None)
}

async fn run(env: Env) -> Result<(), Error> {
    let medium = env.cap::<DirectoryClient>("medium")?;
    let table = env.cap::<CapabilityTableClient>("table")?;
    let account = env.cap::<ResourceAccountClient>("account")?;
    let report = Rc::new(Report::new(env.cap::<AuditWriterClient>("audit")?));
    let trust = medium::read_file(&medium, TRUST, MAX_TRUST).await?;
    let trust = TrustStore::parse(&trust).context(TRUST)?;
    let forge = Rc::new(Forge {
        spawner: env.cap::<ProcessSpawnerClient>("spawner")?,
        account: account.clone(),
        table: table.clone(),
        timer: env.cap::<TimerClient>("timer")?,
        script: script(&medium).await?,
        policy: RefCell::default(),
        report: report.clone(),
    });
    let catalog = Catalog::new(medium, trust, table, account, env.server().clone(), report, forge);
    let registered = catalog.register_all(MODELS).await?;
    log::info!("{} registered", count(registered, "model"));
    env.serve(0, Rc::new(ModelCatalogService(catalog.clone())));
    env.serve(1, Rc::new(ModelAdminService(catalog)));
    env.run().await
}
capos_rt::program!(run);
