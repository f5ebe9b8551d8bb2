//! The tree itself.

use crate::MAX_TEXT;
use crate::file_tree::{Opening, read_only};
use crate::path::{self, PathError};
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use capos_policy::{Size, join};
use capos_schema::authority::Label;
use core::ops::Bound;

/// What a node costs besides its content, in bytes.
const NODE_COST: u64 = 128;

/// What a class of a label costs besides its name, in bytes.
const CLASS_COST: u64 = 32;

/// Names a node for as long as it exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct NodeId(u64);

impl NodeId {
    /// Its number, which no other node of the tree ever has.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The node of a number. The root of a tree has 0.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

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
    /// When it was last changed, milliseconds since 1970.
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
    /// A directory cannot be moved into itself.
    IntoItself(String),
    /// The budget does not cover it.
    NoSpace {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// The owner's quota does not cover it.
    Quota {
        /// Bytes that the owner's tree takes.
        used: u64,
        /// Bytes that it may take.
        limit: u64,
    },
    /// Past what a file can be.
    TooLarge,
    /// A file has more bytes than one call copies or compares.
    TooLong {
        /// The file.
        name: String,
        /// Its length.
        bytes: u64,
    },
    /// More files and folders are below a folder than one call looks at, which is this many.
    TooMany(usize),
    /// It holds something else than the caller says.
    Changed(String),
    /// It cannot be changed; the text says why.
    ReadOnly(String),
    /// What the tree lies on failed; the text says how.
    Medium(String),
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
            Self::IntoItself(name) => write!(f, "the folder `{name}` cannot be moved into itself"),
            Self::Gone => f.write_str("the file or folder was deleted meanwhile"),
            Self::NoSpace { needed, left } => {
                let needed = capos_plural::count(*needed, "byte");
                write!(f, "no space: this takes {needed}, and {left} are left; delete files that are not needed")
            }
            Self::Quota { used, limit } => write!(
                f,
                "the home is full: it takes {} of its quota of {}; delete files that are not needed, or ask an operator \
                 for a larger quota",
                Size(*used),
                Size(*limit)
            ),
            Self::Changed(name) => write!(
                f,
                "`{name}` has changed since the person was shown what this call does to it, so nothing is written; propose \
                 the call again"
            ),
            Self::TooLarge => f.write_str("the file would be larger than a file can be"),
            Self::TooLong { name, bytes } => {
                let bytes = capos_plural::count(*bytes, "byte");
                write!(f, "`{name}` has {bytes}, and this tool takes files of at most {MAX_TEXT} bytes")
            }
            Self::TooMany(most) => {
                write!(f, "more than {most} files and folders are below it; name a folder with fewer")
            }
            Self::ReadOnly(why) | Self::Medium(why) => f.write_str(why),
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
    /// Of what was written into it, joined.
    label: Label,
    /// Who reads or writes it without its name.
    opens: u32,
    /// It has no name any more and goes with its last holder.
    unlinked: bool,
}

impl Node {
    fn new(name: &str, content: Content, modified: i64) -> Self {
        Self { name: name.to_string(), content, modified, label: Label::default(), opens: 0, unlinked: false }
    }

