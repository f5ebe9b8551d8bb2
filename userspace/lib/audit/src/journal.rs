//! A chain's way from the start of its process on: what is recorded before the volume opens, where each boot begins, and
//! what follows if the store ends meanwhile.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

use capos_keyspace::{Fault, Keyspace};
use capos_schema::audit::{GeneralEvent, ToolEvent};

use crate::archive::Written;
use crate::damage::Lost;
use crate::general::{Kind, general};
use crate::record::{Event, Head};
use crate::rules::AppendError;
use crate::stored::{Opened, Room, Stored};

/// Records that wait for the volume at most.
const WAITING: usize = 256;
/// As many more can be such as have room that nothing else takes.
const SPARED: usize = 64;
/// Bytes of the texts of all that wait.
const WAITING_BYTES: usize = 128 << 10;

/// One life of the process that keeps a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// How many lives it had before in this boot.
    pub earlier: u64,
    /// When the machine started, in nanoseconds since 1970.
    pub boot: u64,
    /// When this life began.
    pub start: u64,
}

/// Keeps a chain from the start of its process on.
///
/// The first record of a life is `log.start`. It names the boot's number on this chain and the head before it. Until the
/// volume is open, general events wait in memory, and tool calls are rejected.
#[derive(Debug)]
pub struct Journal<K> {
    stored: Stored<K>,
    life: Life,
    /// Whether the chain holds the beginning of this life.
    began: bool,
    /// The beginning while it is being recorded, and whether it is a boot's.
    beginning: Option<(GeneralEvent, bool)>,
    /// Chains that were lost with the store's memory in this life.
    gone: u64,
    waiting: VecDeque<(u64, GeneralEvent)>,
    waiting_bytes: usize,
    /// Records that could not wait.
    lost: u64,
}

impl<K: Keyspace + Clone> Journal<K> {
    /// The journal of a namespace.
    pub fn new(space: K, room: Room, life: Life) -> Self {
        Self {
            stored: Stored::new(space, room),
            life,
            began: false,
            beginning: None,
            gone: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            lost: 0,
        }
    }

    /// The chain.
    pub fn stored(&self) -> &Stored<K> {
        &self.stored
    }

    /// A warning about room that was recorded and not yet taken, as a sentence for a person.
    pub fn take_warning(&mut self) -> Option<String> {
        self.stored.take_warning()
    }

    /// Records an event. A general one that waits for the volume has no place yet: its head is that of no record.
    ///
    /// # Errors
    /// As [`Stored::append`]; `Place` with [`Fault::Locked`] for a tool call while the volume is locked, or if too many
    /// sessions began meanwhile.
    pub async fn append(&mut self, time: u64, event: Event) -> Result<Head, AppendError> {
        match (self.ready().await, event) {
            (Ok(()), event) => self.stored.append(time, event).await,
            (Err(AppendError::Place(Fault::Locked)), Event::General(event)) => self.wait(time, event),
            (Err(error), _) => Err(error),
        }
    }

