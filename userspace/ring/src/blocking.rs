//! Calls that block the thread that makes them, through that thread's own ring, without an executor.
//!
//! For code that runs on any thread of a process, such as a C library. One call of a thread is in flight at a time.
//! Another user of the ring, such as the runtime of an async program on the same thread, uses it between these calls.

use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use capnp::Word;
use capos_abi::Status;
use capos_abi::entry::{MAX_MESSAGE, Operation};
use capos_abi::syscall::NO_DEADLINE;
use capos_schema::cap::{Begun, CallError, Cap, CapTransport, Client, Message, MessageView, ReadResult};

use crate::invoke;
use crate::message::{self, Lent};
use crate::ring::Ring;

/// Bytes of the answer of a call that is only waited for.
const SHORT_ANSWER: u32 = 512;

/// Gives the address where the kernel has mapped the ring of the thread that calls it, or 0 where it knows of none. It
/// is correct on each thread that calls it, for as long as that thread lives.
pub type Here = fn() -> u64;

/// A buffer of `bytes` bytes, or an empty one if there is no memory.
fn buffer(bytes: usize) -> Vec<Word> {
    let mut words = Vec::new();
    if words.try_reserve_exact(bytes / 8).is_ok() {
        words.resize(bytes / 8, capnp::word(0, 0, 0, 0, 0, 0, 0, 0));
    }
    words
}

/// Room for the results of a call. If there is no memory for that many, room for a short answer, which most are: a
/// process whose account is used up can still release objects.
fn room(results: u32) -> Result<Vec<Word>, CallError> {
    let rooms = [results, results.min(SHORT_ANSWER)].map(|bytes| usize::try_from(bytes).unwrap_or(0));
    let found = rooms.into_iter().map(|bytes| (bytes, buffer(bytes))).find(|(bytes, room)| room.len() == bytes / 8);
    found.map(|(_, room)| room).ok_or(CallError::Transport(Status::OutOfMemory))
}

impl Ring {
    /// Calls a method of the capability with this identifier, with room for this many bytes of results. `own` makes
    /// handles of the capabilities that come with them, by identifier and interface. `read` reads how it ended. `lent` is
    /// memory of earlier calls, which is used again if it is large enough, and holds nothing afterwards that was sent.
    pub fn call(
        &self,
        (cap, method): (u64, (u64, u16)),
        message: Message,
        results: u32,
        lent: &mut Lent,
        own: impl Fn(u64, u64) -> Cap,
        read: ReadResult<'_>,
    ) {
        match self.call_in((cap, method), message, results, lent, own) {
            Ok((length, caps)) => {
                let words = lent.received.get(..message::whole_words(length)).unwrap_or(&lent.received);
                read(Ok(MessageView { words, caps: &caps }));
            }
            Err(error) => read(Err(error)),
        }
        (lent.sent, lent.sent_caps) = (Vec::new(), Vec::new());
    }

    /// The same: the bytes of results that are in the memory, and the capabilities that came with them.
    fn call_in(
        &self,
        (cap, method): (u64, (u64, u16)),
        message: Message,
        results: u32,
        lent: &mut Lent,
        own: impl Fn(u64, u64) -> Cap,
    ) -> Result<(usize, Vec<Cap>), CallError> {
        let results = results.min(MAX_MESSAGE).next_multiple_of(8);
        if lent.received.len() < usize::try_from(results / 8).unwrap_or(usize::MAX) {
            // Before there are two.
            lent.received = Vec::new();
            lent.received = room(results)?;
        }
        let capacity = u32::try_from(lent.received.len().saturating_mul(8)).unwrap_or(results).min(results);
        let operation = message::call(cap, method, message, capacity, lent)?;
        // SAFETY: the memory that the operation names is kept in `lent` until it has ended.
        let completion = unsafe { self.run(operation, NO_DEADLINE) };
        if completion.status == Status::TooLarge as i32 && capacity < results {
            return Err(CallError::Transport(Status::OutOfMemory));
        }
        lent.answer(&completion, own)
    }
}

