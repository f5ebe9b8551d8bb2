//! InterruptController and Interrupt: device interrupts as signals.

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};

use spin::Mutex;

use crate::arch::interrupts;
use crate::cpu::kernel_lock::Exclusive;
use crate::object::account::Charge;
use crate::object::notification::Notification;

static VECTORS: Mutex<BTreeMap<u8, Weak<Interrupt>>> = Mutex::new(BTreeMap::new());

/// One interrupt, from a line or from messages.
#[derive(Debug)]
pub struct Interrupt {
    vector: u8,
    /// Signalled where no other is bound: its bit 0 is set.
    own: Arc<Notification>,
    bound: Mutex<Option<(Arc<Notification>, u64)>>,
    _object: Charge,
}

impl Interrupt {
    /// That of a vector, which it keeps.
    pub fn new(vector: u8, object: Charge) -> Arc<Self> {
        let own = Notification::new(None);
        let interrupt = Arc::new(Self { vector, own, bound: Mutex::new(None), _object: object });
        VECTORS.lock().insert(vector, Arc::downgrade(&interrupt));
        interrupt
    }

    /// What a WAIT on the interrupt itself waits for.
    pub fn own_notification(&self) -> Arc<Notification> {
        Arc::clone(&self.own)
    }

    /// The vector that it has.
    pub fn vector(&self) -> u8 {
        self.vector
    }

    /// Has it signal these bits of a notification from now on, in place of its own notification.
    pub fn bind(&self, notification: Arc<Notification>, bits: u64) {
        *self.bound.lock() = Some((notification, bits));
    }

    fn signal(&self, lock: &mut Exclusive) {
        let bound = self.bound.lock().clone();
        match bound {
            Some((notification, bits)) => notification.signal(lock, bits),
            None => self.own.signal(lock, 1),
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        VECTORS.lock().remove(&self.vector);
        interrupts::release(self.vector);
    }
}

/// Signals an interrupt that has come. False where no process holds its capability.
pub fn raise(lock: &mut Exclusive, vector: u8) -> bool {
    let interrupt = VECTORS.lock().get(&vector).and_then(Weak::upgrade);
    match interrupt {
        Some(interrupt) => {
            interrupt.signal(lock);
            true
        }
        None => false,
    }
}
