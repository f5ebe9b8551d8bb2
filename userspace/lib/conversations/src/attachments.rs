//! Texts that are kept beside the messages of a conversation: results that were too long for the model, messages of child runs.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_keyspace::{Batch, Keyspace, Range};
use serde::{Deserialize, Serialize};

use crate::conversations::Conversations;
use crate::error::Error;
use crate::keys::{self, ATTACHMENTS, Id, Owner, PIECES};
use crate::limits::{MAX_ABOUT, MAX_ATTACHMENT, MAX_ATTACHMENTS, MAX_NAME, MAX_PART, OVERHEAD, PAGE_BYTES};
use crate::record;

/// A text that is kept beside the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its name in the conversation: at most [`MAX_NAME`] letters, digits, `-` and `.`.
    pub name: String,
    /// What the runner says of it.
    pub about: String,
    /// Its parts so far, and their bytes.
    pub parts: u32,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    about: String,
    parts: u32,
    bytes: u64,
}

/// Parts of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    pub texts: Vec<String>,
    pub more: bool,
}

fn checked(name: &str) -> Result<&str, Error> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(allowed) {
        return Err(Error::Invalid(format!(
            "the name of an attachment has 1 to {MAX_NAME} letters, digits, `-` and `.`"
        )));
    }
    Ok(name)
}

impl<K: Keyspace> Conversations<K> {
    /// Adds a part to an attachment, which the first part makes. It is durable when this returns. A part that is there already
    /// is accepted if it is the same.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn attach(
        &self,
        owner: Owner,
        id: &str,
        (name, about): (&str, &str),
        (part, text): (u32, &str),
        now: u64,
    ) -> Result<(), Error> {
        let (id, name) = (keys::id(id)?, checked(name)?);
        if text.is_empty() || text.len() > MAX_PART {
            return Err(Error::too_long("a part of an attachment", text.len(), MAX_PART));
        }
        if about.len() > MAX_ABOUT {
            return Err(Error::too_long("what is said of an attachment", about.len(), MAX_ABOUT));
        }
        let _guard = self.begin(now).await?;
        self.record(owner, &id, now).await?;
        let row_key = keys::attachment(owner, &id, name);
        let mut row = match self.get(ATTACHMENTS, &row_key).await? {
            Some(bytes) => record::read::<Row>("an attachment", &bytes)?,
            None if self.attached(owner, &id).await?.len() >= MAX_ATTACHMENTS => {
                return Err(Error::Full(format!(
                    "this conversation has {MAX_ATTACHMENTS} attachments, which is the limit"
                )));
            }
            None => Row { about: about.into(), ..Row::default() },
        };
        let key = keys::piece(owner, &id, name, part);
        if part < row.parts {
            let is_same = self.get(PIECES, &key).await?.is_some_and(|found| found == text.as_bytes());
            let other =
                || Error::Invalid(format!("part {part} of the attachment is there already, and is another one"));
            return if is_same { Ok(()) } else { Err(other()) };
        }
        if part > row.parts {
            return Err(Error::Invalid(format!("part {} of the attachment is the next one", row.parts)));
        }
        let bytes = row.bytes.saturating_add(text.len() as u64);
        if bytes > MAX_ATTACHMENT {
            return Err(Error::Full(format!("an attachment has at most {} KiB", MAX_ATTACHMENT >> 10)));
        }
        row.bytes = bytes;
        row.parts = row.parts.saturating_add(1);
        let mut account = self.account(owner).await?;
        account.bytes = account.bytes.saturating_add(text.len() as u64).saturating_add(OVERHEAD);
        let mut batch = Batch::new();
        batch.put(PIECES, &key, text.as_bytes());
        batch.put(ATTACHMENTS, &row_key, &record::bytes(&row)?);
        self.charge(&mut batch, owner, &account)?;
        self.commit(&batch).await
    }

    /// The attachments of a conversation, by their names.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn attachments(&self, owner: Owner, id: &str, now: u64) -> Result<Vec<Attachment>, Error> {
        let id = keys::id(id)?;
        let _guard = self.begin(now).await?;
        self.record(owner, &id, now).await?;
        let found = self.attached(owner, &id).await?;
        found
            .into_iter()
            .map(|(name, value)| {
                let Row { about, parts, bytes } = record::read("an attachment", &value)?;
                Ok(Attachment { name: record::text(name)?, about, parts, bytes })
            })
            .collect()
    }

    /// The texts of parts of an attachment, from a part on.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn attachment(&self, owner: Owner, id: &str, name: &str, from: u32, now: u64) -> Result<Pieces, Error> {
        let (id, name) = (keys::id(id)?, checked(name)?);
        let _guard = self.begin(now).await?;
        self.record(owner, &id, now).await?;
        let row = self.get(ATTACHMENTS, &keys::attachment(owner, &id, name)).await?;
        let row = row.ok_or_else(|| Error::NoSuch(format!("this conversation has no attachment {name}")))?;
        let Row { parts, .. } = record::read("an attachment", &row)?;
        let (mut pieces, mut bytes) = (Pieces::default(), 0_usize);
        for part in from..parts {
            let found = self.get(PIECES, &keys::piece(owner, &id, name, part)).await?;
            let text = record::text(found.ok_or_else(|| Error::damaged("an attachment", "a part of it is missing"))?)?;
            bytes = bytes.saturating_add(text.len()).saturating_add(64);
            if bytes > PAGE_BYTES && !pieces.texts.is_empty() {
                pieces.more = true;
                break;
            }
            pieces.texts.push(text);
        }
        Ok(pieces)
    }

    /// The names and rows of a conversation's attachments.
    async fn attached(&self, owner: Owner, id: &Id) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Error> {
        let place = keys::place(owner, id);
        let to = keys::after(&place);
        let most = u32::try_from(MAX_ATTACHMENTS).unwrap_or(u32::MAX);
        let found = self.range(Range { from: &place, to: &to, most, ..Range::all(ATTACHMENTS) }).await?.entries;
        let name = |key: Vec<u8>| key.get(place.len()..).unwrap_or_default().to_vec();
        Ok(found.into_iter().map(|(key, value)| (name(key), value)).collect())
    }

    /// Removes the attachments of a conversation. Returns what they counted.
    pub(crate) async fn remove_attachments(&self, batch: &mut Batch, owner: Owner, id: &Id) -> Result<u64, Error> {
        let (from, to) = (keys::place(owner, id), keys::after(&keys::place(owner, id)));
        batch.remove_range(ATTACHMENTS, &from, &to);
        batch.remove_range(PIECES, &from, &to);
        let counted = |value: &[u8]| {
            // What cannot be read is removed all the same.
            let row = record::read::<Row>("an attachment", value).unwrap_or_default();
            row.bytes.saturating_add(OVERHEAD.saturating_mul(row.parts.into()))
        };
        let found = self.attached(owner, id).await?;
        Ok(found.iter().fold(0, |sum, (_, value)| sum.saturating_add(counted(value))))
    }
}
