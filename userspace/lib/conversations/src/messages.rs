//! Adding messages, and reading them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_keyspace::{Batch, Keyspace, Range};

use crate::conversations::{Conversations, change};
use crate::error::Error;
use crate::keys::{self, Id, MESSAGES, Owner, SIZES};
use crate::limits::{MAX_CONVERSATION, MAX_MESSAGE, MAX_MESSAGES, MAX_MODEL, MAX_PAGE, MAX_PART, OVERHEAD, PAGE_BYTES};
use crate::record::{self, Account, Arriving, Part, Record};
use crate::runs::Point;

/// Parts of a message.
const MAX_PARTS: u32 = 256;

/// A page of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    pub parts: Vec<Part>,
    pub more: bool,
}

/// A part as a value: whether it is the last one of its message, then its text.
fn value(part: &Part) -> Vec<u8> {
    [&[u8::from(part.last)], part.text.as_bytes()].concat()
}

/// The part that an entry of the table is.
pub(crate) fn part(key: &[u8], mut value: Vec<u8>) -> Result<Part, Error> {
    let [a, b, c, d, part @ ..] = keys::tail::<8>(key)?;
    let last = match value.first() {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(Error::damaged("a message", "a part does not say whether it is the last one")),
    };
    value.remove(0);
    let (index, part) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes(part));
    Ok(Part { index, part, last, text: record::text(value)? })
}

