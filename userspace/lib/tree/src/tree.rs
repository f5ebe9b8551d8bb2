//! The tree itself.

use crate::path::{self, PathError};
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// What a node costs beside its content, in bytes.
const NODE_COST: u64 = 128;

/// Names a node for as long as it exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct NodeId(u64);

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Holds bytes.
    File,
    /// Holds names.
    Directory,
}

/// What can be told of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info {
    /// Its name; empty for the root.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Length of a file in bytes, entries of a directory.
    pub bytes: u64,
    /// When it was last changed, seconds since 1970.
    pub modified: i64,
}

/// Why an operation is refused. Nothing has changed then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreeError {
    /// The path itself.
    Path(PathError),
    /// Nothing of this name.
    NotFound(String),
    /// A directory where a file is needed.
    IsDirectory(String),
    /// A file where a directory is needed.
    NotDirectory(String),
    /// The name is taken.
    Exists(String),
    /// The directory has entries.
    NotEmpty(String),
    /// The node was removed.
    Gone,
    /// The budget does not cover it.
    NoSpace {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// Past what a file can be.
    TooLarge,
}

impl From<PathError> for TreeError {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

impl core::fmt::Display for TreeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Path(error) => error.fmt(f),
            Self::NotFound(name) => write!(f, "`{name}` does not exist"),
            Self::IsDirectory(name) => write!(f, "`{name}` is a folder, not a file"),
            Self::NotDirectory(name) => write!(f, "`{name}` is a file, not a folder"),
            Self::Exists(name) => write!(f, "`{name}` exists already"),
            Self::NotEmpty(name) => write!(f, "the folder `{name}` is not empty"),
            Self::Gone => f.write_str("the file or folder was deleted meanwhile"),
            Self::NoSpace { needed, left } => {
                write!(f, "no space: {needed} bytes are needed and {left} are left")
            }
            Self::TooLarge => f.write_str("the file would be larger than a file can be"),
        }
    }
}

enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<String, NodeId>),
}

struct Node {
    name: String,
    content: Content,
    modified: i64,
}

/// A file tree.
pub struct Tree {
    nodes: BTreeMap<NodeId, Node>,
    next: u64,
    used: u64,
    budget: u64,
}

impl Tree {
    /// The root directory.
    pub const ROOT: NodeId = NodeId(0);

