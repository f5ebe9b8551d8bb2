//! What is kept of the budgets: in the broker's namespace, and with `init` as long as that is locked.

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_async_lock::AsyncMutex;
use capos_budget::Kept;
use capos_keyspace::{Batch, Durability, Fault, Keyspace, Range};
use capos_schema::authority::Profile;

use super::{Budgets, Lost, Paused};

/// A table of the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// When the day began (8 bytes, little-endian) and what was used, by the principal's name.
    Principals,
    /// The profile (1 byte), when it began (8 bytes), the length of the principal's name (1 byte), the name, and what was used,
    /// by the session's id.
    Sessions,
    /// When it ended (8 bytes), the principal's name and the session's id, each with its length (1 byte), and what was used, by the
    /// run's conversation and turn.
    Runs,
}

impl Table {
    /// All of them. Each is read at a login.
    pub(crate) const ALL: [Self; 3] = [Self::Principals, Self::Sessions, Self::Runs];

    /// What it holds, for a person.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Principals => "counts of used tokens",
            Self::Sessions => "counts of open sessions",
            Self::Runs => "what runs that can be continued have used",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Principals => "budget.principals",
            Self::Sessions => "budget.sessions",
            Self::Runs => "budget.runs",
        }
    }
}

/// Something that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub table: Table,
    pub key: String,
    pub value: Vec<u8>,
}

fn principal(began: u64, kept: Kept) -> Vec<u8> {
    [&began.to_le_bytes()[..], &kept.to_bytes()].concat()
}

fn read_principal(value: &[u8]) -> Option<(u64, Kept)> {
    let (began, rest) = value.split_first_chunk()?;
    let (kept, rest) = Kept::from_bytes(rest)?;
    rest.is_empty().then_some((u64::from_le_bytes(*began), kept))
}

fn session(lost: &Lost) -> Vec<u8> {
    let profile = match lost.profile {
        Profile::Operator => 0,
        Profile::Guest => 1,
        Profile::Anonymous => 2,
    };
    let length = u8::try_from(lost.principal.len()).unwrap_or(u8::MAX);
    let name = lost.principal.as_bytes().get(..usize::from(length)).unwrap_or_default();
    let began = lost.began_unix.to_le_bytes();
    [&[profile][..], &began, &[length], name, &lost.kept.to_bytes()].concat()
}

