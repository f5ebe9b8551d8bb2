//! Exports the audit log and the home directory when a scenario's session ends, or the one that the scenario's file
//! `sessions` counts, then turns the machine off.
//!
//! Provides: `SessionObserver` (0). If the medium holds no scenario it does nothing.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod export;
mod wire;

use alloc::rc::Rc;
use alloc::string::String;
use capos_rt::{Context, Env, Error, log};
use capos_schema::audit::AuditReaderClient;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::IoPortsClient;
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{PowerClient, SessionObserverServer, SessionObserverService};
use core::cell::{Cell, RefCell};
use export::Archive;
use wire::Wire;

/// The file that makes a run a scenario.
const SCENARIO: &str = "scenario/config.toml";

/// Bytes that one answer of the audit log may have: a record alone can be as long as the arguments in it.
const ANSWER: u32 = 320 << 10;

/// How many sessions end before the run is over, as a number in a text; one if there is no such file.
const SESSIONS: &str = "scenario/sessions";
/// The longest such number.
const DIGITS: u32 = 16;

struct Exporter {
    wire: Option<Wire>,
    audit: AuditReaderClient,
    /// Of the last session that had one of its own; before that, what the others look at.
    home: RefCell<DirectoryClient>,
    power: PowerClient,
    /// A run is exported once, whichever other event also reports that a session has ended.
    exported: Cell<bool>,
    /// How many sessions are still to end.
    left: Cell<u32>,
}

impl Exporter {
    async fn export(&self, wire: &Wire) -> Result<(), Error> {
        let archive = Archive::begin(wire).await?;
        archive.audit(&self.audit).await?;
        let home = self.home.borrow().clone();
        archive.tree(&home).await?;
        archive.end().await
    }
}

impl SessionObserverServer for Exporter {
    async fn ended(&self, _cx: &CallContext, session: String, home: Option<DirectoryClient>) -> Result<(), CallError> {
        let Some(wire) = &self.wire else { return Ok(()) };
        if let Some(home) = home {
            *self.home.borrow_mut() = home;
        }
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() > 0 || self.exported.replace(true) {
            return Ok(());
        }
        log::info!("session {session} ended: exporting");
        if let Err(error) = self.export(wire).await {
            log::error!("the export is incomplete: {error}");
        }
        self.power.power_off().await
    }
}

/// How many sessions the scenario has.
async fn sessions(medium: &DirectoryClient) -> Result<u32, Error> {
    if medium.stat(SESSIONS).await.is_err() {
        return Ok(1);
    }
    let data = medium.open(SESSIONS).await?.read(0, DIGITS).await?;
    let number = core::str::from_utf8(&data).ok().and_then(|text| text.trim().parse().ok());
    number.context("the scenario's file `sessions` does not hold a number of sessions")
}

async fn run(env: Env) -> Result<(), Error> {
    let medium = env.cap::<DirectoryClient>("medium")?;
    let wire = match medium.stat(SCENARIO).await {
        Ok(_) => Wire::open(env.cap::<IoPortsClient>("ports")?).await?,
        Err(_) => None,
    };
    let exporter = Exporter {
        wire,
        audit: capos_rt::with_results(&env.cap::<AuditReaderClient>("audit")?, ANSWER),
        home: RefCell::new(env.cap("home")?),
        power: env.cap::<PowerClient>("power")?,
        exported: Cell::new(false),
        left: Cell::new(sessions(&medium).await?),
    };
    env.serve(0, Rc::new(SessionObserverService(Rc::new(exporter))));
    env.run().await
}
capos_rt::program!(run);
