//! The chain in tables that last.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use capos_keyspace::{Batch, Fault, Keyspace, Layered};
use capos_schema::audit::{GeneralEvent, GeneralEventField, ToolEvent};

use crate::archive::Written;
use crate::calls::{self, Call};
use crate::damage::{self, DAMAGE, Lost};
use crate::general::{Kind, general};
use crate::reading::Reader;
use crate::record::{Event, Head};
use crate::rules::{AppendError, Bounds, Open, Rules};
use crate::state::{State, load};
use crate::tables::{self, CALLS, OPEN, RECORDS, SESSION, TAKEN, TOOL};

/// How long until the disk is asked again whether it takes them, in nanoseconds.
const ASK: u64 = 2_000_000_000;

/// Bytes of a batch in which calls without an outcome stay when the records go into an archive.
const KEPT: usize = 256 << 10;

/// A chain in tables.
///
/// The rules are those of [`Chain`](crate::Chain). Each record is one durable commit, together with the head, the
/// indexes and what the rules need; it is on the medium when its append returns. In memory there are the head, the
/// open effects, and the bytes of each session of this boot. They are read from the tables at opening, in a time that
/// does not depend on the number of records.
///
/// The room for the ends of effects that have begun is taken with entries of zeros. If others have filled the disk
/// meanwhile, an end takes their place.
///
/// If the tables can only be read, the chain continues in memory, and a record says so and why. What is in memory comes to the
/// tables, in its order, once they can be written again.
#[derive(Debug)]
pub struct Stored<K> {
    space: Layered<K>,
    bounds: Room,
    aside: Option<Aside>,
    /// None until it is opened, and after a fault.
    state: Option<State>,
    /// The last head that was acknowledged.
    known: Option<Past>,
    /// The same of a part that was set aside, as long as no record follows it.
    acknowledged: Option<Past>,
    /// An append whose outcome is not known yet: what was appended, and the head that it leads to.
    unsettled: Option<(Event, Head)>,
    warning: Option<String>,
    /// Why the chain was started over, as long as no record says it.
    damage: Option<String>,
}

/// What bounds a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// This many bytes, for one user.
    Alone(usize),
    /// Sessions share it ([`Chain::shared`](crate::Chain::shared)). In memory that does not last it has this many bytes;
    /// on a disk what its namespace may take.
    Shared(usize),
}

/// A chain that continues in memory.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    /// Why.
    why: String,
    /// A record says so.
    recorded: bool,
    /// The head and the use of the chain in the tables.
    head: Head,
    pub used: usize,
    /// When the tables are tried again.
    next: u64,
}

/// Where a chain was when it was acknowledged last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    pub head: Head,
    pub time: u64,
    pub boots: u64,
}

/// What a record begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Nothing,
    Boot,
    /// What continues in memory.
    Memory,
    /// What stays of the chain, after an archive that ends with this record.
    After(Head),
    /// The chain after damage, or its knowledge of it.
    Damage,
}

/// What an opened chain is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    pub head: Head,
    /// Time of the last record.
    pub time: u64,
    /// How many boots have written to it.
    pub boots: u64,
    pub lasting: bool,
    /// Bytes that it may hold.
    pub limit: usize,
    /// Effects that have begun and have no recorded end.
    pub open: usize,
}

impl<K: Keyspace + Clone> Stored<K> {
    /// The chain of this namespace.
    pub fn new(space: K, bounds: Room) -> Self {
        let space = Layered::new(space);
        let (aside, state, known, acknowledged) = (None, None, None, None);
        Self { space, bounds, aside, state, known, acknowledged, unsettled: None, warning: None, damage: None }
    }

    /// Where the chain ends, once it is open.
    pub fn head(&self) -> Option<Head> {
        self.state.as_ref().map(|state| state.rules.head)
    }

    /// Bytes used, and the bound.
    pub fn usage(&self) -> Option<(usize, usize)> {
        self.state.as_ref().map(|state| (state.rules.used, state.rules.bounds.limit))
    }

