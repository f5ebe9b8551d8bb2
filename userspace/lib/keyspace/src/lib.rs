//! Tables of keys and values that last: what holders of a namespace are written against.
//!
//! A file server, the audit log and the conversations keep what they have in a [`Keyspace`]. In the system that is a
//! [`capos_schema::store::NamespaceClient`]; in tests it is [`local::LocalKeyspace`], over a store in the same process.
//! Keys are in the order of their bytes. A [`Batch`] is done whole or not at all, and says what values are to be and not
//! how they change, so it can be repeated after [`Fault::Lost`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod batch;
mod client;
mod fault;
mod layered;
#[cfg(feature = "local")]
pub mod local;
mod within;

use alloc::string::String;
use alloc::vec::Vec;

pub use batch::Batch;
pub use fault::Fault;
pub use layered::Layered;
pub use within::{Sealed, Within};

/// Bytes of a key at most.
pub const MAX_KEY: usize = 1024;
/// Bytes of a value at most.
pub const MAX_VALUE: usize = 256 << 10;
/// Bytes of a batch at most: tables, keys, values, and 64 for each change.
pub const MAX_BATCH: usize = 512 << 10;

/// What a key of the store has before the name of its table: the number of the namespace, and the name's length.
const NAME: usize = 9;
/// What an entry takes besides its key and value.
const ENTRY: usize = 32;

/// What a sealed value takes more than it has, and a sealed name.
pub const SEALED_VALUE: usize = 40;
pub const SEALED_NAME: usize = 16;
/// Bytes of a key before its name, in tables whose names are sealed.
pub const NUMBER: usize = 8;

/// What a namespace is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Bytes that it may take: keys, values, and 32 for each entry.
    pub limit: u64,
    pub used: u64,
    /// Grows with each commit.
    pub version: u64,
    /// It is on a data disk and not in memory.
    pub lasting: bool,
    pub read_only: bool,
    /// How often it was set aside.
    pub asides: u32,
}

/// Which entries of a table are read.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    pub table: &'a str,
    /// The first key that may come.
    pub from: &'a [u8],
    /// The first key that may not come any more; the table's end if it is empty.
    pub to: &'a [u8],
    /// The last ones come first.
    pub reverse: bool,
    pub most: u32,
    /// Values are left out.
    pub keys_only: bool,
}

impl<'a> Range<'a> {
    /// A whole table, in order.
    #[must_use]
    pub fn all(table: &'a str) -> Self {
        Self { table, from: &[], to: &[], reverse: false, most: u32::MAX, keys_only: false }
    }
}

/// What the names of tables begin with that are in a part of the keyspace which was set aside.
const ASIDE: &str = "aside/";

/// The prefix under which the tables of a part that was set aside are read.
#[must_use]
pub fn aside(number: u32) -> String {
    alloc::format!("{ASIDE}{number}/")
}

/// The number of the part that was set aside, and the table in it, of such a name.
#[must_use]
pub fn table_aside(name: &str) -> Option<(u32, &str)> {
    let (number, table) = name.strip_prefix(ASIDE)?.split_once('/')?;
    Some((number.parse().ok()?, table))
}

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// What a range gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    pub entries: Vec<Entry>,
    /// There are more than fit into one answer, or than were asked for.
    pub more: bool,
}

/// When a commit is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it returns.
    Now,
    /// With the next durable commit or sync. Readers see it at once; a crash before takes it back.
    Later,
}

/// Tables of keys and values.
pub trait Keyspace {
    /// What it is like.
    ///
    /// # Errors
    /// [`Fault`]
    fn info(&self) -> impl Future<Output = Result<Info, Fault>>;

    /// Whether a part of it is sealed with the key of a home.
    fn is_sealed(&self) -> bool {
        false
    }

