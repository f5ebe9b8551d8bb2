//! The tree.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_async_lock::{AsyncMutex, AsyncMutexGuard};
use capos_keyspace::{Batch, Durability, Entries, Fault, Keyspace, Range};
use capos_schema::authority::Label;
use capos_tree::{
    Basis, FileTree, Info, Kind, Listing, NodeId, Opening, Removal, Tree, TreeError, WriteAt, found_or_none,
};

use crate::change::Change;
use crate::record::Record;
use crate::{TREE_FORMAT, key};

/// Files without a name that one commit removes at most, when the tree is opened.
const REMOVED_AT_ONCE: u32 = 1024;

/// Bytes that the count of commits is longer than its number, so that a full tree can be emptied.
const SPARE: usize = 256;

/// A file tree in a keyspace.
#[derive(Debug)]
pub struct Files<K> {
    space: K,
    turn: Rc<AsyncMutex>,
    pub(crate) state: RefCell<State>,
    /// Bytes that the tables may take.
    quota: Cell<Option<u64>>,
    /// The keyspace has a count of what the tables take, and each commit continues it.
    counts: Cell<bool>,
    /// Bytes of all commits since the tree was opened.
    written: Cell<u64>,
}

/// Who reads or writes a file without its name.
#[derive(Debug, Default)]
pub(crate) struct Open {
    holders: u32,
    /// Its name was removed, perhaps.
    pub unnamed: bool,
}

/// What is not in the keyspace, or may differ from it.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The number of the next node.
    pub next: u64,
    /// The number of the last commit that was tried.
    tried: u64,
    /// The number of the last commit that was answered.
    done: u64,
    /// The number of the last commit that is on the medium.
    synced: u64,
    /// It is unknown whether the last commit that was tried was done.
    in_doubt: bool,
    losses: u64,
    pub open: BTreeMap<NodeId, Open>,
    /// Files without a name that have lost their last holder.
    released: Vec<NodeId>,
}

impl State {
    fn hold(&mut self, id: NodeId) {
        let open = self.open.entry(id).or_default();
        open.holders = open.holders.saturating_add(1);
    }
}

/// Bytes that are left when a count is made that was put off.
const ROOM_TO_COUNT: u64 = 4096;

/// The error of a keyspace.
pub(crate) fn failed(fault: Fault) -> TreeError {
    match fault {
        Fault::ReadOnly(why) => TreeError::ReadOnly(why),
        fault => TreeError::Medium(fault.to_string()),
    }
}

/// The error of something that is not what this crate writes.
pub(crate) fn malformed(what: &str) -> TreeError {
    TreeError::Medium(format!("{what} of the file tree is malformed; check the tree or restore it from a backup"))
}

fn lost() -> TreeError {
    TreeError::Medium(String::from(
        "changes to files that were not synced yet were lost when the store failed; write them again",
    ))
}

/// The value of [`key::COUNTED`].
fn counted(number: u64, is_sealed: bool, spare: usize) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    if is_sealed {
        value.push(1);
    }
    value.resize(value.len().saturating_add(spare), 0);
    value
}

/// Whether a value of [`key::COUNTED`] says this.
fn is_counted(value: &[u8], number: u64, is_sealed: bool) -> bool {
    let rest = value.strip_prefix(&number.to_le_bytes());
    rest.is_some_and(|rest| (rest.first() == Some(&1)) == is_sealed)
}

fn numbers(state: &[u8]) -> Option<(u64, u64)> {
    let (next, last) = state.split_first_chunk()?;
    Some((u64::from_le_bytes(*next), u64::from_le_bytes(last.try_into().ok()?)))
}

