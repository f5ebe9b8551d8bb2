//! What a file server is written against: a tree in memory, or one that lasts.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_schema::authority::Label;

use crate::{Basis, Info, NodeId, Tree, TreeError};

/// What an entry of a list takes besides its name, in bytes.
const ENTRY_BYTES: usize = 80;

/// How the node at a path is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// To write: it must be a file.
    pub write: bool,
    /// A file is made if there is nothing.
    pub create: bool,
    /// With `create`: a name that is taken is rejected.
    pub exclusive: bool,
    /// With `write`: its content is removed.
    pub truncate: bool,
    /// Whoever opens it may change the tree.
    pub writable: bool,
}

/// Where a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAt {
    /// At this offset; a gap before it becomes zeros.
    Offset(u64),
    /// At its end.
    End,
}

/// What may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// A file or an empty directory.
    Any,
    /// A file, and nothing else.
    File,
    /// An empty directory, and nothing else.
    Directory,
}

/// Entries of a directory, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<(NodeId, Info)>,
    /// There are more, whose names come after these.
    pub more: bool,
    bytes: usize,
}

impl Listing {
    /// How many entries a list of `most` bytes has at most, and the first that does not fit.
    #[must_use]
    pub fn most_entries(most: usize) -> usize {
        (most / ENTRY_BYTES).saturating_add(1)
    }

    /// Adds an entry if a list of `most` bytes has room for it. Whether it had.
    pub fn add(&mut self, id: NodeId, info: Info, most: usize) -> bool {
        self.bytes = self.bytes.saturating_add(info.name.len()).saturating_add(ENTRY_BYTES);
        self.more = self.bytes > most;
        if !self.more {
            self.entries.push((id, info));
        }
        !self.more
    }
}

/// A tree of files that is served. Each method does all or nothing, and sees no other one half done.
///
/// Times are in milliseconds since 1970.
#[allow(async_fn_in_trait, reason = "served on the thread that made it")]
pub trait FileTree {
    /// The node at a path below `base`.
    ///
    /// # Errors
    /// The path is refused, does not exist, or passes through a file.
    async fn status(&self, base: NodeId, path: &str) -> Result<(NodeId, Info), TreeError>;

    /// What a node is.
    ///
    /// # Errors
    /// [`TreeError::Gone`].
    async fn info(&self, id: NodeId) -> Result<Info, TreeError>;

    /// Entries of a directory whose names come after `after`, in a list of at most `most` bytes.
    ///
    /// # Errors
    /// As [`Self::status`]; not a directory.
    async fn list_after(&self, base: NodeId, path: &str, after: &str, most: usize) -> Result<Listing, TreeError>;

    /// Opens what is at a path. A file is held by that and stays when its name is removed, until [`Self::close`].
    ///
    /// # Errors
    /// What the options say; no space.
    async fn open_at(&self, base: NodeId, path: &str, opening: Opening, now: i64) -> Result<(NodeId, Info), TreeError>;

    /// Holds a file once more.
    ///
    /// # Errors
    /// Not a file, or gone.
    async fn hold(&self, id: NodeId) -> Result<(), TreeError>;

    /// Releases a file that was opened or held, once.
    fn close(&self, id: NodeId);

    /// At most `count` bytes of a file from `offset` on, and the file's label.
    ///
    /// # Errors
    /// Not a file, or gone.
    async fn read(&self, id: NodeId, offset: u64, count: usize) -> Result<(Vec<u8>, Label), TreeError>;

    /// Writes, and joins the label of what is written to the file's. Where it was written.
    ///
    /// # Errors
    /// Not a file, gone, no space.
    async fn write(&self, id: NodeId, at: WriteAt, data: &[u8], label: &Label, now: i64) -> Result<u64, TreeError>;

    /// Cuts a file, or extends it with zeros, and joins a label to the file's.
    ///
    /// # Errors
    /// Not a file, gone, no space.
    async fn truncate(&self, id: NodeId, length: u64, label: &Label, now: i64) -> Result<(), TreeError>;

    /// Sets when a node was last changed.
    ///
    /// # Errors
    /// [`TreeError::Gone`].
    async fn set_modified(&self, id: NodeId, time: i64) -> Result<(), TreeError>;

    /// Replaces a file's whole content, or writes at its end, and joins a label to the file's. A file that does not exist is
    /// made.
    ///
    /// # Errors
    /// A directory, the parent does not exist, no space.
    async fn store(
        &self,
        base: NodeId,
        path: &str,
        data: &[u8],
        append: bool,
        label: &Label,
        now: i64,
    ) -> Result<NodeId, TreeError> {
        self.store_on(Basis::Any, (base, path), data, append, label, now).await
    }

    /// The same, if there is what `basis` says.
    ///
    /// # Errors
    /// As [`Self::store`]; [`TreeError::Changed`].
    async fn store_on(
        &self,
        basis: Basis<'_>,
        place: (NodeId, &str),
        data: &[u8],
        append: bool,
        label: &Label,
        now: i64,
    ) -> Result<NodeId, TreeError>;

    /// Makes a directory.
    ///
    /// # Errors
    /// The name is taken, the parent does not exist, no space.
    async fn make_directory(&self, base: NodeId, path: &str, now: i64) -> Result<NodeId, TreeError>;

    /// Removes a name.
    ///
    /// # Errors
    /// It does not exist, may not be removed, or is a directory with entries.
    async fn remove(&self, base: NodeId, path: &str, what: Removal, now: i64) -> Result<(), TreeError>;

