//! The authority broker: decides which session may do what.
//!
//! Provides: `AuthorityBroker` (0). It issues sessions, decides on every tool call, checks the passphrase for step-ups,
//! gives sessions their models without ever giving them the catalog, and counts what they ask of them. Each decision is in the audit
//! log before it is told; what cannot be recorded is not decided.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod administration;
mod broker;
mod capability_pool;
mod decision;
mod in_use;
mod metered;
mod run;
mod session;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};

use broker::object::BrokerObject;
use broker::{Broker, Sources};
use capability_pool::CapabilityPool;
use capos_broker::config::Config;
use capos_broker::memory_budget::{Endpoint, QUESTIONS, REQUESTS};
use capos_broker::persisted;
use capos_broker::settings::Settings;
use capos_broker::volume::{DataVolume, Plan};
use capos_policy::ServiceEnds;
use capos_rt::{Clock, Context, Either, Env, Error, ServeOptions, Server, log, select};
use capos_schema::authority::AuthorityBrokerService;
use capos_schema::kernel::{EntropyClient, ResourceAccountClient};
use capos_schema::manifest::SessionProfilesClient;
use capos_schema::storage::DirectoryClient;
use capos_schema::store::{NamespaceClient, VaultClient, VolumeState};
use capos_setup::Unattended;
use capos_setup::unattended::Key;

/// Between two looks at a store that searches for disks, in nanoseconds.
const LOOK: u64 = 20_000_000;
/// What sets the machine up without a person: the first of them that is there.
const SETUP: [&str; 2] = ["scenario/setup.toml", "etc/setup.toml"];

/// The system's configuration, and a scenario's over it.
const FILES: [&str; 2] = ["etc/system.toml", "scenario/config.toml"];

/// How calls are received at an endpoint.
const fn options(endpoint: Endpoint) -> ServeOptions {
    let Endpoint { buffers, message_bytes, concurrent, .. } = endpoint;
    ServeOptions { buffers, message_bytes, concurrent }
}

/// The configuration files that are there.
async fn files(medium: &DirectoryClient) -> Result<alloc::vec::Vec<(&'static str, String)>, Error> {
    let mut found = alloc::vec::Vec::new();
    for path in FILES {
        if medium.stat(path).await.is_ok() {
            found.push((path, medium.read_text(path, 0, 0).await.with_context(|| format!("reading {path}"))?.text));
        } else {
            log::info!("there is no {path}");
        }
    }
    Ok(found)
}

/// What `setup.toml` says, where there is one; or what is wrong with it.
async fn plan(medium: &DirectoryClient) -> Option<Result<Plan, String>> {
    for path in SETUP {
        if medium.stat(path).await.is_ok() {
            return Some(read_plan(medium, path).await.map_err(|why| format!("the file {path} is not used: {why}")));
        }
    }
    None
}

async fn read_plan(medium: &DirectoryClient, path: &str) -> Result<Plan, String> {
    let text = medium.read_text(path, 0, 0).await.map_err(|error| error.to_string())?.text;
    let setup = Unattended::read(&text)?;
    let key = match &setup.key {
        Key::File(path) => {
            let read = medium.read_text(path, 0, 0).await;
            Some(read.map_err(|error| format!("key_file: {path} cannot be read: {error}"))?.text)
        }
        Key::Passphrase(_) => None,
    };
    Plan::new(setup, key)
}

/// Has the store work in memory, and leave the data disk unchanged.
async fn leave(vault: &VaultClient, clock: &Clock) {
    loop {
        match vault.status().await {
            Ok(volume) if volume.state == VolumeState::Searching => clock.sleep(LOOK).await,
            Ok(volume) if matches!(volume.state, VolumeState::Blank | VolumeState::Locked) => {
                if let Err(error) = vault.decline().await {
                    log::warning!("the data disk is not used, and the store still waits for it: {error}");
                }
                return;
            }
            Ok(_) => return,
            // It starts again.
            Err(_) => clock.sleep(LOOK).await,
        }
    }
}

/// The data volume, where the system has a store and its users log in with it.
fn volume(env: &Env, config: &Config) -> Result<Option<DataVolume<NamespaceClient>>, Error> {
    let vault = env.optional::<VaultClient>("vault")?;
    let Some(vault) = vault else { return Ok(None) };
    if !config.data_disk {
        let clock = env.clock()?;
        drop(capos_rt::spawn(async move { leave(&vault, &clock).await }));
        return Ok(None);
    }
    Ok(Some(DataVolume::new(vault, env.cap("namespace")?, env.clock()?)))
}

async fn start(env: Env) -> Result<(), Error> {
    let entropy = env.cap::<EntropyClient>("entropy")?;
    let salt = random(&entropy).await?;
    let medium = env.cap::<DirectoryClient>("medium")?;
    let manifest = env.cap::<SessionProfilesClient>("profiles")?;
    let sources = Sources {
        files: files(&medium).await?,
        profiles: manifest.list().await.context("reading the profiles")?,
        services: ServiceEnds::new(manifest.services().await.context("reading what services lose")?),
        salt,
    };
    // A configuration that cannot be understood stops the broker: no session is better than a wrong one.
    let (config, _) = sources.configuration(&Settings::new()).map_err(Error::new)?;
    let blocks = CapabilityPool::of(&env, &sources.profiles)?;
    let state = blocks.keeper.load().await.context("reading what was counted before a restart")?;
    let counted =
        persisted::decode(&state).context("the stored counts of passphrases, tokens and requests are malformed")?;
    let endpoint = env.cap::<ResourceAccountClient>("account")?.create_endpoint().await;
    let models = Rc::new(Server::at(endpoint.context("making the endpoint for models")?, env.cap("table")?));
    let servers = (env.server().clone(), models.clone());
    let volume = (volume(&env, &config)?, env.optional("namespace")?);
    let broker =
        Broker::new((sources, config), blocks, counted, entropy, (env.clock()?, env.cap("clock")?), servers, volume);
    let prepared = broker.clone();
    drop(capos_rt::spawn(async move { prepared.prepare(plan(&medium).await).await }));
    // Of those who have no session yet.
    let share = broker.server.share();
    env.serve(0, share.bound(Rc::new(AuthorityBrokerService(Rc::new(BrokerObject(broker))))));
    // Neither returns; a failure of one of them ends the process.
    match select(models.run(options(REQUESTS)), env.run_with(options(QUESTIONS))).await {
        Either::First(ended) | Either::Second(ended) => ended,
    }
}
capos_rt::program!(start);

/// 128 random bits.
async fn random(entropy: &EntropyClient) -> Result<[u8; 16], Error> {
    let bytes = entropy.read(16).await.context("reading entropy")?;
    bytes.try_into().ok().context("the kernel gave too few random bytes")
}
