//! Operations in flight.
//!
//! Every buffer that an entry names belongs to the operation here, from before the entry is queued
//! until its completion has been read. The operation of a dropped future is cancelled, and its
//! buffers live until the kernel says that it has ended. Capabilities, or a call to answer, that
//! still came in are released.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::task::Waker;

#[cfg(any(not(capos_guest), feature = "std"))]
use capos_abi::Status;
use capos_abi::entry::EntryWords;
use capos_abi::syscall::NO_DEADLINE;
use capos_abi::{Completion, Entry, entry};
use capos_ring::message::Lent;
use capos_ring::{BLOCKING_ROOM, Ring};

use crate::pool::Pool;

/// Tag of entries without a task that waits.
const FORGOTTEN: u64 = 0;

/// Names an operation. Never 0, and never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key(u64);

impl Key {
    fn new(index: usize, generation: u32) -> Option<Self> {
        let index = u32::try_from(index).ok()?;
        Some(Self((u64::from(generation) << 32) | u64::from(index)))
    }

    /// The key with this [number](Key::number).
    #[inline]
    pub(crate) fn known(number: u64) -> Self {
        Self(number)
    }

    /// As a number, for other owners.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    fn index(self) -> usize {
        usize::try_from(self.0 & 0xffff_ffff).unwrap_or(usize::MAX)
    }

    fn generation(self) -> u32 {
        u32::try_from(self.0 >> 32).unwrap_or(0)
    }
}

/// How long an operation may take, and which operations it may delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// It ends soon.
    Prompt,
    /// It may wait long for another process.
    Slow,
    /// It waits for the end of a received call, and so for everything that that call still waits for.
    Watch,
}

impl Class {
    /// The class of an operation that is not a watch.
    pub(crate) fn of(operation: &entry::Operation) -> Self {
        match operation {
            entry::Operation::Call { .. } | entry::Operation::Wait { .. } => Self::Slow,
            _ => Self::Prompt,
        }
    }
}

/// An operation as its entry says it, with the tag still to be chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    words: EntryWords,
    class: Class,
    /// A RECV or RETURN_RECV, whose completion holds a call to answer.
    receives: bool,
}

impl Request {
    /// For an operation of this class.
    #[inline(always)]
    pub(crate) fn new(operation: entry::Operation, class: Class) -> Self {
        let receives = matches!(operation, entry::Operation::Recv { .. } | entry::Operation::ReturnRecv { .. });
        Self { words: Entry { user_data: FORGOTTEN, operation }.words(), class, receives }
    }

    #[inline]
    fn tagged(&self, tag: u64) -> EntryWords {
        let mut words = self.words;
        let [_, place, ..] = &mut words;
        *place = tag;
        words
    }
}

/// The tag of an entry.
#[inline]
fn tag(words: &EntryWords) -> u64 {
    let [_, tag, ..] = words;
    *tag
}

/// The order in which the classes get room.
const BY_URGENCY: [Class; 3] = [Class::Prompt, Class::Slow, Class::Watch];

#[derive(Debug)]
enum State {
    Waiting(Option<Waker>),
    Done(Completion),
    Abandoned,
}

#[derive(Debug)]
struct Operation {
    state: State,
    lent: Box<Lent>,
    /// A RECV or RETURN_RECV, whose completion holds a call to answer.
    receives: bool,
    class: Class,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    operation: Option<Operation>,
}

/// Runs an operation that borrows what `lent` holds to its end, without the reactor.
pub(crate) fn run(ring: &Ring, lent: Box<Lent>, request: &Request) -> (Completion, Box<Lent>) {
    // SAFETY: the memory that the operation names is kept in `lent` until it has ended.
    let completion = unsafe { ring.run_words(request.words, NO_DEADLINE) };
    (completion, lent)
}

/// The work that the end of an operation leaves for when the reactor is no longer borrowed.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A task waits for it.
    Wake(Waker),
    /// No task waits; this is what the operation held.
    Drop(Box<Lent>),
}

