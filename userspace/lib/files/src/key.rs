//! Tables and keys. Numbers in keys are big-endian, so that they are in order.

use alloc::vec::Vec;

use capos_keyspace::Sealed;
use capos_tree::NodeId;

/// The key `version` has the format, in 4 bytes.
pub use capos_formats::{KEY as VERSION, TABLE as FORMAT_TABLE};
/// Facts about the whole tree.
pub const TREE: &str = "tree";
/// The next node's number and the number of the last commit, in 8 bytes each.
pub const STATE: &[u8] = b"state";
/// It is there when the tree has its first files.
pub const FILLED: &[u8] = b"filled";
/// What the tables take, as [`capos_keyspace::Batch::count`] counts.
pub const USED: &[u8] = b"used";
/// The number of the last commit that [`USED`] counts, in 8 bytes, and a 1 if it counts sealed entries; zeros follow, which
/// are given up on a full disk.
/// A version of capOS that does not count leaves it behind.
pub const COUNTED: &[u8] = b"counted";
/// The record of each node, by the number of its directory and its name.
pub const ENTRIES: &str = "entries";
/// The key of each node in [`ENTRIES`], by its number. The root has none.
pub const PLACES: &str = "places";
/// What is in files, by node and chunk. A chunk that is missing or short continues with zeros.
pub const CONTENT: &str = "content";

/// All tables of a tree.
pub const TABLES: [&str; 5] = [FORMAT_TABLE, TREE, ENTRIES, PLACES, CONTENT];

/// Those that are kept under the key of their owner's home. Of what is left anybody with the volume's key can read numbers.
pub const SEALED: Sealed = Sealed { tables: &[PLACES, CONTENT], named: &[ENTRIES] };

/// Bytes of a chunk. The store's database keeps a large value with its key in a page whose size is a power of two. This is the
/// largest multiple of 4 KiB that fits into a page of 64 KiB.
pub const CHUNK: u64 = 15 * 4096;

/// The directory of the root.
const ABOVE_ROOT: u64 = u64::MAX;
/// The directory of files that are open and have no name.
pub const UNNAMED: NodeId = NodeId::from_number(u64::MAX - 1);

/// The key in [`ENTRIES`] of a name in a directory.
pub fn entry(directory: NodeId, name: &str) -> Vec<u8> {
    let mut key = directory.number().to_be_bytes().to_vec();
    key.extend_from_slice(name.as_bytes());
    key
}

/// The root's key in [`ENTRIES`].
pub fn root() -> Vec<u8> {
    ABOVE_ROOT.to_be_bytes().to_vec()
}

/// The key in [`ENTRIES`] of a file without a name.
pub fn unnamed(id: NodeId) -> Vec<u8> {
    let mut key = entry(UNNAMED, "");
    key.extend_from_slice(&id.number().to_be_bytes());
    key
}

/// The directory and the name of a key in [`ENTRIES`].
pub fn parts(entry: &[u8]) -> Option<(NodeId, &[u8])> {
    let (directory, name) = entry.split_first_chunk()?;
    Some((NodeId::from_number(u64::from_be_bytes(*directory)), name))
}

/// The key of a node in [`PLACES`], and of its first chunk without the chunk's number.
pub fn node(id: NodeId) -> [u8; 8] {
    id.number().to_be_bytes()
}

/// The node of a key in [`PLACES`].
pub fn node_of(key: &[u8]) -> Option<NodeId> {
    Some(NodeId::from_number(u64::from_be_bytes(key.try_into().ok()?)))
}

/// The key of the first node, entry or chunk that belongs to a later node.
pub fn after(id: NodeId) -> [u8; 8] {
    id.number().saturating_add(1).to_be_bytes()
}

/// The key of a chunk in [`CONTENT`].
pub fn chunk(id: NodeId, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    let (first, second) = key.split_at_mut(8);
    first.copy_from_slice(&node(id));
    second.copy_from_slice(&number.to_be_bytes());
    key
}

/// The node and number of a chunk's key.
pub fn chunk_of(key: &[u8]) -> Option<(NodeId, u64)> {
    let (id, number) = key.split_first_chunk::<8>()?;
    Some((NodeId::from_number(u64::from_be_bytes(*id)), u64::from_be_bytes(number.try_into().ok()?)))
}

/// Whether a key in [`ENTRIES`] is that of a file without a name.
pub fn is_unnamed(entry: &[u8]) -> bool {
    parts(entry).is_some_and(|(directory, _)| directory == UNNAMED)
}