/// A call to wait for in parallel with others.
#[derive(Debug)]
pub struct Asked {
    /// The capability.
    pub cap: u64,
    /// Its interface.
    pub interface: u64,
    /// The method's ordinal.
    pub method: u16,
    /// The parameters, which take no capabilities.
    pub message: Message,
}

impl Ring {
    /// Waits for the first of these: a word of memory is woken or differs from the expected value, one of the calls is
    /// answered, or the deadline (nanoseconds since boot) is over. Then all of them have ended. The answers are
    /// dropped: only their arrival matters. At most [`MOST_AT_ONCE`](crate::MOST_AT_ONCE) - 1 calls are made.
    pub fn wait_for_any(&self, word: (u64, u32), calls: Vec<Asked>, deadline: u64) {
        let (address, expected) = word;
        let mut operations = Vec::from([Operation::WaitWord { address, expected }]);
        let mut lent = Vec::new();
        for Asked { cap, interface, method, message } in calls {
            let received = buffer(usize::try_from(SHORT_ANSWER).unwrap_or(0));
            let mut kept = Lent { received, ..Lent::default() };
            if let Ok(operation) = message::call(cap, (interface, method), message, SHORT_ANSWER, &mut kept) {
                operations.push(operation);
                lent.push(kept);
            }
        }
        // SAFETY: the memory that the operations name is kept in `lent` until all have ended.
        unsafe { self.run_any(&operations, deadline) };
        drop(lent);
    }
}

/// The result of a call that is done when it is first polled, as those through a [`BlockingCap`] are.
///
/// # Errors
/// The call's own; that it is not of this kind.
pub fn wait<T>(call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(CallError::failed("this waits for more than blocking calls; run it on an executor")),
    }
}

/// A place in the process's capability table whose calls block the thread that makes them. Dropping an owned one
/// releases it.
#[derive(Debug)]
pub struct BlockingCap {
    id: u64,
    owned: Cell<bool>,
    here: Here,
    /// Bytes of results that a call through it has room for, whatever the schema says.
    results: Option<u32>,
}

impl BlockingCap {
    /// A handle of a capability that something else keeps.
    ///
    /// # Safety
    /// `here` is correct.
    pub unsafe fn borrowed<C: Client>(here: Here, id: u64) -> C {
        C::from_cap(Cap::new(Self { id, owned: Cell::new(false), here, results: None }))
    }

    /// The same for answers that are known to have few bytes, although the schema allows for many.
    ///
    /// # Safety
    /// As [`BlockingCap::borrowed`].
    pub unsafe fn borrowed_within<C: Client>(here: Here, id: u64, results: u32) -> C {
        C::from_cap(Cap::new(Self { id, owned: Cell::new(false), here, results: Some(results) }))
    }

    /// Drops the handle of a capability and leaves the capability in the table: returns its identifier, for another
    /// handle.
    #[must_use]
    pub fn into_id(cap: &Cap) -> u64 {
        cap.transport().forget();
        cap.id()
    }

    fn ring(&self) -> Result<Ring, Status> {
        // SAFETY: the creator of the first handle vouches for `here`.
        unsafe { Ring::at((self.here)()) }
    }
}

impl Drop for BlockingCap {
    fn drop(&mut self) {
        if self.owned.get()
            && let Ok(ring) = self.ring()
        {
            ring.release(self.id);
        }
    }
}

impl CapTransport for BlockingCap {
    fn begin(
        &self,
        method: (u64, u16),
        params: Message,
        results: u32,
        _: &mut Context<'_>,
        read: ReadResult<'_>,
    ) -> Begun {
        let here = self.here;
        let own = |id, _| Cap::new(Self { id, owned: Cell::new(true), here, results: None });
        let results = self.results.unwrap_or(results);
        match self.ring() {
            Ok(ring) => ring.call((self.id, method), params, results, &mut Lent::default(), own, read),
            Err(status) => read(Err(CallError::Transport(status))),
        }
        Begun::Read
    }

    fn invoke(&self, (interface, method): (u64, u16)) -> Option<u64> {
        invoke(self.id, interface, method)
    }

    fn forget(&self) {
        self.owned.set(false);
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
