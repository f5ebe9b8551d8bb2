//! Calls that hold up the thread that makes them, through that thread's own ring, without an executor.
//!
//! For code that runs on any thread of a process, such as a C library: a [`ThreadRing`] is made anew from the ring's
//! address for each call. One call of a thread is in flight at a time. Whoever else uses the ring, such as the runtime
//! of an async program on the same thread, does so between these calls and tells its completions by their tags.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use core::ptr::NonNull;

use capnp::Word;
use capos_abi::entry::{Buffer, CapArray, MAX_CAPS, MAX_MESSAGE, Operation};
use capos_abi::syscall::NO_DEADLINE;
use capos_abi::{Completion, Entry, ExceptionKind, Status, TransferMode};
use capos_schema::cap::{CallError, Cap, CapTransport, Client, Exception, IncomingMessage, LocalBoxFuture, Message};

use crate::arch;
use crate::capability::RESULTS;
use crate::raw_calls;
use crate::reactor::{address, cap_array, received_caps};
use crate::ring::Ring;

/// Tag of the one operation of a thread that is in flight here.
const TAG: u64 = u64::MAX - 1;
/// Tag of its cancelling.
const CANCEL_TAG: u64 = u64::MAX - 2;

/// Gives the address where the kernel has mapped the ring of the thread that calls it.
pub type Here = fn() -> u64;

/// The calling thread's ring. It stays on its thread.
#[derive(Debug)]
pub struct ThreadRing {
    ring: Ring,
    here: Here,
}

impl ThreadRing {
    /// The ring of the calling thread.
    ///
    /// # Errors
    /// `here` gives no ring.
    ///
    /// # Safety
    /// `here` tells the truth on each thread that it is called on, for as long as that thread lives.
    pub unsafe fn of_thread(here: Here) -> Result<Self, Status> {
        let base = usize::try_from(here()).ok();
        let base = base.and_then(|base| NonNull::new(core::ptr::with_exposed_provenance_mut(base)));
        // SAFETY: the caller's.
        let ring = unsafe { Ring::new(base.ok_or(Status::BadAddress)?) }?;
        Ok(Self { ring, here })
    }

    /// Makes memory and maps it at `start`, readable and writable, without allocating.
    #[must_use]
    pub fn grow(&self, account: u64, space: u64, start: u64, bytes: u64) -> bool {
        raw_calls::grow_with(&self.ring, account, space, start, bytes)
    }

    /// Runs one operation to its end, or until the deadline (nanoseconds since boot); then cancels it and says how it
    /// ended after all: mostly with [`Status::Cancelled`], and well where it was faster.
    pub fn run(&self, operation: Operation, deadline: u64) -> Completion {
        let failed = |status: Status| Completion { status: status as i32, ..Completion::default() };
        let Some(mut queued) = self.push(TAG, operation) else { return failed(Status::Overloaded) };
        let mut deadline = deadline;
        loop {
            let unread = self.ring.unread();
            // An entry that is not taken waits for room in the completion ring, which only its other user can make.
            let taken = arch::enter(queued, unread.saturating_add(1), deadline);
            queued = queued.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX));
            if let Some(completion) = self.ring.take(TAG) {
                return completion;
            }
            if deadline != NO_DEADLINE && self.ring.unread() == unread {
                deadline = NO_DEADLINE;
                if let Some(more) = self.push(CANCEL_TAG, Operation::Cancel { target: TAG }) {
                    queued = more;
                    arch::enter(queued, 0, 0);
                    queued = 0;
                    let _ = self.ring.take(CANCEL_TAG);
                    if let Some(completion) = self.ring.take(TAG) {
                        return completion;
                    }
                }
            }
        }
    }

    fn push(&self, user_data: u64, operation: Operation) -> Option<u32> {
        let entry = Entry { user_data, operation };
        while !self.ring.push(&entry) {
            if arch::enter(self.ring.queued(), 0, 0) == 0 {
                return None;
            }
        }
        Some(self.ring.queued())
    }

    /// Calls a method. Words of the answer and identifiers and interfaces of the capabilities that came.
    ///
    /// # Errors
    /// As every call.
    pub fn call(
        &self,
        cap: u64,
        interface: u64,
        method: u16,
        message: Message,
        capacity: u32,
    ) -> Result<IncomingMessage, CallError> {
        let mut words = message.words;
        let length = u32::try_from(words.len().saturating_mul(8)).unwrap_or(u32::MAX);
        if length > MAX_MESSAGE || message.caps.len() > usize::from(MAX_CAPS) {
            return Err(CallError::Transport(Status::TooLarge));
        }
        let capacity = capacity.min(MAX_MESSAGE);
        let mut received = Word::allocate_zeroed_vec(usize::try_from(capacity / 8).unwrap_or(0));
        let mut caps = cap_array(&message.caps, MAX_CAPS);
        let operation = Operation::Call {
            cap,
            interface,
            method,
            params: Buffer { address: address(&mut words), length },
            results: Buffer { address: address(&mut received), length: capacity },
            caps: CapArray {
                address: address(&mut caps),
                sent: u8::try_from(message.caps.len()).unwrap_or(MAX_CAPS),
                accepted: MAX_CAPS,
            },
        };
        let completion = self.run(operation, NO_DEADLINE);
        if completion.status < 0 {
            let status = Status::from_raw(completion.status).unwrap_or(Status::InvalidArgument);
            return Err(CallError::Transport(status));
        }
        for sent in message.caps.iter().filter(|sent| sent.mode == TransferMode::Move) {
            if let Some(cap) = sent.cap.transport().as_any().downcast_ref::<BlockingCap>() {
                cap.owned.set(false);
            }
        }
        let caps: Vec<Cap> = received_caps(&caps, completion.caps)
            .map(|(id, interface)| BlockingCap::handle(self.here, id, interface, true))
            .collect();
        let length = usize::try_from(completion.length).unwrap_or(0);
        if let Some(kind) = ExceptionKind::from_raw(completion.status) {
            let bytes = Word::words_to_bytes(&received);
            let reason = String::from_utf8_lossy(bytes.get(..length).unwrap_or(bytes)).into_owned();
            return Err(CallError::Exception(Exception::new(kind, reason)));
        }
        received.truncate(length.div_ceil(8));
        Ok(IncomingMessage { words: received, caps })
    }
}

