//! Who can open the keys of homes: records of users and of the recovery code, in the store's own namespace.
//!
//! A secret is changed in two places: here, and in the header of the volume. First the record gets an entry for the new secret
//! beside those that there are, then the header changes, and then what opens nothing any more is removed. So after a power cut
//! the secret that opens the volume opens the home too.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Bound;

use capos_formats::{KEY, KEYS, TABLE};
use capos_home_keys::{HomeKey, ID, PUBLIC, Pair, Record, Recoveries, Recovery};
use capos_store::{Durability, Query, Random, Store, StoreError};
use capos_volume::{CipherKind, Header, SLOT_ID, SlotSecret};
use zeroize::Zeroizing;

use crate::base::{Base, DataDisk};
use crate::sealed::{NAMESPACE, Sealed, own};

/// The record of each user, by name.
const USERS: &str = "users";
/// The pairs of the recovery codes, below one key.
const RECOVERY: (&str, &[u8]) = ("recovery", b"pairs");

/// The records, with what is needed to change them.
pub struct Homes<'a, D: DataDisk> {
    pub store: &'a mut Store<Base<D>>,
    pub sealed: &'a mut Sealed,
    pub random: Random,
    /// The slots in the header.
    pub slots: Vec<[u8; SLOT_ID]>,
    /// The cipher of new keys.
    pub cipher: CipherKind,
}

fn told(error: StoreError) -> String {
    error.to_string()
}

fn malformed(what: &str) -> String {
    format!("{what} is not what this version of capOS writes; the homes stay closed")
}

/// Random bytes are never such that no pair follows from them.
fn no_pair() -> String {
    "the random bytes gave no key".into()
}

/// The slots of a header, and the cipher of its volume.
#[must_use]
pub fn slots(header: &Header) -> (Vec<[u8; SLOT_ID]>, CipherKind) {
    (header.slots().map(|(_, slot)| slot.id()).collect(), header.cipher)
}

