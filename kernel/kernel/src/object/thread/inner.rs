//! What of a thread is locked together: its rings, its operations in flight, and what it waits for.

use alloc::sync::{Arc, Weak};

use capos_abi::CapId;
use capos_abi::entry::EntryWords;
use capos_captable::NodeId;

use crate::object::account::Charge;
use crate::object::address_space::Showing;
use crate::object::memory::MemoryObject;
use crate::object::memory::cache::Eviction;
use crate::object::memory::page_request::PageIn;
use crate::object::memory::partial_copy::PartialCopy;
use crate::object::operation::{Enter, Kind, Operations, Outcome, Ticket};
use crate::object::ring::{Corrupt, Ring};
use crate::object::thread::{Rings, Stopping};

/// What a thread has only while it lives.
pub(super) struct Body {
    pub(super) ring: Ring,
    pub(super) ring_memory: Arc<MemoryObject>,
    pub(super) operations: Operations,
    pub(super) _charge: Charge,
    pub(super) _bookkeeping: Charge,
}

/// What of a thread is locked together.
pub struct Inner {
    pub(super) body: Option<Body>,
    /// The request for a page that it waits for, or waited for last.
    pub(super) page: Weak<PageIn>,
    /// Unread completions that the thread waits for; 0 where it does not wait for any.
    pub(super) wanted: u32,
    /// When it stops waiting for them.
    pub(super) deadline: Option<(u64, u64)>,
    /// An ENTER that continues when the thread next runs.
    pub(super) resume: Option<Enter>,
    /// What is done of the entry that it works on.
    pub(super) unfinished: Option<Unfinished>,
    /// How far its end has come.
    pub(super) stopping: Stopping,
}

/// What is done of an entry that takes several [steps](crate::cpu::budget).
#[derive(Debug)]
pub enum Unfinished {
    /// A new memory object that has not all of its frames yet.
    Memory(Arc<MemoryObject>),
    /// A mapping whose pages are not all entered yet.
    Mapping(Showing),
    /// What is copied, and a copy that is not done.
    Copy(Arc<MemoryObject>, PartialCopy),
    /// The rings of a new thread, which have not all that they need yet.
    Rings(Rings),
    /// How far the pages of paged memory are given up.
    Eviction(Eviction),
    /// The capability that is revoked, and how many have gone with it.
    Revocation(NodeId, u32),
}

/// An entry that was taken out of the ring.
#[derive(Debug)]
pub struct Taken {
    pub words: EntryWords,
    /// There are others behind it.
    pub more: bool,
}

/// Whether a thread continues; then the deadline of its wait, which is over.
pub type Awake = Option<Option<(u64, u64)>>;

impl Inner {
    /// Takes the next entry. `None` where there is none, or no room for its answer.
    ///
    /// # Errors
    /// An index is corrupt.
    #[inline(always)]
    pub fn take_entry(&mut self) -> Result<Option<Taken>, Corrupt> {
        let Some(Body { ring, operations, .. }) = &mut self.body else { return Ok(None) };
        let pending = ring.pending()?;
        if pending == 0 {
            return Ok(None);
        }
        // Neither is more than a ring is long.
        let reserved = operations.len().wrapping_add(ring.unread()?);
        if reserved >= ring.completion_entries() {
            return Ok(None);
        }
        let words = ring.entry();
        ring.advance();
        Ok(Some(Taken { words, more: pending > 1 }))
    }

    /// Answers an entry at once.
    #[inline(always)]
    pub fn post(&mut self, user_data: u64, outcome: impl Into<Outcome>) {
        if let Some(body) = &mut self.body {
            body.ring.post(&outcome.into().completion(user_data));
        }
    }

    /// Starts to wait for `minimum` unread completions. False where they are there.
    ///
    /// # Errors
    /// An index is corrupt.
    #[inline(always)]
    pub(super) fn begin_wait(&mut self, minimum: u32) -> Result<bool, Corrupt> {
        let Some(body) = &self.body else { return Ok(false) };
        let wanted = minimum.min(body.ring.completion_entries());
        if body.ring.unread()? >= wanted {
            return Ok(false);
        }
        self.wanted = wanted;
        Ok(true)
    }

