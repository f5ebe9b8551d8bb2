//! The homes, by the names of their principals.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_async_lock::{AsyncMutex, Turns};
use capos_file_server::{MAX_TREES, Volume, fill, tree_of};
use capos_files::{APART, Files, QUOTAS, SEALED};
use capos_keyspace::{Batch, Durability, Fault, Keyspace, Within};
use capos_plural::count;
use capos_policy::Quota;
use capos_rt::{Context, Env, Error, exit, exit_code, log};
use capos_schema::cap::{CallContext, CallError, Dispatch};
use capos_schema::kernel::{ResourceAccountClient, TimerClient};
use capos_schema::models::{ModelFolderOpenResults, ModelFolderServer};
use capos_schema::storage::{DirectoryClient, HomeUsage, HomesServer};
use capos_schema::store::{NamespaceClient, StoreFault};

/// Whose home the folder of installed models is. No principal has such a name.
const MODELS: &str = "\0models";
/// Bytes of a principal's name at most.
const MAX_NAME: usize = 64;

type Home = Files<Within<NamespaceClient>>;

/// The homes.
pub struct Homes {
    env: Env,
    space: NamespaceClient,
    timer: TimerClient,
    account: ResourceAccountClient,
    of: capos_files::Homes<NamespaceClient>,
    open: RefCell<BTreeMap<u16, Rc<Volume<Home>>>>,
    /// One task at a time looks up and changes which homes there are.
    turn: Rc<AsyncMutex>,
    /// One task at a time opens, fills or removes a home; others have theirs meanwhile.
    turns: Turns<u16>,
}

/// What somebody is told of a store that does not answer as it should.
fn told(fault: &Fault) -> CallError {
    match fault {
        Fault::Full(_) | Fault::Quota(_) => CallError::overloaded(fault.to_string()),
        _ => CallError::failed(fault.to_string()),
    }
}

/// What the store answers. If it has ended meanwhile it continues in another process, and is called once more.
async fn again<T>(call: impl AsyncFn() -> Result<T, Fault>) -> Result<T, Fault> {
    match call().await {
        Err(Fault::Lost(_)) => call().await,
        answer => answer,
    }
}

/// Ends this process with that of a store in memory, with which all homes end: the next one begins with none.
async fn end_with(space: NamespaceClient) {
    let Err(error) = space.watch().await else { return };
    log::error!("the homes were in memory, and the store has ended: {error}; log in again for a new home");
    exit(exit_code::FAILURE);
}

impl Homes {
    /// The homes in the store's namespace.
    ///
    /// # Errors
    /// A grant is missing.
    pub fn new(env: &Env) -> Result<Rc<Self>, Error> {
        let space: NamespaceClient = env.cap("store")?;
        Ok(Rc::new(Self {
            env: env.clone(),
            of: capos_files::Homes::new(space.clone(), u16::try_from(MAX_TREES).unwrap_or(u16::MAX)),
            space,
            timer: env.cap("timer")?,
            account: env.cap("account")?,
            open: RefCell::default(),
            turn: Rc::default(),
            turns: Turns::default(),
        }))
    }