    /// What an entry takes, in the bytes in which [`Info::used`] and [`Batch::count`] count.
    fn cost(&self, table: &str, key: &[u8], value: &[u8]) -> u64 {
        let parts = [NAME, table.len(), key.len(), value.len(), ENTRY];
        parts.into_iter().fold(0, |sum: u64, part| sum.saturating_add(part as u64))
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// [`Fault`]
    fn get(&self, table: &str, key: &[u8]) -> impl Future<Output = Result<Option<Vec<u8>>, Fault>>;

    /// Entries of a table.
    ///
    /// # Errors
    /// [`Fault`]
    fn range(&self, range: Range<'_>) -> impl Future<Output = Result<Entries, Fault>>;

    /// Does all changes in their order, or none.
    ///
    /// # Errors
    /// [`Fault`]. After [`Fault::Lost`] it is unknown whether they were done.
    fn commit(&self, batch: &Batch, durability: Durability) -> impl Future<Output = Result<(), Fault>>;

    /// The same for a batch that its owner lends: it is changed meanwhile, and as before in the end. So a part of a keyspace need not
    /// copy the values.
    ///
    /// # Errors
    /// As for [`commit`](Self::commit).
    fn commit_lent(&self, batch: &mut Batch, durability: Durability) -> impl Future<Output = Result<(), Fault>> {
        self.commit(batch, durability)
    }

    /// Makes earlier commits durable.
    ///
    /// # Errors
    /// [`Fault`]
    fn sync(&self) -> impl Future<Output = Result<(), Fault>>;

    /// Starts the keyspace over, empty, and keeps what it held under [`aside`]. Returns the number of that part.
    ///
    /// # Errors
    /// [`Fault`]; `Invalid` if it cannot be set aside.
    fn set_aside(&self) -> impl Future<Output = Result<u32, Fault>> {
        core::future::ready(Err(Fault::Invalid("this part of the store cannot be set aside".into())))
    }
}

#[cfg(test)]
mod tests {
    use alloc::rc::Rc;
    use core::cell::RefCell;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    use capos_store::{MemoryBlocks, Store};

    use super::local::LocalKeyspace;
    use super::*;

    fn done<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("a store in the same process answers at once"),
        }
    }

    fn keys(entries: &Entries) -> Vec<&[u8]> {
        entries.entries.iter().map(|(key, _)| key.as_slice()).collect()
    }

