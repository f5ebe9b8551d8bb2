//! What of a session is not in the audit log yet, and the calls that outlast their turn.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_schema::audit::{GeneralEvent, Phase, ToolEvent};

use crate::evidence::excerpt;
use crate::limits::Bounds;
use crate::signal::Signal;
use crate::world::{Audit, AuditError, field};

/// Records of calls without an effect that are kept; more are only counted. Ends of effects are always kept: none begins
/// while any record waits, so there are no more of them than calls that run at one time.
const MOST: usize = 256;

#[derive(Clone)]
enum Record {
    Tool(Box<ToolEvent>),
    General(GeneralEvent),
}

struct Waiting {
    record: Record,
    /// Whether the log may have it already, from a time when its answer did not come.
    sent: bool,
}

/// The pending records of a session, which the audit log does not have yet, and how many bytes the session may still add there.
/// All conversations of a session share one: the next turn of any of them writes the pending records.
pub struct Backlog {
    waiting: RefCell<VecDeque<Waiting>>,
    /// Records that there was no room for, and those that the log will never take.
    lost: Cell<u64>,
    /// Set while somebody writes: records are written in their order, and each once.
    writing: RefCell<Option<Signal>>,
    running: Cell<usize>,
    /// Records that the log may have taken without answering.
    unsettled: Cell<usize>,
    /// Bytes that models may still leave in the log in this session without the person's word.
    pub(crate) evidence: Rc<Cell<usize>>,
    /// The person was told that a change of a file is not kept.
    pub(crate) unkept: Cell<bool>,
}

impl Default for Backlog {
    fn default() -> Self {
        let (waiting, lost, writing, running, unsettled, unkept) = Default::default();
        let evidence = Rc::new(Cell::new(Bounds::default().session_evidence));
        Self { waiting, lost, writing, running, unsettled, evidence, unkept }
    }
}

/// As long as it lives, nothing is written and nothing runs.
pub(crate) struct Hold(Rc<Backlog>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.unsettled.set(self.0.unsettled.get().saturating_sub(1));
    }
}

impl Backlog {
    /// How many calls still run although their turn is over, or whose records are still being written.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.get()
    }

    /// How many records wait for the log.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    pub(crate) fn begin(&self) {
        self.running.set(self.running.get().saturating_add(1));
    }

    pub(crate) fn end(&self) {
        self.running.set(self.running.get().saturating_sub(1));
    }

    /// Nothing may go on until a record that the log may have taken is accounted for.
    pub(crate) fn hold(self: &Rc<Self>) -> Hold {
        self.unsettled.set(self.unsettled.get().saturating_add(1));
        Hold(self.clone())
    }

    /// Keeps a record of a call, which will be marked as late. `sent` says that the log may have one of the call already,
    /// in whose place this one would be.
    pub(crate) fn add(&self, event: &ToolEvent, sent: bool) {
        if event.phase == Phase::After || self.waiting() < MOST {
            let mut event = ToolEvent { late: true, ..event.clone() };
            // A call that was about to run has its arguments whole; now it has not run.
            excerpt(&mut event, None);
            self.waiting.borrow_mut().push_back(Waiting { record: Record::Tool(Box::new(event)), sent });
        } else {
            self.lost.set(self.lost.get().saturating_add(1));
        }
    }

    /// Keeps another record, which will be marked as late.
    pub(crate) fn add_general(&self, mut event: GeneralEvent) {
        if self.waiting() < MOST {
            event.fields.push(field("late", "true"));
            self.waiting.borrow_mut().push_back(Waiting { record: Record::General(event), sent: false });
        } else {
            self.lost.set(self.lost.get().saturating_add(1));
        }
    }

    /// Writes what waits, oldest first.
    ///
    /// # Errors
    /// The log takes no records; what was not written waits on.
    pub async fn write(&self, audit: &impl Audit, session: &str, principal: &str) -> Result<(), AuditError> {
        if self.unsettled.get() > 0 {
            let why = "it has not acknowledged an earlier record yet".to_string();
            return Err(AuditError::Unavailable(why));
        }
        let _turn = self.turn().await;
        while let Some((record, sent)) = self.next() {
            let (written, once) = match &record {
                Record::Tool(event) => (audit.tool(event).await, true),
                Record::General(event) => (audit.general(event).await, false),
            };
            match written {
                Ok(_) => {}
                // The log has it already and takes no second one.
                Err(AuditError::Refused(_)) if sent && once => {}
                // It will never take it; at least it shall say that there was one.
                Err(AuditError::Refused(_)) => self.lost.set(self.lost.get().saturating_add(1)),
                Err(gone) => return Err(gone),
            }
            self.waiting.borrow_mut().pop_front();
        }
        if self.lost.get() > 0 {
            let fields = Vec::from([field("records", self.lost.get().to_string())]);
            let (kind, session, principal) = ("records.lost".to_string(), session.to_string(), principal.to_string());
            audit.general(&GeneralEvent { kind, session, principal, fields }).await?;
            self.lost.set(0);
        }
        Ok(())
    }

    /// The oldest record, which is sent now, and whether it may have been before. It stays until it is written, whatever
    /// becomes of who writes it.
    fn next(&self) -> Option<(Record, bool)> {
        let mut waiting = self.waiting.borrow_mut();
        let oldest = waiting.front_mut()?;
        Some((oldest.record.clone(), core::mem::replace(&mut oldest.sent, true)))
    }

    /// Waits until no other writer is left.
    async fn turn(&self) -> Turn<'_> {
        loop {
            let other = self.writing.borrow().clone();
            match other {
                Some(other) => other.wait().await,
                None => break,
            }
        }
        *self.writing.borrow_mut() = Some(Signal::default());
        Turn(self)
    }
}

/// Ends its holder's turn to write when it is dropped.
struct Turn<'a>(&'a Backlog);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let done = self.0.writing.borrow_mut().take();
        if let Some(done) = done {
            done.set();
        }
    }
}
