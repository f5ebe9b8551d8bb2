//! Who waits for which word of a process's memory.
//!
//! The word is compared under the same lock under which a waiter is queued and a waker looks for
//! waiters. So a thread that changes the word and then wakes finds everybody who saw the old value.
//! A process has its own queues: others cannot make them long.

use capos_captable::{QueueKey, Queues};
use spin::Mutex;

use crate::entropy;
use crate::operation::{OperationRef, Outcome};

/// Parts with their own lock.
const PARTS: usize = 4;

/// The waits of one process.
pub struct Words([Mutex<Queues<OperationRef>>; PARTS]);

/// What a wait met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    Queued,
    /// The word is another.
    Changed,
    /// There is no memory to wait.
    NoMemory,
}

impl Words {
    /// Nobody waits.
    pub fn new() -> Self {
        let mut seed = [0; 8];
        entropy::fill(&mut seed);
        let seed = u64::from_le_bytes(seed);
        Self(core::array::from_fn(|_| Mutex::new(Queues::new(seed))))
    }

    fn part(&self, address: u64) -> &Mutex<Queues<OperationRef>> {
        let [first, rest @ ..] = &self.0;
        // Words on different cache lines may have different locks.
        match (address >> 6) as usize % PARTS {
            0 => first,
            part => rest.get(part - 1).unwrap_or(first),
        }
    }

    /// Queues a waiter if `holds` says that the word is as expected. `begin` makes the waiter, `began`
    /// notes its place.
    ///
    /// # Errors
    /// Those of `holds` and `begin`.
    pub fn wait<E>(
        &self,
        address: u64,
        holds: impl FnOnce() -> Result<bool, E>,
        begin: impl FnOnce() -> Result<OperationRef, E>,
        began: impl FnOnce(&OperationRef, QueueKey),
    ) -> Result<Waited, E> {
        let mut queues = self.part(address).lock();
        if !holds()? {
            return Ok(Waited::Changed);
        }
        let waiter = begin()?;
        let Some(key) = queues.push(address, waiter.clone()) else {
            drop(queues);
            waiter.thread.drop_operation(waiter.ticket);
            return Ok(Waited::NoMemory);
        };
        began(&waiter, key);
        Ok(Waited::Queued)
    }

    /// Ends the oldest waits for a word, `count` at most; how many. Waits that begin meanwhile stay.
    pub fn wake(&self, address: u64, count: u32) -> u32 {
        let mark = self.part(address).lock().mark();
        let mut woken = 0;
        while woken < count {
            let waiter = self.part(address).lock().pop(address, mark);
            let Some(waiter) = waiter else { break };
            // One that was cancelled in between has ended already.
            woken += u32::from(waiter.complete(Outcome::default()));
        }
        woken
    }

    /// Takes a waiter out.
    pub fn forget(&self, address: u64, key: QueueKey) {
        let waiter = self.part(address).lock().remove(key);
        drop(waiter);
    }
}
