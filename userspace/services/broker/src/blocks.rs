//! What sessions are built of: the capabilities that the broker holds to hand on.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_rt::{Env, Error, log};
use capos_schema::audit::{AuditLogClient, AuditReaderClient, AuditWriterClient};
use capos_schema::authority::Profile;
use capos_schema::cap::{Cap, Client};
use capos_schema::kernel::CapabilityTableClient;
use capos_schema::models::ModelCatalogClient;
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{
    LauncherClient, LogReaderClient, PowerClient, ServiceSupervisorClient, SessionObserverClient, SystemStatusClient,
};

/// The building blocks.
pub struct Blocks {
    /// Makes the writers of sessions.
    pub audit: AuditLogClient,
    /// The broker's own writer.
    pub writer: AuditWriterClient,
    /// The models.
    pub catalog: ModelCatalogClient,
    /// Told when a session has ended, where there is somebody to tell.
    pub observer: Option<SessionObserverClient>,
    /// The process's own table, to derive from and to revoke in.
    pub table: CapabilityTableClient,
    blocks: Vec<Block>,
}

struct Block {
    name: &'static str,
    interface: u64,
    cap: Cap,
    profiles: &'static [Profile],
    /// Guests get the read-only form of a directory.
    home: bool,
}

/// A capability for one session.
pub struct Part {
    pub name: String,
    pub interface: u64,
    pub cap: Cap,
}

const OPERATOR: &[Profile] = &[Profile::Operator];
const KNOWN: &[Profile] = &[Profile::Operator, Profile::Guest];
const ALL: &[Profile] = &[Profile::Operator, Profile::Guest, Profile::Anonymous];

impl Blocks {
    /// The blocks of this process.
    ///
    /// # Errors
    /// One is missing.
    pub fn of(env: &Env) -> Result<Self, Error> {
        let blocks = Vec::from([
            block::<SystemStatusClient>(env, "status", "status", ALL)?,
            block::<LogReaderClient>(env, "log-reader", "logs", KNOWN)?,
            Block { home: true, ..block::<DirectoryClient>(env, "home", "home", KNOWN)? },
            block::<ServiceSupervisorClient>(env, "supervisor", "services", OPERATOR)?,
            block::<LauncherClient>(env, "launcher", "launcher", OPERATOR)?,
            block::<PowerClient>(env, "power", "power", OPERATOR)?,
            block::<AuditReaderClient>(env, "audit-reader", "audit", OPERATOR)?,
        ]);
        Ok(Self {
            audit: env.cap("audit-log")?,
            writer: env.cap("audit")?,
            catalog: env.cap("catalog")?,
            observer: env.optional::<SessionObserverClient>("observer")?,
            table: env.cap("table")?,
            blocks,
        })
    }

    /// What a session of this profile is built of. What cannot be had now is left out.
    pub async fn parts(&self, profile: Profile) -> Vec<Part> {
        let mut parts = Vec::new();
        for block in self.blocks.iter().filter(|block| block.profiles.contains(&profile)) {
            let cap = if block.home && profile != Profile::Operator {
                match DirectoryClient::from_cap(block.cap.clone()).read_only().await {
                    Ok(directory) => directory.into_cap(),
                    Err(why) => {
                        log::warning!("a session goes without `{}`: {why}", block.name);
                        continue;
                    }
                }
            } else {
                block.cap.clone()
            };
            parts.push(Part { name: block.name.to_string(), interface: block.interface, cap });
        }
        parts
    }
}

/// A block from the grant `from`, which sessions know as `name`.
fn block<C: Client>(env: &Env, from: &str, name: &'static str, profiles: &'static [Profile]) -> Result<Block, Error> {
    let client: C = env.cap(from)?;
    Ok(Block { name, interface: C::INTERFACE_ID, cap: client.into_cap(), profiles, home: false })
}