fn read_session(value: &[u8]) -> Option<Lost> {
    let (profile, rest) = value.split_first()?;
    let profile = [Profile::Operator, Profile::Guest, Profile::Anonymous].get(usize::from(*profile)).copied()?;
    let (began, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (kept, rest) = Kept::from_bytes(rest)?;
    let principal = String::from_utf8(name.to_vec()).ok()?;
    rest.is_empty().then_some(Lost { principal, profile, began_unix: u64::from_le_bytes(*began), kept })
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
    bytes.push(length);
    bytes.extend_from_slice(text.as_bytes().get(..usize::from(length)).unwrap_or_default());
}

fn take_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

fn run(paused: &Paused) -> Vec<u8> {
    let mut bytes = paused.at.to_le_bytes().to_vec();
    put_text(&mut bytes, &paused.principal);
    put_text(&mut bytes, &paused.session);
    bytes.extend_from_slice(&paused.kept.to_bytes());
    bytes
}

fn read_run(value: &[u8]) -> Option<Paused> {
    let (at, rest) = value.split_first_chunk()?;
    let (principal, rest) = take_text(rest)?;
    let (session, rest) = take_text(rest)?;
    let (kept, rest) = Kept::from_bytes(rest)?;
    rest.is_empty().then_some(Paused { principal, session, at: u64::from_le_bytes(*at), kept })
}

impl Budgets {
    /// The run that continues, by its name, as it would be continued.
    fn active(&self, name: &str) -> Option<Paused> {
        let of_name = |run: &super::Run| run.name == name;
        let (id, session) = self.sessions.iter().find(|(_, session)| session.run.as_ref().is_some_and(of_name))?;
        let kept = self.ledger.kept(session.run.as_ref()?.scope)?;
        Some(Paused { principal: session.principal.clone(), session: id.clone(), at: session.began_unix, kept })
    }

    /// The value of an entry now; none if there is nothing to keep any more.
    fn value(&self, table: Table, key: &str) -> Option<Vec<u8>> {
        match table {
            Table::Principals => {
                if let Some((began, kept)) = self.absent.get(key) {
                    return Some(principal(*began, *kept));
                }
                let found = self.principals.get(key)?;
                let kept = self.ledger.kept(found.scope)?;
                (!kept.used.is_nothing()).then(|| principal(found.began, kept))
            }
            Table::Runs => match self.paused.get(key) {
                Some(paused) => Some(run(paused)),
                None => self.active(key).map(|paused| run(&paused)),
            },
            Table::Sessions => {
                if let Some(lost) = self.lost.get(key) {
                    return Some(session(lost));
                }
                // What is kept of a part is kept with its session and its run.
                let found = self.sessions.get(key).filter(|session| session.part.is_none())?;
                let kept = self.kept(found.scope);
                let (principal, profile, began_unix) = (found.principal.clone(), found.profile, found.began_unix);
                (!kept.used.is_nothing()).then(|| session(&Lost { principal, profile, began_unix, kept }))
            }
        }
    }

    /// All that is to be kept.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let principals = self.principals.keys().chain(self.absent.keys()).map(|key| (Table::Principals, key));
        let sessions = self.sessions.keys().chain(self.lost.keys()).map(|key| (Table::Sessions, key));
        let active = self.sessions.values().filter_map(|session| session.run.as_ref()).map(|run| &run.name);
        let runs = self.paused.keys().chain(active).map(|key| (Table::Runs, key));
        let all = principals.chain(sessions).chain(runs);
        all.filter_map(|(table, key)| Some(Entry { table, key: key.clone(), value: self.value(table, key)? })).collect()
    }

    /// Takes in what was kept. What is known already stays if it is more.
    ///
    /// # Errors
    /// The entry is malformed.
    pub fn restore(&mut self, entry: &Entry) -> Result<(), String> {
        let malformed = || "a stored budget is malformed".to_string();
        match entry.table {
            Table::Principals => {
                let (began, kept) = read_principal(&entry.value).ok_or_else(malformed)?;
                match self.principals.get_mut(&entry.key) {
                    // It used something while the volume was locked.
                    Some(open) => {
                        self.ledger.charge(open.scope, kept.used);
                        open.began = if open.began == 0 { began } else { open.began.min(began.max(1)) };
                        self.changed.insert((Table::Principals, entry.key.clone()));
                    }
                    None => {
                        let known = self.absent.entry(entry.key.clone()).or_insert((began, Kept::default()));
                        known.1 = known.1.most(kept);
                    }
                }
            }
            Table::Sessions => {
                let lost = read_session(&entry.value).ok_or_else(malformed)?;
                if !self.sessions.contains_key(&entry.key) {
                    let known = self.lost.entry(entry.key.clone()).or_insert_with(|| lost.clone());
                    known.kept = known.kept.most(lost.kept);
                }
            }
            Table::Runs => {
                let paused = read_run(&entry.value).ok_or_else(malformed)?;
                if self.active(&entry.key).is_none() {
                    let known = self.paused.entry(entry.key.clone()).or_insert_with(|| paused.clone());
                    known.kept = known.kept.most(paused.kept);
                }
            }
        }
        Ok(())
    }

    /// What has changed since this was asked last, as one batch; and the entries that it is about.
    fn take_changes(&mut self) -> (Batch, BTreeSet<(Table, String)>) {
        let mut batch = Batch::new();
        let changed = core::mem::take(&mut self.changed);
        for (table, key) in &changed {
            match self.value(*table, key) {
                Some(value) => batch.put(table.name(), key.as_bytes(), &value),
                None => batch.remove(table.name(), key.as_bytes()),
            };
        }
        (batch, changed)
    }

    fn all_changed(&mut self) {
        let all: Vec<(Table, String)> = self.entries().into_iter().map(|entry| (entry.table, entry.key)).collect();
        self.changed.extend(all);
    }
}

