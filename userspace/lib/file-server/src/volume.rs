//! What all that is served shares.

use alloc::rc::Rc;
use alloc::string::ToString;
use core::cell::Cell;

use capos_async_lock::Waiters;
use capos_rt::{Server, log};
use capos_schema::cap::{CallError, Dispatch};
use capos_schema::kernel::{PagerService, ResourceAccountClient, TimerClient};
use capos_schema::storage::{DirectoryService, EntryInfo, EntryKind, FileError, FileStatus};
use capos_tree::{FileTree, Info, Kind, NodeId, PathError, Trails, Tree, TreeError};

use crate::directory::DirectoryObject;
use crate::locks::LockQueue;
use crate::memory::{FilePager, Memories};

/// The key of the durable capability to the root, read-only.
pub(crate) const READ_ONLY_ROOT: u64 = 0;
/// Changes are on the medium this much later at the latest, in nanoseconds.
const SYNCED_AFTER: u64 = 1_000_000_000;

/// A tree and what is known of those who use it.
pub struct Volume<T> {
    pub(crate) tree: T,
    timer: TimerClient,
    pub(crate) exporter: Rc<Server>,
    pub(crate) locks: LockQueue,
    pub(crate) trails: Trails,
    pub(crate) memories: Option<Memories>,
    is_changed: Cell<bool>,
    changed: Waiters,
}

impl<T: FileTree + 'static> Volume<T> {
    /// A volume. `start` is the time since power-on, in nanoseconds. If it has an account, files to read are also served as
    /// paged memory, which the account pays for.
    pub fn new(
        tree: T,
        timer: TimerClient,
        exporter: Rc<Server>,
        start: u64,
        account: Option<ResourceAccountClient>,
    ) -> Rc<Self> {
        Rc::new(Self {
            tree,
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

    /// Answers what earlier instances of the service have given out for ever.
    pub fn serve_durable(self: &Rc<Self>) {
        let volume = self.clone();
        self.exporter.serve_durable(move |key| {
            if let Some(id) = FilePager::<T>::node(key) {
                volume.memories.as_ref()?;
                return Some(Rc::new(PagerService(Rc::new(FilePager::new(&volume, id)))));
            }
            let (trail, writable) = if key == READ_ONLY_ROOT { Default::default() } else { volume.trails.find(key) };
            let root: Rc<dyn Dispatch> =
                Rc::new(DirectoryService(Rc::new(DirectoryObject::new(&volume, Tree::ROOT, writable, trail))));
            Some(root)
        });
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
            Err(TreeError::NoSpace { .. }) if self.make_room() => change(&self.tree).await,
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
        TreeError::NoSpace { .. } => CallError::overloaded(error.to_string()),
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
            TreeError::NoSpace { .. } => FileError::NoSpace,
            TreeError::TooLarge => FileError::TooLarge,
            TreeError::ReadOnly(_) => FileError::ReadOnly,
            TreeError::Medium(_) => return Err(refused(error)),
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
