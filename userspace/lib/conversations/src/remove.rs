//! Removing a conversation, and the messages that no fork needs.

use capos_keyspace::{Batch, Entries, Keyspace, Range};

use crate::conversations::{Conversations, take};
use crate::error::Error;
use crate::keys::{self, Id, MESSAGES, Owner, SIZES, USES};
use crate::limits::OVERHEAD;
use crate::record::Record;

/// Uses that are read at once.
const USES_AT_ONCE: u32 = 1000;

impl<K: Keyspace> Conversations<K> {
    /// Removes a conversation. Its messages go with the same commit, except those that forks have.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn remove(&self, owner: Owner, id: &str, now: u64) -> Result<(), Error> {
        let id = keys::id(id)?;
        let _guard = self.begin(now).await?;
        let record = self.record(owner, &id, now).await?;
        self.take_out(owner, &id, &record).await
    }

    /// The same for those that have begun.
    pub(crate) async fn take_out(&self, owner: Owner, id: &Id, record: &Record) -> Result<(), Error> {
        let mut account = self.account(owner).await?;
        let mut batch = Batch::new();
        take(&mut batch, owner, id, record);
        let mut freed = OVERHEAD;
        for (segment, start, _) in record.segments() {
            batch.remove(USES, &keys::usage(owner, segment, id));
            let kept = self.needed(owner, segment, id).await?.max(start);
            freed = freed.saturating_add(self.remove_from(&mut batch, owner, segment, start, kept).await?);
        }
        freed = freed.saturating_add(self.remove_runs(&mut batch, owner, id).await?);
        freed = freed.saturating_add(self.remove_attachments(&mut batch, owner, id).await?);
        if account.arriving.as_ref().is_some_and(|arriving| arriving.segment == record.segment) {
            account.arriving = None;
        }
        account.conversations = account.conversations.saturating_sub(1);
        account.bytes = account.bytes.saturating_sub(freed);
        Self::settle(&mut batch, owner, &account)?;
        self.commit(&batch).await
    }

    /// How many messages conversations other than this one need of a segment.
    async fn needed(&self, owner: Owner, segment: u64, id: &Id) -> Result<u32, Error> {
        let prefix = keys::segment(owner, segment);
        let (mut from, to) = (prefix.clone(), keys::after(&prefix));
        let mut most = 0;
        loop {
            let range = Range { from: &from, to: &to, most: USES_AT_ONCE, ..Range::all(USES) };
            let Entries { entries, more } = self.range(range).await?;
            for (key, end) in &entries {
                if keys::tail::<16>(key)? != *id {
                    most = most.max(keys::number(end)?);
                }
            }
            match entries.last().filter(|_| more) {
                Some((key, _)) => {
                    from.clone_from(key);
                    from.push(0);
                }
                None => return Ok(most),
            }
        }
    }

    /// Removes a segment's messages from number `kept` on. Returns what they counted.
    async fn remove_from(
        &self,
        batch: &mut Batch,
        owner: Owner,
        segment: u64,
        start: u32,
        kept: u32,
    ) -> Result<u64, Error> {
        let (from, to) = (keys::message(owner, segment, kept), keys::after(&keys::segment(owner, segment)));
        let range = Range { from: &from, to: &to, reverse: true, most: 1, ..Range::all(SIZES) };
        let last = self.range(range).await?.entries.pop();
        batch.remove_range(MESSAGES, &from, &to);
        let Some((key, size)) = last else { return Ok(0) };
        batch.remove_range(SIZES, &from, &to);
        let messages = keys::number(&key)?.saturating_add(1).saturating_sub(kept);
        let bytes = keys::long(&size)?.saturating_sub(self.size(owner, segment, start, kept).await?);
        Ok(bytes.saturating_add(OVERHEAD.saturating_mul(messages.into())))
    }
}
