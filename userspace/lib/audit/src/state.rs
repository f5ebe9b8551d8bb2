//! What of a chain in tables is in memory, and its commits.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;

use capos_keyspace::{Batch, Durability, Fault, Info, Keyspace, Layered};

use crate::calls::Key;
use crate::damage::{self, Earlier};
use crate::rules::{Bounds, Rules, Step};
use crate::stored::{Aside, Past, Room};
use crate::tables::{self, FORMAT, HEAD_KEY, META, Meta, OPEN, RESERVE, TAKEN, VERSION, VERSION_KEY};

/// Bytes of an entry that keeps room for the ends of effects. With its head it fills a page of the store, whose size is a
/// power of two.
const CHUNK: usize = 124 << 10;
/// This many of them are there always.
const STANDING: u32 = 2;
/// Bytes of a namespace that the records do not get: the standing room, one entry that rounds it up, and small tables.
const APART: usize = 512 << 10;
/// Bytes of records that are kept in memory while the disk cannot be written.
const ASIDE: usize = 1 << 20;
/// A chain that is open.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub rules: Rules,
    /// How many boots have written to it.
    pub boots: u64,
    /// Entries that keep room.
    pub chunks: u32,
    pub lasting: bool,
    /// It continues in memory.
    pub aside: bool,
    /// The tables hold no chain yet.
    pub fresh: bool,
    /// The chain is to begin with a record of what was damaged before.
    pub earlier: Option<Box<Earlier>>,
}

impl State {
    /// What is written with each commit.
    pub fn meta(&self) -> Meta {
        let Rules { head, time, used, warned, .. } = self.rules;
        Meta { head, time, used: tables::number(used), boots: self.boots, chunks: self.chunks, warned }
    }

    /// Where the chain is.
    pub fn past(&self) -> Past {
        Past { head: self.rules.head, time: self.rules.time, boots: self.boots }
    }

    /// Commits a step, with room for the ends of all effects that have begun. A record that has room of its own takes
    /// that, if there is no other.
    pub async fn write<K: Keyspace>(
        &mut self,
        space: &K,
        changes: &Batch,
        step: &Step,
        subject: Option<Key>,
    ) -> Result<(), Fault> {
        let needed = u32::try_from(step.reserved.div_ceil(CHUNK)).unwrap_or(u32::MAX).max(STANDING);
        // What is in memory has its room there.
        while !step.spared && !self.aside && self.chunks < needed {
            let mut batch = Batch::new();
            batch.put(RESERVE, &self.chunks.to_be_bytes(), &vec![0; CHUNK]);
            self.chunks = self.chunks.saturating_add(1);
            self.finish(space, batch).await?;
        }
        // One more than needed stays, so that calls one after another do not write it each time.
        let mut keep = self.chunks.min(needed.saturating_add(1));
        let there = self.chunks;
        self.rules.apply(step);
        loop {
            let mut batch = changes.clone();
            for removed in keep..there {
                batch.remove(RESERVE, &removed.to_be_bytes());
            }
            tables::put(&mut batch, step, subject);
            self.chunks = keep;
            match self.finish(space, batch).await {
                Err(Fault::Full(_) | Fault::Quota(_)) if step.spared && keep > 0 => keep = keep.saturating_sub(1),
                done => return done,
            }
        }
    }

    pub async fn finish<K: Keyspace>(&mut self, space: &K, mut batch: Batch) -> Result<(), Fault> {
        if self.fresh {
            batch.put(FORMAT, VERSION_KEY, &VERSION.to_le_bytes());
        }
        batch.put(META, HEAD_KEY, &self.meta().encode());
        space.commit(&batch, Durability::Now).await?;
        self.fresh = false;
        Ok(())
    }
}

/// Reads it. With `aside`, the chain continues in memory; `acknowledged` is how far it was in a part that was set aside, if that
/// is known.
pub(crate) async fn load<K: Keyspace + Clone>(
    space: &Layered<K>,
    bounds: Room,
    (aside, acknowledged): (Option<&Aside>, Option<Past>),
) -> Result<State, Fault> {
    let Info { limit, lasting, asides, .. } = space.info().await?;
    let quota = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(APART);
    let bounds = match (bounds, aside) {
        // The tables are to take it later. Without tables nothing is known of them.
        (_, Some(aside)) if limit == 0 => Bounds::aside(aside.used, ASIDE),
        (_, Some(aside)) => Bounds::aside(aside.used, quota.saturating_sub(aside.used).min(ASIDE)),
        (Room::Alone(limit), None) => Bounds::new(limit.min(quota)),
        (Room::Shared(limit), None) => Bounds::shared(if lasting { quota } else { limit.min(quota) }),
    };
    let (mut rules, aside) = (Rules::new(bounds), aside.is_some());
    let Some(version) = space.get(FORMAT, VERSION_KEY).await? else {
        let mut state = State { rules, boots: 0, chunks: 0, lasting, aside, fresh: true, earlier: None };
        if asides > 0 {
            let earlier = damage::look(space, asides, acknowledged).await?;
            (state.rules.head, state.rules.time, state.boots) = (earlier.head, earlier.time, earlier.boots);
            state.rules.open.clone_from(&earlier.open);
            let reserved = earlier.open.values().map(|open| open.reserve);
            state.rules.reserved = reserved.fold(0, usize::saturating_add);
            state.earlier = Some(Box::new(earlier));
        }
        return Ok(state);
    };
    if version != VERSION.to_le_bytes() {
        let number = version.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        return Err(Fault::Invalid(format!(
            "the audit log on the disk has format {number}, and this version of capOS knows {VERSION}; boot the version \
             that wrote it"
        )));
    }
    let head = space.get(META, HEAD_KEY).await?.ok_or_else(|| tables::malformed("no head"))?;
    let meta = Meta::decode(&head)?;
    rules.head = meta.head;
    (rules.time, rules.used) = (meta.time, usize::try_from(meta.used).unwrap_or(usize::MAX));
    // Of a chain that got more room, a person is warned again.
    rules.warned = meta.warned.min(rules.level());
    for (key, value) in tables::all(space, OPEN).await? {
        let open = tables::open(&value)?;
        rules.reserved = rules.reserved.saturating_add(open.reserve);
        rules.open.insert(tables::sequence_of(&key)?, open);
    }
    for (key, value) in tables::all(space, TAKEN).await? {
        let (taker, bytes) = tables::taken(&key, &value)?;
        rules.taken.insert(taker, bytes);
    }
    Ok(State { rules, boots: meta.boots, chunks: meta.chunks, lasting, aside, fresh: false, earlier: None })
}
