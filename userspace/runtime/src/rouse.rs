//! Waking the executor of a thread of `std` from another thread: through a word of memory that the loop has the kernel
//! wait for while it sleeps.

use core::pin::Pin;
use core::task::{Context, Waker};

use capos_abi::entry::Operation;
use capos_ring::Ring;
use capos_sync::Knocks;

use crate::on_std::here;
use crate::operation::Pending;

/// Where other threads knock.
#[derive(Debug)]
pub(crate) struct Door {
    knocks: Knocks,
    /// The executor's thread, by its ring.
    home: u64,
}

impl Default for Door {
    fn default() -> Self {
        Self { knocks: Knocks::new(), home: here() }
    }
}

impl Door {
    fn address(&self) -> u64 {
        core::ptr::from_ref(self.knocks.word()).expose_provenance() as u64
    }

    /// Wakes the loop, if the caller is another thread. The work that it finds is in place already.
    pub(crate) fn knock(&self) {
        let here = here();
        if here == self.home {
            return;
        }
        self.knocks.knock(|word| {
            // SAFETY: the calling thread's ring, between its other operations.
            if let Ok(ring) = unsafe { Ring::at(here) } {
                ring.wake_word(core::ptr::from_ref(word).expose_provenance() as u64, 1);
            }
        });
    }
}

/// The loop's wait for knocks.
#[derive(Debug, Default)]
pub(crate) struct Listener(Option<Pending>);

impl Listener {
    /// Has the kernel wake the loop for every knock from now on. To be called before the loop checks whether it may
    /// sleep: later knocks are heard.
    pub(crate) fn listen(&mut self, door: &Door, waker: &Waker) {
        let mut context = Context::from_waker(waker);
        loop {
            let pending = self.0.get_or_insert_with(|| {
                let expected = door.knocks.heard();
                Pending::start(Operation::WaitWord { address: door.address(), expected })
            });
            if Future::poll(Pin::new(pending), &mut context).is_pending() {
                return;
            }
            self.0 = None;
        }
    }
}