impl<K: Keyspace> Files<K> {
    /// Opens the tree in a keyspace. In an empty one it makes an empty tree. Files without a name, which were open when the
    /// tree was used last, are removed, if the keyspace can be written.
    ///
    /// # Errors
    /// The keyspace fails; the tree is malformed or of a newer format.
    pub async fn open(space: K) -> Result<Self, TreeError> {
        let files = Self {
            space,
            turn: Rc::default(),
            state: RefCell::default(),
            quota: Cell::default(),
            counts: Cell::default(),
            written: Cell::default(),
        };
        match files.get(key::FORMAT_TABLE, key::VERSION).await?.as_deref().map(<[u8; 4]>::try_from) {
            None => files.make().await?,
            Some(Ok(version)) if u32::from_le_bytes(version) == TREE_FORMAT => {}
            Some(Ok(version)) => {
                let version = u32::from_le_bytes(version);
                return Err(TreeError::Medium(format!(
                    "the file tree has format {version}, and this version of capOS knows {TREE_FORMAT}; use a newer one"
                )));
            }
            Some(Err(_)) => return Err(malformed("the format")),
        }
        let (next, last) = files.numbers().await?;
        *files.state.borrow_mut() = State { next, tried: last, done: last, synced: last, ..State::default() };
        if !files.space.info().await.map_err(failed)?.read_only {
            files.recount(last).await?;
            files.remove_unnamed().await?;
        }
        Ok(files)
    }

    /// The keyspace.
    pub fn keyspace(&self) -> &K {
        &self.space
    }

    /// What the tree may take from now on, in bytes. One that takes more already keeps what it has, and nothing is added.
    pub fn set_quota(&self, quota: Option<u64>) {
        self.quota.set(quota);
    }

    /// What the tree may take, in bytes.
    pub fn quota(&self) -> Option<u64> {
        self.quota.get()
    }

    /// How many bytes were written since the tree was opened: content, names and what belongs to them, as it is stored.
    pub fn written(&self) -> u64 {
        self.written.get()
    }

    /// What the tree takes, in bytes: files, names and what belongs to them, as it is stored. Holes of files take nothing.
    ///
    /// # Errors
    /// The keyspace fails.
    pub async fn used(&self) -> Result<u64, TreeError> {
        let used = self.get(key::TREE, key::USED).await?.map_or(Ok([0; 8]), <[u8; 8]>::try_from);
        used.map(u64::from_le_bytes).map_err(|_| malformed("the count of bytes"))
    }

    /// Counts what the tree takes, if the last commit was not counted.
    async fn recount(&self, last: u64) -> Result<(), TreeError> {
        let (found, is_sealed) = (self.get(key::TREE, key::COUNTED).await?, self.space.is_sealed());
        if !found.is_some_and(|found| is_counted(&found, last, is_sealed)) {
            let used = self.measure().await?;
            let mut batch = Batch::new();
            batch.put(key::TREE, key::USED, &used.to_le_bytes());
            batch.put(key::TREE, key::COUNTED, &counted(last, is_sealed, SPARE));
            match self.space.commit(&batch, Durability::Now).await {
                // There is no room for the count, and files can be removed. It is made at a change with more room.
                Err(Fault::Full(_) | Fault::Quota(_)) => return Ok(()),
                done => done.map_err(failed)?,
            }
        }
        self.counts.set(true);
        Ok(())
    }

    pub(crate) fn counts(&self) -> bool {
        self.counts.get()
    }

    /// Bytes that all tables take. It reads all of them.
    pub(crate) async fn measure(&self) -> Result<u64, TreeError> {
        let mut used = 0_u64;
        for table in key::TABLES {
            self.each(table, |key, value| {
                if !(table == key::TREE && [key::USED, key::COUNTED].contains(&key)) {
                    used = used.saturating_add(self.space.cost(table, key, value));
                }
            })
            .await?;
        }
        Ok(used)
    }

    /// Whether the tree has its first files.
    ///
    /// # Errors
    /// The keyspace fails.
    pub async fn is_filled(&self) -> Result<bool, TreeError> {
        Ok(self.get(key::TREE, key::FILLED).await?.is_some())
    }

    /// Notes durably that the tree has its first files, with all earlier changes.
    ///
    /// # Errors
    /// The keyspace fails.
    pub async fn set_filled(&self) -> Result<(), TreeError> {
        let mut change = self.change().await?.unbounded();
        change.batch.put(key::TREE, key::FILLED, &[1]);
        change.commit().await?;
        self.sync(self.losses()).await
    }

    /// Removes the files without a name that were released since the last change.
    ///
    /// # Errors
    /// The keyspace fails.
    pub async fn remove_released(&self) -> Result<(), TreeError> {
        if self.state.borrow().released.is_empty() { Ok(()) } else { self.change().await.map(drop) }
    }