    /// The one entry that waits to be taken, of a thread that has read all completions. `None` where that is not so, or there is no
    /// room for its answer.
    #[inline(always)]
    pub fn lone_entry(&self) -> Option<EntryWords> {
        let Body { ring, operations, .. } = self.body.as_ref()?;
        let may = ring.has_one() && ring.is_read() && operations.len() < ring.completion_entries();
        may.then(|| ring.entry())
    }

    /// Whether it waits for one completion, for as long as that takes, and has read all others.
    #[inline(always)]
    pub fn waits_for_one(&self) -> bool {
        self.wanted == 1 && self.deadline.is_none() && self.body.as_ref().is_some_and(|body| body.ring.is_read())
    }

    /// Takes the entry that [`Inner::lone_entry`] has found: an operation is in flight that lies elsewhere, and the thread waits for
    /// one completion.
    #[inline(always)]
    pub fn begin_to_wait(&mut self) {
        if let Some(Body { ring, operations, .. }) = &mut self.body {
            ring.advance();
            operations.hold_place();
        }
        self.wanted = 1;
    }

    /// Ends an operation that lies elsewhere, for which the thread [waits](Inner::waits_for_one): it waits no longer.
    #[inline(always)]
    pub fn end_wait(&mut self, outcome: Outcome, user_data: u64) {
        if let Some(Body { ring, operations, .. }) = &mut self.body {
            ring.post(&outcome.completion(user_data));
            operations.let_go_of_place();
        }
        self.wanted = 0;
    }

    /// The tag of an operation in flight, and the capability that it goes through.
    pub fn entry_of(&mut self, ticket: Ticket) -> Option<(u64, CapId)> {
        let operation = self.body.as_mut()?.operations.get_mut(ticket)?;
        Some((operation.user_data, operation.cap))
    }

    /// Takes an operation out, to lie elsewhere while it is in flight.
    pub fn lend_operation(&mut self, ticket: Ticket) {
        if let Some(Body { operations, .. }) = &mut self.body
            && let Some(ended) = operations.end(ticket)
        {
            drop(ended);
            operations.hold_place();
        }
    }

    /// Puts an operation that lay elsewhere back.
    pub fn return_operation(&mut self, user_data: u64, cap: CapId, kind: impl FnOnce() -> Kind) -> Option<Ticket> {
        let operations = &mut self.body.as_mut()?.operations;
        operations.let_go_of_place();
        operations.begin(user_data, cap, kind)
    }

    /// The ticket that its next operation gets. `None` where it is dead, or has no place for one.
    #[inline]
    pub fn next_ticket(&self) -> Option<Ticket> {
        self.body.as_ref()?.operations.next_ticket()
    }

    /// As [`Thread::begin`](super::Thread::begin).
    #[inline(always)]
    pub fn begin(&mut self, user_data: u64, cap: CapId, kind: impl FnOnce() -> Kind) -> Option<Ticket> {
        self.body.as_mut()?.operations.begin(user_data, cap, kind)
    }

    /// As [`Operations::plain`].
    #[inline(always)]
    pub fn plain(&self, ticket: Ticket) -> Option<&Kind> {
        self.body.as_ref()?.operations.plain(ticket)
    }

    /// Ends an operation that [`Inner::plain`] has found, with an answer.
    ///
    /// # Errors
    /// As [`Inner::enough`].
    #[inline(always)]
    pub fn end_plain(&mut self, ticket: Ticket, outcome: Outcome) -> Result<Awake, Corrupt> {
        if let Some(body) = &mut self.body
            && let Some(user_data) = body.operations.end_plain(ticket)
        {
            body.ring.post(&outcome.completion(user_data));
        }
        self.enough()
    }

    /// Whether what the thread waits for is there; then it does not wait any more, and the deadline
    /// of its wait is given.
    ///
    /// # Errors
    /// Its rings are corrupt: it is to die of that, once nothing of it is locked.
    #[inline(always)]
    pub(super) fn enough(&mut self) -> Result<Awake, Corrupt> {
        if self.wanted == 0 {
            return Ok(None);
        }
        let Some(body) = self.body.as_ref() else { return Ok(None) };
        if body.ring.unread()? < self.wanted {
            return Ok(None);
        }
        self.wanted = 0;
        Ok(Some(self.deadline.take()))
    }
}
