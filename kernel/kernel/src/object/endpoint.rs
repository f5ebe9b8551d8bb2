//! Endpoint: a place to receive calls.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use capos_abi::Status;
use capos_captable::{KeptPlace, KeyedList, ListKey};
use spin::{Mutex, MutexGuard};

use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::object::account::Charge;
use crate::object::operation::OperationRef;
use crate::object::reaper::{self, Doomed};
use crate::object::reply::Caller;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Who waits at an endpoint.
#[derive(Default)]
pub struct Inner {
    closed: bool,
    /// Calls that no receiver has taken yet.
    pub calls: KeyedList<Caller>,
    /// Buffers that wait for a call: the one that came last is used first, so that it is the same again and again.
    pub receivers: KeyedList<OperationRef>,
}

/// A place where calls and receivers meet. At most one of its two lists has elements.
pub struct Endpoint {
    /// Number that names it in reports.
    pub id: u64,
    inner: Mutex<Inner>,
    /// Capability slots that can receive from it. With the last of them it closes.
    holders: AtomicU32,
    _object: Charge,
    _room: reaper::QueuePlace,
}

impl core::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Endpoint {}", self.id)
    }
}

/// What a client capability designates.
#[derive(Clone, Debug)]
pub struct Client {
    pub endpoint: Arc<Endpoint>,
    pub badge: u64,
    pub interface: u64,
}

/// The place in an endpoint's list of what was taken out of it: kept until this is dropped, so that
/// putting it back cannot fail.
#[must_use]
pub struct PlaceKeeper<'a, T> {
    endpoint: &'a Endpoint,
    list: fn(&mut Inner) -> &mut KeyedList<T>,
    kept: Option<KeptPlace>,
}

impl<T> PlaceKeeper<'_, T> {
    /// Puts an element there, first in line; `began` notes its place.
    pub fn put_back(mut self, element: T, began: impl FnOnce(ListKey)) {
        if let Some(kept) = self.kept.take() {
            let mut inner = self.endpoint.inner.lock();
            began((self.list)(&mut inner).put_back(kept, element));
        }
    }
}

impl<T> Drop for PlaceKeeper<'_, T> {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            (self.list)(&mut self.endpoint.inner.lock()).let_go(kept);
        }
    }
}

/// What a call met.
pub enum Met<'a> {
    /// A receiver, taken out of the list, and its place there.
    Receiver(OperationRef, PlaceKeeper<'a, OperationRef>),
    /// No receiver; the call is in the list now.
    Queued,
    /// The endpoint is closed, or there is no memory for the queue.
    Refused(Status),
}

impl Endpoint {
    /// An endpoint that `object` pays for.
    ///
    /// # Errors
    /// No memory.
    pub fn new(object: Charge) -> Result<Arc<Self>, Status> {
        let room = reaper::QueuePlace::new()?;
        Ok(Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            inner: Mutex::default(),
            holders: AtomicU32::new(0),
            _object: object,
            _room: room,
        }))
    }

    /// Locks who waits here.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// The same, where no other processor has.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Inner>> {
        self.inner.try_lock()
    }

    /// Takes the receiver that came last, or queues the call that `caller` makes; `began`
    /// notes its place then.
    pub fn meet(&self, caller: impl FnOnce() -> Caller, began: impl FnOnce(ListKey)) -> Met<'_> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Met::Refused(Status::Disconnected);
        }
        if let Some((receiver, kept)) = inner.receivers.take() {
            let place = PlaceKeeper { endpoint: self, list: |inner| &mut inner.receivers, kept: Some(kept) };
            return Met::Receiver(receiver, place);
        }
        match inner.calls.push(caller()) {
            Some(key) => {
                began(key);
                Met::Queued
            }
            None => Met::Refused(Status::OutOfMemory),
        }
    }

    /// Takes the oldest call, with its place in the list, or queues a receiver; `began` notes its place.
    ///
    /// # Errors
    /// No memory for the queue.
    pub fn offer(
        &self,
        receiver: OperationRef,
        began: impl FnOnce(ListKey),
    ) -> Result<Option<(Caller, PlaceKeeper<'_, Caller>)>, Status> {
        let mut inner = self.inner.lock();
        if let Some((call, kept)) = inner.calls.take() {
            return Ok(Some((call, PlaceKeeper { endpoint: self, list: |inner| &mut inner.calls, kept: Some(kept) })));
        }
        began(inner.receivers.push_first(receiver).ok_or(Status::OutOfMemory)?);
        Ok(None)
    }

    /// Takes a queued call out. False where it is not there any more.
    pub fn forget_call(&self, key: ListKey) -> bool {
        let call = self.inner.lock().calls.remove(key);
        call.is_some()
    }

    /// Takes a waiting receiver out.
    pub fn forget_receiver(&self, key: ListKey) {
        let receiver = self.inner.lock().receivers.remove(key);
        drop(receiver);
    }

    /// One more slot can receive.
    pub fn hold(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// One less can; after the last one none ever will, so who waits is told.
    pub fn let_go(self: &Arc<Self>, lock: &mut Exclusive) {
        if self.holders.fetch_sub(1, Ordering::AcqRel) == 1 {
            let waiting = {
                let mut inner = self.inner.lock();
                inner.closed = true;
                inner.calls.len().saturating_add(inner.receivers.len())
            };
            // One is told at once.
            if waiting > 1 || !self.close(lock, &mut Budget::new()) {
                reaper::add(Doomed::Endpoint(Arc::clone(self)));
            }
        }
    }

    /// Tells those who wait at a closed endpoint, as far as the budget allows. Whether all are told.
    pub fn close(&self, lock: &mut Exclusive, budget: &mut Budget) -> bool {
        while budget.allows() {
            let (call, receiver) = {
                let mut inner = self.inner.lock();
                (inner.calls.pop(), inner.receivers.pop())
            };
            if call.is_none() && receiver.is_none() {
                return true;
            }
            if let Some(call) = call {
                if matches!(call, Caller::PageIn(_)) {
                    budget.spend(cost::ANSWER);
                }
                call.refuse(lock, Status::Disconnected);
            }
            if let Some(receiver) = receiver {
                receiver.complete(lock, Status::Disconnected);
            }
            budget.spend(cost::OPERATION);
        }
        false
    }
}
