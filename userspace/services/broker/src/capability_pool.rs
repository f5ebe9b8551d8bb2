//! What sessions are built of: the capabilities that the broker holds to hand on.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_rt::{Context, Env, Error, log};
use capos_schema::audit::{AuditLogClient, AuditWriterClient};
use capos_schema::authority::Profile;
use capos_schema::cap::{CallError, Cap, Client, Rights};
use capos_schema::conversations::{ConversationAdminClient, ConversationStoreClient};
use capos_schema::kernel::CapabilityTableClient;
use capos_schema::manifest::{SessionGrant, SessionProfile};
use capos_schema::models::ModelCatalogClient;
use capos_schema::storage::{DirectoryClient, DisksClient, HomeUsage, HomesClient};
use capos_schema::system::{SessionObserverClient, StateKeeperClient};
use capos_schema::transfer::TransferVolumesClient;

/// How long a file system may take to say what is read-only of it, in nanoseconds. Sessions wait for that.
const PATIENCE: u64 = 10_000_000_000;
/// The same for a principal's home: a new one gets the image's files first.
const HOME_PATIENCE: u64 = 1_800_000_000_000;
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
    /// Gives principals their homes, where they have any.
    pub homes: Option<HomesClient>,
    /// Told when a session has ended, where there is somebody to tell.
    pub observer: Option<SessionObserverClient>,
    /// The process's own table, to derive from and to revoke in.
    pub table: CapabilityTableClient,
    /// Keeps what is counted against people over a restart.
    pub keeper: StateKeeperClient,
    /// What sessions hold, by profile, as the manifest says.
    held: Vec<(Profile, Vec<Block>)>,
    /// What the next session is to say.
    told: RefCell<String>,
}

/// What each session of a profile gets of one capability.
struct Block {
    grant: SessionGrant,
    /// None of what each principal has their own of.
    cap: Option<Cap>,
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
    /// Whether it is the principal's own home.
    pub is_home: bool,
}

impl CapabilityPool {
    /// Has the next session say something.
    pub fn tell(&self, text: String) {
        *self.told.borrow_mut() = text;
    }

    /// The blocks of this process, with those that the profiles name.
    ///
    /// # Errors
    /// One is missing.
    pub fn of(env: &Env, profiles: &[SessionProfile]) -> Result<Self, Error> {
        let mut held = Vec::new();
        for profile in profiles {
            let mut list = Vec::new();
            for grant in &profile.grants {
                let context =
                    || format!("`{}` of profile {} was not given to the broker", grant.held, profile.profile.name());
                let cap = if grant.of_principal { None } else { Some(env.raw(&grant.held).with_context(context)?) };
                list.push(Block { grant: grant.clone(), cap });
            }
            held.push((profile.profile, list));
        }
        Ok(Self {
            audit: env.cap("audit-log")?,
            writer: env.cap("audit")?,
            catalog: env.cap("catalog")?,
            conversations: env.optional("conversations")?,
            homes: env.optional("homes")?,
            observer: env.optional::<SessionObserverClient>("observer")?,
            told: RefCell::default(),
            table: env.cap("table")?,
            keeper: env.cap("keeper")?,
            held,
        })
    }

    /// The transfer volumes, as an operator's session gets them.
    ///
    /// # Errors
    /// The manifest gives them to no operator.
    pub fn volumes(&self) -> Result<TransferVolumesClient, CallError> {
        self.of_operator().ok_or_else(|| CallError::failed("this system uses no transfer volumes"))
    }

    /// The list of disks, as an operator's session gets it.
    ///
    /// # Errors
    /// The manifest gives it to no operator.
    pub fn disks(&self) -> Result<DisksClient, CallError> {
        self.of_operator().ok_or_else(|| CallError::failed("operators of this system see no disks"))
    }

    fn of_operator<C: Client>(&self) -> Option<C> {
        let held = self.held.iter().filter(|(of, _)| *of == Profile::Operator).flat_map(|(_, held)| held);
        let mut found = held.filter(|block| block.grant.interface == C::INTERFACE_ID);
        found.find_map(|block| block.cap.clone()).map(C::from_cap)
    }

    /// Gives what is kept for a principal to another one.
    ///
    /// # Errors
    /// The other one has some already, or it cannot be done now.
    pub async fn rename(&self, principal: &str, to: &str) -> Result<(), CallError> {
        if let Some(homes) = &self.homes {
            homes.rename(principal, to).await?;
        }
        match &self.conversations {
            Some(conversations) => conversations.rename(principal, to).await,
            None => Ok(()),
        }
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
                is_home: false,
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
        if let Some(homes) = &self.homes {
            homes.remove(principal).await?;
        }
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

    /// What a principal's home takes, and what it may take by this quota.
    ///
    /// # Errors
    /// The file server does not tell.
    pub async fn usage(&self, principal: &str, quota: &str) -> Result<HomeUsage, CallError> {
        match &self.homes {
            Some(homes) => homes.usage(principal, quota).await,
            None => Ok(HomeUsage::default()),
        }
    }

    /// Changes what a principal's home may take.
    ///
    /// # Errors
    /// The file server does not do it now.
    pub async fn limit(&self, principal: &str, quota: &str) -> Result<(), CallError> {
        match &self.homes {
            Some(homes) => homes.limit(principal, quota).await,
            None => Ok(()),
        }
    }

    /// What a session of this profile is built of. What cannot be had now is left out; of a home the reason is returned.
    pub async fn parts(&self, profile: Profile, principal: &str, quota: &str) -> (Vec<Part>, String) {
        let (mut parts, mut notice) = (Vec::new(), self.told.take());
        let held = self.held.iter().filter(|(of, _)| *of == profile).flat_map(|(_, held)| held);
        for Block { grant, cap } in held {
            let patience = if grant.of_principal { HOME_PATIENCE } else { PATIENCE };
            let asked = capos_rt::timeout(patience, self.cap(grant, cap.as_ref(), (principal, quota))).await;
            let cap = match asked.and_then(|answered| answered.context("it does not answer")?) {
                Ok(cap) => cap,
                Err(why) => {
                    log::warning!("a session opens without `{}`: {why}", grant.name);
                    if grant.of_principal {
                        let before = if notice.is_empty() { "" } else { "; " };
                        notice = format!("{notice}{before}this session has no home: {why}");
                    }
                    continue;
                }
            };
            parts.push(Part {
                name: grant.name.clone(),
                interface: grant.interface,
                cap,
                rights: Rights(grant.rights),
                from: grant.held.clone(),
                read_only: grant.read_only,
                is_home: grant.of_principal,
            });
        }
        (parts, notice)
    }

    /// What a session of a principal is given for a grant.
    async fn cap(
        &self,
        grant: &SessionGrant,
        cap: Option<&Cap>,
        (principal, quota): (&str, &str),
    ) -> Result<Cap, Error> {
        let cap = match cap {
            Some(cap) => cap.clone(),
            None => {
                let homes = self.homes.as_ref().context("the broker was given no `homes`")?;
                match homes.of(principal, quota).await {
                    // The file server has ended meanwhile, and starts again.
                    Err(error) if error.is_disconnected() => homes.of(principal, quota).await?.into_cap(),
                    home => home?.into_cap(),
                }
            }
        };
        if grant.read_only {
            return Ok(DirectoryClient::from_cap(cap).read_only().await?.into_cap());
        }
        Ok(cap)
    }
}
