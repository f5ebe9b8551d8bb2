//! What is read and changed together: at the end it is committed, or nothing of it has happened.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use capos_async_lock::AsyncMutexGuard;
use capos_keyspace::{Batch, Keyspace};
use capos_tree::{Info, Kind, NodeId, Tree, TreeError, path};

use crate::files::{Files, malformed};
use crate::key;
use crate::record::Record;

/// A node and where it is.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its key in the table of entries.
    pub place: Vec<u8>,
    pub record: Record,
}

impl Node {
    /// Its name; none for the root, and for a file whose name was removed.
    pub fn name(&self) -> &str {
        let Some((directory, name)) = key::parts(&self.place) else { return "" };
        if directory == key::UNNAMED { "" } else { core::str::from_utf8(name).unwrap_or_default() }
    }

    pub fn info(&self) -> Info {
        let Record { kind, bytes, modified, .. } = self.record;
        Info { name: String::from(self.name()), kind, bytes, modified }
    }

    pub fn is_directory(&self) -> Result<(), TreeError> {
        match self.record.kind {
            Kind::Directory => Ok(()),
            Kind::File => Err(TreeError::NotDirectory(String::from(self.name()))),
        }
    }

    pub fn is_file(&self) -> Result<(), TreeError> {
        match self.record.kind {
            Kind::File => Ok(()),
            Kind::Directory => Err(TreeError::IsDirectory(String::from(self.name()))),
        }
    }
}

/// What is known of a key: what it is to have, and whether that is new.
struct Known<T> {
    value: Option<T>,
    changed: bool,
}

/// A change in progress. While it exists no other task reads or changes the tree.
pub struct Change<'a, K> {
    pub files: &'a Files<K>,
    turn: AsyncMutexGuard,
    /// Changes of content, and whatever is no node.
    pub batch: Batch,
    entries: BTreeMap<Vec<u8>, Known<Record>>,
    places: BTreeMap<NodeId, Known<Vec<u8>>>,
    /// The quota holds for it. It does not for changes that free something, though they may add some bytes first.
    is_bounded: bool,
}

impl<'a, K: Keyspace> Change<'a, K> {
    pub fn new(files: &'a Files<K>, turn: AsyncMutexGuard) -> Self {
        Self { files, turn, batch: Batch::new(), entries: BTreeMap::new(), places: BTreeMap::new(), is_bounded: true }
    }

    /// The same change, without a quota.
    pub fn unbounded(self) -> Self {
        Self { is_bounded: false, ..self }
    }

    /// Commits all of it, and gives the turn back.
    pub async fn commit(mut self) -> Result<AsyncMutexGuard, TreeError> {
        let entries = self.entries.iter().filter(|(_, known)| known.changed);
        let places = self.places.iter().filter(|(_, known)| known.changed);
        // First what makes room: the store's quota holds after each step.
        for (place, _) in entries.clone().filter(|(_, known)| known.value.is_none()) {
            self.batch.remove(key::ENTRIES, place);
        }
        for (id, _) in places.clone().filter(|(_, known)| known.value.is_none()) {
            self.batch.remove(key::PLACES, &key::node(*id));
        }
        for (place, record) in entries.filter_map(|(place, known)| Some((place, known.value.as_ref()?))) {
            self.batch.put(key::ENTRIES, place, &record.encode());
        }
        for (id, place) in places.filter_map(|(id, known)| Some((id, known.value.as_ref()?))) {
            self.batch.put(key::PLACES, &key::node(*id), place);
        }
        if !self.batch.is_empty() {
            self.files.commit(&mut self.batch, self.is_bounded).await?;
        }
        Ok(self.turn)
    }

    /// The node at a key of the table of entries, if there is one.
    async fn entry(&mut self, place: &[u8]) -> Result<Option<Node>, TreeError> {
        let found = match self.entries.get(place) {
            Some(known) => known.value.clone(),
            None => {
                let record = match self.files.get(key::ENTRIES, place).await? {
                    Some(bytes) => Some(Record::decode(&bytes).ok_or_else(|| malformed("a node"))?),
                    None => None,
                };
                self.entries.insert(place.to_vec(), Known { value: record.clone(), changed: false });
                record
            }
        };
        let Some(record) = found else { return Ok(None) };
        let known = Known { value: Some(place.to_vec()), changed: false };
        self.places.entry(record.id).or_insert(known);
        Ok(Some(Node { place: place.to_vec(), record }))
    }

    /// A node by its number.
    pub async fn node(&mut self, id: NodeId) -> Result<Node, TreeError> {
        let place = match self.places.get(&id) {
            Some(known) => known.value.clone(),
            None if id == Tree::ROOT => Some(key::root()),
            None => self.files.get(key::PLACES, &key::node(id)).await?,
        };
        let place = place.ok_or(TreeError::Gone)?;
        self.entry(&place).await?.filter(|node| node.record.id == id).ok_or_else(|| malformed("the place of a node"))
    }

    /// A file by its number.
    pub async fn file(&mut self, id: NodeId) -> Result<Node, TreeError> {
        let node = self.node(id).await?;
        node.is_file()?;
        Ok(node)
    }

    /// What has this name in a directory.
    pub async fn child(&mut self, directory: NodeId, name: &str) -> Result<Option<Node>, TreeError> {
        self.entry(&key::entry(directory, name)).await
    }

    /// The node that names lead to from `base`, if none of them leads to `not_through`.
    pub async fn walk(&mut self, base: NodeId, names: &[&str], not_through: Option<&Node>) -> Result<Node, TreeError> {
        let mut at: Option<Node> = None;
        for name in names {
            let directory = match &at {
                Some(node) => {
                    node.is_directory()?;
                    node.record.id
                }
                None => base,
            };
            let Some(node) = self.child(directory, name).await? else {
                // A directory that was removed has no entries.
                if at.is_none() {
                    self.node(base).await?.is_directory()?;
                }
                return Err(TreeError::NotFound((*name).into()));
            };
            if let Some(other) = not_through.filter(|other| other.record.id == node.record.id) {
                return Err(TreeError::IntoItself(other.name().into()));
            }
            at = Some(node);
        }
        match at {
            Some(node) => Ok(node),
            None => self.node(base).await,
        }
    }

    /// The node at a path.
    pub async fn find(&mut self, base: NodeId, path: &str) -> Result<Node, TreeError> {
        self.walk(base, &path::components(path)?, None).await
    }

    /// Keeps what a node has become.
    pub fn save(&mut self, node: &Node) {
        let record = Known { value: Some(node.record.clone()), changed: true };
        self.entries.insert(node.place.clone(), record);
    }

    /// Gives a node a place, or another one.
    pub fn place(&mut self, node: &mut Node, place: Vec<u8>) {
        self.take_out(node);
        node.place = place;
        self.save(node);
        if node.record.id != Tree::ROOT {
            let known = Known { value: Some(node.place.clone()), changed: true };
            self.places.insert(node.record.id, known);
        }
    }

    /// Takes a node out of the tree.
    pub fn take_out(&mut self, node: &Node) {
        if !node.place.is_empty() {
            self.entries.insert(node.place.clone(), Known { value: None, changed: true });
            self.places.insert(node.record.id, Known { value: None, changed: true });
        }
    }
}