    async fn make(&self) -> Result<(), TreeError> {
        let mut batch = Batch::new();
        batch.put(key::FORMAT_TABLE, key::VERSION, &TREE_FORMAT.to_le_bytes());
        batch.put(key::ENTRIES, &key::root(), &Record::new(Tree::ROOT, Kind::Directory, 0).encode());
        batch.put(key::TREE, key::STATE, &[1_u64.to_le_bytes(), 0_u64.to_le_bytes()].concat());
        self.space.commit(&batch, Durability::Now).await.map_err(failed)
    }

    async fn remove_unnamed(&self) -> Result<(), TreeError> {
        loop {
            let (from, to) = (key::node(key::UNNAMED), key::after(key::UNNAMED));
            let range = Range { from: &from, to: &to, most: REMOVED_AT_ONCE, ..Range::all(key::ENTRIES) };
            let found = self.range(range).await?;
            if found.entries.is_empty() {
                return self.sync(self.losses()).await;
            }
            let mut change = self.change().await?.unbounded();
            for (_, record) in &found.entries {
                let record = Record::decode(record).ok_or_else(|| malformed("a file without a name"))?;
                change.remove_unnamed(record.id).await?;
            }
            change.commit().await?;
        }
    }

    /// The value of a key. A store that has ended is asked again, since it continues in another process.
    pub(crate) async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        match self.space.get(table, key).await {
            Err(Fault::Lost(_)) => self.space.get(table, key).await,
            answer => answer,
        }
        .map_err(failed)
    }

    /// Entries of a table, in the same way.
    pub(crate) async fn range(&self, range: Range<'_>) -> Result<Entries, TreeError> {
        match self.space.range(range).await {
            Err(Fault::Lost(_)) => self.space.range(range).await,
            answer => answer,
        }
        .map_err(failed)
    }

    async fn numbers(&self) -> Result<(u64, u64), TreeError> {
        let state = self.get(key::TREE, key::STATE).await?;
        state.as_deref().and_then(numbers).ok_or_else(|| malformed("the state"))
    }

    pub(crate) async fn turn(&self) -> AsyncMutexGuard {
        self.turn.lock().await
    }

    /// Reads what belongs together.
    pub(crate) async fn look(&self) -> Change<'_, K> {
        Change::new(self, self.turn().await)
    }

    /// Begins a change.
    pub(crate) async fn change(&self) -> Result<Change<'_, K>, TreeError> {
        let mut turn = self.turn().await;
        self.settle().await?;
        if !self.counts() {
            let info = self.space.info().await.map_err(failed)?;
            if !info.read_only && info.limit.saturating_sub(info.used) >= ROOM_TO_COUNT {
                let done = self.state.borrow().done;
                self.recount(done).await?;
            }
        }
        let released = core::mem::take(&mut self.state.borrow_mut().released);
        if !released.is_empty() {
            let mut change = Change::new(self, turn).unbounded();
            let removed = match change.remove_released(&released).await {
                Ok(()) => change.commit().await,
                Err(error) => Err(error),
            };
            turn = removed.inspect_err(|_| self.state.borrow_mut().released.extend(released))?;
        }
        Ok(Change::new(self, turn))
    }

    /// Notices what the store took back since the last look. It is called by the task that has the turn.
    async fn settle(&self) -> Result<(), TreeError> {
        let is_settled = |state: &State| state.done == state.synced && !state.in_doubt;
        if is_settled(&self.state.borrow()) {
            return Ok(());
        }
        let (_, last) = self.numbers().await?;
        let mut state = self.state.borrow_mut();
        if last != state.done && !(state.in_doubt && last == state.tried) {
            state.losses = state.losses.saturating_add(1);
            state.synced = state.synced.min(last);
        }
        state.done = last;
        state.in_doubt = false;
        Ok(())
    }

    /// Commits a batch with the state. It is called by the task that has the turn.
    pub(crate) async fn commit(&self, batch: &mut Batch, is_bounded: bool) -> Result<(), TreeError> {
        let quota = self.quota.get().filter(|_| is_bounded);
        let done = match self.try_commit(batch, quota, SPARE).await? {
            // What frees something may need some bytes first, such as those of a longer key.
            Err(Fault::Full(_) | Fault::Quota(_)) if !is_bounded && self.counts() => {
                let done = self.state.borrow().done;
                let mut shorter = Batch::new();
                shorter.put(key::TREE, key::COUNTED, &counted(done, self.space.is_sealed(), 0));
                self.space.commit(&shorter, Durability::Later).await.map_err(failed)?;
                self.try_commit(batch, quota, 0).await?
            }
            done => done,
        };
        match done {
            Err(Fault::Quota(_) | Fault::Full(_)) => {
                let info = self.space.info().await.map_err(failed)?;
                let left = info.limit.saturating_sub(info.used);
                if let Some(limit) = quota {
                    // The one of the two that has less left is the one that is full.
                    let used = self.used().await?;
                    if limit.saturating_sub(used) <= left {
                        return Err(TreeError::Quota { used, limit });
                    }
                }
                Err(TreeError::NoSpace { needed: batch.bytes() as u64, left })
            }
            Ok(()) => {
                self.written.set(self.written.get().saturating_add(batch.bytes() as u64));
                Ok(())
            }
            done => done.map_err(failed),
        }
    }

    /// Commits a batch with the state, and a count that has this many bytes more than it needs.
    async fn try_commit(
        &self,
        batch: &mut Batch,
        quota: Option<u64>,
        spare: usize,
    ) -> Result<Result<(), Fault>, TreeError> {
        let changes = batch.changes().len();
        let done = self.commit_counted(batch, quota, spare).await;
        batch.truncate(changes);
        done
    }

    /// The same; what is added to the batch stays there.
    async fn commit_counted(
        &self,
        batch: &mut Batch,
        quota: Option<u64>,
        spare: usize,
    ) -> Result<Result<(), Fault>, TreeError> {
        let (next, number, before) = {
            let mut state = self.state.borrow_mut();
            state.tried = state.tried.saturating_add(1);
            state.in_doubt = true;
            (state.next, state.tried, state.losses)
        };
        batch.put(key::TREE, key::STATE, &[next.to_le_bytes(), number.to_le_bytes()].concat());
        if self.counts() {
            let counted = counted(number, self.space.is_sealed(), spare);
            batch.count(key::TREE, key::USED, quota).put(key::TREE, key::COUNTED, &counted);
        }
        let mut answer = self.space.commit_lent(batch, Durability::Later).await;
        if let Err(Fault::Lost(_)) = answer {
            // It is done again if it was not done and is based on nothing that was lost.
            self.settle().await?;
            if self.state.borrow().losses != before {
                return Err(lost());
            }
            if self.state.borrow().done == number {
                return Ok(Ok(()));
            }
            self.state.borrow_mut().in_doubt = true;
            answer = self.space.commit_lent(batch, Durability::Later).await;
        }
        let mut state = self.state.borrow_mut();
        match answer {
            Ok(()) => (state.done, state.in_doubt) = (number, false),
            Err(Fault::Quota(_) | Fault::Full(_)) => state.in_doubt = false,
            Err(_) => {}
        }
        Ok(answer)
    }
}

