//! The one runtime of a process's thread, and the turn of its loop.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::task::Waker;

use capos_abi::entry;
use capos_abi::syscall::NO_DEADLINE;
use capos_ring::Ring;
use capos_ring::message::Lent;
use capos_schema::cap::Client;
use capos_schema::kernel::{AddressSpaceClient, ResourceAccountClient, TimerClient};
use capos_schema::system::StandardClient;

use crate::env::Env;
use crate::executor::Executor;
use crate::log::Log;
#[cfg(all(capos_guest, feature = "std"))]
pub(crate) use crate::on_std::{idle_ring, with, with_spare};
#[cfg(all(capos_guest, not(feature = "std")))]
pub(crate) use crate::process::place::with;
use crate::reactor::{Ended, Key, Reactor, Request};
#[cfg(not(capos_guest))]
pub(crate) use crate::simulated::with_runtime as with;

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

/// Facts that the rest of the crate looks up: capabilities that every process has, and where logs go.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) space: Option<AddressSpaceClient>,
    pub(crate) account: Option<ResourceAccountClient>,
    pub(crate) timer: Option<TimerClient>,
    #[cfg(not(all(capos_guest, feature = "std")))]
    pub(crate) addresses: capos_ring::Addresses,
    pub(crate) log: Log,
    /// Where a line goes that must take no memory, before `log` is known.
    #[cfg(all(capos_guest, not(feature = "std")))]
    pub(crate) last_words: capos_ring::LastWords,
    /// Where a program that a person or an agent runs reports errors.
    pub(crate) errors: Option<StandardClient>,
}

impl Facts {
    /// Looks them up among what the process was given.
    pub(crate) fn learn(&mut self, env: &Env) {
        self.space = env.raw("space").map(Client::from_cap);
        self.account = env.raw("account").map(Client::from_cap);
        self.timer = env.raw("timer").map(Client::from_cap);
        self.log.logger = env.optional("logger").ok().flatten();
        self.log.debug = env.optional("log").ok().flatten();
        self.errors = ["err", "out"].iter().find_map(|name| env.optional(name).ok().flatten());
    }
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
    #[inline(always)]
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

    /// Cancels an operation. If it had ended already, its memory is dropped now.
    pub(crate) fn abandon(&self, key: Key) {
        let Some((lent, completion, receives)) = self.reactor(|reactor, ring| reactor.abandon(ring, key)) else {
            return;
        };
        if let Some(completion) = completion {
            self.reactor(|reactor, ring| reactor.release_received(ring, &lent, &completion, receives));
        }
        self.give_back(lent);
    }

    /// The memory that an operation lends, see [`Pool::lend`](crate::pool::Pool::lend).
    #[inline]
    pub(crate) fn lend(&self, bytes: usize) -> Box<Lent> {
        self.reactor.borrow_mut().pool.lend(bytes)
    }

    /// Starts an operation, and wakes `waker` when it has ended. `None` if 2^32 are in flight.
    #[inline]
    pub(crate) fn start(&self, lent: Box<Lent>, request: &Request, waker: Option<Waker>) -> Option<Key> {
        self.reactor.borrow_mut().start(&self.ring, lent, request, waker)
    }

    /// Keeps an operation's lent memory for the next ones.
    #[inline(always)]
    pub(crate) fn give_back(&self, mut lent: Box<Lent>) {
        // While nothing is borrowed: capabilities may belong to other code. Mostly there are none.
        if lent.sent_caps.capacity() > 0 {
            drop(core::mem::take(&mut lent.sent_caps));
        }
        lent.sent = Vec::new();
        self.reactor.borrow_mut().pool.give_lent(lent);
    }

    #[inline]
    fn queue_releases(&self) {
        if self.released.borrow().is_empty() {
            return;
        }
        let released = core::mem::take(&mut *self.released.borrow_mut());
        self.reactor(|reactor, ring| {
            for cap in released {
                reactor.forget(ring, entry::Operation::Release { cap });
            }
        });
    }

    /// Reads completions and wakes their waiters. Returns whether there was one.
    #[inline(never)]
    pub(crate) fn collect(&self) -> bool {
        self.collect_here()
    }

    /// The same, as a part of the caller.
    #[inline(always)]
    fn collect_here(&self) -> bool {
        let mut any = false;
        while let Some(completion) = self.ring.pop() {
            let ended = self.reactor.borrow_mut().take(&self.ring, completion);
            match ended {
                Some(Ended::Wake(waker)) => {
                    any = true;
                    waker.wake();
                }
                Some(Ended::Drop(lent)) => self.give_back(lent),
                None => {}
            }
        }
        // Each has left room for another.
        self.reactor.borrow_mut().refill(&self.ring);
        any
    }

    /// One turn: submits queued entries, waits as asked, reads completions.
    #[inline]
    pub(crate) fn turn(&self, wait: Wait) {
        self.queue_releases();
        // A waiter for a completion that has already come precedes waiters for more.
        let mut woken = self.ring.unread() > 0 && self.collect();
        let mut reactor = self.reactor.borrow_mut();
        while reactor.has_backlog(&self.ring) {
            drop(reactor);
            let taken = self.ring.enter(0, 0);
            woken |= self.collect();
            reactor = self.reactor.borrow_mut();
            if taken == 0 {
                break;
            }
        }
        let at_once = reactor.forgotten();
        drop(reactor);
        if !woken && wait == Wait::Completion {
            self.ring.enter(at_once.saturating_add(1), NO_DEADLINE);
        } else if self.ring.queued() > 0 {
            self.ring.enter(0, 0);
        }
        self.collect_here();
    }

    /// Cancels what is in flight and waits until the kernel has given everything back.
    #[cfg(any(not(capos_guest), feature = "std"))]
    pub(crate) fn settle(&self) {
        self.reactor(Reactor::cancel_all);
        loop {
            self.queue_releases();
            self.collect();
            if self.released.borrow().is_empty() && self.reactor(|reactor, _| reactor.is_idle()) {
                return;
            }
            self.ring.enter(1, NO_DEADLINE);
        }
    }

    /// Receive buffers that the ring has room for.
    pub(crate) fn receivers(&self) -> u32 {
        (self.ring.completion_entries() / 8).max(1)
    }

    /// Whether any future waits for the kernel.
    pub(crate) fn is_waiting(&self) -> bool {
        self.reactor(|reactor, _| reactor.waited_for() > 0)
    }

    /// Whether the loop runs.
    #[cfg(all(capos_guest, feature = "std"))]
    pub(crate) fn is_running(&self) -> bool {
        self.turning.get()
    }

    /// Marks that the loop runs; `false` if it does already.
    pub(crate) fn begin(&self) -> bool {
        !self.turning.replace(true)
    }

    /// The loop has ended.
    pub(crate) fn end(&self) {
        self.turning.set(false);
    }
}

/// The calling thread's ring, if calls block the thread: only programs on `std` have such.
#[cfg(not(all(capos_guest, feature = "std")))]
#[inline]
pub(crate) fn idle_ring() -> Option<Ring> {
    None
}

/// Memory for a call that blocks the thread.
#[cfg(not(all(capos_guest, feature = "std")))]
pub(crate) fn with_spare<R>(act: impl FnOnce(&mut Lent) -> R) -> R {
    act(&mut Lent::default())
}