/// The operations of the thread.
#[derive(Debug, Default)]
pub(crate) struct Reactor {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Calls and waits that found no room yet: they may take long, so they leave a part of the
    /// ring to short operations. Else a process whose calls fill its ring could not answer the very
    /// calls that its own wait for.
    slow: VecDeque<EntryWords>,
    /// Waits for the end of received calls that found no room yet. They have a small part of the ring to
    /// themselves, so that they never keep back the calls that these calls wait for.
    watches: VecDeque<EntryWords>,
    /// Everything else that found no room in the ring yet.
    prompt: VecDeque<EntryWords>,
    /// Calls and waits among `in_flight`.
    slow_in_flight: u32,
    /// Waits for the end of received calls among `in_flight`.
    watches_in_flight: u32,
    /// Entries queued in the ring or taken by the kernel whose completion was not read yet.
    in_flight: u32,
    /// Those among `in_flight` without a task that waits. They complete as soon as they are taken.
    forgotten: u32,
    /// Operations with a future that waits.
    waited_for: u32,
    /// Completions of entries that the program sent itself, by [`crate::raw`].
    pub(crate) raw: VecDeque<Completion>,
    pub(crate) pool: Pool,
}

impl Reactor {
    /// Starts an operation, and wakes `waker` when it has ended. `None` if 2^32 are in flight.
    pub(crate) fn start(
        &mut self,
        ring: &Ring,
        lent: Box<Lent>,
        request: &Request,
        waker: Option<Waker>,
    ) -> Option<Key> {
        let Request { class, receives, .. } = *request;
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot { generation: 0, operation: None });
                self.slots.len().checked_sub(1)?
            }
        };
        let slot = self.slots.get_mut(index)?;
        // The highest bit stays clear: tags above belong to other users of the ring.
        slot.generation = slot.generation.wrapping_add(1) & 0x7fff_ffff;
        if slot.generation == 0 {
            slot.generation = 1;
        }
        let key = Key::new(index, slot.generation)?;
        slot.operation = Some(Operation { state: State::Waiting(waker), lent, receives, class });
        self.waited_for = self.waited_for.wrapping_add(1);
        self.queue(ring, request.tagged(key.0), class);
        Some(key)
    }

    /// Queues an entry whose completion no task waits for. It must lend nothing.
    pub(crate) fn forget(&mut self, ring: &Ring, operation: entry::Operation) {
        self.queue(ring, Request::new(operation, Class::Prompt).words, Class::Prompt);
    }

    fn backlog(&mut self, class: Class) -> &mut VecDeque<EntryWords> {
        match class {
            Class::Prompt => &mut self.prompt,
            Class::Slow => &mut self.slow,
            Class::Watch => &mut self.watches,
        }
    }

    #[inline(always)]
    fn queue(&mut self, ring: &Ring, entry: EntryWords, class: Class) {
        // Mostly nothing waits for room, and there is some.
        if self.is_caught_up() && self.submit(ring, &entry, class) {
            return;
        }
        self.queue_behind(ring, entry, class);
    }

    #[inline(never)]
    fn queue_behind(&mut self, ring: &Ring, entry: EntryWords, class: Class) {
        self.backlog(class).push_back(entry);
        self.refill(ring);
    }

    /// Whether no entry waits for room.
    #[inline]
    fn is_caught_up(&self) -> bool {
        self.prompt.is_empty() && self.slow.is_empty() && self.watches.is_empty()
    }

    /// Whether the ring takes one more operation of a class.
    fn has_room(&self, ring: &Ring, class: Class) -> bool {
        // The allocator calls the kernel at any time.
        let room = ring.completion_entries().saturating_sub(BLOCKING_ROOM);
        // Three quarters for calls, an eighth for buffers that wait for calls, an eighth for watches:
        // operations that end at once always find a place.
        self.in_flight < room
            && match class {
                Class::Prompt => true,
                Class::Slow => self.slow_in_flight < room / 4 * 3,
                Class::Watch => self.watches_in_flight < room / 8,
            }
    }

    #[inline(always)]
    fn submit(&mut self, ring: &Ring, entry: &EntryWords, class: Class) -> bool {
        // SAFETY: the memory that the entry names belongs to its operation, until its completion has been read.
        if !self.has_room(ring, class) || !unsafe { ring.push_words(entry) } {
            return false;
        }
        // None is more than the ring has places.
        self.in_flight = self.in_flight.wrapping_add(1);
        match class {
            Class::Prompt => {}
            Class::Slow => self.slow_in_flight = self.slow_in_flight.wrapping_add(1),
            Class::Watch => self.watches_in_flight = self.watches_in_flight.wrapping_add(1),
        }
        if tag(entry) == FORGOTTEN {
            self.forgotten = self.forgotten.wrapping_add(1);
        }
        true
    }

    /// Moves what waits for room into the ring.
    #[inline]
    pub(crate) fn refill(&mut self, ring: &Ring) {
        if !self.is_caught_up() {
            self.fill(ring);
        }
    }

    #[inline(never)]
    fn fill(&mut self, ring: &Ring) {
        for class in BY_URGENCY {
            while let Some(entry) = self.backlog(class).front().copied() {
                if !self.submit(ring, &entry, class) {
                    break;
                }
                self.backlog(class).pop_front();
            }
        }
    }

    /// Entries in the ring that complete at once and are not worth waking for.
    pub(crate) fn forgotten(&self) -> u32 {
        self.forgotten
    }

    /// Whether entries wait for room that the kernel makes by taking others.
    #[inline]
    pub(crate) fn has_backlog(&self, ring: &Ring) -> bool {
        !self.is_caught_up()
            && ((!self.prompt.is_empty() && self.has_room(ring, Class::Prompt))
                || (!self.slow.is_empty() && self.has_room(ring, Class::Slow))
                || (!self.watches.is_empty() && self.has_room(ring, Class::Watch)))
    }

    /// How many futures wait for a completion.
    pub(crate) fn waited_for(&self) -> u32 {
        self.waited_for
    }

    fn operation(&mut self, key: Key) -> Option<&mut Operation> {
        let slot = self.slots.get_mut(key.index())?;
        if slot.generation == key.generation() { slot.operation.as_mut() } else { None }
    }

    fn remove(&mut self, key: Key) -> Option<Operation> {
        let slot = self.slots.get_mut(key.index())?;
        if slot.generation != key.generation() {
            return None;
        }
        let operation = slot.operation.take()?;
        self.free.push(key.index());
        Some(operation)
    }

    /// The completion and its memory, once the operation has ended; until then it remembers the
    /// waker.
    #[inline(always)]
    pub(crate) fn poll(&mut self, key: Key, waker: &Waker) -> Option<(Completion, Box<Lent>)> {
        let operation = self.operation(key)?;
        match &mut operation.state {
            State::Done(completion) => {
                let completion = *completion;
                let operation = self.remove(key)?;
                Some((completion, operation.lent))
            }
            State::Waiting(known) => {
                if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
                    *known = Some(waker.clone());
                }
                None
            }
            State::Abandoned => None,
        }
    }

    /// Cancels an operation. Returns what can be dropped at once, with the completion if it had
    /// already come.
    pub(crate) fn abandon(&mut self, ring: &Ring, key: Key) -> Option<(Box<Lent>, Option<Completion>, bool)> {
        let operation = self.operation(key)?;
        if let State::Done(completion) = operation.state {
            let operation = self.remove(key)?;
            return Some((operation.lent, Some(completion), operation.receives));
        }
        let class = operation.class;
        self.waited_for = self.waited_for.saturating_sub(1);
        let is_it = |entry: &EntryWords| tag(entry) == key.0;
        let backlog = self.backlog(class);
        if let Some(at) = backlog.iter().position(is_it) {
            backlog.remove(at);
            let operation = self.remove(key)?;
            return Some((operation.lent, None, false));
        }
        if let Some(operation) = self.operation(key) {
            operation.state = State::Abandoned;
        }
        self.forget(ring, entry::Operation::Cancel { target: key.0 });
        None
    }

    /// Cancels all that futures still wait for. They learn of it when they are polled again.
    #[cfg(any(not(capos_guest), feature = "std"))]
    pub(crate) fn cancel_all(&mut self, ring: &Ring) {
        let status = Status::Cancelled as i32;
        let mut queued: Vec<u64> = Vec::new();
        for class in BY_URGENCY {
            let waiting = core::mem::take(self.backlog(class));
            // Operations without a waiting task must still be done.
            let (forgotten, waited_for) = waiting.into_iter().partition(|entry| tag(entry) == FORGOTTEN);
            *self.backlog(class) = forgotten;
            queued.extend(VecDeque::<EntryWords>::into_iter(waited_for).map(|entry| tag(&entry)));
        }
        for user_data in queued {
            let Some(operation) = self.operation(Key(user_data)) else { continue };
            operation.state = State::Done(Completion { user_data, status, ..Completion::default() });
            self.waited_for = self.waited_for.saturating_sub(1);
        }
        let taken: Vec<u64> = (0_u64..)
            .zip(&self.slots)
            .filter_map(|(index, slot)| {
                let waits = matches!(slot.operation.as_ref()?.state, State::Waiting(_));
                waits.then_some((u64::from(slot.generation) << 32) | index)
            })
            .collect();
        for target in taken {
            self.forget(ring, entry::Operation::Cancel { target });
        }
    }

    /// Whether nothing is in flight, or waits for room.
    #[cfg(any(not(capos_guest), feature = "std"))]
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.is_caught_up()
    }

    /// Takes a completion that was read: what it leaves to be done.
    #[inline(always)]
    pub(crate) fn take(&mut self, ring: &Ring, completion: Completion) -> Option<Ended> {
        if completion.user_data & crate::raw::TAG != 0 {
            self.raw.push_back(completion);
            return None;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        if completion.user_data == FORGOTTEN {
            self.forgotten = self.forgotten.saturating_sub(1);
            return None;
        }
        let operation = self.operation(Key(completion.user_data))?;
        let (class, receives) = (operation.class, operation.receives);
        let (waker, waited_for) = match &mut operation.state {
            State::Waiting(waker) => {
                let waker = waker.take();
                operation.state = State::Done(completion);
                (waker, true)
            }
            State::Abandoned => (None, false),
            State::Done(_) => return None,
        };
        match class {
            Class::Prompt => {}
            Class::Slow => self.slow_in_flight = self.slow_in_flight.saturating_sub(1),
            Class::Watch => self.watches_in_flight = self.watches_in_flight.saturating_sub(1),
        }
        if waited_for {
            self.waited_for = self.waited_for.saturating_sub(1);
            return waker.map(Ended::Wake);
        }
        let Operation { lent, .. } = self.remove(Key(completion.user_data))?;
        self.release_received(ring, &lent, &completion, receives);
        Some(Ended::Drop(lent))
    }

    /// Releases the capabilities of an unwanted completion, and the call that a RECV brought.
    pub(crate) fn release_received(&mut self, ring: &Ring, lent: &Lent, completion: &Completion, receives: bool) {
        if completion.status < 0 {
            return;
        }
        let caps: Vec<u64> = lent.received_caps(completion.caps).map(|(id, _)| id).collect();
        for cap in caps {
            self.forget(ring, entry::Operation::Release { cap });
        }
        if receives
            && let Some(header) = lent.header()
            && header.reply != 0
        {
            self.forget(ring, entry::Operation::Release { cap: header.reply });
        }
    }
}
