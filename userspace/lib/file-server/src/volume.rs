//! What all that is served shares.

use alloc::rc::Rc;
use alloc::string::ToString;
use core::cell::Cell;

use capos_async_lock::Waiters;
use capos_rt::{Server, log};
use capos_schema::cap::{CallError, Client, Dispatch};
use capos_schema::kernel::{PagerService, ResourceAccountClient, TimerClient};
use capos_schema::storage::{DirectoryClient, DirectoryService, EntryInfo, EntryKind, FileError, FileStatus};
use capos_tree::{FileTree, Info, Kind, NodeId, PathError, Trails, Tree, TreeError};

use crate::directory::DirectoryObject;
use crate::key::Key;
use crate::locks::LockQueue;
use crate::memory::{FilePager, Memories};

/// Changes are on the medium this much later at the latest, in nanoseconds.
const SYNCED_AFTER: u64 = 1_000_000_000;

/// A tree and what is known of those who use it.
pub struct Volume<T> {
    pub(crate) tree: T,
    number: u64,
    timer: TimerClient,
    pub(crate) exporter: Rc<Server>,
    pub(crate) locks: LockQueue,
    pub(crate) trails: Trails,
    pub(crate) memories: Option<Memories>,
    is_changed: Cell<bool>,
    changed: Waiters,
}

impl<T: FileTree + 'static> Volume<T> {
    /// A volume. `number` tells it from the service's others. `start` is the time since power-on, in nanoseconds. If it has an
    /// account, files to read are also served as paged memory, which the account pays for.
    pub fn new(
        (tree, number): (T, u64),
        timer: TimerClient,
        exporter: Rc<Server>,
        start: u64,
        account: Option<ResourceAccountClient>,
    ) -> Rc<Self> {
        Rc::new(Self {
            tree,
            number,
            timer,
            exporter,
            locks: LockQueue::default(),
            trails: Trails::new(start),
            memories: account.map(Memories::new),
            is_changed: Cell::new(false),
            changed: Waiters::default(),
        })
    }

    /// The tree, for filling it at start.
    pub fn tree(&self) -> &T {
        &self.tree
    }

    /// What earlier instances of the service have given out under a key.
    pub fn find(self: &Rc<Self>, key: u64) -> Option<Rc<dyn Dispatch>> {
        match Key::decode(key).1 {
            Key::Pager(id) => {
                self.memories.as_ref()?;
                Some(Rc::new(PagerService(Rc::new(FilePager::new(self, id)))))
            }
            Key::Root { trail, writable } => {
                let trail = if trail == 0 { Default::default() } else { self.trails.find(trail) };
                Some(Rc::new(DirectoryService(Rc::new(DirectoryObject::new(self, Tree::ROOT, writable, trail)))))
            }
        }
    }

    /// The root, as a capability that outlives this instance of the service.
    ///
    /// # Errors
    /// The process has no room for a capability.
    pub fn root(&self, writable: bool) -> Result<DirectoryClient, CallError> {
        self.durable(Key::Root { trail: 0, writable })
    }

    /// A capability that outlives this instance of the service.
    pub(crate) fn durable<C: Client>(&self, key: Key) -> Result<C, CallError> {
        let key = key.encode(self.number).ok_or_else(|| CallError::overloaded("the file server has no number left"))?;
        Ok(C::from_cap(self.exporter.durable(key, C::INTERFACE_ID)?))
    }

    /// Syncs the tree after changes, for ever.
    pub async fn keep_synced(self: Rc<Self>) {
        loop {
            self.changed.until(|| self.is_changed.get().then_some(())).await;
            if capos_rt::sleep(SYNCED_AFTER).await.is_err() {
                return;
            }
            self.is_changed.set(false);
            if let Err(error) = self.tree.sync(self.tree.losses()).await {
                log::error!("changes are not on the medium: {error}");
            }
        }
    }

    /// Milliseconds since 1970: the tree's times.
    pub(crate) async fn now(&self) -> i64 {
        self.timer.wall_clock().await.ok().and_then(|time| i64::try_from(time).ok()).unwrap_or(0)
    }

    /// Changes the tree. If there is no space, files that have lost their names and their holders go first.
    pub(crate) async fn change<R>(&self, change: impl AsyncFn(&T) -> Result<R, TreeError>) -> Result<R, TreeError> {
        let changed = match change(&self.tree).await {
            Err(TreeError::NoSpace { .. } | TreeError::Quota { .. }) if self.make_room() => change(&self.tree).await,
            other => other,
        };
        if changed.is_ok() && !self.is_changed.replace(true) {
            self.changed.wake();
        }
        changed
    }

    /// The same, and answers when the change is on the medium.
    pub(crate) async fn change_durably<R>(
        &self,
        change: impl AsyncFn(&T) -> Result<R, TreeError>,
    ) -> Result<R, TreeError> {
        let losses = self.tree.losses();
        let changed = self.change(change).await?;
        self.tree.sync(losses).await?;
        Ok(changed)
    }

    /// Notes that a file's content has changed.
    pub(crate) fn forget_memory(&self, id: NodeId) {
        if let Some(memories) = &self.memories {
            memories.forget(&self.tree, id);
        }
    }

    /// Closes files that have lost their holders.
    fn make_room(&self) -> bool {
        let dropped = self.memories.as_ref().is_some_and(|memories| memories.clear(&self.tree));
        self.exporter.sweep() > 0 || dropped
    }
}

