//! A file, directory or link of the volume, opened.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::{Extent, Runs};

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with its target.
    Link(String),
    /// A device, pipe or socket; it has no contents here.
    Special,
}

/// A directory and those it lies in, up to the root; shared by all nodes below.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lineage {
    pub extent: Extent,
    pub parent: Option<Arc<Lineage>>,
    pub depth: usize,
}

impl Lineage {
    /// The directory itself, then its parent, and so on to the root.
    pub fn upwards(&self) -> impl Iterator<Item = &Lineage> {
        core::iter::successors(Some(self), |lineage| lineage.parent.as_deref())
    }
}

/// An entry of the volume with all that is needed to read it; holds no reference to the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    pub(crate) extents: Vec<Extent>,
    pub(crate) mode: u32,
    pub(crate) modified: i64,
    /// Of a directory: itself; of others: the directory they lie in.
    pub(crate) lineage: Arc<Lineage>,
    /// Where the `..` record of a moved directory must point to instead of the parent.
    pub(crate) moved_from: Option<u32>,
}

impl Node {
    /// What it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Size of a file's contents in bytes (of a directory: of its records; of others 0).
    pub fn size(&self) -> u64 {
        self.size
    }

    /// POSIX mode bits, 0 where the volume has none.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Time of the last modification in seconds since 1970, 0 where unknown.
    pub fn modified(&self) -> i64 {
        self.modified
    }

    /// Where the contents lie.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Where `bytes` bytes from `offset` on lie, cut at the end of the contents. Runs of a range
    /// that begins at a multiple of the sector size begin at sectors. Bytes between the end of
    /// the contents and the end of the last sector are not part of the file, whatever they are.
    pub fn runs(&self, offset: u64, bytes: u64) -> Runs<'_> {
        Runs::new(&self.extents, offset, bytes.min(self.size.saturating_sub(offset)))
    }
}
