//! Notification: a word of signal bits.

use alloc::sync::Arc;

use capos_captable::{KeyedList, ListKey};
use spin::Mutex;

use crate::cpu::kernel_lock::Exclusive;
use crate::object::account::Charge;
use crate::object::operation::{OperationRef, Outcome};

#[derive(Default)]
struct Inner {
    bits: u64,
    waiters: KeyedList<OperationRef>,
}

/// A word of 64 signal bits, and who waits for one.
pub struct Notification {
    inner: Mutex<Inner>,
    _object: Option<Charge>,
}

impl core::fmt::Debug for Notification {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Notification")
    }
}

/// What a wait met.
pub enum Waited {
    /// Bits were set; they are cleared now.
    Bits(u64),
    /// None are; the waiter is in the list.
    Queued,
    /// None are, and there is no memory to wait.
    NoMemory,
}

impl Notification {
    /// No bits set. `object` pays for it; the kernel's own have none.
    pub fn new(object: Option<Charge>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), _object: object })
    }

    /// Sets bits; the oldest waiter gets them all.
    pub fn signal(&self, lock: &mut Exclusive, bits: u64) {
        loop {
            let (waiter, value) = {
                let mut inner = self.inner.lock();
                inner.bits |= bits;
                if inner.bits == 0 {
                    return;
                }
                let Some(waiter) = inner.waiters.pop() else { return };
                (waiter, core::mem::take(&mut inner.bits))
            };
            if waiter.complete(lock, Outcome { value, ..Outcome::default() }) {
                return;
            }
            // That wait was cancelled in between: the bits are for the next.
            self.inner.lock().bits |= value;
        }
    }

    /// Takes and clears the bits.
    pub fn poll(&self) -> u64 {
        core::mem::take(&mut self.inner.lock().bits)
    }

    /// Takes the bits, or queues a waiter. `began` notes the place in the list.
    pub fn wait(&self, waiter: OperationRef, began: impl FnOnce(ListKey)) -> Waited {
        let mut inner = self.inner.lock();
        if inner.bits != 0 {
            return Waited::Bits(core::mem::take(&mut inner.bits));
        }
        match inner.waiters.push(waiter) {
            Some(key) => {
                began(key);
                Waited::Queued
            }
            None => Waited::NoMemory,
        }
    }

    /// Takes a waiter out of the list.
    pub fn forget(&self, key: ListKey) {
        let waiter = self.inner.lock().waiters.remove(key);
        drop(waiter);
    }
}
