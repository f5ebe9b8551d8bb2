//! Making, listing, renaming, and the time to live.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;

use capos_async_lock::{AsyncMutex, AsyncMutexGuard};
use capos_keyspace::{Batch, Durability, Entries, Fault, Keyspace, Range};

use crate::error::Error;
use crate::keys::{self, CONVERSATIONS, EXPIRIES, FORMAT, Id, Owner, PLACES, PRINCIPALS, USES, VERSION_KEY, digits};
use crate::limits::{MAX_PAGE, MAX_PRINCIPAL, MAX_SECONDS, MAX_TITLE, OVERHEAD, Quota};
use crate::record::{self, Info, Record};

/// Version of the tables.
const VERSION: u32 = capos_formats::CONVERSATIONS.version();
/// Conversations that a sweep looks for at once.
const SWEEP: u32 = 64;
/// Key of the number of the next principal: no name has a character 0.
const NEXT: &[u8] = b"\0next";

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    pub conversations: Vec<Info>,
    /// Where the next page begins; empty at the end.
    pub next: String,
}

/// The conversations of all principals. Times are in milliseconds since 1970.
pub struct Conversations<K> {
    space: K,
    quota: Quota,
    /// One change at a time: each is made of what was read before.
    lock: Rc<AsyncMutex>,
    opened: Cell<bool>,
}

impl<K: Keyspace> Conversations<K> {
    /// The conversations in a keyspace, which nobody else changes.
    #[must_use]
    pub fn new(space: K, quota: Quota) -> Self {
        Self { space, quota, lock: Rc::default(), opened: Cell::new(false) }
    }

    /// The keyspace.
    pub fn space(&self) -> &K {
        &self.space
    }

    pub(crate) fn quota(&self) -> Quota {
        self.quota
    }

    // A store that has restarted answers the same question again; a batch can be repeated.