/// Where budgets are kept over a restart of the machine.
#[derive(Debug)]
pub struct Store<K> {
    space: Option<K>,
    loaded: Cell<bool>,
    /// Changes are committed one after another.
    turn: Rc<AsyncMutex>,
    /// Something was committed that is not on the medium yet.
    unsynced: Cell<bool>,
}

impl<K: Keyspace> Store<K> {
    /// In this namespace, if there is one.
    pub fn new(space: Option<K>) -> Self {
        Self { space, loaded: Cell::new(false), turn: Rc::default(), unsynced: Cell::new(false) }
    }

    /// Whether the namespace has what is kept. Otherwise it has to be kept elsewhere.
    pub fn is_in_use(&self) -> bool {
        self.loaded.get()
    }

    /// Reads what was kept, once, when the volume is open. Returns how many entries are not understood, and stay as they are.
    ///
    /// # Errors
    /// The store fails: nobody begins a session with budgets that are not known.
    pub async fn load(&self, budgets: &RefCell<Budgets>) -> Result<usize, Fault> {
        let Some(space) = self.space.as_ref().filter(|_| !self.loaded.get()) else { return Ok(0) };
        let mut entries = Vec::new();
        for table in Table::ALL {
            let found = match space.range(Range::all(table.name())).await {
                Err(Fault::Lost(_)) => space.range(Range::all(table.name())).await,
                found => found,
            };
            match found {
                Ok(found) => entries.extend(found.entries.into_iter().map(|(key, value)| (table, key, value))),
                // Until it is open, what is counted is kept elsewhere.
                Err(Fault::Locked) => return Ok(0),
                Err(fault) => return Err(fault),
            }
        }
        // Another task may have read them meanwhile.
        if self.loaded.replace(true) {
            return Ok(0);
        }
        let mut budgets = budgets.borrow_mut();
        let read = |(table, key, value)| {
            let key = String::from_utf8(key).map_err(|_| "the key is no text".to_string())?;
            budgets.restore(&Entry { table, key, value })
        };
        let malformed = entries.into_iter().map(read).filter(Result::is_err).count();
        budgets.all_changed();
        Ok(malformed)
    }

    /// Keeps what has changed. Before a step begins it is on the medium; what a step used less than it reserved may be later.
    ///
    /// # Errors
    /// It is not kept.
    pub async fn keep(&self, budgets: &RefCell<Budgets>, durability: Durability) -> Result<(), Fault> {
        let Some(space) = self.space.as_ref().filter(|_| self.loaded.get()) else { return Ok(()) };
        // What another task commits now is on the medium when this one returns.
        let _turn = self.turn.lock().await;
        let (batch, changed) = budgets.borrow_mut().take_changes();
        if batch.is_empty() {
            if durability == Durability::Now && self.unsynced.get() {
                match space.sync().await {
                    Ok(()) => self.unsynced.set(false),
                    Err(Fault::ReadOnly(_) | Fault::Locked) => {}
                    Err(fault) => return Err(fault),
                }
            }
            return Ok(());
        }
        let done = match space.commit(&batch, durability).await {
            Err(Fault::Lost(_)) => space.commit(&batch, durability).await,
            done => done,
        };
        match done {
            // Nothing can be kept on it, and nothing was changed on it either.
            Err(Fault::ReadOnly(_) | Fault::Locked) => Ok(()),
            Err(fault) => {
                budgets.borrow_mut().changed.extend(changed);
                Err(fault)
            }
            Ok(()) => {
                self.unsynced.set(durability != Durability::Now);
                Ok(())
            }
        }
    }
}
