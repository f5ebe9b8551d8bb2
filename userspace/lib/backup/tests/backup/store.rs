//! A store that is backed up and restored is equal.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use capos_backup::store::{StoreSource, is_unfinished, restore};
use capos_backup::{Error, Files, MemoryFiles, Repository, Sum, write};
use capos_store::{Durability, MemoryBlocks, Store};
use capos_volume::sim::{Seed, SimDisk};
use capos_volume::{CipherKind, Cost, Format, Secret, Volume};

fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("files in memory answer at once"),
    }
}

fn repository() -> Repository {
    let format = Format { cipher: CipherKind::ChaCha20Poly1305, cost: Cost::LEAST, label: "ada", cache_nodes: 4 };
    let secret = Secret::Passphrase(b"correct horse");
    Repository::of(&Volume::format(SimDisk::new(64, 1), format, &secret, &mut |bytes| Seed(1).fill(bytes)).unwrap())
}

fn blank() -> Store<MemoryBlocks> {
    Store::open(MemoryBlocks::new(16_384)).unwrap()
}

fn filled() -> Store<MemoryBlocks> {
    let (mut store, mut seed) = (blank(), Seed(5));
    for name in ["files", "audit", "empty"] {
        let namespace = store.create_namespace(name, 8 << 20).unwrap();
        for _ in 0..if name == "empty" { 0 } else { 40 } {
            let mut write = store.begin().unwrap();
            for _ in 0..10 {
                let table = if seed.once_in(2) { "inodes" } else { "content" };
                let value = vec![seed.below(256) as u8; seed.below(9000) as usize];
                write.put(namespace, table, &seed.below(1 << 20).to_be_bytes(), &value).unwrap();
            }
            write.commit(Durability::Later).unwrap();
        }
    }
    store
}

fn back_up(store: &mut Store<MemoryBlocks>, files: &MemoryFiles, time: u64) -> Sum {
    let mut source = StoreSource::new(store).unwrap();
    let random = &mut |bytes: &mut [u8]| Seed(time).fill(bytes);
    done(write(&repository(), files, &mut source, time, random, |_| true)).unwrap().sum
}

#[test]
fn a_restored_store_has_the_same_sum() {
    let (files, mut store) = (MemoryFiles::default(), filled());
    let sum = back_up(&mut store, &files, 1);
    let mut other = blank();
    assert_eq!(done(restore(&repository(), &files, 1, &mut other, |_| (), |_| Ok(()))).unwrap(), sum);
    assert_eq!(back_up(&mut other, &MemoryFiles::default(), 2), sum);
    // It is on the medium, quotas and all.
    let mut crashed = Store::open(other.with_blocks(MemoryBlocks::after_crash)).unwrap();
    assert_eq!(back_up(&mut crashed, &MemoryFiles::default(), 3), sum);
    let entries = |store: &Store<MemoryBlocks>| {
        let mut usages: Vec<_> = store.usage().into_iter().map(|(_, usage)| usage).collect();
        usages.sort_by(|a, b| a.name.cmp(&b.name));
        usages
    };
    assert_eq!(entries(&crashed), entries(&store));
    assert!(matches!(done(restore(&repository(), &files, 1, &mut other, |_| (), |_| Ok(()))), Err(Error::Store(_))));
}

#[test]
fn a_backup_that_is_damaged_leaves_a_blank_store() {
    let (files, mut store) = (MemoryFiles::default(), filled());
    back_up(&mut store, &files, 1);
    let last = files.files.borrow().keys().rfind(|path| path.starts_with("chunks")).unwrap().clone();
    files.files.borrow_mut().remove(&last);
    let mut other = blank();
    assert_eq!(
        done(restore(&repository(), &files, 1, &mut other, |_| (), |_| Ok(()))),
        Err(Error::Missing { file: last })
    );
    assert!(other.usage().is_empty());
}

#[test]
fn a_store_that_is_being_restored_says_so() {
    let (files, mut store) = (MemoryFiles::default(), filled());
    back_up(&mut store, &files, 1);
    let (mut other, mut bytes) = (blank(), 0);
    // The power fails in the middle: what the medium then has is not taken for a whole store.
    let (repository, slow) = (repository(), Slow(&files));
    {
        let mut cut = pin!(restore(&repository, &slow, 1, &mut other, |so_far| bytes = so_far, |_| Ok(())));
        for _ in 0..4 {
            assert!(cut.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
    assert!(bytes > 0);
    let mut crashed = Store::open(other.with_blocks(MemoryBlocks::after_crash)).unwrap();
    assert!(is_unfinished(&crashed));
    let mut whole = blank();
    done(restore(&repository, &files, 1, &mut whole, |_| (), |_| Ok(()))).unwrap();
    assert!(!is_unfinished(&whole) && !is_unfinished(&store));
    assert!(matches!(done(restore(&repository, &files, 1, &mut crashed, |_| (), |_| Ok(()))), Err(Error::Store(_))));
}

/// Files that take their time.
struct Slow<'a>(&'a MemoryFiles);

impl Files for Slow<'_> {
    async fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        self.0.put(path, bytes).await
    }

    async fn get(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut waited = false;
        std::future::poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
        self.0.get(path, most).await
    }

    async fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        self.0.list(folder).await
    }

    async fn flush(&self) -> Result<(), Error> {
        self.0.flush().await
    }
}

#[test]
fn a_secret_opens_the_backup_of_its_own_person() {
    let (files, mut store) = (MemoryFiles::default(), filled());
    back_up(&mut store, &files, 1);
    let secret = Secret::Passphrase(b"correct horse");
    assert!(done(Repository::open_as(&files, "ada", &secret, 1 << 20)).is_ok());
    for (name, secret) in [("bob", &secret), ("", &secret), ("ada", &Secret::Passphrase(b"correct house"))] {
        let opened = done(Repository::open_as(&files, name, secret, 1 << 20));
        assert!(matches!(opened, Err(Error::Key(capos_volume::Error::WrongKey))), "{name}");
    }
}
