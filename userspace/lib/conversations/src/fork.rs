//! A conversation that begins with the messages of another: it has them by reference.

use alloc::format;

use capos_keyspace::Keyspace;

use crate::conversations::Conversations;
use crate::error::Error;
use crate::keys::{self, Owner, digits};
use crate::limits::{MAX_FORKS, MAX_TITLE};
use crate::record::{self, Info, Inherited, Record};

impl<K: Keyspace> Conversations<K> {
    /// A new conversation with the id `fork`, which begins with the first messages of another. It has the other's title if
    /// none is given.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn fork(
        &self,
        owner: Owner,
        id: &str,
        messages: u32,
        (fork, title): (&str, &str),
        now: u64,
    ) -> Result<Info, Error> {
        let (id, fork) = (keys::id(id)?, keys::id(fork)?);
        if title.len() > MAX_TITLE {
            return Err(Error::too_long("a title", title.len(), MAX_TITLE));
        }
        let _guard = self.begin(now).await?;
        let parent = self.record(owner, &id, now).await?;
        if messages > parent.messages {
            return Err(Error::Invalid(format!(
                "the conversation has {} messages, and not {messages}",
                parent.messages
            )));
        }
        match self.even_expired(owner, &fork).await? {
            Some(found) if found.is_over(now) => self.take_out(owner, &fork, &found).await?,
            Some(found) if found.parent == digits(&id) && found.parent_messages == messages => {
                return Ok(found.info(&fork));
            }
            Some(_) => return Err(Error::Invalid(format!("there is already a conversation {}", digits(&fork)))),
            None => {}
        }
        let mut record = Record {
            title: if title.is_empty() { parent.title.clone() } else { record::title(title) },
            created: now,
            changed: now,
            messages,
            model: parent.model.clone(),
            parent: digits(&id),
            parent_messages: messages,
            ..Record::default()
        };
        for (segment, start, end) in parent.segments() {
            let end = end.min(messages);
            if start < end {
                record.bytes = record.bytes.saturating_add(self.size(owner, segment, start, end).await?);
                record.inherited.push(Inherited { segment, end });
            }
        }
        if record.inherited.len() > MAX_FORKS {
            return Err(Error::Full(format!(
                "this conversation is the fork of a fork, {MAX_FORKS} times, which is the limit; fork one of its parents"
            )));
        }
        self.add(owner, &fork, &mut record).await?;
        Ok(record.info(&fork))
    }
}
