//! Operations in flight: entries that were taken and not answered yet.
//!
//! Each thread has a fixed number of places for them, one per completion, so starting one allocates
//! nothing and its completion always finds room.

use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, EntryWords};
use capos_abi::{CapId, Completion, CompletionKind, MessageHeader, Status};
use capos_captable::{ListKey, NodeId, QueueKey};

use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::object::ending::Ending;
use crate::object::endpoint::{Client, Endpoint};
use crate::object::memory::partial_copy::Copying;
use crate::object::notification::Notification;
use crate::object::thread::Thread;

/// Names an operation of a thread as long as it is in flight, and nothing afterwards: who kept the ticket
/// of one that has ended can never mean a later one with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    place: u32,
    generation: u64,
}

/// An operation of a thread, from anywhere.
#[derive(Clone, Debug)]
pub struct OperationRef {
    pub thread: Arc<Thread>,
    pub ticket: Ticket,
}

/// An operation in flight.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The entry's tag.
    pub user_data: u64,
    /// The capability that it goes through.
    pub cap: CapId,
    /// Its place in the derivation forest, once that capability was given away or released.
    pub attachment: Option<NodeId>,
    /// Of a call: the wait of who received it, which ends with the call.
    pub watcher: Option<OperationRef>,
    pub kind: Kind,
}

/// What is left of an operation that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The entry's tag.
    pub user_data: u64,
    /// See [`Operation::attachment`].
    pub attachment: Option<NodeId>,
    /// See [`Operation::watcher`].
    pub watcher: Option<OperationRef>,
    /// What it waited for; may be left out for a delivered call, which nothing has to forget.
    pub kind: Option<Kind>,
}

/// What it waits for.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A call that is queued at an endpoint.
    Queued { call: Call, client: Client, key: ListKey },
    /// A call that a server or the kernel works on.
    Delivered { call: Call },
    /// A sleep; the key is its place among the deadlines.
    Sleep { call: Call, deadline: (u64, u64) },
    /// Waits for the end of a process or of a thread.
    End { call: Call, ending: Arc<Ending>, key: ListKey },
    /// Waits for a line in the kernel's log.
    Log { call: Call, position: u64, key: ListKey },
    /// Waits for pages that it copies.
    Copy { call: Call, copying: Arc<Copying> },
    /// A buffer offered to an endpoint.
    Receive { endpoint: Arc<Endpoint>, buffer: Buffer, caps: CapArray, key: Option<ListKey> },
    /// Waits for bits of a notification.
    Wait { notification: Arc<Notification>, key: ListKey },
    /// Waits until no thread waits for the answer to a received call any more.
    Watch { call: OperationRef },
    /// Waits for a word of its process's memory to be woken; the key is known once it is queued.
    Word { address: u64, key: Option<QueueKey> },
}

/// What is kept of a CALL entry.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub interface: u64,
    pub method: u16,
    pub params: Buffer,
    pub results: Buffer,
    pub caps: CapArray,
}

impl Call {
    /// The bytes of its message with the header, if they fit a receiver's buffer.
    #[inline(always)]
    pub fn received(&self, buffer: Buffer) -> Option<u32> {
        let length = self.params.length.checked_add(MessageHeader::SIZE as u32)?;
        (length <= buffer.length).then_some(length)
    }

    /// The header of its message, for the receiver that answers it by this Reply.
    #[inline(always)]
    pub fn header(&self, badge: u64, reply: CapId) -> MessageHeader {
        MessageHeader {
            badge,
            interface: self.interface,
            reply: reply.0,
            method: self.method,
            caps: self.caps.sent,
            length: self.params.length,
            results_capacity: self.results.length,
            caps_accepted: self.caps.accepted,
        }
    }
}

#[derive(Debug)]
struct Place {
    /// Counts the operations that were here: with 64 bits, more than a machine ever carries out.
    generation: u64,
    /// The next free place, or the next in flight of the same bucket.
    next: u32,
    previous: u32,
    operation: Option<Operation>,
    /// Whether it was a call when it began, and so was counted: its kind may change before it ends.
    counted: bool,
}

const NIL: u32 = u32::MAX;
/// Places that are made as one piece of work.
const PLACES: usize = 256;

/// Bytes of the kernel's heap that an operation can take where it waits: an element of a queue that has
/// grown, or a deadline, and a node of the derivation forest.
const WAITING: usize = 176;