    pub(crate) async fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match self.space.get(table, key).await {
            Err(Fault::Lost(_)) => Ok(self.space.get(table, key).await?),
            answer => Ok(answer?),
        }
    }

    pub(crate) async fn range(&self, range: Range<'_>) -> Result<Entries, Error> {
        match self.space.range(range).await {
            Err(Fault::Lost(_)) => Ok(self.space.range(range).await?),
            answer => Ok(answer?),
        }
    }

    pub(crate) async fn commit(&self, batch: &Batch) -> Result<(), Error> {
        match self.space.commit(batch, Durability::Now).await {
            Err(Fault::Lost(_)) => Ok(self.space.commit(batch, Durability::Now).await?),
            answer => Ok(answer?),
        }
    }

    /// Waits for those that change something, and keeps them out. The first time it checks the tables' version, and
    /// removes what has expired.
    pub(crate) async fn begin(&self, now: u64) -> Result<AsyncMutexGuard, Error> {
        let guard = self.lock.lock().await;
        if !self.opened.get() {
            match self.get(FORMAT, VERSION_KEY).await? {
                None => self.commit(Batch::new().put(FORMAT, VERSION_KEY, &VERSION.to_le_bytes())).await?,
                Some(found) if found == VERSION.to_le_bytes() => {}
                Some(found) => {
                    let found = found.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                    return Err(Error::Invalid(format!(
                        "the conversations are of version {found}; this system knows {VERSION}; boot the system that wrote them"
                    )));
                }
            }
            self.sweep(now).await?;
            self.opened.set(true);
        }
        Ok(guard)
    }

    /// The number of a principal, who gets one if they have none.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn owner(&self, principal: &str, now: u64) -> Result<Owner, Error> {
        if principal.is_empty() || principal.len() > MAX_PRINCIPAL || principal.contains('\0') {
            return Err(Error::Invalid(format!("a principal's name has 1 to {MAX_PRINCIPAL} bytes, none of them 0")));
        }
        let _guard = self.begin(now).await?;
        if let Some(bytes) = self.get(PRINCIPALS, principal.as_bytes()).await? {
            return Ok(Owner(keys::number(&bytes)?));
        }
        let next = match self.get(PRINCIPALS, NEXT).await? {
            Some(bytes) => keys::number(&bytes)?,
            None => 0,
        };
        let after = next.checked_add(1).ok_or_else(|| Error::Full("there are too many principals".to_string()))?;
        let mut batch = Batch::new();
        batch.put(PRINCIPALS, principal.as_bytes(), &next.to_be_bytes());
        batch.put(PRINCIPALS, NEXT, &after.to_be_bytes());
        self.commit(&batch).await?;
        Ok(Owner(next))
    }

    /// Gives all conversations of a principal to another one who has none. Nothing happens if there are none.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn hand_over(&self, principal: &str, to: &str, now: u64) -> Result<(), Error> {
        let _guard = self.begin(now).await?;
        let Some(number) = self.get(PRINCIPALS, principal.as_bytes()).await? else { return Ok(()) };
        if to.is_empty() || to.len() > MAX_PRINCIPAL || self.get(PRINCIPALS, to.as_bytes()).await?.is_some() {
            return Err(Error::Invalid(format!("{to:?} has conversations already, or is no principal's name")));
        }
        let mut batch = Batch::new();
        batch.remove(PRINCIPALS, principal.as_bytes());
        batch.put(PRINCIPALS, to.as_bytes(), &number);
        self.commit(&batch).await
    }

    /// A conversation that has not expired.
    pub(crate) async fn record(&self, owner: Owner, id: &Id, now: u64) -> Result<Record, Error> {
        let found = self.even_expired(owner, id).await?.filter(|record| !record.is_over(now));
        found.ok_or_else(|| no_such(&digits(id)))
    }

    pub(crate) async fn even_expired(&self, owner: Owner, id: &Id) -> Result<Option<Record>, Error> {
        let Some(place) = self.get(PLACES, &keys::place(owner, id)).await? else { return Ok(None) };
        let key = keys::conversation(owner, keys::long(&place)?, id);
        let Some(bytes) = self.get(CONVERSATIONS, &key).await? else {
            return Err(Error::damaged("a conversation", "its record is not where it should be"));
        };
        Ok(Some(record::read("a conversation", &bytes)?))
    }

    /// Makes a conversation, if it is not there. The caller chooses the id at random.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn create(&self, owner: Owner, id: &str, title: &str, now: u64) -> Result<Info, Error> {
        let (id, title) = (keys::id(id)?, checked(title)?);
        let _guard = self.begin(now).await?;
        match self.even_expired(owner, &id).await? {
            Some(record) if record.is_over(now) => self.take_out(owner, &id, &record).await?,
            Some(record) => return Ok(record.info(&id)),
            None => {}
        }
        let mut record = Record { title, created: now, changed: now, ..Record::default() };
        self.add(owner, &id, &mut record).await?;
        Ok(record.info(&id))
    }

    /// Adds a conversation to the tables, with a segment of its own.
    pub(crate) async fn add(&self, owner: Owner, id: &Id, record: &mut Record) -> Result<(), Error> {
        let mut account = self.account(owner).await?;
        account.conversations = account.conversations.saturating_add(1);
        account.bytes = account.bytes.saturating_add(OVERHEAD);
        record.segment = account.segments;
        account.segments = account.segments.saturating_add(1);
        let mut batch = Batch::new();
        self.charge(&mut batch, owner, &account)?;
        put(&mut batch, owner, id, record)?;
        for (segment, _, end) in record.segments() {
            // Of its own segment it needs whatever comes.
            let end = if segment == record.segment { u32::MAX } else { end };
            batch.put(USES, &keys::usage(owner, segment, id), &end.to_be_bytes());
        }
        self.commit(&batch).await
    }

    /// One conversation, by its id or the beginning of it.
    ///
    /// # Errors
    /// [`Error`]; several begin so
    pub async fn info(&self, owner: Owner, id: &str, now: u64) -> Result<Info, Error> {
        let (first, last) = keys::ids(id)?;
        let _guard = self.begin(now).await?;
        let (from, to) = (keys::place(owner, &first), keys::after(&keys::place(owner, &last)));
        let range = Range { from: &from, to: &to, most: 2, keys_only: true, ..Range::all(PLACES) };
        let found = self.range(range).await?.entries;
        match found.as_slice() {
            [] => Err(no_such(id)),
            [(key, _)] => {
                let id = keys::tail(key)?;
                Ok(self.record(owner, &id, now).await?.info(&id))
            }
            _ => Err(Error::Invalid(format!("the ids of several conversations begin with {id}; give more digits"))),
        }
    }

    /// A page of the conversations, the last changed first. Messages are not read.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn list(&self, owner: Owner, from: &str, most: u32, now: u64) -> Result<Listed, Error> {
        let start = cursor::<24>(from)?;
        let _guard = self.begin(now).await?;
        self.sweep(now).await?;
        let (entries, more) = self.page(owner, start.as_ref().map(|at| (&at[..], true)), most).await?;
        let mut listed = Listed::default();
        for (id, record) in &entries {
            listed.conversations.push(record.info(id));
        }
        if let Some((id, record)) = entries.last().filter(|_| more) {
            listed.next = position(record, id);
        }
        Ok(listed)
    }

    /// Conversations from a position on, or behind it; and whether there are more.
    pub(crate) async fn page(
        &self,
        owner: Owner,
        from: Option<(&[u8], bool)>,
        most: u32,
    ) -> Result<(Vec<(Id, Record)>, bool), Error> {
        let (mut start, end) = (keys::owner(owner), keys::after(&keys::owner(owner)));
        if let Some((position, behind)) = from {
            start.extend_from_slice(position);
            if behind {
                start.push(0);
            }
        }
        let most = most.clamp(1, MAX_PAGE);
        let range = Range { from: &start, to: &end, most, ..Range::all(CONVERSATIONS) };
        let Entries { entries, more } = self.range(range).await?;
        let read = |(key, value): (Vec<u8>, Vec<u8>)| Ok((keys::tail(&key)?, record::read("a conversation", &value)?));
        Ok((entries.into_iter().map(read).collect::<Result<_, Error>>()?, more))
    }

    /// Gives a conversation a title.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn rename(&self, owner: Owner, id: &str, title: &str, now: u64) -> Result<(), Error> {
        let (id, title) = (keys::id(id)?, checked(title)?);
        let _guard = self.begin(now).await?;
        let old = self.record(owner, &id, now).await?;
        let new = Record { title, ..old.clone() };
        let mut batch = Batch::new();
        change(&mut batch, owner, &id, &old, &new)?;
        self.commit(&batch).await
    }

    /// Has a conversation deleted this many seconds after its last change; 0: it stays.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn expire(&self, owner: Owner, id: &str, seconds: u64, now: u64) -> Result<Info, Error> {
        let id = keys::id(id)?;
        if seconds > MAX_SECONDS {
            return Err(Error::Invalid(format!("a conversation lives at most {MAX_SECONDS} seconds, or for ever")));
        }
        let _guard = self.begin(now).await?;
        let old = self.record(owner, &id, now).await?;
        let new = Record { lives: seconds, ..old.clone() };
        let mut batch = Batch::new();
        change(&mut batch, owner, &id, &old, &new)?;
        self.commit(&batch).await?;
        Ok(new.info(&id))
    }

    /// Removes what has expired, of all principals.
    async fn sweep(&self, now: u64) -> Result<(), Error> {
        let end = now.saturating_add(1).to_be_bytes();
        loop {
            let range = Range { to: &end, most: SWEEP, keys_only: true, ..Range::all(EXPIRIES) };
            let found = self.range(range).await?;
            for (key, _) in &found.entries {
                let bad = || Error::damaged("a key", "it is too short");
                let owner = Owner(keys::number(key.get(..12).ok_or_else(bad)?)?);
                let id = keys::tail(key)?;
                match self.even_expired(owner, &id).await? {
                    Some(record) => self.take_out(owner, &id, &record).await?,
                    None => self.commit(Batch::new().remove(EXPIRIES, key)).await?,
                }
            }
            if !found.more {
                return Ok(());
            }
        }
    }
}