    /// Records a tool call.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn append_tool(&mut self, time: u64, event: ToolEvent) -> Result<Head, AppendError> {
        self.append(time, Event::Tool(event.into())).await
    }

    /// Records something else.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn append_general(&mut self, time: u64, event: GeneralEvent) -> Result<Head, AppendError> {
        self.append(time, Event::General(event)).await
    }

    /// Removes all records, which a file has, and continues the chain with a record that names it.
    ///
    /// # Errors
    /// As [`Stored::archive`].
    pub async fn archive(&mut self, time: u64, name: &str, file: &Written) -> Result<Head, AppendError> {
        self.ready().await?;
        self.stored.archive(time, name, file).await
    }

    /// Records which records the disk has lost.
    ///
    /// # Errors
    /// As [`Stored::append_lost`].
    pub async fn append_lost(&mut self, time: u64, lost: &[Lost], why: &str) -> Result<Head, AppendError> {
        self.ready().await?;
        self.stored.append_lost(time, lost, why).await
    }

    /// Opens the chain, if it can be, and records what waits for that.
    ///
    /// # Errors
    /// `Place` if the tables cannot be read or written.
    pub async fn ready(&mut self) -> Result<(), AppendError> {
        let opened = loop {
            match self.stored.open().await.map_err(AppendError::Place)? {
                Some(opened) => break opened,
                None => (self.began, self.beginning, self.gone) = (false, None, self.gone.saturating_add(1)),
            }
        };
        if !self.began {
            self.begin(&opened).await?;
        }
        while let Some((time, event)) = self.waiting.front().cloned() {
            let bytes = size(&event);
            match self.stored.append_general(time, event).await {
                Ok(_) => {}
                Err(AppendError::Place(fault)) => return Err(AppendError::Place(fault)),
                Err(_) => self.lost = self.lost.saturating_add(1),
            }
            self.waiting.pop_front();
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        }
        if self.lost > 0 {
            let why = "they came while the volume was locked";
            let event = general("records.lost", &[("records", &self.lost), ("why", &why)]);
            match self.stored.append_general(self.life.start, event).await {
                Err(AppendError::Place(fault)) => return Err(AppendError::Place(fault)),
                Ok(_) | Err(_) => self.lost = 0,
            }
        }
        Ok(())
    }

    /// Records where this life begins.
    async fn begin(&mut self, opened: &Opened) -> Result<(), AppendError> {
        let (event, boots) = match self.beginning.take() {
            Some(beginning) => beginning,
            None => self.beginning(opened),
        };
        self.beginning = Some((event.clone(), boots));
        let done = if boots {
            self.stored.begin_boot(self.life.start, event).await
        } else {
            self.stored.append_general(self.life.start, event).await
        };
        if let Err(AppendError::Place(fault)) = done {
            return Err(AppendError::Place(fault));
        }
        // A full chain takes no beginning, and nothing else but the ends of what it has.
        (self.began, self.beginning) = (true, None);
        Ok(())
    }

    /// The first record of this life, and whether it is a boot's.
    fn beginning(&self, opened: &Opened) -> (GeneralEvent, bool) {
        let first = opened.head.sequence == 0;
        let boots = first || self.life.earlier == 0 && self.gone == 0 || opened.time < self.life.boot;
        let earlier = self.life.earlier.saturating_add(self.gone);
        let (epoch, limit) = (earlier.saturating_add(1), opened.limit >> 10);
        let mut fields: Vec<(&str, &dyn Display)> =
            alloc::vec![("limitKib", &limit), ("epoch", &epoch), ("earlier", &earlier)];
        let boot = if boots { opened.boots.saturating_add(1) } else { opened.boots };
        if opened.lasting {
            fields.push(("boot", &boot));
        }
        if !first {
            fields.push(("head", &opened.head));
        }
        if boots && opened.open > 0 {
            fields.push(("unfinished", &opened.open));
        }
        (general(Kind::LogStart.name(), &fields), boots)
    }

    fn wait(&mut self, time: u64, event: GeneralEvent) -> Result<Head, AppendError> {
        let bytes = self.waiting_bytes.saturating_add(size(&event));
        let spared = Kind::is_spared(&event.kind);
        let most = if spared { WAITING.saturating_add(SPARED) } else { WAITING };
        if self.waiting.len() < most && bytes <= WAITING_BYTES {
            self.waiting.push_back((time, event));
            self.waiting_bytes = bytes;
            return Ok(Head::default());
        }
        if spared {
            return Err(AppendError::Place(Fault::Locked));
        }
        self.lost = self.lost.saturating_add(1);
        Ok(Head::default())
    }
}

/// Bytes of an event's texts.
fn size(event: &GeneralEvent) -> usize {
    let fields = event.fields.iter().flat_map(|field| [field.name.len(), field.value.len()]);
    [event.kind.len(), event.session.len(), event.principal.len()]
        .into_iter()
        .chain(fields)
        .fold(64, usize::saturating_add)
}
