//! Which thread waits for which word of a process's memory.
//!
//! The word is compared under the same lock under which a waiter is queued and a waker looks for
//! waiters. So a thread that changes the word and then wakes finds every thread that saw the old
//! value.

use capos_captable::{QueueKey, Queues};

use crate::primitives::Mutex;

/// Parts with their own lock.
const PARTS: usize = 4;

/// The waits of one process. `W` is a waiter.
pub struct WordWaits<W>([Mutex<Queues<W>>; PARTS]);

impl<W> core::fmt::Debug for WordWaits<W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WordWaits").finish_non_exhaustive()
    }
}

/// The outcome of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited<W> {
    /// It waits.
    Queued,
    /// The word is another.
    Changed,
    /// There is no memory to wait, for this waiter.
    NoMemory(W),
}

impl<W: Clone> WordWaits<W> {
    /// No thread waits. `seed` is a secret.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(core::array::from_fn(|_| Mutex::new(Queues::new(seed))))
    }

    fn part(&self, address: u64) -> &Mutex<Queues<W>> {
        let [first, second, third, fourth] = &self.0;
        // Words on different cache lines may have different locks.
        match (address >> 6) as usize % PARTS {
            0 => first,
            1 => second,
            2 => third,
            _ => fourth,
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
        begin: impl FnOnce() -> Result<W, E>,
        began: impl FnOnce(&W, QueueKey),
    ) -> Result<Waited<W>, E> {
        let mut queues = self.part(address).lock();
        if !holds()? {
            return Ok(Waited::Changed);
        }
        let waiter = begin()?;
        let Some(key) = queues.push(address, waiter.clone()) else { return Ok(Waited::NoMemory(waiter)) };
        began(&waiter, key);
        Ok(Waited::Queued)
    }

    /// Ends the oldest waits for a word, `count` at most, each by `end`, which says whether it had not ended before; how
    /// many. Waits that begin meanwhile stay.
    pub fn wake(&self, address: u64, count: u32, mut end: impl FnMut(W) -> bool) -> u32 {
        let mark = self.part(address).lock().mark();
        let mut woken = 0_u32;
        while woken < count {
            let waiter = self.part(address).lock().pop(address, mark);
            let Some(waiter) = waiter else { break };
            woken = woken.saturating_add(u32::from(end(waiter)));
        }
        woken
    }

    /// Takes a waiter out.
    pub fn forget(&self, address: u64, key: QueueKey) {
        let waiter = self.part(address).lock().remove(key);
        drop(waiter);
    }
}