impl<D: DataDisk> Homes<'_, D> {
    fn is_read_only(&self) -> bool {
        self.store.with_blocks(Base::is_read_only)
    }

    fn get(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let Some(namespace) = self.store.namespace(NAMESPACE) else { return Ok(None) };
        self.store.read(|snapshot| snapshot.get(namespace, table, key)).map_err(told)
    }

    /// The record of a user.
    ///
    /// # Errors
    /// The store fails, or it is of another version.
    pub fn record(&mut self, owner: &str) -> Result<Option<Record>, String> {
        let found = self.get(USERS, owner.as_bytes())?;
        found.map(|bytes| Record::decode(&bytes).ok_or_else(|| malformed("the key of a home"))).transpose()
    }

    fn records(&mut self) -> Result<Vec<(String, Record)>, String> {
        let Some(namespace) = self.store.namespace(NAMESPACE) else { return Ok(Vec::new()) };
        let query = Query::from(Bound::Unbounded, usize::MAX);
        let found = self.store.read(|snapshot| snapshot.range(namespace, USERS, query)).map_err(told)?;
        let decoded = found.0.into_iter().map(|(name, bytes)| {
            let name = String::from_utf8(name).ok()?;
            Some((name, Record::decode(&bytes)?))
        });
        decoded.collect::<Option<_>>().ok_or_else(|| malformed("the key of a home"))
    }

    fn recoveries(&mut self) -> Result<Recoveries, String> {
        let found = self.get(RECOVERY.0, RECOVERY.1)?;
        let found = found.map(|bytes| Recoveries::decode(&bytes).ok_or_else(|| malformed("the recovery code's key")));
        Ok(found.transpose()?.unwrap_or_default())
    }

    /// The public halves of the codes that open the volume.
    fn live(&self, recoveries: &Recoveries) -> Vec<[u8; PUBLIC]> {
        recoveries.0.iter().filter(|known| self.slots.contains(&known.slot)).map(|known| known.public).collect()
    }

    /// Whether the recovery code opens a record.
    ///
    /// # Errors
    /// The store fails.
    pub fn is_recoverable(&mut self, record: &Record) -> Result<bool, String> {
        let recoveries = self.recoveries()?;
        Ok(self.live(&recoveries).iter().any(|public| record.is_recovered_by(public)))
    }

    /// Writes all of these, durably, or none.
    fn write(&mut self, records: &[(String, Record)], recoveries: Option<&Recoveries>) -> Result<(), String> {
        let namespace = own(self.store).map_err(told)?;
        let mut write = self.store.begin().map_err(told)?;
        write.put(namespace, TABLE, KEY, &KEYS.version().to_le_bytes()).map_err(told)?;
        for (owner, record) in records {
            write.put(namespace, USERS, owner.as_bytes(), &record.encode()).map_err(told)?;
        }
        if let Some(recoveries) = recoveries {
            write.put(namespace, RECOVERY.0, RECOVERY.1, &recoveries.encode()).map_err(told)?;
        }
        write.commit(Durability::Now).map_err(told)
    }

    /// Seals a key to the recovery codes that open the volume.
    fn seal_to(&mut self, record: &mut Record, home: &HomeKey) -> Result<(), String> {
        let recoveries = self.recoveries()?;
        let sealed = self.live(&recoveries).iter().all(|public| record.seal_to(public, home, &mut *self.random));
        sealed.then_some(()).ok_or_else(no_pair)
    }

    /// A secret of a user has opened the volume, or was verified: the key of the home is at hand from now on. At the first time
    /// it is made.
    ///
    /// # Errors
    /// The store fails, so there is no key.
    pub fn enter(&mut self, owner: &str, secret: &SlotSecret) -> Result<(), String> {
        let entered = self.try_enter(owner, secret);
        if let Err(why) = &entered
            && self.sealed.home(owner).is_none()
        {
            self.sealed.without(owner, format!("the home of {owner} has no key now: {why}"));
        }
        entered
    }

    fn try_enter(&mut self, owner: &str, secret: &SlotSecret) -> Result<(), String> {
        let known = self.record(owner)?;
        let at_hand = self.sealed.home(owner).map(|home| (*home).clone());
        let (mut record, home) = match known.clone() {
            Some(record) => {
                let home = record.open(secret).or_else(|| at_hand.filter(|home| home.id == record.id));
                (record, home)
            }
            None if self.is_read_only() => return Err("the disk cannot be written".into()),
            None => {
                let home = HomeKey::new(self.cipher, &mut *self.random);
                (Record::new(&home), Some(home))
            }
        };
        if let Some(home) = &home {
            self.seal_to(&mut record, home)?;
            if known.is_some() {
                self.sealed.enter(owner, home.clone());
            }
        }
        // Once the recovery code is entered, it has the key too.
        if !record.entries.iter().any(|entry| entry.slot == secret.id && (home.is_none() || entry.has_key()))
            && !record.add(secret, home.as_ref(), &mut *self.random)
        {
            return Err(no_pair());
        }
        let recoveries = self.recoveries()?;
        let live = self.live(&recoveries);
        record.keep(&self.slots, &live);
        let is_recoverable = live.iter().any(|public| record.is_recovered_by(public));
        if known.as_ref() != Some(&record) && !self.is_read_only() {
            self.write(&[(owner.into(), record)], None)?;
        }
        match home {
            Some(home) => self.sealed.enter(owner, home),
            None if !is_recoverable => self.sealed.without(
                owner,
                format!(
                    "the home of {owner} is locked, and nothing on this disk opens it; restore the backup again with its recovery \
                     code, or remove {owner} and add them again"
                ),
            ),
            None => self.sealed.without(
                owner,
                format!(
                    "the home of {owner} is locked, because somebody else has set the passphrase; turn the machine off and \
                     on and enter `forgot` with the recovery code, which opens it"
                ),
            ),
        }
        Ok(())
    }

    /// The recovery code has opened the volume: every user's present secret opens the home again. Returns the code's pair.
    ///
    /// # Errors
    /// The store fails.
    pub fn recover(&mut self, code: &SlotSecret) -> Result<Pair, String> {
        let mut recoveries = self.recoveries()?;
        let known = recoveries.0.iter().find_map(|known| known.open(code));
        let is_new = known.is_none();
        let pair = match known {
            Some(pair) => pair,
            None => self.pair(&mut recoveries, code)?,
        };
        if self.is_read_only() {
            return Ok(pair);
        }
        let mut changed = Vec::new();
        for (owner, mut record) in self.records()? {
            let before = record.clone();
            let Some(home) = self.home(&owner, &record, Some(&pair)) else { continue };
            let done = record.complete(&home, &mut *self.random);
            if !done || !record.seal_to(pair.public(), &home, &mut *self.random) {
                return Err(no_pair());
            }
            if record != before {
                changed.push((owner, record));
            }
        }
        if is_new || !changed.is_empty() {
            self.write(&changed, Some(&recoveries))?;
        }
        Ok(pair)
    }

    /// A new pair for a code.
    fn pair(&mut self, recoveries: &mut Recoveries, code: &SlotSecret) -> Result<Pair, String> {
        let pair = Pair::new(&mut *self.random).ok_or_else(no_pair)?;
        recoveries.0.push(Recovery::new(&pair, code, &mut *self.random).ok_or_else(no_pair)?);
        Ok(pair)
    }

    /// The key of a record, if it is at hand or the code opens it.
    fn home(&self, owner: &str, record: &Record, code: Option<&Pair>) -> Option<HomeKey> {
        let at_hand = self.sealed.home(owner).filter(|home| home.id == record.id);
        at_hand.map(|home| (*home).clone()).or_else(|| code.and_then(|code| record.recover(code)))
    }

    /// A secret of a user is to be put into the header. Without the key of the home, which only the secrets so far and the
    /// recovery code give, the home stays locked.
    ///
    /// # Errors
    /// The store fails.
    pub fn set(&mut self, owner: &str, secret: &SlotSecret, code: Option<&Pair>) -> Result<(), String> {
        let (mut record, home) = match self.record(owner)? {
            Some(record) => {
                let home = self.home(owner, &record, code);
                (record, home)
            }
            None => {
                let home = HomeKey::new(self.cipher, &mut *self.random);
                (Record::new(&home), Some(home))
            }
        };
        if let Some(home) = &home {
            self.seal_to(&mut record, home)?;
        }
        if !record.add(secret, home.as_ref(), &mut *self.random) {
            return Err(no_pair());
        }
        self.write(&[(owner.into(), record)], None)
    }

    /// A recovery code is to be put into the header. It opens the homes whose keys are at hand, and the others from their
    /// users' next login on.
    ///
    /// # Errors
    /// The store fails.
    pub fn renew(&mut self, new: &SlotSecret, code: Option<&Pair>) -> Result<Pair, String> {
        let mut recoveries = self.recoveries()?;
        let pair = self.pair(&mut recoveries, new)?;
        let mut changed = Vec::new();
        for (owner, mut record) in self.records()? {
            let Some(home) = self.home(&owner, &record, code) else { continue };
            if !record.seal_to(pair.public(), &home, &mut *self.random) {
                return Err(no_pair());
            }
            changed.push((owner, record));
        }
        self.write(&changed, Some(&recoveries))?;
        Ok(pair)
    }

    /// Removes what opens nothing any more, after the header has changed.
    ///
    /// # Errors
    /// The store fails. It is removed later then.
    pub fn tidy(&mut self) -> Result<(), String> {
        let mut recoveries = self.recoveries()?;
        let live = self.live(&recoveries);
        recoveries.0.retain(|known| live.contains(&known.public));
        let mut changed = Vec::new();
        for (owner, mut record) in self.records()? {
            if record.keep(&self.slots, &live) {
                changed.push((owner, record));
            }
        }
        self.write(&changed, Some(&recoveries))
    }

    /// Removes a user's record: nobody can open the home any more.
    ///
    /// # Errors
    /// The store fails.
    pub fn remove(&mut self, owner: &str) -> Result<(), String> {
        self.sealed.lock(owner);
        let Some(namespace) = self.store.namespace(NAMESPACE) else { return Ok(()) };
        let mut write = self.store.begin().map_err(told)?;
        write.remove(namespace, USERS, owner.as_bytes()).map_err(told)?;
        write.commit(Durability::Now).map_err(told)
    }

    /// A backup was restored onto this volume, whose secrets are all new. What the `old` secret opens gets the new ones: all
    /// homes if it was the recovery code, and that of the `owner` otherwise. Returns the pair of the new code, and whether the
    /// old one was a code.
    ///
    /// # Errors
    /// The store fails.
    pub fn restored(
        &mut self,
        owner: &str,
        old: &SlotSecret,
        first: &SlotSecret,
        code: &SlotSecret,
    ) -> Result<(Pair, bool), String> {
        let before = self.recoveries()?.0.iter().find_map(|known| known.open(old));
        let mut recoveries = Recoveries::default();
        let pair = self.pair(&mut recoveries, code)?;
        let mut records = self.records()?;
        for (name, record) in &mut records {
            let home = before.as_ref().and_then(|before| record.recover(before));
            let home = home.or_else(|| (name == owner).then(|| record.open(old))?);
            record.keep(&[], &[]);
            let Some(home) = home else { continue };
            let done = record.seal_to(pair.public(), &home, &mut *self.random);
            if !done || name == owner && !record.add(first, Some(&home), &mut *self.random) {
                return Err(no_pair());
            }
        }
        self.write(&records, Some(&recoveries))?;
        Ok((pair, before.is_some()))
    }

    /// The keys of these homes are at hand, as they were in an earlier life of the process.
    ///
    /// # Errors
    /// The store fails.
    pub fn resume(&mut self, kept: &[([u8; ID], Zeroizing<[u8; 32]>)]) -> Result<(), String> {
        for (owner, record) in self.records()? {
            if let Some((id, key)) = kept.iter().find(|(id, _)| *id == record.id) {
                self.sealed.enter(&owner, HomeKey::of(*id, record.cipher, key.clone()));
            }
        }
        Ok(())
    }
}