/// A thread's operations.
#[derive(Debug)]
pub struct Operations {
    places: Vec<Place>,
    /// First place in flight by capability: as many lists as there are places.
    buckets: Vec<u32>,
    free: u32,
    length: u32,
    /// How many of them are calls.
    calls: u32,
}

impl Operations {
    /// Room for `count` operations, without [places](Self::make_places).
    ///
    /// # Errors
    /// No memory.
    pub fn without_places(count: u32) -> Result<Self, Status> {
        let mut places = Vec::new();
        places.try_reserve_exact(count as usize).map_err(|_| Status::OutOfMemory)?;
        let mut buckets = Vec::new();
        buckets.try_reserve_exact(count as usize).map_err(|_| Status::OutOfMemory)?;
        buckets.resize(count as usize, NIL);
        Ok(Self { places, buckets, free: NIL, length: 0, calls: 0 })
    }

    /// Makes places for all operations that there is room for, as far as the budget allows. Whether there are: none begins before.
    pub fn make_places(&mut self, budget: &mut Budget) -> bool {
        self.make_places_after(0, budget)
    }

    /// The same, with places that `generation` operations each were at before.
    pub fn make_places_after(&mut self, generation: u64, budget: &mut Budget) -> bool {
        let count = self.buckets.len();
        if self.places.len() == count {
            return true;
        }
        while self.places.len() < count {
            if !budget.allows() {
                return false;
            }
            let from = self.places.len();
            let to = count.min(from.saturating_add(PLACES));
            for place in from..to {
                let next = Some(place.saturating_add(1)).filter(|next| *next < count).map_or(NIL, |next| next as u32);
                self.places.push(Place { generation, next, previous: NIL, operation: None, counted: false });
            }
            budget.spend(cost::PLACE.saturating_mul(to.saturating_sub(from) as u32));
        }
        self.free = 0;
        true
    }

    /// Frames that the bookkeeping of `count` operations takes in the kernel's heap.
    pub fn frames(count: u32) -> u64 {
        let each = const { (size_of::<Place>() + size_of::<u32>() + WAITING) as u64 };
        each.saturating_mul(u64::from(count)).div_ceil(capos_paging::PAGE)
    }

    /// Where the operations through a capability are found.
    #[inline(always)]
    fn bucket(&mut self, cap: CapId) -> Option<&mut u32> {
        // Their number is a power of two, as that of completions is.
        let last = self.buckets.len().wrapping_sub(1);
        self.buckets.get_mut(cap.index() as usize & last)
    }

    /// How many are in flight.
    #[inline]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// One more is in flight than lies here, see [`crate::syscall::bound_call`]: it has a place and a completion.
    #[inline(always)]
    pub fn hold_place(&mut self) {
        self.length = self.length.wrapping_add(1);
    }

    /// It is in flight no longer, or is to begin here.
    #[inline(always)]
    pub fn let_go_of_place(&mut self) {
        self.length = self.length.wrapping_sub(1);
    }

    /// Notes an operation through a capability; `kind` is asked once there is a place, and written there and nowhere else.
    /// `None` where there is no place; the caller has made sure that there is.
    #[inline(always)]
    pub fn begin(&mut self, user_data: u64, cap: CapId, kind: impl FnOnce() -> Kind) -> Option<Ticket> {
        let index = self.free;
        let next_free = self.places.get(index as usize)?.next;
        let first = core::mem::replace(self.bucket(cap)?, index);
        if let Some(first) = self.places.get_mut(first as usize) {
            first.previous = index;
        }
        self.free = next_free;
        let place = self.places.get_mut(index as usize)?;
        (place.next, place.previous) = (first, NIL);
        let operation =
            place.operation.insert(Operation { user_data, cap, attachment: None, watcher: None, kind: kind() });
        place.counted = operation.kind.is_call();
        self.calls = self.calls.wrapping_add(u32::from(place.counted));
        self.length = self.length.wrapping_add(1);
        Some(Ticket { place: index, generation: place.generation })
    }

    /// The operation, while it is in flight.
    #[inline]
    pub fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Operation> {
        let place = self.places.get_mut(ticket.place as usize)?;
        place.operation.as_mut().filter(|_| place.generation == ticket.generation)
    }

