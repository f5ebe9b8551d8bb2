//! Which tree is whose: a number for each principal's home, never given again.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_keyspace::{Batch, Durability, Fault, Keyspace, Range, Within};

use crate::TABLES;

/// The table of the homes: the number of each (2 bytes, little-endian), by the name of its principal. A number that was taken
/// from a home stands there below a name that no principal has.
const HOMES: &str = "homes";
/// The table of what homes may take: the quota as text, by the name of the principal.
pub const QUOTAS: &str = "quotas";
/// The version of the tables.
const FORMAT: (&str, &[u8], u32) = (crate::key::FORMAT_TABLE, crate::key::VERSION, crate::FORMAT);
/// Names of homes that are read at once.
const AT_ONCE: u32 = 256;
/// Names that begin so are no principals'.
pub const APART: char = '\0';

/// The homes of a keyspace. One task at a time makes and removes them.
#[derive(Debug)]
pub struct Homes<K> {
    space: K,
    /// Homes at most.
    most: u16,
    /// The numbers by principal, once they are read.
    numbers: RefCell<Option<BTreeMap<String, u16>>>,
}

impl<K: Keyspace + Clone> Homes<K> {
    /// The homes of this keyspace, with at most this many numbers.
    pub fn new(space: K, most: u16) -> Self {
        Self { space, most, numbers: RefCell::default() }
    }

    /// What the names of a tree's tables begin with.
    #[must_use]
    pub fn prefix(number: u16) -> String {
        format!("{number}/")
    }

    /// The keyspace of a home's tree.
    pub fn tree(&self, number: u16) -> Within<K> {
        Within::new(self.space.clone(), Self::prefix(number))
    }

    /// What a home takes, in bytes, as its tree counts it. It is known of a locked home too.
    ///
    /// # Errors
    /// The keyspace fails.
    pub async fn used(&self, number: u16) -> Result<u64, Fault> {
        let tree = self.tree(number);
        let found = match tree.get(crate::key::TREE, crate::key::USED).await {
            Err(Fault::Lost(_)) => tree.get(crate::key::TREE, crate::key::USED).await?,
            found => found?,
        };
        Ok(found.and_then(|used| used.try_into().ok()).map_or(0, u64::from_le_bytes))
    }

    /// The numbers of all homes, by principal, and of those that are gone, by names that begin with [`APART`].
    ///
    /// # Errors
    /// The keyspace fails, or holds something else.
    pub async fn numbers(&self) -> Result<BTreeMap<String, u16>, Fault> {
        if let Some(known) = self.numbers.borrow().clone() {
            return Ok(known);
        }
        let read = self.read().await?;
        *self.numbers.borrow_mut() = Some(read.clone());
        Ok(read)
    }

    async fn read(&self) -> Result<BTreeMap<String, u16>, Fault> {
        let malformed = || Fault::Damaged("the table of the homes is malformed; restore it from a backup".into());
        let (table, key, known) = FORMAT;
        match self.space.get(table, key).await? {
            None => {}
            Some(version) if version == known.to_le_bytes() => {}
            Some(_) => return Err(malformed()),
        }
        let mut numbers = BTreeMap::new();
        let mut from = Vec::new();
        loop {
            let found = self.space.range(Range { from: &from, most: AT_ONCE, ..Range::all(HOMES) }).await?;
            for (name, number) in found.entries {
                let number = number.try_into().map(u16::from_le_bytes).map_err(|_| malformed())?;
                from.clone_from(&name);
                from.push(0);
                numbers.insert(String::from_utf8(name).map_err(|_| malformed())?, number);
            }
            if !found.more {
                return Ok(numbers);
            }
        }
    }

    /// Commits, once more if the store has ended meanwhile.
    async fn commit(&self, batch: &Batch) -> Result<(), Fault> {
        match self.space.commit(batch, Durability::Now).await {
            Err(Fault::Lost(_)) => self.space.commit(batch, Durability::Now).await,
            done => done,
        }
    }

    /// The number of a principal's home, a new one if there is none.
    ///
    /// # Errors
    /// The keyspace fails, or there are no numbers left.
    pub async fn number(&self, principal: &str) -> Result<u16, Fault> {
        let mut numbers = self.numbers().await?;
        if let Some(known) = numbers.get(principal) {
            return Ok(*known);
        }
        let next = numbers.values().max().copied().unwrap_or(0).saturating_add(1);
        if next >= self.most {
            return Err(Fault::Full(format!("there were {next} homes, and no more are possible")));
        }
        let (table, key, version) = FORMAT;
        let mut batch = Batch::new();
        batch.put(table, key, &version.to_le_bytes()).put(HOMES, principal.as_bytes(), &next.to_le_bytes());
        self.commit(&batch).await?;
        numbers.insert(principal.into(), next);
        *self.numbers.borrow_mut() = Some(numbers);
        Ok(next)
    }

    /// Gives a principal's home to another one who has none; false if there is none to give.
    ///
    /// # Errors
    /// The keyspace fails, or the other one has a home.
    pub async fn rename(&self, principal: &str, to: &str) -> Result<bool, Fault> {
        let mut numbers = self.numbers().await?;
        let Some(number) = numbers.get(principal).copied() else { return Ok(false) };
        if numbers.contains_key(to) {
            return Err(Fault::Invalid(format!("{to:?} has a home already")));
        }
        let mut batch = Batch::new();
        batch.remove(HOMES, principal.as_bytes()).remove(QUOTAS, principal.as_bytes());
        batch.put(HOMES, to.as_bytes(), &number.to_le_bytes());
        numbers.remove(principal);
        numbers.insert(to.into(), number);
        self.commit(&batch).await?;
        *self.numbers.borrow_mut() = Some(numbers);
        Ok(true)
    }

    /// Deletes a principal's home, and returns its number. It is never given again: somebody may still hold the home.
    ///
    /// # Errors
    /// The keyspace fails.
    pub async fn remove(&self, principal: &str) -> Result<Option<u16>, Fault> {
        let mut numbers = self.numbers().await?;
        let Some(number) = numbers.remove(principal) else { return Ok(None) };
        let taken = format!("{APART}{number}");
        let mut batch = Batch::new();
        batch.remove(HOMES, principal.as_bytes()).remove(QUOTAS, principal.as_bytes());
        batch.put(HOMES, taken.as_bytes(), &number.to_le_bytes());
        numbers.insert(taken, number);
        for table in TABLES {
            batch.remove_range(&format!("{number}/{table}"), b"", b"");
        }
        self.commit(&batch).await?;
        *self.numbers.borrow_mut() = Some(numbers);
        Ok(Some(number))
    }
}
