//! Whether a tree is whole.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_keyspace::{Entries, Keyspace, Range};
use capos_tree::{Kind, NodeId, Tree, TreeError};

use crate::files::Files;
use crate::key::{self, CHUNK};
use crate::record::Record;

/// Problems that are told at most.
const MAX_PROBLEMS: usize = 100;
/// Entries of a table that are read at once at most.
const AT_ONCE: u32 = 2048;

/// What a check of a tree has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub files: u64,
    /// Directories, with the root.
    pub directories: u64,
    /// Files without a name, which are open.
    pub unnamed: u64,
    /// Bytes that files have in the keyspace. Holes of files take none.
    pub bytes: u64,
    /// What is wrong, at most 100; none in a tree that is whole.
    pub problems: Vec<String>,
}

impl Report {
    fn problem(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    fn expect(&mut self, is_so: bool, problem: impl FnOnce() -> String) {
        if !is_so {
            self.problem(problem());
        }
    }
}

/// What the table of entries says about a node.
struct Found {
    place: Vec<u8>,
    record: Record,
    /// Entries that it has as a directory.
    entries: u64,
}

impl<K: Keyspace> Files<K> {
    /// Reads all of the tree and tells what it holds and what is wrong with it. No other operation is done meanwhile.
    ///
    /// # Errors
    /// The keyspace fails.
    pub async fn check(&self) -> Result<Report, TreeError> {
        let _turn = self.turn().await;
        let mut report = Report::default();
        let mut nodes = self.nodes(&mut report).await?;
        directories(&mut nodes, &mut report);
        self.places(&nodes, &mut report).await?;
        self.contents(&nodes, &mut report).await?;
        let (has, says) = (self.measure().await?, self.used().await?);
        report.expect(has == says || !self.counts(), || format!("the tables take {has} bytes and say {says}"));
        Ok(report)
    }

    /// Calls a function with each entry of a table.
    pub(crate) async fn each(&self, table: &str, mut with: impl FnMut(&[u8], &[u8])) -> Result<(), TreeError> {
        let mut from = Vec::new();
        loop {
            let range = Range { from: &from, most: AT_ONCE, ..Range::all(table) };
            let Entries { entries, more } = self.range(range).await?;
            for (key, value) in &entries {
                with(key, value);
            }
            if let Some((key, _)) = entries.last() {
                from.clone_from(key);
                from.push(0);
            }
            if !more {
                return Ok(());
            }
        }
    }

    async fn nodes(&self, report: &mut Report) -> Result<BTreeMap<NodeId, Found>, TreeError> {
        let mut nodes = BTreeMap::new();
        let next = self.state.borrow().next;
        self.each(key::ENTRIES, |place, bytes| {
            let Some(record) = Record::decode(bytes) else {
                return report.problem(format!("the entry {place:?} is malformed"));
            };
            let id = record.id;
            match record.kind {
                _ if key::is_unnamed(place) => report.unnamed = report.unnamed.saturating_add(1),
                Kind::File => report.files = report.files.saturating_add(1),
                Kind::Directory => report.directories = report.directories.saturating_add(1),
            }
            report.expect(id.number() < next, || format!("node {} is not below {next}, the next one", id.number()));
            let is_root = place == key::root();
            report.expect(is_root == (id == Tree::ROOT), || format!("node {} has the place {place:?}", id.number()));
            let found = Found { place: place.to_vec(), record, entries: 0 };
            if let Some(other) = nodes.insert(id, found) {
                report.problem(format!("node {} has two places, {place:?} and {:?}", id.number(), other.place));
            }
        })
        .await?;
        report.expect(nodes.contains_key(&Tree::ROOT), || String::from("there is no root"));
        Ok(nodes)
    }

    /// The table of places agrees with that of entries.
    async fn places(&self, nodes: &BTreeMap<NodeId, Found>, report: &mut Report) -> Result<(), TreeError> {
        let mut count = 0_usize;
        self.each(key::PLACES, |id, place| {
            count = count.saturating_add(1);
            let found = key::node_of(id).and_then(|id| nodes.get(&id));
            report.expect(found.is_some_and(|found| found.place == place), || {
                format!("the node of key {id:?} is not at the place {place:?}")
            });
        })
        .await?;
        // All but the root.
        let expected = nodes.len().saturating_sub(1);
        report.expect(count == expected, || format!("{count} nodes have a place, and there are {expected}"));
        Ok(())
    }

    /// Every chunk lies within a file.
    async fn contents(&self, nodes: &BTreeMap<NodeId, Found>, report: &mut Report) -> Result<(), TreeError> {
        self.each(key::CONTENT, |key, chunk| {
            report.bytes = report.bytes.saturating_add(chunk.len() as u64);
            let place = key::chunk_of(key).and_then(|(id, number)| Some((nodes.get(&id)?, number)));
            let Some((found, number)) = place.filter(|(found, _)| found.record.kind == Kind::File) else {
                return report.problem(format!("the chunk {key:?} is of no file"));
            };
            let end = number.saturating_mul(CHUNK).saturating_add(chunk.len() as u64);
            let fits = !chunk.is_empty() && chunk.len() as u64 <= CHUNK && end <= found.record.bytes;
            report.expect(fits, || {
                format!("chunk {number} of node {} has {} bytes", found.record.id.number(), chunk.len())
            });
        })
        .await
    }
}

/// Every node is in a directory that counts it and that leads to the root.
fn directories(nodes: &mut BTreeMap<NodeId, Found>, report: &mut Report) {
    let parents: BTreeMap<NodeId, NodeId> = nodes
        .iter()
        .filter(|(id, _)| **id != Tree::ROOT)
        .filter_map(|(id, found)| Some((*id, key::parts(&found.place)?.0)))
        .filter(|(_, parent)| *parent != key::UNNAMED)
        .collect();
    for (id, parent) in &parents {
        match nodes.get_mut(parent) {
            Some(found) if found.record.kind == Kind::Directory => found.entries = found.entries.saturating_add(1),
            _ => report.problem(format!("node {} is in {}, which is no directory", id.number(), parent.number())),
        }
    }
    for (id, found) in nodes.iter() {
        let (has, says) = (found.entries, found.record.bytes);
        report.expect(found.record.kind == Kind::File || has == says, || {
            format!("directory {} has {has} entries and says {says}", id.number())
        });
        let mut at = *id;
        let mut steps = 0_usize;
        while let Some(parent) = parents.get(&at).filter(|_| steps <= nodes.len()) {
            (at, steps) = (*parent, steps.saturating_add(1));
        }
        report.expect(steps <= nodes.len(), || format!("directory {} is in itself", id.number()));
    }
}