    /// The ticket that the next operation to begin gets. `None` where there is no place.
    #[inline(always)]
    pub fn next_ticket(&self) -> Option<Ticket> {
        let place = self.places.get(self.free as usize)?;
        Some(Ticket { place: self.free, generation: place.generation })
    }

    /// An operation in flight whose end nothing else has to be told of: none waits for its end, and it has no place of
    /// its own in the derivation forest.
    #[inline(always)]
    pub fn plain(&self, ticket: Ticket) -> Option<&Kind> {
        let place = self.places.get(ticket.place as usize)?;
        let operation = place.operation.as_ref().filter(|_| place.generation == ticket.generation)?;
        (operation.attachment.is_none() && operation.watcher.is_none()).then_some(&operation.kind)
    }

    /// Ends an operation that [`Operations::plain`] has found; its tag.
    #[inline(always)]
    pub fn end_plain(&mut self, ticket: Ticket) -> Option<u64> {
        let place = self.places.get_mut(ticket.place as usize).filter(|place| place.generation == ticket.generation)?;
        let operation = place.operation.as_ref()?;
        let (user_data, cap) = (operation.user_data, operation.cap);
        if let Operation { kind: Kind::Delivered { .. }, attachment: None, watcher: None, .. } = operation {
            // It holds nothing that would have to be dropped.
            core::mem::forget(place.operation.take());
        } else {
            place.operation = None;
        }
        self.vacate(ticket.place, cap)?;
        Some(user_data)
    }

    /// Frees the place of an operation through a capability, which was taken out of it: its tickets mean nothing any more.
    #[inline(always)]
    fn vacate(&mut self, index: u32, cap: CapId) -> Option<()> {
        let free = self.free;
        let place = self.places.get_mut(index as usize)?;
        let (next, previous) = (place.next, place.previous);
        place.generation = place.generation.wrapping_add(1);
        place.next = free;
        self.free = index;
        self.length = self.length.wrapping_sub(1);
        self.calls = self.calls.wrapping_sub(u32::from(place.counted));
        if let Some(next) = self.places.get_mut(next as usize) {
            next.previous = previous;
        }
        if let Some(previous) = self.places.get_mut(previous as usize) {
            previous.next = next;
        } else if let Some(bucket) = self.bucket(cap) {
            *bucket = next;
        }
        Some(())
    }

    /// Ends an operation.
    pub fn end(&mut self, ticket: Ticket) -> Option<Ended> {
        let place = self.places.get_mut(ticket.place as usize)?;
        if place.generation != ticket.generation {
            return None;
        }
        let operation = place.operation.as_mut()?;
        let (user_data, cap) = (operation.user_data, operation.cap);
        let (attachment, watcher) = (operation.attachment.take(), operation.watcher.take());
        // Most are calls that were delivered. They hold nothing, and are not moved.
        let kind = match operation.kind {
            Kind::Delivered { .. } => {
                place.operation = None;
                None
            }
            _ => place.operation.take().map(|operation| operation.kind),
        };
        self.vacate(ticket.place, cap)?;
        Some(Ended { user_data, attachment, watcher, kind })
    }

    /// Gives the last place up, and ends the operation there, if there is one: no operation begins any more. `None` where there is
    /// no place left.
    pub fn end_last(&mut self) -> Option<Option<(Ticket, Ended)>> {
        let place = self.places.len().checked_sub(1)?;
        let last = self.places.get(place)?;
        let ticket = Ticket { place: place as u32, generation: last.generation };
        let ended = self.end(ticket).map(|ended| (ticket, ended));
        self.places.truncate(place);
        Some(ended)
    }

    /// Gives back the memory of the places, of which [none is left](Self::end_last); how many frames that was.
    pub fn give_back(&mut self) -> u32 {
        let bytes = self.places.capacity().saturating_mul(size_of::<Place>());
        self.places = Vec::new();
        (bytes as u64 / capos_paging::PAGE) as u32
    }

    /// Operations through a capability that goes: `attach` gives each its own place in the derivation
    /// forest. Where it cannot, the operation has none, and `false` is given in the end. With `calls`,
    /// there are only calls through it.
    pub fn detach(&mut self, cap: CapId, calls: bool, mut attach: impl FnMut(Ticket) -> Option<NodeId>) -> bool {
        if self.length == 0 || (calls && self.calls == 0) {
            return true;
        }
        let mut all = true;
        let mut at = self.bucket(cap).map_or(NIL, |first| *first);
        while let Some(place) = self.places.get_mut(at as usize) {
            let ticket = Ticket { place: at, generation: place.generation };
            if let Some(operation) = place.operation.as_mut().filter(|operation| operation.cap == cap) {
                operation.attachment = attach(ticket);
                all &= operation.attachment.is_some();
            }
            at = place.next;
        }
        all
    }