    #[test]
    fn ranges_go_both_ways_and_end_where_they_are_told() {
        let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(4096)).unwrap()));
        let space = LocalKeyspace::new(store.clone(), "a", 4 << 20).unwrap();
        let other = LocalKeyspace::new(store, "b", 4 << 20).unwrap();
        let mut batch = Batch::new();
        for key in [b"a", b"b", b"c", b"d"] {
            batch.put("t", key, b"x");
        }
        done(space.commit(&batch, Durability::Now)).unwrap();
        let read = |range: Range<'_>| done(space.range(range)).unwrap();
        assert_eq!(keys(&read(Range::all("t"))), [b"a", b"b", b"c", b"d"]);
        assert_eq!(keys(&read(Range { reverse: true, most: 2, ..Range::all("t") })), [b"d", b"c"]);
        assert!(read(Range { reverse: true, most: 2, ..Range::all("t") }).more);
        assert!(!read(Range { most: 4, ..Range::all("t") }).more);
        assert_eq!(keys(&read(Range { from: b"b", to: b"d", ..Range::all("t") })), [b"b", b"c"]);
        assert!(keys(&read(Range { from: b"c", to: b"b", ..Range::all("t") })).is_empty());
        assert!(
            keys(&read(Range::all("u"))).is_empty() && keys(&done(other.range(Range::all("t"))).unwrap()).is_empty()
        );
        done(space.commit(Batch::new().remove_range("t", b"b", b"d").remove("t", b"z"), Durability::Later)).unwrap();
        assert_eq!(keys(&read(Range::all("t"))), [b"a", b"d"]);
        done(space.commit(Batch::new().remove_range("t", b"", b""), Durability::Now)).unwrap();
        assert_eq!(done(space.info()).unwrap().used, 0);
    }

    /// An answer fits into a message, however small its entries are.
    #[test]
    fn small_entries_come_in_several_answers() {
        let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(4096)).unwrap()));
        let space = LocalKeyspace::new(store, "a", 4 << 20).unwrap();
        for part in 0..4_u16 {
            let mut batch = Batch::new();
            for key in 0..5000 {
                batch.put("t", &(part * 5000 + key).to_be_bytes(), b"");
            }
            done(space.commit(&batch, Durability::Now)).unwrap();
        }
        let first = done(space.range(Range::all("t"))).unwrap();
        assert!(first.more && first.entries.len() * 34 <= 512 << 10, "{}", first.entries.len());
        let next = (first.entries.len() as u16).to_be_bytes();
        let rest = done(space.range(Range { from: &next, ..Range::all("t") })).unwrap();
        assert_eq!((first.entries.len() + rest.entries.len(), rest.more), (20_000, false));
    }

    #[test]
    fn parts_of_a_keyspace_are_apart() {
        let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(4096)).unwrap()));
        let space = LocalKeyspace::new(store, "a", 4 << 20).unwrap();
        let [one, two] = ["1/", "2/"].map(|prefix| Within::new(space.clone(), prefix.into()));
        for (part, value) in [(&one, b"x"), (&two, b"y")] {
            done(part.commit(Batch::new().put("t", b"k", value).put("u", b"k", value), Durability::Now)).unwrap();
        }
        done(one.commit(Batch::new().remove("t", b"k").remove_range("u", b"", b""), Durability::Now)).unwrap();
        let of = |part: &Within<_>| (done(part.get("t", b"k")).unwrap(), done(part.range(Range::all("u"))).unwrap());
        assert_eq!(of(&one), (None, Entries::default()));
        assert_eq!((of(&two).0.unwrap(), keys(&of(&two).1)), (b"y".to_vec(), alloc::vec![b"k".as_slice()]));
        assert_eq!(done(space.get("2/t", b"k")).unwrap().unwrap(), b"y");
        assert_eq!(done(two.info()).unwrap(), done(space.info()).unwrap());
    }

    #[test]
    fn a_batch_that_was_lent_is_as_before() {
        let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(4096)).unwrap()));
        let space = LocalKeyspace::new(store, "a", 4 << 20).unwrap();
        let part = Within::new(Within::new(space.clone(), "1/".into()), "2/".into());
        let mut batch = Batch::new();
        batch.put("t", b"k", b"x").put("1/2/t", b"k", b"y");
        let (bytes, changes) = (batch.bytes(), batch.changes().to_vec());
        batch.put("u", b"k", b"z");
        done(part.commit_lent(&mut batch, Durability::Now)).unwrap();
        assert_eq!(done(space.get("1/2/t", b"k")).unwrap().unwrap(), b"x");
        assert_eq!(done(space.get("1/2/1/2/t", b"k")).unwrap().unwrap(), b"y");
        batch.truncate(2);
        assert_eq!((batch.bytes(), batch.changes()), (bytes, changes.as_slice()));
    }

    #[test]
    fn a_count_follows_what_its_batches_add_and_bounds_it() {
        let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(4096)).unwrap()));
        let space = Within::new(LocalKeyspace::new(store, "a", 1 << 20).unwrap(), "7/".into());
        let count = || done(space.get("n", b"k")).unwrap().map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        let (small, large) = (space.cost("t", b"small", b"x"), space.cost("t", b"large", &[0; 2000]));
        let mut batch = Batch::new();
        batch.put("t", b"small", b"x").put("t", b"large", &[0; 2000]).count("n", b"k", Some(small + large));
        // Repeated, it adds nothing.
        for _ in 0..2 {
            done(space.commit(&batch, Durability::Now)).unwrap();
            assert_eq!(count(), Some(small + large));
        }
        let counter = space.cost("n", b"k", &[0; 8]);
        assert_eq!(done(space.info()).unwrap().used, small + large + counter);
        let mut batch = Batch::new();
        batch.put("t", b"more", b"").count("n", b"k", Some(small + large));
        assert!(matches!(done(space.commit(&batch, Durability::Now)), Err(Fault::Quota(_))));
        assert_eq!((done(space.get("t", b"more")).unwrap(), count()), (None, Some(small + large)));
        // What frees is done, however much is used, and so is what has no bound.
        let mut batch = Batch::new();
        batch.put("t", b"more", b"").remove("t", b"large").count("n", b"k", Some(1));
        done(space.commit(&batch, Durability::Now)).unwrap();
        let more = space.cost("t", b"more", b"");
        assert_eq!(count(), Some(small + more));
        done(space.commit(Batch::new().put("t", b"large", &[0; 2000]).count("n", b"k", None), Durability::Now))
            .unwrap();
        done(space.commit(Batch::new().remove_range("t", b"", b"").count("n", b"k", None), Durability::Now)).unwrap();
        assert_eq!(count(), Some(0));
        done(space.commit(Batch::new().put("n", b"k", b"7"), Durability::Now)).unwrap();
        assert!(matches!(done(space.commit(&batch, Durability::Now)), Err(Fault::Invalid(_))));
    }

    #[test]
    fn a_batch_that_does_not_fit_changes_nothing() {
        let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(4096)).unwrap()));
        let space = LocalKeyspace::new(store, "a", 1000).unwrap();
        let mut batch = Batch::new();
        batch.put("t", b"small", b"x").put("t", b"large", &[0; 2000]);
        assert!(matches!(done(space.commit(&batch, Durability::Now)), Err(Fault::Quota(_))));
        assert_eq!(done(space.get("t", b"small")).unwrap(), None);
        let mut batch = Batch::new();
        batch.put("t", &[0; MAX_KEY + 1], b"");
        assert!(matches!(done(space.commit(&batch, Durability::Now)), Err(Fault::Invalid(_))));
        let mut batch = Batch::new();
        for key in 0..3_u8 {
            batch.put("t", &[key], &[0; MAX_VALUE]);
        }
        assert!(matches!(done(space.commit(&batch, Durability::Now)), Err(Fault::Invalid(_))));
    }
}