    /// Gives a node another name, and perhaps another directory. What has that name is replaced: a file by a file, an
    /// empty directory by a directory.
    ///
    /// # Errors
    /// It does not exist, cannot be there, no space.
    async fn rename(&self, base: NodeId, from: &str, to: &str, now: i64) -> Result<(), TreeError>;

    /// The same, if nothing has that name.
    ///
    /// # Errors
    /// As [`Self::rename`]; the name is taken.
    async fn rename_new(&self, base: NodeId, from: &str, to: &str, now: i64) -> Result<(), TreeError>;

    /// How often changes that had been answered were lost. See [`Self::sync`].
    fn losses(&self) -> u64;

    /// Answers when all changes are on the medium.
    ///
    /// # Errors
    /// The medium fails, or [`Self::losses`] was greater than `since` already: what the caller changed may be lost.
    async fn sync(&self, since: u64) -> Result<(), TreeError>;
}

impl FileTree for RefCell<Tree> {
    async fn status(&self, base: NodeId, path: &str) -> Result<(NodeId, Info), TreeError> {
        let tree = self.borrow();
        let id = tree.find(base, path)?;
        Ok((id, tree.info(id)?))
    }

    async fn info(&self, id: NodeId) -> Result<Info, TreeError> {
        self.borrow().info(id)
    }

    async fn list_after(&self, base: NodeId, path: &str, after: &str, most: usize) -> Result<Listing, TreeError> {
        let tree = self.borrow();
        let mut listing = Listing::default();
        for (id, info) in tree.list_after(tree.find(base, path)?, after)? {
            if !listing.add(id, info, most) {
                break;
            }
        }
        Ok(listing)
    }

    async fn open_at(&self, base: NodeId, path: &str, opening: Opening, now: i64) -> Result<(NodeId, Info), TreeError> {
        self.borrow_mut().open_at(base, path, opening, now)
    }

    async fn hold(&self, id: NodeId) -> Result<(), TreeError> {
        self.borrow_mut().open(id)
    }

    fn close(&self, id: NodeId) {
        self.borrow_mut().close(id);
    }

    async fn read(&self, id: NodeId, offset: u64, count: usize) -> Result<(Vec<u8>, Label), TreeError> {
        let tree = self.borrow();
        Ok((tree.read(id, offset, count)?.to_vec(), tree.label(id)?.clone()))
    }

    async fn write(&self, id: NodeId, at: WriteAt, data: &[u8], label: &Label, now: i64) -> Result<u64, TreeError> {
        let mut tree = self.borrow_mut();
        tree.mark(id, label)?;
        let offset = match at {
            WriteAt::Offset(offset) => offset,
            WriteAt::End => tree.info(id)?.bytes,
        };
        tree.write(id, offset, data, now).map(|()| offset)
    }

    async fn truncate(&self, id: NodeId, length: u64, label: &Label, now: i64) -> Result<(), TreeError> {
        let mut tree = self.borrow_mut();
        tree.mark(id, label)?;
        tree.truncate(id, length, now)
    }

    async fn set_modified(&self, id: NodeId, time: i64) -> Result<(), TreeError> {
        self.borrow_mut().set_modified(id, time)
    }

    async fn store_on(
        &self,
        basis: Basis<'_>,
        (base, path): (NodeId, &str),
        data: &[u8],
        append: bool,
        label: &Label,
        now: i64,
    ) -> Result<NodeId, TreeError> {
        let mut tree = self.borrow_mut();
        if basis != Basis::Any {
            let found = tree.find(base, path).and_then(|id| tree.read(id, 0, Basis::BYTES));
            if !basis.admits(found_or_none(found)?) {
                return Err(TreeError::Changed(String::from(path)));
            }
        }
        tree.store(base, path, data, append, label, now)?;
        tree.find(base, path)
    }

    async fn make_directory(&self, base: NodeId, path: &str, now: i64) -> Result<NodeId, TreeError> {
        self.borrow_mut().make_directory(base, path, now)
    }

    async fn remove(&self, base: NodeId, path: &str, what: Removal, now: i64) -> Result<(), TreeError> {
        let mut tree = self.borrow_mut();
        match what {
            Removal::Any => tree.remove(base, path, now),
            Removal::File => tree.remove_file(base, path, now),
            Removal::Directory => tree.remove_directory(base, path, now),
        }
    }

    async fn rename(&self, base: NodeId, from: &str, to: &str, now: i64) -> Result<(), TreeError> {
        self.borrow_mut().rename(base, from, to, now)
    }

    async fn rename_new(&self, base: NodeId, from: &str, to: &str, now: i64) -> Result<(), TreeError> {
        let mut tree = self.borrow_mut();
        match found_or_none(tree.find(base, to))? {
            Some(_) => Err(TreeError::Exists(to.into())),
            None => tree.rename(base, from, to, now),
        }
    }

    fn losses(&self) -> u64 {
        0
    }

    /// There is no medium.
    async fn sync(&self, _since: u64) -> Result<(), TreeError> {
        Ok(())
    }
}

/// What was found, if there is something.
///
/// # Errors
/// It cannot be looked at.
pub fn found_or_none<R>(found: Result<R, TreeError>) -> Result<Option<R>, TreeError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(TreeError::NotFound(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

/// The message of an attempt to change what is read-only.
pub(crate) fn read_only() -> TreeError {
    TreeError::ReadOnly(String::from("this directory is read-only"))
}