    /// The first operation in flight that `matches`.
    pub fn find(&self, mut matches: impl FnMut(&Operation) -> bool) -> Option<Ticket> {
        (0_u32..).zip(&self.places).find_map(|(index, place)| {
            let found = place.operation.as_ref().is_some_and(&mut matches);
            found.then_some(Ticket { place: index, generation: place.generation })
        })
    }

    /// An operation in flight through a capability, without a place in the forest.
    pub fn through(&mut self, cap: CapId) -> Option<Ticket> {
        let mut at = self.bucket(cap).map_or(NIL, |first| *first);
        while let Some(place) = self.places.get(at as usize) {
            if place.operation.as_ref().is_some_and(|found| found.cap == cap && found.attachment.is_none()) {
                return Some(Ticket { place: at, generation: place.generation });
            }
            at = place.next;
        }
        None
    }
}

impl Kind {
    /// Whether it is a call.
    #[inline(always)]
    fn is_call(&self) -> bool {
        match self {
            Self::Queued { .. }
            | Self::Delivered { .. }
            | Self::Sleep { .. }
            | Self::End { .. }
            | Self::Log { .. }
            | Self::Copy { .. } => true,
            Self::Receive { .. } | Self::Wait { .. } | Self::Watch { .. } | Self::Word { .. } => false,
        }
    }

    /// The call, where it is one.
    pub fn call(&self) -> Option<Call> {
        match self {
            Self::Queued { call, .. }
            | Self::Delivered { call }
            | Self::Sleep { call, .. }
            | Self::End { call, .. }
            | Self::Log { call, .. }
            | Self::Copy { call, .. } => Some(*call),
            Self::Receive { .. } | Self::Wait { .. } | Self::Watch { .. } | Self::Word { .. } => None,
        }
    }
}

/// An ENTER that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Enter {
    /// Entries that may still be taken.
    pub left: u32,
    /// Entries taken.
    pub taken: u64,
    pub minimum: u32,
    pub deadline: u64,
    /// An entry that was taken and waits for a page, or of which a step is done.
    pub waiting: Option<EntryWords>,
    /// Of that one a step is done.
    pub steps: bool,
}

/// How an operation ended.
#[derive(Clone, Copy, Default, Debug)]
pub struct Outcome {
    /// 0, a negative [`Status`] or a positive exception kind.
    pub status: i32,
    /// Bytes written.
    pub length: u32,
    pub value: u64,
    /// Capabilities received.
    pub caps: u8,
}

/// How far the kernel came with an entry.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub enum Progress {
    /// It has ended. Its completion is written where it was taken from the ring, and nowhere else.
    Done(Outcome),
    /// It is in flight, or was until now: its completion is that of an operation.
    Pending,
    /// The page at this address must come in first. Nothing has happened.
    Absent(u64),
    /// A [step](crate::cpu::budget) of it is done. It is worked on again when others have had their turn.
    Unfinished,
}

impl<O: Into<Outcome>> From<O> for Progress {
    fn from(outcome: O) -> Self {
        Self::Done(outcome.into())
    }
}

impl From<Status> for Outcome {
    fn from(status: Status) -> Self {
        Self { status: status as i32, ..Self::default() }
    }
}

impl Outcome {
    /// The completion of the operation with this tag.
    #[inline(always)]
    pub fn completion(self, user_data: u64) -> Completion {
        let Self { status, length, value, caps } = self;
        Completion { user_data, status, length, value, caps, kind: CompletionKind::Done }
    }
}

impl OperationRef {
    /// A copy of the operation, while it is in flight.
    pub fn peek(&self) -> Option<Operation> {
        self.thread.peek(self.ticket)
    }

    /// Ends the operation and tells its thread. False where it had ended before.
    pub fn complete(&self, lock: &mut Exclusive, outcome: impl Into<Outcome>) -> bool {
        self.thread.complete(lock, self.ticket, outcome.into())
    }
}
