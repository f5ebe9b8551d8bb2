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

/// A keyspace that takes this many commits, and answers small pages.
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
    /// The keyspace below takes this many commits.
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

/// Two entries of half an answer's bytes each.
#[test]
fn what_is_held_comes_in_answers_as_well() {
    const HALF: usize = (512 << 10) / 2 - 1 - 32;
    let layered = Layered::new(space("a"));
    layered.hold();
    for key in 0..5_u8 {
        // The last ones are a byte longer, so that two of them do not fit.
        let value = vec![key; HALF + usize::from(key >= 2)];
        done(layered.commit(Batch::new().put("t", &[key], &value), Durability::Now)).unwrap();
    }
    let page = |from: u8| {
        let found = done(layered.range(Range { from: &[from], ..Range::all("t") })).unwrap();
        (found.entries.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>().concat(), found.more)
    };
    assert_eq!(
        [page(0), page(2), page(3), page(4)],
        [(vec![0, 1], true), (vec![2], true), (vec![3], true), (vec![4], false)]
    );
}

/// A keyspace that cannot even be read, and that counts syncs.
#[derive(Clone, Default)]
struct Closed(Rc<Cell<u32>>);

impl Closed {
    fn fails<T>() -> Result<T, Fault> {
        Err(Fault::ReadOnly("the disk failed".into()))
    }
}

impl Keyspace for Closed {
    async fn info(&self) -> Result<Info, Fault> {
        Self::fails()
    }

    async fn get(&self, _: &str, _: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        Self::fails()
    }

    async fn range(&self, _: Range<'_>) -> Result<Entries, Fault> {
        Self::fails()
    }

    async fn commit(&self, _: &Batch, _: Durability) -> Result<(), Fault> {
        Self::fails()
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.0.set(self.0.get() + 1);
        Ok(())
    }
}

#[test]
fn while_nothing_is_held_the_faults_below_are_told() {
    let closed = Closed::default();
    let layered = Layered::new(closed.clone());
    let faults = |layered: &Layered<Closed>| {
        [
            done(layered.info()).map(drop),
            done(layered.get("t", b"k")).map(drop),
            done(layered.range(Range::all("t"))).map(drop),
        ]
    };
    assert_eq!(faults(&layered), [Closed::fails(), Closed::fails(), Closed::fails()]);
    assert_eq!((done(layered.sync()), closed.0.get()), (Ok(()), 1));
    layered.hold();
    assert_eq!(faults(&layered), [Ok(()), Ok(()), Ok(())]);
    // What is held is durable once it is released: there is nothing to sync before.
    done(layered.commit(Batch::new().put("t", b"k", b"v"), Durability::Later)).unwrap();
    assert_eq!((done(layered.sync()), done(layered.get("t", b"k"))), (Ok(()), Ok(Some(b"v".to_vec()))));
    assert_eq!(closed.0.get(), 1);
}