/// What a caller is told that gets no [`FileError`].
pub(crate) fn refused(error: TreeError) -> CallError {
    match error {
        TreeError::NoSpace { .. } | TreeError::Quota { .. } => CallError::overloaded(error.to_string()),
        TreeError::Gone => CallError::disconnected(error.to_string()),
        TreeError::Medium(_) => CallError::failed(error.to_string()),
        _ => CallError::invalid_argument(error.to_string()),
    }
}

/// What a program is told.
///
/// # Errors
/// What the tree lies on failed.
pub(crate) fn told<T>(result: Result<T, TreeError>) -> Result<Result<T, FileError>, CallError> {
    Ok(Err(match result {
        Ok(value) => return Ok(Ok(value)),
        Err(error) => match error {
            TreeError::Path(PathError::TooLong | PathError::NameTooLong(_)) => FileError::TooLong,
            TreeError::Path(PathError::NoName) => FileError::IsDirectory,
            TreeError::Path(_) => FileError::BadPath,
            TreeError::NotFound(_) | TreeError::Gone => FileError::NotFound,
            TreeError::IsDirectory(_) => FileError::IsDirectory,
            TreeError::NotDirectory(_) => FileError::NotDirectory,
            TreeError::Exists(_) => FileError::Exists,
            TreeError::NotEmpty(_) => FileError::NotEmpty,
            TreeError::IntoItself(_) => FileError::IntoItself,
            TreeError::NoSpace { .. } | TreeError::Quota { .. } => FileError::NoSpace,
            TreeError::TooLarge => FileError::TooLarge,
            TreeError::ReadOnly(_) => FileError::ReadOnly,
            TreeError::Changed(_) | TreeError::TooLong { .. } | TreeError::TooMany(_) | TreeError::Medium(_) => {
                return Err(refused(error));
            }
        },
    }))
}

fn kind(kind: Kind) -> EntryKind {
    match kind {
        Kind::File => EntryKind::File,
        Kind::Directory => EntryKind::Directory,
    }
}

pub(crate) fn entry(info: Info) -> EntryInfo {
    EntryInfo { name: info.name, kind: kind(info.kind), bytes: info.bytes, modified_unix: info.modified / 1000 }
}

pub(crate) fn status(node: NodeId, info: &Info) -> FileStatus {
    FileStatus { kind: kind(info.kind), bytes: info.bytes, modified_milliseconds: info.modified, id: node.number() }
}
