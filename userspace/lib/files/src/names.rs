//! Operations on names.

use alloc::string::String;
use alloc::vec::Vec;

use capos_keyspace::{Keyspace, Range};
use capos_tree::{Kind, Listing, NodeId, Opening, Removal, TreeError, path};

use crate::change::{Change, Node};
use crate::files::malformed;
use crate::key;
use crate::record::Record;

/// Entries of a directory that are read at once at most.
const LISTED_AT_ONCE: u32 = 2048;
/// Entries of a directory at most whose sealed names are put in order to be listed.
const SORTED: u64 = 1024;

impl<K: Keyspace> Change<'_, K> {
    /// The directory at names.
    async fn directory(&mut self, base: NodeId, names: &[&str]) -> Result<Node, TreeError> {
        let directory = self.walk(base, names, None).await?;
        directory.is_directory()?;
        Ok(directory)
    }

    /// Counts entries that came into a directory and left it.
    async fn count(&mut self, directory: NodeId, more: u64, less: u64, now: i64) -> Result<(), TreeError> {
        let mut directory = self.node(directory).await?;
        directory.record.bytes = directory.record.bytes.saturating_add(more).saturating_sub(less);
        directory.record.modified = now;
        self.save(&directory);
        Ok(())
    }

    /// Makes a node.
    pub async fn insert(&mut self, base: NodeId, path: &str, kind: Kind, now: i64) -> Result<Node, TreeError> {
        let (parents, name) = path::parent_and_name(path)?;
        let parent = self.directory(base, &parents).await?.record.id;
        if self.child(parent, name).await?.is_some() {
            return Err(TreeError::Exists(name.into()));
        }
        let id = {
            let mut state = self.files.state.borrow_mut();
            let id = NodeId::from_number(state.next);
            state.next = state.next.saturating_add(1);
            id
        };
        let mut node = Node { place: Vec::new(), record: Record::new(id, kind, now) };
        self.place(&mut node, key::entry(parent, name));
        self.count(parent, 1, 0, now).await?;
        Ok(node)
    }

    /// The file at a path, made where there is none.
    pub async fn create(&mut self, base: NodeId, path: &str, now: i64) -> Result<Node, TreeError> {
        match self.find(base, path).await {
            Ok(node) => node.is_file().map(|()| node),
            Err(TreeError::NotFound(_)) => self.insert(base, path, Kind::File, now).await,
            Err(other) => Err(other),
        }
    }

    /// What is at a path, made or emptied as the options say.
    pub async fn open_at(&mut self, base: NodeId, path: &str, opening: Opening, now: i64) -> Result<Node, TreeError> {
        let found = self.find(base, path).await;
        if opening.create && opening.exclusive && found.is_ok() {
            return Err(TreeError::Exists(path.into()));
        }
        let makes = opening.create && matches!(found, Err(TreeError::NotFound(_)));
        if !opening.writable && (makes || (opening.write && found.is_ok())) {
            return Err(TreeError::ReadOnly(String::from("this directory is read-only")));
        }
        if makes {
            return self.create(base, path, now).await;
        }
        let mut node = found?;
        if opening.write {
            node.is_file()?;
            if opening.truncate {
                self.truncate(&mut node, 0, &Default::default(), now).await?;
            }
        }
        Ok(node)
    }

    /// Entries of a directory whose names come after `after`.
    pub async fn list_after(
        &mut self,
        base: NodeId,
        path: &str,
        after: &str,
        most: usize,
    ) -> Result<Listing, TreeError> {
        let names = path::components(path)?;
        let directory = self.directory(base, &names).await?.record;
        if self.files.keyspace().is_sealed() && directory.bytes <= SORTED {
            return self.list_sorted(directory.id, after, most).await;
        }
        let directory = directory.id;
        let to = key::after(directory);
        let mut from = key::entry(directory, after);
        let mut listing = Listing::default();
        let at_once = u32::try_from(Listing::most_entries(most)).unwrap_or(LISTED_AT_ONCE).min(LISTED_AT_ONCE);
        loop {
            // The first key behind it.
            from.push(0);
            let range = Range { from: &from, to: &to, most: at_once, ..Range::all(key::ENTRIES) };
            let found = self.files.range(range).await?;
            for (place, record) in found.entries {
                let record = Record::decode(&record).ok_or_else(|| malformed("a node"))?;
                from.clone_from(&place);
                let node = Node { place, record };
                if !listing.add(node.record.id, node.info(), most) {
                    return Ok(listing);
                }
            }
            if !found.more {
                return Ok(listing);
            }
        }
    }

    /// The same of a directory that is not large, in the order of the names. Sealed names come in another order.
    async fn list_sorted(&mut self, directory: NodeId, after: &str, most: usize) -> Result<Listing, TreeError> {
        let (mut from, to) = (key::entry(directory, ""), key::after(directory));
        let mut nodes = Vec::new();
        loop {
            from.push(0);
            let range = Range { from: &from, to: &to, most: LISTED_AT_ONCE, ..Range::all(key::ENTRIES) };
            let found = self.files.range(range).await?;
            for (place, record) in found.entries {
                let record = Record::decode(&record).ok_or_else(|| malformed("a node"))?;
                from.clone_from(&place);
                nodes.push(Node { place, record });
            }
            if !found.more {
                break;
            }
        }
        nodes.sort_unstable_by(|a, b| a.place.cmp(&b.place));
        let mut listing = Listing::default();
        for node in nodes.iter().filter(|node| node.name() > after) {
            if !listing.add(node.record.id, node.info(), most) {
                break;
            }
        }
        Ok(listing)
    }

    /// Removes a name.
    pub async fn remove(&mut self, base: NodeId, path: &str, what: Removal, now: i64) -> Result<(), TreeError> {
        let (parents, name) = path::parent_and_name(path)?;
        let parent = self.directory(base, &parents).await?.record.id;
        let node = self.child(parent, name).await?.ok_or_else(|| TreeError::NotFound(name.into()))?;
        match what {
            Removal::Any => {}
            Removal::File => node.is_file()?,
            Removal::Directory => node.is_directory()?,
        }
        self.unlink(node)?;
        self.count(parent, 0, 1, now).await
    }

    /// Gives a node another name.
    pub async fn rename(&mut self, base: NodeId, from: &str, to: &str, now: i64) -> Result<(), TreeError> {
        let (from_parents, from_name) = path::parent_and_name(from)?;
        let (to_parents, to_name) = path::parent_and_name(to)?;
        let from_parent = self.directory(base, &from_parents).await?.record.id;
        let found = self.child(from_parent, from_name).await?;
        let mut node = found.ok_or_else(|| TreeError::NotFound(from_name.into()))?;
        // Names only: nothing but its own name leads to a directory.
        let to_parent = self.walk(base, &to_parents, Some(&node)).await?;
        to_parent.is_directory()?;
        let to_parent = to_parent.record.id;
        let replaced = self.child(to_parent, to_name).await?;
        let more = u64::from(replaced.is_none());
        if let Some(replaced) = replaced {
            if replaced.record.id == node.record.id {
                return Ok(());
            }
            match node.record.kind {
                Kind::Directory => replaced.is_directory()?,
                Kind::File => replaced.is_file()?,
            }
            self.unlink(replaced)?;
        }
        self.place(&mut node, key::entry(to_parent, to_name));
        self.count(from_parent, 0, 1, now).await?;
        self.count(to_parent, more, 0, now).await
    }

    /// A node loses its name. It goes, if it is no file that somebody holds.
    fn unlink(&mut self, mut node: Node) -> Result<(), TreeError> {
        let Record { id, kind, bytes, .. } = node.record;
        if kind == Kind::Directory {
            if bytes > 0 {
                return Err(TreeError::NotEmpty(node.name().into()));
            }
            self.take_out(&node);
            return Ok(());
        }
        let is_held = self.files.state.borrow_mut().open.get_mut(&id).map(|open| open.unnamed = true).is_some();
        if is_held {
            self.place(&mut node, key::unnamed(id));
        } else {
            self.forget(&node);
        }
        Ok(())
    }

    /// Removes a file with its content.
    fn forget(&mut self, node: &Node) {
        self.take_out(node);
        if node.record.bytes > 0 {
            let id = node.record.id;
            self.batch.remove_range(key::CONTENT, &key::node(id), &key::after(id));
        }
    }

    /// Removes a file if it has no name.
    pub async fn remove_unnamed(&mut self, id: NodeId) -> Result<(), TreeError> {
        match self.node(id).await {
            Ok(node) if key::is_unnamed(&node.place) => self.forget(&node),
            // Its removal was taken back, or nothing is left of it.
            Ok(_) | Err(TreeError::Gone) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Removes those of these files that have no name.
    pub async fn remove_released(&mut self, released: &[NodeId]) -> Result<(), TreeError> {
        for id in released {
            self.remove_unnamed(*id).await?;
        }
        Ok(())
    }
}
