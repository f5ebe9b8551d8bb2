//! The journal and its clock.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::{Cell, RefCell};

use capos_async_lock::{AsyncMutex, AsyncMutexGuard};
use capos_audit::{AppendError, Event, Head, Journal, Life, Lost, Reader, Room, Written};
use capos_keyspace::{Fault, Layered};
use capos_rt::{Clock, Error};
use capos_schema::audit::{
    AuditFile, AuditLogServer, AuditReaderClient, AuditWriterClient, AuditWriterToolResults, GeneralEvent,
    GeneralEventField, ToolEvent,
};
use capos_schema::cap::{CallContext, CallError, Export};
use capos_schema::storage::DirectoryClient;
use capos_schema::store::NamespaceClient;

use crate::writer::Writer;
use crate::{outside, reader};

/// The longest name of a source.
const MAX_SOURCE: usize = 64;
/// How long a record waits for a store that has ended, in nanoseconds. Its supervisor starts it again.
const PATIENCE: u64 = 10_000_000_000;
/// By how much the wall clock differs after it was set, in nanoseconds.
const SET: u64 = 1_000_000_000;
/// How long until the store is asked again.
const PAUSE: u64 = 50_000_000;

/// The log.
pub struct Log {
    /// Records are written one after another.
    turn: Rc<AsyncMutex>,
    /// One file with records is written at a time.
    outside: Rc<AsyncMutex>,
    journal: RefCell<Journal<NamespaceClient>>,
    reader: Reader<Layered<NamespaceClient>>,
    place: NamespaceClient,
    clock: Clock,
    /// Nanoseconds from 1970 to boot.
    boot: Cell<u64>,
    exporter: Rc<dyn Export>,
}

impl Log {
    /// A log whose records are kept in this place. Before this life of the process it had `earlier` ones in this boot.
    ///
    /// # Errors
    /// The timer does not tell the time.
    pub fn new(
        place: NamespaceClient,
        room: Room,
        earlier: u64,
        clock: Clock,
        exporter: Rc<dyn Export>,
    ) -> Result<Self, Error> {
        let (now, since) = (clock.wall_clock()?.saturating_mul(1_000_000), clock.now());
        let boot = now.saturating_sub(since);
        let journal = Journal::new(place.clone(), room, Life { earlier, boot, start: now });
        let (turn, reader, journal) = (Rc::default(), journal.stored().reader(), RefCell::new(journal));
        Ok(Self { turn, outside: Rc::default(), journal, reader, place, clock, boot: Cell::new(boot), exporter })
    }

    /// The time, finer than the wall clock tells it. If that was set, this follows.
    fn now(&self) -> u64 {
        let now = self.clock.now();
        let told = self.boot.get().saturating_add(now);
        match self.clock.wall_clock().map(|milliseconds| milliseconds.saturating_mul(1_000_000)) {
            Ok(wall) if wall.abs_diff(told) > SET => {
                self.boot.set(wall.saturating_sub(now));
                wall
            }
            _ => told,
        }
    }

    /// Records what waits as soon as the volume is open.
    pub async fn begin(&self) {
        loop {
            match self.work(None).await {
                Err(AppendError::Place(Fault::Locked | Fault::Lost(_))) => {}
                Err(error) => return capos_rt::log::error!("{error}"),
                Ok(_) => return,
            }
            // It ends early with the store.
            if self.place.opened().await.is_err() {
                self.clock.sleep(PAUSE).await;
            }
        }
    }

    /// Appends an event that is not about a tool call.
    ///
    /// # Errors
    /// The log does not take it, or the event is none.
    pub async fn append(&self, event: GeneralEvent) -> Result<Head, CallError> {
        self.work(Some(Event::General(event))).await.map_err(refused)
    }

    /// The same, with the service that it comes from.
    ///
    /// # Errors
    /// The log does not take it, or the event is none.
    pub async fn append_from(&self, source: &str, mut event: GeneralEvent) -> Result<Head, CallError> {
        event.fields.push(GeneralEventField { name: String::from("source"), value: String::from(source) });
        self.append(event).await
    }

    /// Appends an event about a tool call.
    ///
    /// # Errors
    /// The log does not take it, or the event contradicts the log.
    pub async fn append_tool(&self, event: ToolEvent) -> Result<AuditWriterToolResults, CallError> {
        let head = self.work(Some(Event::Tool(event.into()))).await.map_err(refused)?;
        Ok(AuditWriterToolResults { sequence: head.sequence, hash: head.hash.to_vec() })
    }

