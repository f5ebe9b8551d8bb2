//! Endpoint: a place to receive calls.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use capos_abi::Status;
use capos_captable::{KeyedList, ListKey};
use spin::Mutex;

use super::account::Charge;
use super::reply::Caller;
use crate::operation::OperationRef;

static NEXT: AtomicU64 = AtomicU64::new(1);

#[derive(Default)]
struct Inner {
    closed: bool,
    /// Calls that nobody has received yet.
    calls: KeyedList<Caller>,
    /// Buffers that wait for a call.
    receivers: KeyedList<OperationRef>,
}

/// A place where calls and receivers meet. At most one of its two lists has elements.
pub struct Endpoint {
    /// Number that names it in reports.
    pub id: u64,
    inner: Mutex<Inner>,
    /// Capability slots that can receive from it. With the last of them it closes.
    holders: AtomicU32,
    _object: Charge,
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

/// What a call met.
pub enum Met {
    /// A receiver, taken out of the list.
    Receiver(OperationRef),
    /// Nobody; the call is in the list now.
    Queued,
    /// The endpoint is closed, or there is no memory for the queue.
    Refused(Status),
}

impl Endpoint {
    /// An endpoint that `object` pays for.
    pub fn new(object: Charge) -> Arc<Self> {
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            inner: Mutex::default(),
            holders: AtomicU32::new(0),
            _object: object,
        })
    }

    /// Takes the receiver that has waited longest, or queues the call that `caller` makes; `began`
    /// notes its place then.
    pub fn meet(&self, caller: impl FnOnce() -> Caller, began: impl FnOnce(ListKey)) -> Met {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Met::Refused(Status::Disconnected);
        }
        if let Some(receiver) = inner.receivers.pop() {
            return Met::Receiver(receiver);
        }
        match inner.calls.push(caller()) {
            Some(key) => {
                began(key);
                Met::Queued
            }
            None => Met::Refused(Status::OutOfMemory),
        }
    }

    /// Takes the oldest call, or queues a receiver; `began` notes its place.
    ///
    /// # Errors
    /// No memory for the queue.
    pub fn offer(&self, receiver: OperationRef, began: impl FnOnce(ListKey)) -> Result<Option<Caller>, Status> {
        let mut inner = self.inner.lock();
        if let Some(call) = inner.calls.pop() {
            return Ok(Some(call));
        }
        began(inner.receivers.push(receiver).ok_or(Status::OutOfMemory)?);
        Ok(None)
    }

    /// Puts a receiver back that a call could not use; `began` notes its place. It is first again.
    pub fn put_back(&self, receiver: OperationRef, began: impl FnOnce(ListKey)) {
        let mut inner = self.inner.lock();
        if let Some(key) = inner.receivers.push_front(receiver) {
            began(key);
        }
    }

    /// Puts a call back before all others; `began` notes its place.
    pub fn queue_first(&self, call: Caller, began: impl FnOnce(ListKey)) {
        let mut inner = self.inner.lock();
        if let Some(key) = inner.calls.push_front(call) {
            began(key);
        }
    }

    /// Takes a queued call out.
    pub fn forget_call(&self, key: ListKey) {
        let call = self.inner.lock().calls.remove(key);
        drop(call);
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

    /// One less can; after the last one nobody ever will, so who waits is told.
    pub fn let_go(&self) {
        if self.holders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.inner.lock().closed = true;
            loop {
                let call = self.inner.lock().calls.pop();
                let Some(call) = call else { break };
                call.refuse(Status::Disconnected);
            }
            loop {
                let receiver = self.inner.lock().receivers.pop();
                let Some(receiver) = receiver else { break };
                receiver.complete(Status::Disconnected);
            }
        }
    }
}
