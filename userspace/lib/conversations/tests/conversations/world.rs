//! A keyspace that counts its operations and can lose its store.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use capos_conversations::{Conversations, MAX_PART, Owner, Part, Quota};
use capos_keyspace::local::LocalKeyspace;
use capos_keyspace::{Batch, Durability, Entries, Fault, Info, Keyspace, Range};
use capos_store::{Blocks, MemoryBlocks, Store};

pub fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in the same process answers at once"),
    }
}

/// How an operation is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lose {
    Nothing,
    /// The next operation is not done.
    Before,
    /// It is done, and the answer is lost.
    After,
}

pub struct Counted<B: Blocks> {
    pub inner: LocalKeyspace<B>,
    pub operations: Cell<u64>,
    pub lose: Cell<Lose>,
    /// From this operation on, how two in a row are lost.
    pub at: Cell<Option<(u64, Lose)>>,
}

impl<B: Blocks> Counted<B> {
    pub fn new(inner: LocalKeyspace<B>) -> Self {
        Self { inner, operations: Cell::new(0), lose: Cell::new(Lose::Nothing), at: Cell::new(None) }
    }

    async fn count<T>(&self, operation: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.operations.set(self.operations.get() + 1);
        let lost = || Fault::Lost("the store has ended".into());
        let now = self.operations.get();
        let due = self.at.get().filter(|(at, _)| (*at..*at + 2).contains(&now)).map(|(_, lose)| lose);
        match due.unwrap_or(self.lose.replace(Lose::Nothing)) {
            Lose::Nothing => operation.await,
            Lose::Before => Err(lost()),
            Lose::After => operation.await.and(Err(lost())),
        }
    }
}

impl<B: Blocks> Keyspace for Counted<B> {
    async fn info(&self) -> Result<Info, Fault> {
        self.count(self.inner.info()).await
    }

    async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.count(self.inner.get(table, key)).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Entries, Fault> {
        self.count(self.inner.range(range)).await
    }

    async fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Fault> {
        assert_eq!(durability, Durability::Now);
        self.count(self.inner.commit(batch, durability)).await
    }

    async fn sync(&self) -> Result<(), Fault> {
        self.count(self.inner.sync()).await
    }
}

pub type World = Conversations<Counted<MemoryBlocks>>;

pub fn world(quota: Quota) -> World {
    let store = Rc::new(RefCell::new(Store::open(MemoryBlocks::new(64 << 10)).unwrap()));
    Conversations::new(Counted::new(LocalKeyspace::new(store, "conversations", 1 << 30).unwrap()), quota)
}

/// A message with this content.
pub fn json(content: &str) -> String {
    format!("{{\"content\":\"{content}\",\"role\":\"user\",\"version\":1}}")
}

/// The parts of a message.
pub fn parts(index: u32, text: &str, most: usize) -> Vec<Part> {
    let chunks: Vec<&[u8]> = text.as_bytes().chunks(most.min(MAX_PART)).collect();
    let count = chunks.len();
    let text = |chunk: &[u8]| String::from_utf8(chunk.to_vec()).unwrap();
    (0..)
        .zip(chunks)
        .map(|(part, chunk)| Part { index, part, last: part as usize + 1 == count, text: text(chunk) })
        .collect()
}

pub fn id(number: u8) -> String {
    format!("{number:02x}").repeat(16)
}

/// All messages of a conversation, read in pages.
pub fn read<K: Keyspace>(
    store: &Conversations<K>,
    owner: Owner,
    id: &str,
    now: u64,
) -> Result<Vec<String>, capos_conversations::Error> {
    let (mut messages, mut next) = (Vec::new(), (0, 0));
    loop {
        let pages = done(store.read(owner, id, next, 3, now))?;
        for part in pages.parts {
            assert_eq!((part.index, part.part), next);
            if part.part == 0 {
                messages.push(String::new());
            }
            messages.last_mut().unwrap().push_str(&part.text);
            next = if part.last { (part.index + 1, 0) } else { (part.index, part.part + 1) };
        }
        if !pages.more {
            assert_eq!(next.1, 0);
            return Ok(messages);
        }
    }
}

/// Ids of all conversations, listed in pages.
pub fn list<K: Keyspace>(store: &Conversations<K>, owner: Owner, now: u64) -> Vec<capos_conversations::Info> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let listed = done(store.list(owner, &next, 2, now)).unwrap();
        all.extend(listed.conversations);
        next = listed.next;
        if next.is_empty() {
            return all;
        }
    }
}