/// Gives up a capability that no handle owns. One that is gone already is as good as released.
pub fn release(ring: &ThreadRing, cap: u64) {
    ring.run(Operation::Release { cap }, NO_DEADLINE);
}

/// A place in the process's capability table whose calls hold up the thread that makes them. Dropping an owned one
/// releases it.
#[derive(Debug)]
pub struct BlockingCap {
    id: u64,
    interface: u64,
    owned: Cell<bool>,
    here: Here,
}

impl BlockingCap {
    fn handle(here: Here, id: u64, interface: u64, owned: bool) -> Cap {
        Cap::new(Self { id, interface, owned: Cell::new(owned), here })
    }

    /// A handle of a capability that something else keeps.
    ///
    /// # Safety
    /// As [`ThreadRing::of_thread`].
    pub unsafe fn borrowed<C: Client>(here: Here, id: u64) -> C {
        C::from_cap(Self::handle(here, id, C::INTERFACE_ID, false))
    }

    /// Gives up the handle of a capability and leaves the capability in the table: its identifier, for another handle.
    pub fn into_id(cap: &Cap) -> u64 {
        if let Some(own) = cap.transport().as_any().downcast_ref::<Self>() {
            own.owned.set(false);
        }
        cap.id()
    }

    /// The interface that it offers.
    #[must_use]
    pub fn interface(&self) -> u64 {
        self.interface
    }

    fn ring(&self) -> Result<ThreadRing, Status> {
        // SAFETY: who made the first handle vouches for `here`.
        unsafe { ThreadRing::of_thread(self.here) }
    }
}

impl Drop for BlockingCap {
    fn drop(&mut self) {
        if self.owned.get()
            && let Ok(ring) = self.ring()
        {
            release(&ring, self.id);
        }
    }
}

impl CapTransport for BlockingCap {
    fn call(
        &self,
        interface: u64,
        method: u16,
        params: Message,
    ) -> LocalBoxFuture<'static, Result<IncomingMessage, CallError>> {
        self.call_sized(interface, method, params, RESULTS)
    }

    fn call_sized(
        &self,
        interface: u64,
        method: u16,
        params: Message,
        results: u32,
    ) -> LocalBoxFuture<'static, Result<IncomingMessage, CallError>> {
        let answer = self.ring().map_err(CallError::Transport);
        let answer = answer.and_then(|ring| ring.call(self.id, interface, method, params, results));
        Box::pin(core::future::ready(answer))
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