    /// A reader of the records.
    pub fn reader(&self) -> Reader<Layered<NamespaceClient>> {
        self.reader.clone()
    }

    /// No other file with records is written while this is held.
    pub async fn outside(&self) -> AsyncMutexGuard {
        self.outside.lock().await
    }

    /// Nothing is appended while this is held.
    pub async fn turn(&self) -> AsyncMutexGuard {
        self.turn.lock().await
    }

    /// Removes all records, which a file has, and records that. The caller has the turn.
    ///
    /// # Errors
    /// They are not removed.
    #[expect(clippy::await_holding_refcell_ref, reason = "the mutex admits one task at a time")]
    pub async fn remove(&self, name: &str, file: &Written) -> Result<Head, CallError> {
        let mut journal = self.journal.borrow_mut();
        let (time, until) = (self.now(), self.clock.now().saturating_add(PATIENCE));
        loop {
            match journal.archive(time, name, file).await {
                Err(AppendError::Place(Fault::Lost(_))) if self.clock.now() < until => self.clock.sleep(PAUSE).await,
                done => return done.map_err(refused),
            }
        }
    }

    /// Records which records the disk has lost.
    ///
    /// # Errors
    /// The log does not take it.
    #[expect(clippy::await_holding_refcell_ref, reason = "the mutex admits one task at a time")]
    pub async fn append_lost(&self, lost: &[Lost], why: &str) -> Result<Head, CallError> {
        let _turn = self.turn.lock().await;
        let time = self.now();
        self.journal.borrow_mut().append_lost(time, lost, why).await.map_err(refused)
    }

    /// Appends an event after what waits, or nothing else. If the store ends meanwhile, this is done again when it is back.
    #[expect(clippy::await_holding_refcell_ref, reason = "the mutex admits one task at a time")]
    async fn work(&self, event: Option<Event>) -> Result<Head, AppendError> {
        let _turn = self.turn.lock().await;
        let mut journal = self.journal.borrow_mut();
        let time = self.now();
        let until = self.clock.now().saturating_add(PATIENCE);
        loop {
            let done = match &event {
                Some(event) => journal.append(time, event.clone()).await,
                None => journal.ready().await.map(|()| Head::default()),
            };
            if let Some(warning) = journal.take_warning() {
                capos_rt::log::warning!("{warning}");
            }
            match done {
                Err(AppendError::Place(Fault::Lost(_))) if self.clock.now() < until => self.clock.sleep(PAUSE).await,
                done => return done,
            }
        }
    }
}

fn refused(error: AppendError) -> CallError {
    match error {
        // While the volume is locked nothing is wrong.
        AppendError::Place(Fault::Locked) | AppendError::Share { .. } => CallError::overloaded(format!("{error}")),
        AppendError::Full { .. } | AppendError::Place(_) => {
            capos_rt::log::error!("{error}");
            CallError::overloaded(format!("{error}"))
        }
        AppendError::Invalid(_) => CallError::invalid_argument(format!("{error}")),
    }
}

/// The log as an object: makes writers and readers.
pub struct AuditObject(pub Rc<Log>);

impl AuditLogServer for AuditObject {
    async fn writer(&self, _cx: &CallContext, source: String) -> Result<AuditWriterClient, CallError> {
        if source.is_empty() || source.len() > MAX_SOURCE {
            return Err(CallError::invalid_argument("a source is the id of a session, 1 to 64 bytes"));
        }
        AuditWriterClient::serve(&self.0.exporter, Rc::new(Writer::session(self.0.clone(), source)))
    }

    async fn reader(&self, _cx: &CallContext) -> Result<AuditReaderClient, CallError> {
        AuditReaderClient::serve(&self.0.exporter, Rc::new(reader::Reader::new(self.0.reader())))
    }

    async fn export_to(
        &self,
        _cx: &CallContext,
        folder: DirectoryClient,
        name: String,
    ) -> Result<AuditFile, CallError> {
        outside::export(&self.0, folder, name).await
    }

    async fn archive(&self, _cx: &CallContext, folder: DirectoryClient, name: String) -> Result<AuditFile, CallError> {
        outside::archive(&self.0, folder, name).await
    }
}
