//! What sessions are built of: the capabilities that the broker holds to hand on.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_rt::{Context, Env, Error, log};
use capos_schema::audit::{AuditLogClient, AuditWriterClient};
use capos_schema::authority::Profile;
use capos_schema::cap::{CallError, Cap, Client, Rights};
use capos_schema::conversations::{ConversationAdminClient, ConversationStoreClient};
use capos_schema::kernel::CapabilityTableClient;
use capos_schema::manifest::{SessionGrant, SessionProfile};
use capos_schema::models::ModelCatalogClient;
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{SessionObserverClient, StateKeeperClient};

/// How long a file system may take to say what is read-only of it, in nanoseconds. Sessions wait for that.
const PATIENCE: u64 = 10_000_000_000;
/// The same for the conversations of a principal: the session asks again later.
const CONVERSATIONS_PATIENCE: u64 = 2_000_000_000;

/// Conversations that are deleted before more are listed.
const FORGOTTEN_AT_ONCE: u32 = 100;

/// The building blocks.
pub struct CapabilityPool {
    /// Makes the writers of sessions.
    pub audit: AuditLogClient,
    /// The broker's own writer.
    pub writer: AuditWriterClient,
    /// The models.
    pub catalog: ModelCatalogClient,
    /// Makes the stores of principals, where conversations are kept.
    conversations: Option<ConversationAdminClient>,
    /// Told when a session has ended, where there is somebody to tell.
    pub observer: Option<SessionObserverClient>,
    /// The process's own table, to derive from and to revoke in.
    pub table: CapabilityTableClient,
    /// Keeps what is counted against people over a restart.
    pub keeper: StateKeeperClient,
    /// What sessions hold, by profile, as the manifest says.
    held: Vec<(Profile, Vec<Block>)>,
}

/// What each session of a profile gets of one capability.
struct Block {
    grant: SessionGrant,
    cap: Cap,
}

/// A capability for one session.
pub struct Part {
    pub name: String,
    pub interface: u64,
    pub cap: Cap,
    /// The rights that a session gets of it at most.
    pub rights: Rights,
    /// What the manifest calls its source.
    pub from: String,
    /// Whether it is the read-only form, whose changing methods are no tools.
    pub read_only: bool,
}

impl CapabilityPool {
    /// The blocks of this process, with those that the profiles name.
    ///
    /// # Errors
    /// One is missing.
    pub fn of(env: &Env, profiles: &[SessionProfile]) -> Result<Self, Error> {
        let mut held = Vec::new();
        for profile in profiles {
            let mut list = Vec::new();
            for grant in &profile.grants {
                let cap = env.raw(&grant.held).with_context(|| {
                    format!("`{}` of profile {} was not given to the broker", grant.held, profile.profile.name())
                })?;
                list.push(Block { grant: grant.clone(), cap });
            }
            held.push((profile.profile, list));
        }
        Ok(Self {
            audit: env.cap("audit-log")?,
            writer: env.cap("audit")?,
            catalog: env.cap("catalog")?,
            conversations: env.optional("conversations")?,
            observer: env.optional::<SessionObserverClient>("observer")?,
            table: env.cap("table")?,
            keeper: env.cap("keeper")?,
            held,
        })
    }

    /// The conversations of a principal. Those of guests, and of people who have not logged in, are not kept.
    pub async fn conversations(&self, profile: Profile, principal: &str) -> Option<Part> {
        let conversations = self.conversations.as_ref().filter(|_| profile == Profile::Operator)?;
        let asked = capos_rt::timeout(CONVERSATIONS_PATIENCE, conversations.of(principal)).await;
        match asked.and_then(|answered| Ok(answered.context("it does not answer")??)) {
            Ok(store) => Some(Part {
                name: String::from("conversations"),
                interface: ConversationStoreClient::INTERFACE_ID,
                cap: store.into_cap(),
                rights: Rights::CALL.union(Rights::GRANT),
                from: String::new(),
                read_only: false,
            }),
            Err(why) => {
                log::info!("{principal} has no saved conversations now: {why}");
                None
            }
        }
    }

    /// Deletes what is kept for a principal, whom nobody is any more.
    ///
    /// # Errors
    /// It cannot be deleted now.
    pub async fn forget(&self, principal: &str) -> Result<(), CallError> {
        let Some(conversations) = &self.conversations else { return Ok(()) };
        let store = conversations.of(principal).await?;
        loop {
            let page = store.list("", FORGOTTEN_AT_ONCE).await?;
            if page.conversations.is_empty() {
                return Ok(());
            }
            for conversation in page.conversations {
                store.remove(&conversation.id).await?;
            }
        }
    }

    /// What a session of this profile is built of. What cannot be had now is left out.
    pub async fn parts(&self, profile: Profile) -> Vec<Part> {
        let mut parts = Vec::new();
        let held = self.held.iter().filter(|(of, _)| *of == profile).flat_map(|(_, held)| held);
        for Block { grant, cap } in held {
            let cap = if grant.read_only {
                let directory = DirectoryClient::from_cap(cap.clone());
                let asked = capos_rt::timeout(PATIENCE, directory.read_only()).await;
                match asked.and_then(|answered| Ok(answered.context("it does not answer")??)) {
                    Ok(directory) => directory.into_cap(),
                    Err(why) => {
                        log::warning!("a session opens without `{}`: {why}", grant.name);
                        continue;
                    }
                }
            } else {
                cap.clone()
            };
            let rights = Rights(grant.rights);
            parts.push(Part {
                name: grant.name.clone(),
                interface: grant.interface,
                cap,
                rights,
                from: grant.held.clone(),
                read_only: grant.read_only,
            });
        }
        parts
    }
}