    /// An empty tree that may hold `budget` bytes, each node costing 128 beside its content.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        let root = Node { name: String::new(), content: Content::Directory(BTreeMap::new()), modified: 0 };
        Self { nodes: BTreeMap::from([(Self::ROOT, root)]), next: 1, used: NODE_COST, budget }
    }

    /// Bytes used of the budget.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    fn node(&self, id: NodeId) -> Result<&Node, TreeError> {
        self.nodes.get(&id).ok_or(TreeError::Gone)
    }

    fn entries(&self, id: NodeId) -> Result<&BTreeMap<String, NodeId>, TreeError> {
        let node = self.node(id)?;
        match &node.content {
            Content::Directory(entries) => Ok(entries),
            Content::File(_) => Err(TreeError::NotDirectory(node.name.clone())),
        }
    }

    fn bytes(&self, id: NodeId) -> Result<&Vec<u8>, TreeError> {
        let node = self.node(id)?;
        match &node.content {
            Content::File(bytes) => Ok(bytes),
            Content::Directory(_) => Err(TreeError::IsDirectory(node.name.clone())),
        }
    }

    fn walk(&self, base: NodeId, parts: &[&str]) -> Result<NodeId, TreeError> {
        parts.iter().try_fold(base, |at, part| {
            self.entries(at)?.get(*part).copied().ok_or_else(|| TreeError::NotFound((*part).into()))
        })
    }

    fn charge(&mut self, more: u64, less: u64) -> Result<(), TreeError> {
        let kept = self.used.saturating_sub(less);
        let left = self.budget.saturating_sub(kept);
        if more > left {
            return Err(TreeError::NoSpace { needed: more, left });
        }
        self.used = kept.saturating_add(more);
        Ok(())
    }

    /// The node at a path below `base`.
    ///
    /// # Errors
    /// The path is refused, does not exist, or passes through a file.
    pub fn find(&self, base: NodeId, path: &str) -> Result<NodeId, TreeError> {
        self.walk(base, &path::components(path)?)
    }

    /// What a node is.
    ///
    /// # Errors
    /// [`TreeError::Gone`].
    pub fn info(&self, id: NodeId) -> Result<Info, TreeError> {
        let node = self.node(id)?;
        let (kind, bytes) = match &node.content {
            Content::File(bytes) => (Kind::File, bytes.len() as u64),
            Content::Directory(entries) => (Kind::Directory, entries.len() as u64),
        };
        Ok(Info { name: node.name.clone(), kind, bytes, modified: node.modified })
    }

    /// The entries of a directory, by name.
    ///
    /// # Errors
    /// Not a directory, or gone.
    pub fn list(&self, id: NodeId) -> Result<Vec<Info>, TreeError> {
        self.entries(id)?.values().map(|child| self.info(*child)).collect()
    }

    fn insert(&mut self, base: NodeId, path: &str, content: Content, now: i64) -> Result<NodeId, TreeError> {
        let (parents, name) = path::parent_and_name(path)?;
        let parent = self.walk(base, &parents)?;
        if self.entries(parent)?.contains_key(name) {
            return Err(TreeError::Exists(name.to_string()));
        }
        self.charge(NODE_COST.saturating_add(name.len() as u64), 0)?;
        let id = NodeId(self.next);
        self.next = self.next.saturating_add(1);
        self.nodes.insert(id, Node { name: name.to_string(), content, modified: now });
        if let Some(Node { content: Content::Directory(entries), modified, .. }) = self.nodes.get_mut(&parent) {
            entries.insert(name.to_string(), id);
            *modified = now;
        }
        Ok(id)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// The name is taken, the parent does not exist, no space.
    pub fn make_directory(&mut self, base: NodeId, path: &str, now: i64) -> Result<NodeId, TreeError> {
        self.insert(base, path, Content::Directory(BTreeMap::new()), now)
    }

    /// Opens a file to write, made empty where it does not exist.
    ///
    /// # Errors
    /// It is a directory, the parent does not exist, no space.
    pub fn create(&mut self, base: NodeId, path: &str, now: i64) -> Result<NodeId, TreeError> {
        match self.find(base, path) {
            Ok(id) => self.bytes(id).map(|_| id),
            Err(TreeError::NotFound(_)) => self.insert(base, path, Content::File(Vec::new()), now),
            Err(other) => Err(other),
        }
    }

    /// At most `count` bytes of a file from `offset` on.
    ///
    /// # Errors
    /// Not a file, or gone.
    pub fn read(&self, id: NodeId, offset: u64, count: usize) -> Result<&[u8], TreeError> {
        let bytes = self.bytes(id)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(count).min(bytes.len());
        Ok(bytes.get(start..end).unwrap_or(&[]))
    }

    fn resize(&mut self, id: NodeId, length: usize, now: i64) -> Result<&mut Vec<u8>, TreeError> {
        let old = self.bytes(id)?.len();
        self.charge(length as u64, old as u64)?;
        match self.nodes.get_mut(&id) {
            Some(Node { content: Content::File(bytes), modified, .. }) => {
                bytes.resize(length, 0);
                if length < old {
                    bytes.shrink_to_fit();
                }
                *modified = now;
                Ok(bytes)
            }
            _ => Err(TreeError::Gone),
        }
    }

    /// Writes at an offset; a gap before it becomes zeros.
    ///
    /// # Errors
    /// Not a file, gone, no space.
    pub fn write(&mut self, id: NodeId, offset: u64, data: &[u8], now: i64) -> Result<(), TreeError> {
        let start = usize::try_from(offset).map_err(|_| TreeError::TooLarge)?;
        let end = start.checked_add(data.len()).ok_or(TreeError::TooLarge)?;
        let length = self.bytes(id)?.len().max(end);
        let bytes = self.resize(id, length, now)?;
        if let Some(place) = bytes.get_mut(start..end) {
            place.copy_from_slice(data);
        }
        Ok(())
    }

    /// Cuts or extends a file with zeros.
    ///
    /// # Errors
    /// Not a file, gone, no space.
    pub fn truncate(&mut self, id: NodeId, length: u64, now: i64) -> Result<(), TreeError> {
        let length = usize::try_from(length).map_err(|_| TreeError::TooLarge)?;
        self.resize(id, length, now).map(|_| ())
    }

    /// Replaces a file's whole content, made where it does not exist. All or nothing.
    ///
    /// # Errors
    /// As [`Tree::create`] and [`Tree::write`].
    pub fn replace(&mut self, base: NodeId, path: &str, data: &[u8], now: i64) -> Result<(), TreeError> {
        let existed = self.find(base, path).is_ok();
        let id = self.create(base, path, now)?;
        match self.resize(id, data.len(), now) {
            Ok(bytes) => {
                bytes.copy_from_slice(data);
                Ok(())
            }
            Err(error) => {
                if !existed {
                    self.remove(base, path, now)?;
                }
                Err(error)
            }
        }
    }

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// It does not exist, or is a directory with entries.
    pub fn remove(&mut self, base: NodeId, path: &str, now: i64) -> Result<(), TreeError> {
        let (parents, name) = path::parent_and_name(path)?;
        let parent = self.walk(base, &parents)?;
        let id = self.walk(parent, &[name])?;
        let bytes = match &self.node(id)?.content {
            Content::Directory(entries) if !entries.is_empty() => return Err(TreeError::NotEmpty(name.into())),
            Content::Directory(_) => 0,
            Content::File(bytes) => bytes.len() as u64,
        };
        self.nodes.remove(&id);
        if let Some(Node { content: Content::Directory(entries), modified, .. }) = self.nodes.get_mut(&parent) {
            entries.remove(name);
            *modified = now;
        }
        let cost = NODE_COST.saturating_add(name.len() as u64).saturating_add(bytes);
        self.used = self.used.saturating_sub(cost);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tree() -> Tree {
        Tree::new(10_000)
    }

    #[test]
    fn files_are_kept() {
        let mut tree = tree();
        tree.make_directory(Tree::ROOT, "notes", 1).unwrap();
        tree.replace(Tree::ROOT, "notes/a.txt", b"hello", 2).unwrap();
        let id = tree.find(Tree::ROOT, "notes/../notes/a.txt").unwrap();
        assert_eq!(tree.read(id, 1, 100).unwrap(), b"ello");
        tree.write(id, 8, b"!", 3).unwrap();
        assert_eq!(tree.read(id, 0, 100).unwrap(), b"hello\0\0\0!");
        tree.truncate(id, 2, 4).unwrap();
        assert_eq!(tree.read(id, 0, 100).unwrap(), b"he");
        assert_eq!(tree.info(id).unwrap().modified, 4);
        assert_eq!(tree.list(Tree::ROOT).unwrap()[0].name, "notes");
    }

    #[test]
    fn refusals_change_nothing() {
        let mut tree = tree();
        tree.replace(Tree::ROOT, "a", b"x", 0).unwrap();
        let used = tree.used();
        assert_eq!(tree.find(Tree::ROOT, "a/b"), Err(TreeError::NotDirectory("a".into())));
        assert_eq!(tree.make_directory(Tree::ROOT, "a", 0), Err(TreeError::Exists("a".into())));
        assert!(matches!(tree.replace(Tree::ROOT, "big", &[0; 20_000], 0), Err(TreeError::NoSpace { .. })));
        assert_eq!(tree.find(Tree::ROOT, "big"), Err(TreeError::NotFound("big".into())));
        assert!(matches!(tree.replace(Tree::ROOT, "a", &[0; 20_000], 0), Err(TreeError::NoSpace { .. })));
        assert_eq!(tree.used(), used);
        let id = tree.find(Tree::ROOT, "a").unwrap();
        assert_eq!(tree.write(id, u64::MAX, b"x", 0), Err(TreeError::TooLarge));
        assert_eq!(tree.read(id, 0, 10).unwrap(), b"x");
    }

    #[test]
    fn a_removed_node_is_gone() {
        let mut tree = tree();
        let empty = tree.used();
        tree.make_directory(Tree::ROOT, "d", 0).unwrap();
        tree.replace(Tree::ROOT, "d/f", b"12345", 0).unwrap();
        let id = tree.find(Tree::ROOT, "d/f").unwrap();
        assert_eq!(tree.remove(Tree::ROOT, "d", 0), Err(TreeError::NotEmpty("d".into())));
        tree.remove(Tree::ROOT, "d/f", 0).unwrap();
        assert_eq!(tree.read(id, 0, 1), Err(TreeError::Gone));
        tree.replace(Tree::ROOT, "d/f", b"new", 0).unwrap();
        assert_eq!(tree.read(id, 0, 1), Err(TreeError::Gone));
        tree.remove(Tree::ROOT, "d/f", 0).unwrap();
        tree.remove(Tree::ROOT, "d", 0).unwrap();
        assert_eq!(tree.used(), empty);
    }

    proptest! {
        /// Whatever is done, the budget holds and removing everything gives every byte back.
        #[test]
        fn the_budget_is_exact(steps in prop::collection::vec((0_u8..5, 0_u8..6, 0_usize..600), 0..80)) {
            let mut tree = Tree::new(4_000);
            let empty = tree.used();
            for (what, which, size) in steps {
                let name = format!("n{}", which % 3);
                let path = if which < 3 { name.clone() } else { format!("dir/{name}") };
                let _ = match what {
                    0 => tree.make_directory(Tree::ROOT, "dir", 0).map(|_| ()),
                    1 => tree.replace(Tree::ROOT, &path, &vec![1; size], 0),
                    2 => tree.remove(Tree::ROOT, &path, 0),
                    3 => tree.create(Tree::ROOT, &path, 0).and_then(|id| tree.write(id, size as u64, b"z", 0)),
                    _ => tree.find(Tree::ROOT, &path).and_then(|id| tree.truncate(id, size as u64, 0)),
                };
                prop_assert!(tree.used() <= 4_000);
            }
            for path in ["dir/n0", "dir/n1", "dir/n2", "dir", "n0", "n1", "n2"] {
                let _ = tree.remove(Tree::ROOT, path, 0);
            }
            prop_assert_eq!(tree.used(), empty);
        }
    }
}
