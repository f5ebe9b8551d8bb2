//! The one runtime of a process's thread, and the turn of its loop.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_abi::syscall::NO_DEADLINE;
use capos_abi::{Completion, entry};

use crate::arch;
use crate::executor::Executor;
use crate::reactor::{Lent, Reactor};
use crate::ring::Ring;

/// Ring, operations and tasks of the thread.
#[derive(Debug)]
pub(crate) struct Runtime {
    ring: Ring,
    reactor: RefCell<Reactor>,
    /// Capabilities that were dropped and are to be released. Apart from the reactor, since what
    /// the reactor drops may drop capabilities.
    released: RefCell<Vec<u64>>,
    pub(crate) executor: Executor,
    pub(crate) facts: RefCell<Facts>,
    turning: Cell<bool>,
}

/// What the rest of the crate looks up: capabilities that every process has, and where logs go.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) space: Option<capos_schema::kernel::AddressSpaceClient>,
    pub(crate) account: Option<capos_schema::kernel::ResourceAccountClient>,
    pub(crate) timer: Option<capos_schema::kernel::TimerClient>,
    pub(crate) addresses: crate::memory::Addresses,
    pub(crate) log: crate::log::Log,
}

/// How a turn of the loop waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Not at all.
    No,
    /// Until something has completed.
    Completion,
}

impl Runtime {
    pub(crate) fn new(ring: Ring) -> Self {
        Self {
            ring,
            reactor: RefCell::default(),
            released: RefCell::default(),
            executor: Executor::default(),
            facts: RefCell::default(),
            turning: Cell::new(false),
        }
    }

    /// The reactor and its ring.
    pub(crate) fn reactor<R>(&self, act: impl FnOnce(&mut Reactor, &Ring) -> R) -> R {
        act(&mut self.reactor.borrow_mut(), &self.ring)
    }

    /// The ring, for [`crate::raw`] and for calls that must not allocate.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Releases a capability at the next turn.
    pub(crate) fn release(&self, cap: u64) {
        self.released.borrow_mut().push(cap);
    }

    /// Deals with an operation that was given up and had ended already.
    pub(crate) fn discard(&self, lent: Lent, completion: Option<Completion>, receives: bool) {
        if let Some(completion) = completion {
            self.reactor(|reactor, ring| reactor.release_received(ring, &lent, &completion, receives));
        }
        drop(lent);
    }

    fn queue_releases(&self) {
        let released = core::mem::take(&mut *self.released.borrow_mut());
        self.reactor(|reactor, ring| {
            for cap in released {
                reactor.forget(ring, entry::Operation::Release { cap });
            }
        });
    }

    /// Reads what has completed and wakes who waited for it. Says whether anything had.
    pub(crate) fn collect(&self) -> bool {
        let turned = self.reactor(Reactor::drain);
        let any = !turned.wakers.is_empty();
        for lent in turned.dropped {
            let buffer = lent.received;
            if !buffer.is_empty() {
                self.reactor(|reactor, _| reactor.pool.give(buffer));
            }
        }
        for waker in turned.wakers {
            waker.wake();
        }
        any
    }

    /// One turn: submits what is queued, waits as asked, reads what has completed.
    pub(crate) fn turn(&self, wait: Wait) {
        self.queue_releases();
        // Whoever waits for what has already completed comes before waiting for more.
        let mut woken = self.collect();
        while self.reactor(|reactor, ring| reactor.has_backlog(ring)) {
            let taken = arch::enter(self.ring.queued(), 0, 0);
            woken |= self.collect();
            if taken == 0 {
                break;
            }
        }
        let (deadline, wanted) = if woken || wait == Wait::No { (0, 0) } else { (NO_DEADLINE, 1) };
        let queued = self.ring.queued();
        if wanted > 0 {
            let at_once = self.reactor(|reactor, _| reactor.forgotten());
            arch::enter(queued, at_once.saturating_add(wanted), deadline);
        } else if queued > 0 {
            arch::enter(queued, 0, 0);
        }
        self.collect();
    }

    /// Receive buffers that the ring has room for.
    pub(crate) fn receivers(&self) -> u32 {
        (self.ring.completion_entries() / 8).max(1)
    }

    /// Whether any future waits for the kernel.
    pub(crate) fn is_waiting(&self) -> bool {
        self.reactor(|reactor, _| reactor.waited_for() > 0)
    }

    /// Marks that the loop runs; `false` where it does already.
    pub(crate) fn begin(&self) -> bool {
        !self.turning.replace(true)
    }

    /// The loop has ended.
    pub(crate) fn end(&self) {
        self.turning.set(false);
    }
}

#[cfg(all(capos_guest, feature = "program"))]
mod place {
    use core::cell::UnsafeCell;

    use super::Runtime;
    use crate::arch;

    /// Holds the runtime.
    struct OneThread(UnsafeCell<Option<Runtime>>);

    // SAFETY: only the first thread gets to what is inside. A process that may have more threads can start
    // them, but each needs a stack of its own: one on the first thread's stack would destroy what both of them
    // keep there, whatever they do with this crate.
    unsafe impl Sync for OneThread {}

    static PLACE: OneThread = OneThread(UnsafeCell::new(None));

    /// Puts the runtime in place, once, before anything uses it.
    pub(crate) fn install(runtime: Runtime) {
        // SAFETY: called by the entry before any other code of the program, so no reference exists.
        unsafe { *PLACE.0.get() = Some(runtime) };
    }

    /// The runtime, where it is in place: for the process's first thread. Any other has none.
    pub(crate) fn with<R>(act: impl FnOnce(&Runtime) -> R) -> Option<R> {
        if !arch::is_first_thread() {
            return None;
        }
        // SAFETY: written only by `install`, before the first call; shared references only, of one thread.
        unsafe { (*PLACE.0.get()).as_ref() }.map(act)
    }
}

#[cfg(any(not(capos_guest), feature = "std"))]
mod place {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::Runtime;

    std::thread_local! {
        static PLACE: RefCell<Option<Rc<Runtime>>> = const { RefCell::new(None) };
    }

    /// Puts the runtime of a test in place; the one before it is returned.
    pub(crate) fn install(runtime: Option<Runtime>) -> Option<Rc<Runtime>> {
        PLACE.with(|place| core::mem::replace(&mut *place.borrow_mut(), runtime.map(Rc::new)))
    }

    /// The runtime, where it is in place.
    pub(crate) fn with<R>(act: impl FnOnce(&Runtime) -> R) -> Option<R> {
        let runtime = PLACE.try_with(|place| place.borrow().clone()).ok().flatten()?;
        Some(act(&runtime))
    }
}

#[cfg(all(capos_guest, not(feature = "program"), not(feature = "std")))]
mod place {
    use super::Runtime;

    /// None: the crate is part of a library whose threads only make blocking calls.
    pub(crate) fn with<R>(_act: impl FnOnce(&Runtime) -> R) -> Option<R> {
        None
    }
}

#[cfg(any(not(capos_guest), feature = "program", feature = "std"))]
pub(crate) use place::install;
pub(crate) use place::with;
