//! Verifies model weights, pages them in block by checked block, and serves the model catalog.
//!
//! Provides: `ModelCatalog` (0), `ModelAdmin` (1) and `ModelStore` (2).
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod catalog;
mod installed;
mod medium;
mod report;
mod weights;
mod worker;

use alloc::rc::Rc;
use alloc::string::String;
use capos_plural::count;
use capos_rt::{Context, Env, Error, log};
use capos_schema::audit::AuditWriterClient;
use capos_schema::kernel::{
    CapabilityTableClient, EntropyClient, MemoryObjectClient, ResourceAccountClient, TimerClient,
};
use capos_schema::models::{ModelAdminService, ModelCatalogService, ModelFolderClient, ModelStoreService};
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{ProcessSpawnerClient, SystemStatusClient};
use capos_verity::TrustStore;
use catalog::Catalog;
use core::cell::RefCell;
use installed::Installed;
use report::Report;
use worker::{FRAME, Forge};

/// Keys whose signatures are believed.
const TRUST: &str = "etc/trust";
/// The folder of models.
const MODELS: &str = "boot/models";
/// The script of a scenario.
const SCENARIO_SCRIPT: &str = "scenario/model.jsonl";
/// Scripts; the first existing one is played: a scenario's, and the shipped one.
const SCRIPTS: [&str; 2] = [SCENARIO_SCRIPT, "etc/demo.jsonl"];
/// Names of model files, one a line, in the order in which they are offered.
const ORDER: &str = "etc/models";
/// A trust store or an order larger than this is not read.
const MAX_TEXT: usize = 64 * 1024;
/// How much of a script is read for what its first line says of its model.
const FIRST_LINE: usize = 4096;

/// In which order models are offered, if the image says so.
async fn order(medium: &DirectoryClient) -> Result<String, Error> {
    if medium.open(ORDER).await.is_err() {
        return Ok(String::new());
    }
    String::from_utf8(medium::read_file(medium, ORDER, MAX_TEXT).await?).context(ORDER)
}

/// The script that workers play, its length, and whether it says that its model summarises: the scenario's if there is one.
async fn script(medium: &DirectoryClient) -> Result<Option<(MemoryObjectClient, u64, bool)>, Error> {
    for path in SCRIPTS {
        if let Ok(file) = medium.open(path).await {
            let found = file.memory().await.with_context(|| alloc::format!("mapping {path}"))?;
            log::info!("workers play {path}, {}", count(found.bytes, "byte"));
            let first =
                medium::read_range(&file, 0, FIRST_LINE).await.with_context(|| alloc::format!("reading {path}"))?;
            return Ok(Some((found.memory, found.bytes, capos_script::summarises(&first))));
        }
    }
    Ok(None)
}

async fn run(env: Env) -> Result<(), Error> {
    let medium = env.cap::<DirectoryClient>("medium")?;
    let table = env.cap::<CapabilityTableClient>("table")?;
    let account = env.cap::<ResourceAccountClient>("account")?;
    let report = Rc::new(Report::new(env.cap::<AuditWriterClient>("audit")?));
    let trust = medium::read_file(&medium, TRUST, MAX_TEXT).await?;
    let trust = TrustStore::parse(&trust).context(TRUST)?;
    // All of it: the free part differs from one start to the next, and a model's description should not.
    let status =
        env.cap::<SystemStatusClient>("status")?.statistics().await.context("asking for the memory there is")?;
    let forge = Rc::new(Forge {
        spawner: env.cap::<ProcessSpawnerClient>("spawner")?,
        account: account.clone(),
        table: table.clone(),
        timer: env.cap::<TimerClient>("timer")?,
        entropy: env.cap::<EntropyClient>("entropy")?,
        script: script(&medium).await?,
        machine: status.total_frames.saturating_mul(FRAME),
        policy: RefCell::default(),
        report: report.clone(),
    });
    let order = order(&medium).await?;
    // A scenario with a script tests the script's output.
    let scripted = medium.open(SCENARIO_SCRIPT).await.is_ok();
    let catalog = Catalog::new(medium, trust, table, account, env.server().clone(), report, forge);
    let registered = catalog.register_all(MODELS, &order, scripted).await?;
    log::info!("{} registered", count(registered, "model"));
    env.serve(0, Rc::new(ModelCatalogService(catalog.clone())));
    env.serve(1, Rc::new(ModelAdminService(catalog.clone())));
    let installed = Installed::new(catalog);
    capos_rt::spawn(installed.clone().find(env.optional::<ModelFolderClient>("models")?));
    env.serve(2, Rc::new(ModelStoreService(installed)));
    env.run().await
}
capos_rt::program!(run);
