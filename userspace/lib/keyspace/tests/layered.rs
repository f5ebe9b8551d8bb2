//! Commits that are held over a keyspace, beside a keyspace that took them at once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use capos_keyspace::local::LocalKeyspace;
use capos_keyspace::{Batch, Durability, Entries, Entry, Fault, Info, Keyspace, Layered, Range};
use capos_store::{MemoryBlocks, Store};
use proptest::prelude::*;

fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in the same process answers at once"),
    }
}

type Space = LocalKeyspace<MemoryBlocks>;

fn space(name: &str) -> Space {
    let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(1024)).unwrap()));
    LocalKeyspace::new(store, name, 1 << 20).unwrap()
}

/// A keyspace that takes so many commits, and answers small pages.
#[derive(Clone)]
struct Stubborn {
    space: Space,
    takes: Rc<Cell<u32>>,
    page: u32,
}

impl Keyspace for Stubborn {
    async fn info(&self) -> Result<Info, Fault> {
        self.space.info().await
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.space.get(table, key).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        self.space.range(Range { most: range.most.min(self.page), ..range }).await
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        let left = self.takes.get().checked_sub(1).ok_or_else(|| Fault::ReadOnly("the disk failed".into()))?;
        self.takes.set(left);
        self.space.commit(batch, durability).await
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.space.sync().await
    }
}

/// Every entry of a range, in pages.
fn all(space: &impl Keyspace, range: Range<'_>) -> Vec<Entry> {
    let (mut found, mut from, mut to) = (Vec::new(), range.from.to_vec(), range.to.to_vec());
    loop {
        let page = done(space.range(Range { from: &from, to: &to, ..range })).unwrap();
        assert!(page.entries.len() <= range.most as usize && (!page.more || !page.entries.is_empty()));
        found.extend(page.entries);
        let Some((last, _)) = found.last().filter(|_| page.more) else { return found };
        if range.reverse {
            to.clone_from(last);
        } else {
            from.clone_from(last);
            from.push(0);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(u8, u8, u8)>),
    Hold,
    /// The keyspace below takes so many commits.
    Release(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => proptest::collection::vec((0..4_u8, 0..12_u8, 0..12_u8), 1..5).prop_map(Step::Commit),
        1 => Just(Step::Hold),
        2 => (0..6_u32).prop_map(Step::Release),
    ]
}

proptest! {
    #[test]
    fn what_is_held_is_read_and_comes_below_in_order(steps in proptest::collection::vec(step(), 1..40), page in 1..6_u32, most in 1..6_u32) {
        let takes = Rc::new(Cell::new(u32::MAX));
        let below = Stubborn { space: space("a"), takes: takes.clone(), page };
        let (layered, model) = (Layered::new(below.clone()), space("b"));
        for step in steps {
            match step {
                Step::Commit(changes) => {
                    let mut batch = Batch::new();
                    for (kind, key, other) in changes {
                        match kind {
                            0 => batch.remove("t", &[key]),
                            1 if other == 0 => batch.remove_range("t", &[key], &[]),
                            1 => batch.remove_range("t", &[key], &[other]),
                            _ => batch.put("t", &[key], &[kind, other]),
                        };
                    }
                    done(layered.commit(&batch, Durability::Now)).unwrap();
                    done(model.commit(&batch, Durability::Now)).unwrap();
                }
                Step::Hold => layered.hold(),
                Step::Release(count) => {
                    takes.set(count);
                    prop_assert_eq!(done(layered.release()).is_err(), layered.is_held());
                    takes.set(u32::MAX);
                }
            }
            for reverse in [false, true] {
                let range = Range { most, reverse, ..Range::all("t") };
                prop_assert_eq!(all(&layered, range), all(&model, range));
                let part = Range { from: &[3], to: &[9], keys_only: true, ..range };
                prop_assert_eq!(all(&layered, part), all(&model, part));
            }
            for key in 0..12_u8 {
                prop_assert_eq!(done(layered.get("t", &[key])).unwrap(), done(model.get("t", &[key])).unwrap());
            }
        }
        done(layered.release()).unwrap();
        prop_assert_eq!(all(&below, Range::all("t")), all(&model, Range::all("t")));
    }
}

#[test]
fn what_is_counted_below_is_not_held() {
    let layered = Layered::new(space("a"));
    layered.hold();
    let mut batch = Batch::new();
    batch.put("t", b"k", b"value").count("t", b"bytes", None);
    let refused = done(layered.commit(&batch, Durability::Now));
    assert!(matches!(refused, Err(Fault::Invalid(_))), "{refused:?}");
    assert_eq!(done(layered.get("t", b"k")), Ok(None));
}
