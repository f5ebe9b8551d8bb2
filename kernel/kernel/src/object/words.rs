//! Who waits for which word of a process's memory.
//!
//! A process has its own queues: others cannot make them long.

use capos_captable::QueueKey;
use capos_sync::{Waited, WordWaits};

use crate::cpu::entropy;
use crate::cpu::kernel_lock::Exclusive;
use crate::object::operation::{OperationRef, Outcome};

/// The waits of one process.
pub struct Words(WordWaits<OperationRef>);

impl Words {
    /// No thread waits.
    pub fn new() -> Self {
        let mut seed = [0; 8];
        entropy::fill(&mut seed);
        Self(WordWaits::new(u64::from_le_bytes(seed)))
    }

    /// Queues a waiter if `holds` says that the word is as expected. `begin` makes the waiter, `began`
    /// notes its place. Where there is no memory for it, it is dropped again.
    ///
    /// # Errors
    /// Those of `holds` and `begin`.
    pub fn wait<E>(
        &self,
        address: u64,
        holds: impl FnOnce() -> Result<bool, E>,
        begin: impl FnOnce() -> Result<OperationRef, E>,
        began: impl FnOnce(&OperationRef, QueueKey),
    ) -> Result<Waited<OperationRef>, E> {
        let waited = self.0.wait(address, holds, begin, began)?;
        if let Waited::NoMemory(waiter) = &waited {
            waiter.thread.drop_operation(waiter.ticket);
        }
        Ok(waited)
    }

    /// Ends the oldest waits for a word, `count` at most; how many. Waits that begin meanwhile stay.
    pub fn wake(&self, lock: &mut Exclusive, address: u64, count: u32) -> u32 {
        // One that was cancelled in between has ended already.
        self.0.wake(address, count, |waiter| waiter.complete(lock, Outcome::default()))
    }

    /// Takes a waiter out.
    pub fn forget(&self, address: u64, key: QueueKey) {
        self.0.forget(address, key);
    }
}