pub(crate) fn no_such(id: &str) -> Error {
    Error::NoSuch(format!("there is no conversation {id}: list the conversations, and name one of those"))
}

/// Where a conversation is in the list.
pub(crate) fn position(record: &Record, id: &Id) -> String {
    format!("{}{}", hex::encode((!record.changed).to_be_bytes()), digits(id))
}

/// A position that a page ended with; none at the beginning.
pub(crate) fn cursor<const N: usize>(text: &str) -> Result<Option<[u8; N]>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut bytes = [0; N];
    let read = hex::decode_to_slice(text, &mut bytes);
    read.map_err(|_| Error::Invalid("a page begins at the `next` of the page before it".to_string()))?;
    Ok(Some(bytes))
}

fn checked(title: &str) -> Result<String, Error> {
    if title.len() > MAX_TITLE {
        return Err(Error::too_long("a title", title.len(), MAX_TITLE));
    }
    Ok(record::title(title))
}

/// Puts a record where it is looked for.
fn put(batch: &mut Batch, owner: Owner, id: &Id, record: &Record) -> Result<(), Error> {
    batch.put(CONVERSATIONS, &keys::conversation(owner, record.changed, id), &record::bytes(record)?);
    batch.put(PLACES, &keys::place(owner, id), &record.changed.to_be_bytes());
    if record.lives != 0 {
        batch.put(EXPIRIES, &keys::expiry(record.expires(), owner, id), &[]);
    }
    Ok(())
}

/// Takes a record out of where it is looked for.
pub(crate) fn take(batch: &mut Batch, owner: Owner, id: &Id, record: &Record) {
    batch.remove(CONVERSATIONS, &keys::conversation(owner, record.changed, id));
    batch.remove(PLACES, &keys::place(owner, id));
    if record.lives != 0 {
        batch.remove(EXPIRIES, &keys::expiry(record.expires(), owner, id));
    }
}

/// Replaces a record.
pub(crate) fn change(batch: &mut Batch, owner: Owner, id: &Id, old: &Record, new: &Record) -> Result<(), Error> {
    take(batch, owner, id, old);
    put(batch, owner, id, new)
}