impl<K: Keyspace> FileTree for Files<K> {
    async fn status(&self, base: NodeId, path: &str) -> Result<(NodeId, Info), TreeError> {
        let node = self.look().await.find(base, path).await?;
        Ok((node.record.id, node.info()))
    }

    async fn info(&self, id: NodeId) -> Result<Info, TreeError> {
        Ok(self.look().await.node(id).await?.info())
    }

    async fn list_after(&self, base: NodeId, path: &str, after: &str, most: usize) -> Result<Listing, TreeError> {
        self.look().await.list_after(base, path, after, most).await
    }

    async fn open_at(&self, base: NodeId, path: &str, opening: Opening, now: i64) -> Result<(NodeId, Info), TreeError> {
        let mut change = self.change().await?;
        let node = change.open_at(base, path, opening, now).await?;
        let turn = change.commit().await?;
        if node.record.kind == Kind::File {
            self.state.borrow_mut().hold(node.record.id);
        }
        drop(turn);
        Ok((node.record.id, node.info()))
    }

    async fn hold(&self, id: NodeId) -> Result<(), TreeError> {
        let mut look = self.look().await;
        look.file(id).await?;
        self.state.borrow_mut().hold(id);
        Ok(())
    }

    fn close(&self, id: NodeId) {
        let mut state = self.state.borrow_mut();
        let Some(open) = state.open.get_mut(&id) else { return };
        open.holders = open.holders.saturating_sub(1);
        if open.holders == 0 {
            let unnamed = open.unnamed;
            state.open.remove(&id);
            if unnamed {
                state.released.push(id);
            }
        }
    }