    /// What it is charged with.
    fn cost(&self) -> u64 {
        let bytes = match &self.content {
            Content::File(bytes) => bytes.len() as u64,
            Content::Directory(_) => 0,
        };
        NODE_COST.saturating_add(self.name.len() as u64).saturating_add(bytes).saturating_add(label_cost(&self.label))
    }
}

fn label_cost(label: &Label) -> u64 {
    label.classes.iter().map(|class| CLASS_COST.saturating_add(class.len() as u64)).sum()
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

    /// An empty tree that may hold `budget` bytes, each node costing 128 besides its content.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        let root = Node::new("", Content::Directory(BTreeMap::new()), 0);
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

    /// Entries of a directory whose names come after `after`, by name.
    ///
    /// # Errors
    /// Not a directory, or gone.
    pub fn list_after<'a>(
        &'a self,
        id: NodeId,
        after: &str,
    ) -> Result<impl Iterator<Item = (NodeId, Info)> + use<'a>, TreeError> {
        let after = (Bound::Excluded(after), Bound::Unbounded);
        let after = self.entries(id)?.range::<str, _>(after);
        Ok(after.filter_map(|(_, child)| Some((*child, self.info(*child).ok()?))))
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
        self.nodes.insert(id, Node::new(name, content, now));
        self.enter(parent, name, Some(id), now);
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
        if let Some(Node { content: Content::File(bytes), .. }) = self.nodes.get_mut(&id) {
            let more = length.saturating_sub(old);
            // What the budget covers the memory may not: least of all the double of it, which growing by steps takes.
            if bytes.try_reserve(more).is_err() && bytes.try_reserve_exact(more).is_err() {
                self.charge(old as u64, length as u64)?;
                return Err(TreeError::NoSpace { needed: more as u64, left: 0 });
            }
        }
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
        self.store(base, path, data, false, &Label::default(), now)
    }

    /// The same with the label of what is written, or at the file's end. All or nothing, except that the label of a file
    /// which was there may have become higher.
    ///
    /// # Errors
    /// As [`Tree::create`], [`Tree::mark`] and [`Tree::write`].
    pub fn store(
        &mut self,
        base: NodeId,
        path: &str,
        data: &[u8],
        append: bool,
        label: &Label,
        now: i64,
    ) -> Result<(), TreeError> {
        let existed = self.find(base, path).is_ok();
        let id = self.create(base, path, now)?;
        let stored = self.mark(id, label).and_then(|()| {
            let start = if append { self.bytes(id)?.len() } else { 0 };
            let length = start.checked_add(data.len()).ok_or(TreeError::TooLarge)?;
            if let Some(place) = self.resize(id, length, now)?.get_mut(start..) {
                place.copy_from_slice(data);
            }
            Ok(())
        });
        if stored.is_err() && !existed {
            self.remove(base, path, now)?;
        }
        stored
    }

    /// The label of what was written into a file.
    ///
    /// # Errors
    /// [`TreeError::Gone`].
    pub fn label(&self, id: NodeId) -> Result<&Label, TreeError> {
        Ok(&self.node(id)?.label)
    }

    /// Joins a label to a file's: before something with it is written there. Nothing lowers it.
    ///
    /// # Errors
    /// Gone, no space.
    pub fn mark(&mut self, id: NodeId, label: &Label) -> Result<(), TreeError> {
        let old = self.label(id)?;
        let joined = join(old, label);
        self.charge(label_cost(&joined), label_cost(old))?;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.label = joined;
        }
        Ok(())
    }

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// It does not exist, or is a directory with entries.
    pub fn remove(&mut self, base: NodeId, path: &str, now: i64) -> Result<(), TreeError> {
        let (parents, name) = path::parent_and_name(path)?;
        let parent = self.walk(base, &parents)?;
        let id = self.walk(parent, &[name])?;
        if !self.is_empty(id)? {
            return Err(TreeError::NotEmpty(name.into()));
        }
        self.enter(parent, name, None, now);
        self.unlink(id);
        Ok(())
    }

    /// Removes a file, and nothing else.
    ///
    /// # Errors
    /// It does not exist, or is a directory.
    pub fn remove_file(&mut self, base: NodeId, path: &str, now: i64) -> Result<(), TreeError> {
        self.bytes(self.find(base, path)?)?;
        self.remove(base, path, now)
    }

    /// Removes an empty directory, and nothing else.
    ///
    /// # Errors
    /// It does not exist, is a file, or has entries.
    pub fn remove_directory(&mut self, base: NodeId, path: &str, now: i64) -> Result<(), TreeError> {
        self.entries(self.find(base, path)?)?;
        self.remove(base, path, now)
    }

    /// Gives a node another name, and perhaps another directory. What has that name is replaced: a file by a file, an
    /// empty directory by a directory.
    ///
    /// # Errors
    /// It does not exist, cannot be there, or the budget does not cover a longer name.
    pub fn rename(&mut self, base: NodeId, from: &str, to: &str, now: i64) -> Result<(), TreeError> {
        let (from_parents, from_name) = path::parent_and_name(from)?;
        let (to_parents, to_name) = path::parent_and_name(to)?;
        let from_parent = self.walk(base, &from_parents)?;
        let id = self.walk(from_parent, &[from_name])?;
        let moves_directory = matches!(self.node(id)?.content, Content::Directory(_));
        // Names only: nothing but its own name leads to a directory.
        let mut at = base;
        for part in &to_parents {
            at = self.walk(at, &[part])?;
            if at == id {
                return Err(TreeError::IntoItself(from_name.into()));
            }
        }
        let to_parent = at;
        let replaced = self.entries(to_parent)?.get(to_name).copied();
        if replaced == Some(id) {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            if moves_directory {
                self.entries(replaced)?;
            } else {
                self.bytes(replaced)?;
            }
            if !self.is_empty(replaced)? {
                return Err(TreeError::NotEmpty(to_name.into()));
            }
        }
        self.charge(to_name.len() as u64, from_name.len() as u64)?;
        self.enter(from_parent, from_name, None, now);
        self.enter(to_parent, to_name, Some(id), now);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.name = to_name.to_string();
        }
        if let Some(replaced) = replaced {
            self.unlink(replaced);
        }
        Ok(())
    }

    /// Says when a node was last changed.
    ///
    /// # Errors
    /// [`TreeError::Gone`].
    pub fn set_modified(&mut self, id: NodeId, time: i64) -> Result<(), TreeError> {
        self.nodes.get_mut(&id).ok_or(TreeError::Gone)?.modified = time;
        Ok(())
    }

    /// Opens what is at a path as the options say, and holds it if it is a file.
    ///
    /// # Errors
    /// What the options say; no space.
    pub fn open_at(
        &mut self,
        base: NodeId,
        path: &str,
        opening: Opening,
        now: i64,
    ) -> Result<(NodeId, Info), TreeError> {
        let found = self.find(base, path);
        if opening.create && opening.exclusive && found.is_ok() {
            return Err(TreeError::Exists(path.into()));
        }
        let makes = opening.create && matches!(found, Err(TreeError::NotFound(_)));
        if !makes {
            found.clone()?;
        }
        if !opening.writable && (makes || opening.write) {
            return Err(read_only());
        }
        let id = if makes { self.create(base, path, now)? } else { found? };
        if opening.write {
            self.bytes(id)?;
            if opening.truncate {
                self.truncate(id, 0, now)?;
            }
        }
        let info = self.info(id)?;
        if info.kind == Kind::File {
            self.open(id)?;
        }
        Ok((id, info))
    }

    /// Holds a file, so that it stays when its name is removed. Each is let go of by [`Tree::close`].
    ///
    /// # Errors
    /// Not a file, or gone.
    pub fn open(&mut self, id: NodeId) -> Result<(), TreeError> {
        self.bytes(id)?;
        let node = self.nodes.get_mut(&id).ok_or(TreeError::Gone)?;
        node.opens = node.opens.saturating_add(1);
        Ok(())
    }

    /// Lets go of a file.
    pub fn close(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.opens = node.opens.saturating_sub(1);
            if node.opens == 0 && node.unlinked {
                self.forget(id);
            }
        }
    }

    /// Puts a name into a directory, or takes it out.
    fn enter(&mut self, directory: NodeId, name: &str, id: Option<NodeId>, now: i64) {
        if let Some(Node { content: Content::Directory(entries), modified, .. }) = self.nodes.get_mut(&directory) {
            match id {
                Some(id) => entries.insert(name.to_string(), id),
                None => entries.remove(name),
            };
            *modified = now;
        }
    }

    /// A node whose name is gone goes too, or with its last holder.
    fn unlink(&mut self, id: NodeId) {
        match self.nodes.get_mut(&id) {
            Some(node) if node.opens > 0 => node.unlinked = true,
            _ => self.forget(id),
        }
    }

    fn forget(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.remove(&id) {
            self.used = self.used.saturating_sub(node.cost());
        }
    }

    /// Whether nothing is lost below it: a file, or a directory without entries.
    fn is_empty(&self, id: NodeId) -> Result<bool, TreeError> {
        Ok(match &self.node(id)?.content {
            Content::File(_) => true,
            Content::Directory(entries) => entries.is_empty(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, label};
    use core::cell::RefCell;
    use proptest::prelude::*;

    #[test]
    fn it_is_a_file_tree() {
        suite::all(|budget| RefCell::new(Tree::new(budget)));
    }

    #[test]
    fn a_label_that_the_budget_does_not_cover_is_not_left_out() {
        let mut tree = Tree::new(10_000);
        let long = Label { classes: (0..14).map(|n| alloc::format!("pii.{n:060}")).collect() };
        let free = 10_000 - tree.used();
        tree.replace(Tree::ROOT, "full", &alloc::vec![0; usize::try_from(free).unwrap() - 1000], 0).unwrap();
        assert!(matches!(tree.store(Tree::ROOT, "c", b"x", false, &long, 0), Err(TreeError::NoSpace { .. })));
        assert_eq!(tree.find(Tree::ROOT, "c"), Err(TreeError::NotFound("c".into())));
    }

    #[test]
    fn a_longer_name_is_charged() {
        let mut tree = Tree::new(10_000);
        tree.replace(Tree::ROOT, "a", b"1", 0).unwrap();
        tree.replace(Tree::ROOT, "b", b"22", 0).unwrap();
        let used = tree.used();
        tree.rename(Tree::ROOT, "a", "b", 1).unwrap();
        tree.rename(Tree::ROOT, "b", "longer", 1).unwrap();
        assert_eq!(tree.used(), used - NODE_COST - 1 - 2 + 5);
    }

    #[test]
    fn what_memory_does_not_hold_is_refused() {
        let mut tree = Tree::new(u64::MAX);
        tree.replace(Tree::ROOT, "a", b"x", 0).unwrap();
        let (id, used) = (tree.find(Tree::ROOT, "a").unwrap(), tree.used());
        assert!(matches!(tree.truncate(id, u64::MAX / 2, 0), Err(TreeError::NoSpace { .. })));
        assert_eq!(tree.used(), used);
        assert_eq!(tree.read(id, 0, 10).unwrap(), b"x");
    }

    proptest! {
        /// Whatever is done, the budget holds and removing everything gives every byte back.
        #[test]
        fn the_budget_is_exact(steps in prop::collection::vec((0_u8..9, 0_u8..6, 0_usize..600), 0..80)) {
            let mut tree = Tree::new(4_000);
            let empty = tree.used();
            let mut held = Vec::new();
            for (what, which, size) in steps {
                let name = format!("n{}", which % 3);
                let path = if which < 3 { name.clone() } else { format!("dir/{name}") };
                let _ = match what {
                    0 => tree.make_directory(Tree::ROOT, "dir", 0).map(|_| ()),
                    1 => tree.replace(Tree::ROOT, &path, &vec![1; size], 0),
                    2 => tree.remove(Tree::ROOT, &path, 0),
                    3 => tree.create(Tree::ROOT, &path, 0).and_then(|id| tree.write(id, size as u64, b"z", 0)),
                    4 => tree.find(Tree::ROOT, &path).and_then(|id| tree.truncate(id, size as u64, 0)),
                    6 => {
                        let label = label(&["pii.a", "pii.b", "secret.c"][..size % 4]);
                        tree.store(Tree::ROOT, &path, b"labelled", size % 2 == 0, &label, 0)
                    }
                    5 => tree.rename(Tree::ROOT, &path, if size % 2 == 0 { "dir/n1" } else { "n2" }, 0),
                    7 => tree.find(Tree::ROOT, &path).and_then(|id| tree.open(id).map(|()| held.push(id))),
                    _ => {
                        held.pop().into_iter().for_each(|id| tree.close(id));
                        Ok(())
                    }
                };
                prop_assert!(tree.used() <= 4_000);
            }
            for id in held {
                tree.close(id);
            }
            for path in ["dir/n0", "dir/n1", "dir/n2", "dir", "n0", "n1", "n2"] {
                let _ = tree.remove(Tree::ROOT, path, 0);
            }
            prop_assert_eq!(tree.used(), empty);
        }
    }
}