    /// Sequences of the records before effects whose end is not recorded yet.
    pub fn open_effects(&self) -> impl Iterator<Item = u64> + '_ {
        self.state.iter().flat_map(|state| state.rules.open.keys().copied())
    }

    /// A warning about room or the disk that was recorded and not yet taken, as a sentence for a person.
    pub fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// Reads what the records say.
    pub fn reader(&self) -> Reader<Layered<K>> {
        Reader::new(self.space.clone())
    }

    /// Reads what the rules need from the tables, if that is not in memory. `None` if the chain that was there is gone:
    /// memory that does not last was lost with its process, and the next record begins a new chain.
    ///
    /// # Errors
    /// The volume is not open, is damaged or holds an older state, or the tables have another format.
    pub async fn open(&mut self) -> Result<Option<Opened>, Fault> {
        if self.unsettled.is_some() {
            self.state = None;
        }
        if self.state.is_none() {
            let mut loaded = load(&self.space, self.bounds, (self.aside.as_ref(), self.acknowledged)).await;
            if let Err(Fault::ReadOnly(why)) = &loaded {
                // The tables were never made.
                self.set_aside(why.clone(), &Rules::new(Bounds::new(0)));
                loaded = load(&self.space, self.bounds, (self.aside.as_ref(), self.acknowledged)).await;
            }
            if let Err(Fault::Damaged(why)) = &loaded
                && self.start_over(why).await?
            {
                loaded = load(&self.space, self.bounds, (self.aside.as_ref(), self.acknowledged)).await;
            }
            let mut state = loaded?;
            if let (Some(earlier), Some(why)) = (&mut state.earlier, &self.damage) {
                earlier.why.clone_from(why);
            }
            let head = state.rules.head;
            let unsettled = self.unsettled.as_ref().map(|(_, head)| *head);
            let continues = self.known.is_none_or(|known| known.head == head) || unsettled == Some(head);
            if !continues && state.lasting {
                let known = self.known.unwrap_or_default().head.sequence;
                return Err(Fault::Damaged(format!(
                    "the audit log on the disk ends at record {}, and record {known} was written to it: the disk holds \
                     an older state or that of another machine; attach the right disk and restart",
                    head.sequence
                )));
            }
            self.known = Some(state.past());
            self.state = Some(state);
            if !continues {
                self.unsettled = None;
                return Ok(None);
            }
        }
        let opened = self.state.as_ref().map(|state| Opened {
            head: state.rules.head,
            time: state.rules.time,
            boots: state.boots,
            lasting: state.lasting,
            limit: state.rules.bounds.limit,
            open: state.rules.open.len(),
        });
        Ok(opened)
    }

    /// Sets the tables aside, whose damage is known by this; the chain continues in empty ones. False if that is not possible.
    async fn start_over(&mut self, why: &str) -> Result<bool, Fault> {
        if self.aside.is_some() {
            return Ok(false);
        }
        match self.space.set_aside().await {
            Ok(_) => {}
            Err(fault @ Fault::Lost(_)) => return Err(fault),
            Err(_) => return Ok(false),
        }
        self.damage = Some(why.to_string());
        self.acknowledged = self.known.take().or(self.acknowledged);
        (self.state, self.unsettled) = (None, None);
        Ok(true)
    }

    /// Records which records the disk has lost.
    ///
    /// # Errors
    /// As [`Self::append_general`].
    pub async fn append_lost(&mut self, time: u64, lost: &[Lost], why: &str) -> Result<Head, AppendError> {
        let ranges = damage::named(lost);
        let event = general(Kind::LogDamage.name(), &[("lost", &ranges), ("why", &why)]);
        self.damage = Some(format!("the audit log has lost the records {ranges} ({why})"));
        self.append_at(time, Event::General(event), Begins::Damage).await
    }

    /// Begins a boot: `event` is its first record. Effects of earlier boots cannot end any more, and their sessions are
    /// over, so that neither takes room from now on.
    ///
    /// # Errors
    /// As [`Self::append_general`].
    pub async fn begin_boot(&mut self, time: u64, event: GeneralEvent) -> Result<Head, AppendError> {
        self.append_at(time, Event::General(event), Begins::Boot).await
    }

    /// Records a tool call.
    ///
    /// # Errors
    /// As [`Chain::append_tool`](crate::Chain::append_tool); `Place` if the tables do not take it.
    pub async fn append_tool(&mut self, time: u64, event: ToolEvent) -> Result<Head, AppendError> {
        self.append(time, Event::Tool(Box::new(event))).await
    }

    /// Records something else.
    ///
    /// # Errors
    /// As [`Chain::append_general`](crate::Chain::append_general); `Place` if the tables do not take it.
    pub async fn append_general(&mut self, time: u64, event: GeneralEvent) -> Result<Head, AppendError> {
        self.append(time, Event::General(event)).await
    }

    /// Removes all records, which a file has up to the chain's head, and records that as the first one that stays: one
    /// transaction.
    ///
    /// # Errors
    /// As [`Self::append_general`]; `Invalid` if the chain does not end where the file does.
    pub async fn archive(&mut self, time: u64, name: &str, file: &Written) -> Result<Head, AppendError> {
        if self.aside.is_some() {
            let why = "the audit log goes on in memory; archive it when the disk can be written again";
            return Err(AppendError::Invalid(why.into()));
        }
        self.open().await.map_err(AppendError::Place)?;
        let lost = damage::named(&file.lost);
        let open: Vec<String> = self.open_effects().map(|sequence| sequence.to_string()).collect();
        let open = open.join(",");
        let mut fields: Vec<(&str, &dyn core::fmt::Display)> = vec![
            ("archive", &name),
            ("first", &file.first),
            ("records", &file.records),
            ("bytes", &file.bytes),
            ("head", &file.head),
        ];
        for (name, value) in [("open", &open), ("lost", &lost)] {
            if !value.is_empty() {
                fields.push((name, value));
            }
        }
        let event = Event::General(Kind::LogArchive.event("", "", &fields));
        let done = self.commit(time, event.clone(), Begins::After(file.head)).await;
        let Err(AppendError::Place(Fault::Damaged(why))) = &done else { return done };
        let why = why.clone();
        // What is damaged cannot be removed, and stays aside.
        if !self.start_over(&why).await.map_err(AppendError::Place)? {
            return done;
        }
        self.damage = None;
        self.open().await.map_err(AppendError::Place)?;
        if let Some(state) = &mut self.state {
            state.earlier = None;
        }
        let done = self.commit(time, event, Begins::After(file.head)).await;
        if done.is_err() {
            // The next record says what was damaged.
            (self.state, self.damage) = (None, Some(why));
        }
        done
    }

    /// Records an event.
    ///
    /// # Errors
    /// As [`Self::append_tool`] and [`Self::append_general`].
    pub async fn append(&mut self, time: u64, event: Event) -> Result<Head, AppendError> {
        self.append_at(time, event, Begins::Nothing).await
    }

    async fn append_at(&mut self, time: u64, event: Event, begins: Begins) -> Result<Head, AppendError> {
        self.ask_again(time).await?;
        let mut done = self.append_aside(time, event.clone(), begins).await;
        if let Err(AppendError::Place(Fault::Medium(_))) = done {
            // The first error of a disk does not say whether it can still be read.
            done = self.append_aside(time, event.clone(), begins).await;
        }
        if let Err(AppendError::Place(Fault::Damaged(why))) = &done
            && self.start_over(why).await.map_err(AppendError::Place)?
        {
            done = self.append_aside(time, event.clone(), begins).await;
        }
        if let Err(AppendError::Place(Fault::ReadOnly(why))) = &done
            && self.aside.is_none()
        {
            let why = why.clone();
            self.open().await.map_err(AppendError::Place)?;
            let rules = self.state.take().map_or_else(|| Rules::new(Bounds::new(0)), |state| state.rules);
            self.set_aside(why, &rules);
            done = self.append_aside(time, event, begins).await;
        }
        let head = done?;
        let warning = self.state.as_mut().and_then(|state| state.rules.warning());
        if let (Some(warning), Some((_, limit))) = (warning, self.usage()) {
            let percent = self.state.as_ref().map_or(0, |state| state.rules.warned);
            let instead = match self.aside {
                Some(_) => "attach a disk that can be written and restart".into(),
                None if self.state.as_ref().is_some_and(|state| state.lasting) => {
                    "move its records to a transfer volume: /audit archive VOLUME".into()
                }
                None => format!("export it, then raise its limit of {limit} bytes in the manifest"),
            };
            self.warning = Some(format!(
                "the audit log has used {percent} % of its room for tool calls, and none runs when that is full; {instead}"
            ));
            // If it finds no room, the record that it follows is there all the same.
            drop(self.commit(time, Event::General(warning), Begins::Nothing).await);
        }
        Ok(head)
    }

    /// Continues in memory.
    fn set_aside(&mut self, why: String, rules: &Rules) {
        self.space.hold();
        let (head, used) = (rules.head, rules.used);
        self.warning = Some(format!("the audit log goes on in memory after record {}: {why}", head.sequence));
        self.aside = Some(Aside { why, recorded: false, head, used, next: 0 });
        self.state = None;
    }

    /// Appends an event; if that is the first one in memory, it says so, or one before it.
    async fn append_aside(&mut self, time: u64, mut event: Event, begins: Begins) -> Result<Head, AppendError> {
        self.open().await.map_err(AppendError::Place)?;
        if let Some(earlier) = self.state.as_mut().and_then(|state| state.earlier.take()) {
            let sentence = earlier.sentence();
            let told = self.damage.replace(sentence.clone());
            if let Err(error) = self.commit(time, Event::General(earlier.event()), Begins::Damage).await {
                self.damage = told;
                return Err(error);
            }
            self.warning = Some(sentence);
        }
        let (head, why) = match &self.aside {
            Some(aside) if !aside.recorded => (aside.head, aside.why.clone()),
            _ => return self.commit(time, event, begins).await,
        };
        let head = match &mut event {
            Event::General(start) if start.kind == Kind::LogStart.name() => {
                start.fields.push(GeneralEventField { name: "memory".into(), value: why });
                self.commit(time, event, begins).await?
            }
            _ => {
                let told = general(Kind::LogMemory.name(), &[("head", &head), ("why", &why)]);
                self.commit(time, Event::General(told), Begins::Memory).await?;
                self.commit(time, event, begins).await?
            }
        };
        if let Some(aside) = &mut self.aside {
            (aside.recorded, aside.next) = (true, time.saturating_add(ASK));
        }
        Ok(head)
    }

    /// Gives the tables what is in memory, if they can be written again: at once if somebody else has written there.
    async fn ask_again(&mut self, time: u64) -> Result<(), AppendError> {
        let Some(aside) = self.aside.clone().filter(|aside| aside.recorded) else { return Ok(()) };
        if time < aside.next && self.space.info().await.is_ok_and(|info| info.read_only) {
            return Ok(());
        }
        if self.space.release().await.is_err() {
            if let Some(aside) = &mut self.aside {
                aside.next = time.saturating_add(ASK);
            }
            return Ok(());
        }
        (self.aside, self.state) = (None, None);
        let records = self.known.unwrap_or_default().head.sequence.saturating_sub(aside.head.sequence);
        self.warning = Some(format!("the disk can be written again, and has the {records} records of the audit log"));
        let told = general(Kind::LogDisk.name(), &[("records", &records)]);
        // If the disk fails again, the next record goes to memory.
        drop(self.commit(time, Event::General(told), Begins::Nothing).await);
        Ok(())
    }

    async fn commit(&mut self, time: u64, event: Event, begins: Begins) -> Result<Head, AppendError> {
        self.open().await.map_err(AppendError::Place)?;
        let unsettled = self.unsettled.take();
        let Some(mut state) = self.state.take() else { return Err(AppendError::Place(Fault::Locked)) };
        let head = state.rules.head;
        if unsettled.is_some_and(|(unsettled, reached)| unsettled == event && reached == head) {
            self.state = Some(state);
            return Ok(head);
        }
        let subject = calls::subject(&event);
        let call = match subject {
            Some(key) => self.space.get(CALLS, &key).await.map_err(AppendError::Place)?,
            None => None,
        };
        let call = call.map_or(Ok(Call::default()), |bytes| tables::call(&bytes)).map_err(AppendError::Place)?;
        // What makes room comes first.
        let mut changes = Batch::new();
        match begins {
            Begins::Nothing => {}
            Begins::Boot => {
                state.rules.begin_boot();
                state.boots = state.boots.saturating_add(1);
                changes.remove_range(OPEN, &[], &[]).remove_range(TAKEN, &[], &[]);
            }
            // In memory everybody has a new share.
            Begins::Memory => {
                state.rules.taken.clear();
                changes.remove_range(TAKEN, &[], &[]);
            }
            Begins::After(last) if last != head => {
                self.state = Some(state);
                let why = format!("the file ends with {last}, and the audit log with {head}");
                return Err(AppendError::Invalid(why));
            }
            Begins::Damage => {
                let sentence = self.damage.as_deref().unwrap_or_default();
                // What the part before knows of effects continues here.
                for (sequence, open) in state.rules.open.iter().filter(|_| state.fresh) {
                    changes.put(OPEN, &tables::sequence_key(*sequence), &tables::open_bytes(open));
                }
                changes.put(DAMAGE, &tables::sequence_key(head.sequence.saturating_add(1)), sentence.as_bytes());
            }
            Begins::After(_) => {
                changes = self.without_records(&state.rules.open).await.map_err(AppendError::Place)?;
                state.rules.archived();
            }
        }
        let planned = state.rules.plan(time, event.clone(), call);
        let step = match planned {
            Ok(step) => step,
            Err(error) if begins != Begins::Nothing => return Err(error),
            Err(error) => {
                self.state = Some(state);
                return Err(error);
            }
        };
        self.unsettled = Some((event, step.record.head()));
        match state.write(&self.space, &changes, &step, subject).await {
            Ok(()) => {
                let head = state.rules.head;
                if begins == Begins::Damage {
                    self.damage = None;
                }
                (self.known, self.acknowledged) = (Some(state.past()), None);
                (self.unsettled, self.state) = (None, Some(state));
                Ok(head)
            }
            Err(fault) => {
                // Of a medium that failed, as of a store that ended, it is unknown what it has.
                if matches!(fault, Fault::Full(_) | Fault::Quota(_) | Fault::ReadOnly(_) | Fault::Locked) {
                    self.unsettled = None;
                }
                Err(AppendError::Place(fault))
            }
        }
    }
}

impl<K: Keyspace> Stored<K> {
    /// The changes that remove all records. Of the calls, those stay of which a decision or a beginning alone is recorded.
    async fn without_records(&self, open: &BTreeMap<u64, Open>) -> Result<Batch, Fault> {
        let mut changes = Batch::new();
        for table in [RECORDS, SESSION, TOOL, TAKEN, CALLS, DAMAGE] {
            changes.remove_range(table, &[], &[]);
        }
        for (key, value) in tables::all(&self.space, CALLS).await? {
            let call = tables::call(&value)?;
            if call.told.is_none_or(|told| open.contains_key(&told)) && changes.bytes() < KEPT {
                changes.put(CALLS, &key, &value);
            }
        }
        Ok(changes)
    }
}
