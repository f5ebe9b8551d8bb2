//! The chain and its clock.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::RefCell;

use capos_audit::{AppendError, Chain, Head};
use capos_rt::{Clock, Error};
use capos_schema::audit::{
    AuditLogServer, AuditReaderClient, AuditWriterClient, AuditWriterToolResults, GeneralEvent, GeneralEventField,
    ToolEvent,
};
use capos_schema::cap::{CallContext, CallError, Export};

use crate::reader::Reader;
use crate::writer::Writer;

/// The longest name of a source.
const MAX_SOURCE: usize = 64;

/// The log.
pub struct Log {
    chain: RefCell<Chain>,
    clock: Clock,
    /// Nanoseconds from 1970 to boot.
    boot: u64,
    exporter: Rc<dyn Export>,
}

impl Log {
    /// A log around a chain.
    ///
    /// # Errors
    /// The timer does not tell the time.
    pub fn new(chain: Chain, clock: Clock, exporter: Rc<dyn Export>) -> Result<Rc<Self>, Error> {
        let now = clock.wall_clock()?.saturating_mul(1_000_000);
        let boot = now.saturating_sub(clock.now());
        Ok(Rc::new(Self { chain: RefCell::new(chain), clock, boot, exporter }))
    }

    fn now(&self) -> u64 {
        self.boot.saturating_add(self.clock.now())
    }

    /// Appends an event that is not about a tool call.
    ///
    /// # Errors
    /// The log is full, or the event is none.
    pub fn append(&self, event: GeneralEvent) -> Result<Head, CallError> {
        self.chain.borrow_mut().append_general(self.now(), event).map_err(refused)
    }

    /// The same, with the service that it comes from.
    ///
    /// # Errors
    /// The log is full, or the event is none.
    pub fn append_from(&self, source: &str, mut event: GeneralEvent) -> Result<Head, CallError> {
        event.fields.push(GeneralEventField { name: String::from("source"), value: String::from(source) });
        self.append(event)
    }

    /// Appends an event about a tool call.
    ///
    /// # Errors
    /// The log is full, or the event contradicts the log.
    pub fn append_tool(&self, event: ToolEvent) -> Result<AuditWriterToolResults, CallError> {
        let head = self.chain.borrow_mut().append_tool(self.now(), event).map_err(refused)?;
        Ok(AuditWriterToolResults { sequence: head.sequence, hash: head.hash.to_vec() })
    }

    /// Looks at the chain.
    pub fn with<R>(&self, look: impl FnOnce(&Chain) -> R) -> R {
        look(&self.chain.borrow())
    }
}

fn refused(error: AppendError) -> CallError {
    match error {
        AppendError::Full { .. } | AppendError::Place(_) => {
            capos_rt::log::error!("{error}");
            CallError::overloaded(format!("{error}"))
        }
        // Other calls continue, and this caller is told.
        AppendError::Share { .. } => CallError::overloaded(format!("{error}")),
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
        AuditReaderClient::serve(&self.0.exporter, Rc::new(Reader::new(self.0.clone())))
    }
}