    /// Whether the volume is locked.
    ///
    /// # Errors
    /// The store fails.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        match self.info().await {
            Ok(_) => Ok(false),
            Err(Fault::Locked) => Ok(true),
            Err(fault) => Err(Error::new(fault.to_string())),
        }
    }

    async fn info(&self) -> Result<capos_keyspace::Info, Fault> {
        again(async || Keyspace::info(&self.space).await).await
    }

    /// Waits until the volume is open, and opens every home that is not locked, for those who hold one from an earlier instance of
    /// this service. A home that cannot be opened is left out; if the disk does not tell which there are, all are.
    ///
    /// # Errors
    /// The store fails.
    pub async fn open_all(&self) -> Result<(), Error> {
        let lasting = self.space.opened().await.context("waiting for the store")?;
        if !lasting {
            drop(capos_rt::spawn(end_with(self.space.clone())));
        }
        let _turn = self.turn.lock().await;
        let numbers = match again(async || self.of.numbers().await).await {
            // Another process would meet the same, and after a few starts there would be none. Each login asks again, and is
            // told why it has no home.
            Err(fault @ (Fault::Damaged(_) | Fault::Medium(_))) => {
                log::error!("no home can be opened: {fault}");
                return Ok(());
            }
            numbers => numbers.map_err(|fault| told(&fault))?,
        };
        let used = |principal: &str| !principal.starts_with(APART) || principal == MODELS;
        for (principal, number) in numbers.iter().filter(|(principal, _)| used(principal)) {
            // Its user may be logging in.
            let _turn = self.turns.lock(*number).await;
            match self.is_sealed(principal, *number).await {
                // It is opened at its user's login.
                Ok(None) => {}
                Ok(Some(is_sealed)) => {
                    if let Err(error) = self.open(principal, *number, is_sealed).await {
                        log::error!("the home of {principal:?} cannot be opened: {error}");
                    }
                }
                Err(error) => log::error!("the home of {principal:?} cannot be opened: {error}"),
            }
        }
        log::info!(
            "{}{}",
            count(numbers.len(), "home"),
            if lasting { "" } else { ", in memory: they end with the machine" }
        );
        Ok(())
    }

    /// Whether a home is kept under a key of its own from now on; none, with the reason in the log, if it is locked.
    async fn is_sealed(&self, principal: &str, number: u16) -> Result<Option<bool>, CallError> {
        match self.protect(principal, number).await? {
            Ok(is_sealed) => Ok(Some(is_sealed)),
            Err(why) => {
                log::debug!("{why}");
                Ok(None)
            }
        }
    }

    /// The same, with the reason.
    async fn protect(&self, principal: &str, number: u16) -> Result<Result<bool, String>, CallError> {
        if principal == MODELS {
            return Ok(Ok(false));
        }
        let part = capos_files::Homes::<NamespaceClient>::prefix(number);
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (tables, named) = (texts(SEALED.tables), texts(SEALED.named));
        let mut answer = self.space.protect(&part, principal, &tables, &named).await;
        if answer.as_ref().is_err_and(CallError::is_disconnected) {
            // It continues in another process.
            answer = self.space.protect(&part, principal, &tables, &named).await;
        }
        let answer = answer?;
        match answer.fault {
            StoreFault::None => {
                if !answer.why.is_empty() {
                    log::warning!("the home of a user is not under a key of its own: {}", answer.why);
                }
                Ok(Ok(answer.sealed))
            }
            StoreFault::Locked => Ok(Err(answer.why)),
            _ => Err(CallError::failed(answer.why)),
        }
    }

    /// The home of a number.
    async fn open(&self, principal: &str, number: u16, is_sealed: bool) -> Result<Rc<Volume<Home>>, CallError> {
        if let Some(open) = self.open.borrow().get(&number) {
            return Ok(open.clone());
        }
        let tree = self.of.tree(number);
        let tree = if is_sealed { tree.sealed(SEALED) } else { tree };
        let files = Files::open(tree).await.map_err(|error| CallError::failed(error.to_string()))?;
        if principal != MODELS {
            self.begin(&files).await.map_err(|error| CallError::failed(error.to_string()))?;
            files.set_quota(self.quota(principal).await?);
        }
        let (server, start) = (self.env.server().clone(), self.now()?);
        let tree = (files, number.into());
        let volume = Volume::new(tree, self.timer.clone(), server, start, Some(self.account.clone()));
        capos_rt::spawn(volume.clone().keep_synced());
        self.open.borrow_mut().insert(number, volume.clone());
        if principal != MODELS {
            // It may have changed while the home was filled.
            volume.tree().set_quota(self.quota(principal).await?);
        }
        Ok(volume)
    }

    /// What a home may take, in bytes.
    async fn quota(&self, principal: &str) -> Result<Option<u64>, CallError> {
        let kept = self.kept_quota(principal).await?;
        // What another version of capOS has kept may not be understood.
        let quota = Quota::parse(kept.as_deref().unwrap_or("none")).unwrap_or(Quota::DEFAULT);
        Ok(quota.bytes(self.info().await.map_err(|fault| told(&fault))?.limit))
    }

    async fn kept_quota(&self, principal: &str) -> Result<Option<String>, CallError> {
        let found = again(async || Keyspace::get(&self.space, QUOTAS, principal.as_bytes()).await).await;
        Ok(found.map_err(|fault| told(&fault))?.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// Keeps what a home may take, for the next instance of this service as well, and puts it in force.
    async fn limit(&self, principal: &str, quota: &str) -> Result<(), CallError> {
        Quota::parse(quota).map_err(CallError::invalid_argument)?;
        if self.kept_quota(principal).await?.as_deref() != Some(quota) {
            let mut batch = Batch::new();
            batch.put(QUOTAS, principal.as_bytes(), quota.as_bytes());
            self.commit(&batch).await?;
        }
        let numbers = self.of.numbers().await.map_err(|fault| told(&fault))?;
        let open = numbers.get(principal).and_then(|number| self.open.borrow().get(number).cloned());
        if let Some(open) = open {
            open.tree().set_quota(self.quota(principal).await?);
        }
        Ok(())
    }

    /// Commits what can be repeated.
    async fn commit(&self, batch: &Batch) -> Result<(), CallError> {
        let done = again(async || Keyspace::commit(&self.space, batch, Durability::Now).await).await;
        done.map_err(|fault| told(&fault))
    }

    fn now(&self) -> Result<u64, CallError> {
        self.env.clock().map(|clock| clock.now()).map_err(|error| CallError::failed(error.to_string()))
    }

    /// Copies a folder of the medium into a home that never had any files: the first of the arguments that there is.
    async fn begin(&self, files: &Home) -> Result<(), Error> {
        if files.is_filled().await.context("looking at the home")? {
            return Ok(());
        }
        if let Some(medium) = self.env.optional::<DirectoryClient>("medium")? {
            for top in self.env.arguments() {
                if medium.stat(top).await.is_ok() {
                    let filled = fill(files, &medium, top).await.with_context(|| format!("copying {top}"))?;
                    log::info!("a home begins with {} from {top}", count(filled.files, "file"));
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

    /// What an instance of this service has given out under a key.
    pub fn find(&self, key: u64) -> Option<Rc<dyn Dispatch>> {
        let volume = self.open.borrow().get(&u16::try_from(tree_of(key)).ok()?).cloned()?;
        volume.find(key)
    }
}

fn check(principal: &str) -> Result<(), CallError> {
    if principal.is_empty() || principal.len() > MAX_NAME || principal.contains('\0') {
        return Err(CallError::invalid_argument(format!(
            "a principal's name has 1 to {MAX_NAME} bytes, none of them 0"
        )));
    }
    Ok(())
}

/// The homes as an object.
pub struct HomesObject(pub Rc<Homes>);

impl HomesServer for HomesObject {
    async fn of(&self, _cx: &CallContext, principal: String, quota: String) -> Result<DirectoryClient, CallError> {
        check(&principal)?;
        let homes = &self.0;
        // Nobody waits for a login here.
        homes.info().await.map_err(|fault| told(&fault))?;
        let turn = homes.turn.lock().await;
        let number = homes.of.number(&principal).await.map_err(|fault| told(&fault))?;
        match homes.limit(&principal, &quota).await {
            // A full or read-only disk closes no home.
            Err(error) if !error.is_disconnected() => log::warning!("the quota {quota} of a home is not kept: {error}"),
            done => done?,
        }
        // Filling a new home takes a while.
        drop(turn);
        let _turn = homes.turns.lock(number).await;
        if homes.of.numbers().await.map_err(|fault| told(&fault))?.get(&principal) != Some(&number) {
            return Err(CallError::failed("the home was removed meanwhile"));
        }
        let open = homes.open.borrow().get(&number).cloned();
        // One that is open and not sealed stays so until the next start.
        if let Some(open) = open.filter(|open| !open.tree().keyspace().is_sealed()) {
            return open.root(true);
        }
        let is_sealed = homes.protect(&principal, number).await?.map_err(CallError::failed)?;
        homes.open(&principal, number, is_sealed).await?.root(true)
    }

    async fn limit(&self, _cx: &CallContext, principal: String, quota: String) -> Result<(), CallError> {
        check(&principal)?;
        let _turn = self.0.turn.lock().await;
        self.0.limit(&principal, &quota).await
    }

    async fn usage(&self, _cx: &CallContext, principal: String, quota: String) -> Result<HomeUsage, CallError> {
        check(&principal)?;
        let homes = &self.0;
        let quota = Quota::parse(&quota).map_err(CallError::invalid_argument)?;
        let room = homes.info().await.map_err(|fault| told(&fault))?.limit;
        let quota_bytes = quota.bytes(room).unwrap_or_default();
        let _turn = homes.turn.lock().await;
        let numbers = homes.of.numbers().await.map_err(|fault| told(&fault))?;
        let number = numbers.get(&principal).copied();
        let used_bytes = match number {
            Some(number) => homes.of.used(number).await.map_err(|fault| told(&fault))?,
            None => 0,
        };
        let open = number.and_then(|number| homes.open.borrow().get(&number).cloned());
        // A setting that changed since a home was opened holds from the next login on.
        let quota_bytes = open.map_or(quota_bytes, |open| open.tree().quota().unwrap_or_default());
        Ok(HomeUsage { used_bytes, quota_bytes })
    }

    async fn rename(&self, _cx: &CallContext, principal: String, to: String) -> Result<(), CallError> {
        check(&principal)?;
        check(&to)?;
        let _turn = self.0.turn.lock().await;
        self.0.of.rename(&principal, &to).await.map_err(|fault| told(&fault))?;
        Ok(())
    }

    async fn written(&self, _cx: &CallContext, principal: String) -> Result<u64, CallError> {
        check(&principal)?;
        let numbers = self.0.of.numbers().await.map_err(|fault| told(&fault))?;
        let open = numbers.get(&principal).and_then(|number| self.0.open.borrow().get(number).cloned());
        Ok(open.map_or(0, |open| open.tree().written()))
    }

    async fn remove(&self, _cx: &CallContext, principal: String) -> Result<(), CallError> {
        check(&principal)?;
        let homes = &self.0;
        homes.info().await.map_err(|fault| told(&fault))?;
        let _turn = homes.turn.lock().await;
        let numbers = homes.of.numbers().await.map_err(|fault| told(&fault))?;
        // One that is being filled is removed whole.
        let _filled = match numbers.get(&principal) {
            Some(number) => Some(homes.turns.lock(*number).await),
            None => None,
        };
        let Some(number) = homes.of.remove(&principal).await.map_err(|fault| told(&fault))? else { return Ok(()) };
        homes.open.borrow_mut().remove(&number);
        log::info!("a home was deleted");
        Ok(())
    }
}

/// The folder of installed models as an object.
pub struct ModelFolderObject(pub Rc<Homes>);

impl ModelFolderServer for ModelFolderObject {
    async fn open(&self, _cx: &CallContext) -> Result<ModelFolderOpenResults, CallError> {
        let homes = &self.0;
        let lasting = homes.space.opened().await?;
        let _turn = homes.turn.lock().await;
        let number = homes.of.number(MODELS).await.map_err(|fault| told(&fault))?;
        Ok(ModelFolderOpenResults { lasting, folder: homes.open(MODELS, number, false).await?.root(true)? })
    }
}