    async fn read(&self, id: NodeId, offset: u64, count: usize) -> Result<(Vec<u8>, Label), TreeError> {
        let mut look = self.look().await;
        let file = look.file(id).await?;
        Ok((look.read(&file, offset, count).await?, file.record.label))
    }

    async fn write(&self, id: NodeId, at: WriteAt, data: &[u8], label: &Label, now: i64) -> Result<u64, TreeError> {
        let mut change = self.change().await?;
        let mut file = change.file(id).await?;
        let offset = match at {
            WriteAt::Offset(offset) => offset,
            WriteAt::End => file.record.bytes,
        };
        change.write(&mut file, offset, data, label, now).await?;
        change.commit().await?;
        Ok(offset)
    }

    async fn truncate(&self, id: NodeId, length: u64, label: &Label, now: i64) -> Result<(), TreeError> {
        let mut change = self.change().await?;
        let mut file = change.file(id).await?;
        if length <= file.record.bytes {
            change = change.unbounded();
        }
        change.truncate(&mut file, length, label, now).await?;
        change.commit().await.map(drop)
    }

    async fn set_modified(&self, id: NodeId, time: i64) -> Result<(), TreeError> {
        let mut change = self.change().await?;
        let mut node = change.node(id).await?;
        node.record.modified = time;
        change.save(&node);
        change.commit().await.map(drop)
    }

    async fn store_on(
        &self,
        basis: Basis<'_>,
        (base, path): (NodeId, &str),
        data: &[u8],
        append: bool,
        label: &Label,
        now: i64,
    ) -> Result<NodeId, TreeError> {
        let mut change = self.change().await?;
        if basis != Basis::Any {
            let found = match found_or_none(change.find(base, path).await)? {
                Some(file) => {
                    file.is_file()?;
                    Some(change.read(&file, 0, Basis::BYTES).await?)
                }
                None => None,
            };
            if !basis.admits(found.as_deref()) {
                return Err(TreeError::Changed(path.into()));
            }
        }
        let file = change.store(base, path, data, append, label, now).await?;
        change.commit().await?;
        Ok(file.record.id)
    }

    async fn make_directory(&self, base: NodeId, path: &str, now: i64) -> Result<NodeId, TreeError> {
        let mut change = self.change().await?;
        let node = change.insert(base, path, Kind::Directory, now).await?;
        change.commit().await?;
        Ok(node.record.id)
    }

    async fn remove(&self, base: NodeId, path: &str, what: Removal, now: i64) -> Result<(), TreeError> {
        let mut change = self.change().await?.unbounded();
        change.remove(base, path, what, now).await?;
        change.commit().await.map(drop)
    }

    async fn rename(&self, base: NodeId, from: &str, to: &str, now: i64) -> Result<(), TreeError> {
        let mut change = self.change().await?;
        change.rename(base, from, to, now).await?;
        change.commit().await.map(drop)
    }

    async fn rename_new(&self, base: NodeId, from: &str, to: &str, now: i64) -> Result<(), TreeError> {
        let mut change = self.change().await?;
        if found_or_none(change.find(base, to).await)?.is_some() {
            return Err(TreeError::Exists(to.into()));
        }
        change.rename(base, from, to, now).await?;
        change.commit().await.map(drop)
    }

    fn losses(&self) -> u64 {
        self.state.borrow().losses
    }

    async fn sync(&self, since: u64) -> Result<(), TreeError> {
        let (losses, done, synced) = {
            let state = self.state.borrow();
            (state.losses, state.done, state.synced)
        };
        if losses == since && done != synced {
            // Others change the tree meanwhile, and one sync serves all who wait.
            match self.space.sync().await {
                Err(Fault::Lost(_)) => self.space.sync().await,
                answer => answer,
            }
            .map_err(failed)?;
            let _turn = self.turn().await;
            self.settle().await?;
            let mut state = self.state.borrow_mut();
            if state.losses == since {
                state.synced = state.synced.max(done);
            }
        }
        if self.losses() == since { Ok(()) } else { Err(lost()) }
    }
}