impl<K: Keyspace> Conversations<K> {
    /// Adds a part of the message whose number is the number of messages so far. With its last part the message is in the
    /// conversation, and the point of its run is kept in the same transaction. It is durable when this returns. What is there
    /// already is accepted if it is the same. Returns the number of messages.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn append(
        &self,
        owner: Owner,
        id: &str,
        part: &Part,
        model: &str,
        point: Option<&Point>,
        now: u64,
    ) -> Result<u32, Error> {
        let id = keys::id(id)?;
        if part.text.is_empty() || part.text.len() > MAX_PART {
            return Err(Error::too_long("a part of a message", part.text.len(), MAX_PART));
        }
        if model.len() > MAX_MODEL {
            return Err(Error::too_long("the id of a model", model.len(), MAX_MODEL));
        }
        let _guard = self.begin(now).await?;
        let old = self.record(owner, &id, now).await?;
        if part.index < old.messages {
            self.compare(owner, old.segment_of(part.index), part).await?;
            return Ok(old.messages);
        }
        if part.index > old.messages {
            let (index, next) = (part.index, old.messages);
            return Err(Error::Invalid(format!("message {index} cannot be added: message {next} is the next one")));
        }
        if old.messages >= MAX_MESSAGES {
            return Err(Error::Full(format!(
                "this conversation has {MAX_MESSAGES} messages, which is the limit; /stop begins a new one"
            )));
        }
        let mut account = self.account(owner).await?;
        let mut batch = Batch::new();
        let begun = match &account.arriving {
            Some(arriving) if part.part > 0 && arriving.segment == old.segment && arriving.index == part.index => {
                arriving.clone()
            }
            _ if part.part > 0 => {
                return Err(Error::Invalid(format!("message {} has to be added from its first part on", part.index)));
            }
            left => {
                // What arrived in part, and was never finished, goes.
                if let Some(left) = left {
                    let key = keys::message(owner, left.segment, left.index);
                    batch.remove_range(MESSAGES, &key, &keys::after(&key));
                }
                Arriving { segment: old.segment, index: part.index, parts: 0, bytes: 0 }
            }
        };
        if part.part < begun.parts && !part.last {
            self.compare(owner, old.segment, part).await?;
            return Ok(old.messages);
        }
        if part.part != begun.parts || part.part >= MAX_PARTS {
            return Err(Error::Invalid(format!("part {} of message {} is the next one", begun.parts, part.index)));
        }
        let bytes = begun.bytes.saturating_add(part.text.len() as u64);
        if bytes > MAX_MESSAGE as u64 {
            return Err(Error::too_long("a message", usize::try_from(bytes).unwrap_or(usize::MAX), MAX_MESSAGE));
        }
        batch.put(MESSAGES, &keys::part(owner, old.segment, part.index, part.part), &value(part));
        if !part.last {
            account.arriving = Some(Arriving { parts: begun.parts.saturating_add(1), bytes, ..begun });
            self.charge(&mut batch, owner, &account)?;
            self.commit(&batch).await?;
            return Ok(old.messages);
        }
        let text = match part.part {
            0 => None,
            _ => Some(self.arrived(owner, old.segment, part).await?),
        };
        let content = record::content(text.as_deref().unwrap_or(&part.text))?;
        account.arriving = None;
        if let Some(point) = point {
            self.put_point(&mut batch, (owner, &id), point, &mut account, now).await?;
        }
        let new =
            self.with_message(&mut batch, (owner, &id, &old), (bytes, &content, model), &mut account, now).await?;
        self.commit(&batch).await?;
        Ok(new.messages)
    }

    /// Adds a message that is whole to the record, the sizes and the account.
    async fn with_message(
        &self,
        batch: &mut Batch,
        (owner, id, old): (Owner, &Id, &Record),
        (bytes, content, model): (u64, &str, &str),
        account: &mut Account,
        now: u64,
    ) -> Result<Record, Error> {
        let mut new = Record { changed: now, messages: old.messages.saturating_add(1), ..old.clone() };
        new.bytes = new.bytes.saturating_add(bytes);
        if new.bytes > MAX_CONVERSATION {
            return Err(Error::Full(format!(
                "this conversation would take more than {} MiB, which is the limit; /stop begins a new one",
                MAX_CONVERSATION >> 20
            )));
        }
        if !model.is_empty() {
            new.model = model.into();
        }
        if new.title.is_empty() && old.messages == 0 {
            new.title = record::title(content);
        }
        let size = self.size(owner, old.segment, old.own_start(), old.messages).await?.saturating_add(bytes);
        batch.put(SIZES, &keys::message(owner, old.segment, old.messages), &size.to_be_bytes());
        change(batch, owner, id, old, &new)?;
        account.bytes = account.bytes.saturating_add(bytes).saturating_add(OVERHEAD);
        self.charge(batch, owner, account)?;
        Ok(new)
    }

    /// Bytes of the messages of a segment, which begins at `start`, before the message `end`.
    pub(crate) async fn size(&self, owner: Owner, segment: u64, start: u32, end: u32) -> Result<u64, Error> {
        let Some(last) = end.checked_sub(1).filter(|last| *last >= start) else { return Ok(0) };
        match self.get(SIZES, &keys::message(owner, segment, last)).await? {
            Some(bytes) => keys::long(&bytes),
            None => Err(Error::damaged("a conversation", "the size of a message is missing")),
        }
    }

    /// Whether a part that is given is the one that is there.
    async fn compare(&self, owner: Owner, segment: u64, part: &Part) -> Result<(), Error> {
        let found = self.get(MESSAGES, &keys::part(owner, segment, part.index, part.part)).await?;
        if found.is_some_and(|found| found == value(part)) {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "message {} is in the conversation already, and is another one; /resume shows what is there",
            part.index
        )))
    }

    /// The text of a message whose last part is this one, and whose others are in the table.
    async fn arrived(&self, owner: Owner, segment: u64, last: &Part) -> Result<String, Error> {
        let mut text = String::new();
        for number in 0..last.part {
            let key = keys::part(owner, segment, last.index, number);
            let missing = || Error::damaged("a message", "a part of it is missing");
            text.push_str(&part(&key, self.get(MESSAGES, &key).await?.ok_or_else(missing)?)?.text);
        }
        text.push_str(&last.text);
        Ok(text)
    }

    /// Parts of messages, from a part of the message `from` on.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn read(
        &self,
        owner: Owner,
        id: &str,
        (from, first_part): (u32, u32),
        most: u32,
        now: u64,
    ) -> Result<Pages, Error> {
        let id = keys::id(id)?;
        let _guard = self.begin(now).await?;
        let record = self.record(owner, &id, now).await?;
        let most = usize::try_from(most.clamp(1, MAX_PAGE)).unwrap_or(1);
        let (mut pages, mut bytes) = (Pages::default(), 0_usize);
        // The part that comes next.
        let mut next = (from, first_part);
        for (segment, _, end) in record.segments() {
            while next.0 < end {
                let start = keys::part(owner, segment, next.0, next.1);
                let to = keys::message(owner, segment, end);
                let range = Range { from: &start, to: &to, most: MAX_PAGE, ..Range::all(MESSAGES) };
                let found = self.range(range).await?.entries;
                if found.is_empty() {
                    return Err(Error::damaged("a conversation", format!("message {} is missing", next.0)));
                }
                for (key, value) in found {
                    let part = part(&key, value)?;
                    if (part.index, part.part) != next {
                        return Err(Error::damaged("a conversation", format!("message {} is not whole", next.0)));
                    }
                    bytes = bytes.saturating_add(part.text.len()).saturating_add(64);
                    if pages.parts.len() >= most || (bytes > PAGE_BYTES && !pages.parts.is_empty()) {
                        pages.more = true;
                        return Ok(pages);
                    }
                    next = match part.last {
                        true => (part.index.saturating_add(1), 0),
                        false => (part.index, part.part.saturating_add(1)),
                    };
                    pages.parts.push(part);
                }
            }
        }
        Ok(pages)
    }
}
