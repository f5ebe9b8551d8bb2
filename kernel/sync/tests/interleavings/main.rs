//! Locks, waits and rings in every order of their threads' steps: `make loom`. Without `--cfg loom` the same tests run on
//! threads of the host, where orders come about by chance.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::arithmetic_side_effects)] // Helpers of tests count as tests.

mod model;
mod rings;

use capos_sync::{Flag, Futex, Knocks, Presence, SharedLock, Step, TicketLock, WordLock};
use model::{Arc, Counter, Kernel, Queue, explore, thread};

/// As many threads as numbers take the lock, each once.
fn take_by<const THREADS: u32>(preemptions: usize) {
    explore(preemptions, || {
        // The tickets wrap.
        let shared = Arc::new((TicketLock::new(u32::MAX), Counter::new()));
        let work = |shared: Arc<(TicketLock, Counter)>| {
            move || {
                let (lock, counter) = &*shared;
                lock.take(thread::yield_now);
                counter.count();
                lock.give();
            }
        };
        let others: Vec<_> = (1..THREADS).map(|_| thread::spawn(work(Arc::clone(&shared)))).collect();
        work(Arc::clone(&shared))();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.1.get(), THREADS);
    });
}

#[test]
fn the_kernels_lock_lets_one_in_at_a_time() {
    take_by::<2>(5);
    // Two that wait in turns could be followed for ever.
    take_by::<3>(1);
}

fn wait_in_line() -> bool {
    thread::yield_now();
    true
}

/// A lock, a counter of each of `SHARERS`, and a common one.
struct Shared<const SHARERS: usize> {
    lock: SharedLock,
    sharers: [(Presence, Counter); SHARERS],
    all: Counter,
}

impl<const SHARERS: usize> Shared<SHARERS> {
    /// Holds the lock exclusively, and counts everywhere.
    fn alone(&self) {
        self.lock.take(|| Some(self.sharers.iter().map(|(presence, _)| presence)), thread::yield_now);
        self.sharers.iter().for_each(|(_, own)| own.count());
        self.all.count();
        self.lock.give();
    }

    /// Shares the lock and counts for itself if the lock is open; otherwise holds it exclusively, as a processor does.
    fn share(&self, number: usize) -> u32 {
        let (presence, own) = &self.sharers[number];
        if !self.lock.try_share(presence) && !self.lock.share_in_time(presence, wait_in_line) {
            self.alone();
            return 1;
        }
        assert!(presence.is_in());
        let before = self.all.get();
        own.count();
        assert_eq!(self.all.get(), before, "somebody holds the lock exclusively meanwhile");
        presence.leave();
        0
    }
}

/// Two sharers both need the lock exclusively: each gets it once, after it has stopped sharing.
#[test]
fn sharers_of_the_kernel_lock_upgrade_it() {
    explore(2, || {
        let sharers = std::array::from_fn(|_| (Presence::new(), Counter::new()));
        let shared = Arc::new(Shared::<2> { lock: SharedLock::new(), sharers, all: Counter::new() });
        let work = |shared: Arc<Shared<2>>, number: usize| {
            move || {
                let Shared { lock, sharers, all } = &*shared;
                let (presence, own) = &sharers[number];
                let others = || Some(sharers.iter().map(|(presence, _)| presence));
                if lock.try_share(presence) {
                    own.count();
                    lock.exclude(presence, others, thread::yield_now);
                } else {
                    lock.take(others, thread::yield_now);
                    own.count();
                }
                assert!(!presence.is_in());
                sharers.iter().for_each(|(_, own)| own.count());
                all.count();
                lock.give();
            }
        };
        let other = thread::spawn(work(Arc::clone(&shared), 0));
        work(Arc::clone(&shared), 1)();
        other.join().unwrap();
        assert_eq!((shared.all.get(), shared.sharers[0].1.get(), shared.sharers[1].1.get()), (2, 3, 3));
    });
}

/// `SHARERS` share a lock while one thread takes it exclusively, each once.
fn share_by<const SHARERS: usize>(preemptions: usize) {
    explore(preemptions, || {
        let sharers = std::array::from_fn(|_| (Presence::new(), Counter::new()));
        let shared = Arc::new(Shared::<SHARERS> { lock: SharedLock::new(), sharers, all: Counter::new() });
        let others: Vec<_> = (0..SHARERS)
            .map(|number| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.share(number))
            })
            .collect();
        shared.alone();
        let alone: Vec<u32> = others.into_iter().map(|other| other.join().unwrap()).collect();
        let total = 1 + alone.iter().sum::<u32>();
        assert_eq!(shared.all.get(), total);
        for ((_, own), alone) in shared.sharers.iter().zip(alone) {
            assert_eq!(own.get(), total + 1 - alone, "a count was lost");
        }
    });
}

#[test]
fn the_exclusive_holder_meets_no_sharer() {
    share_by::<1>(4);
    share_by::<2>(1);
}

/// Two sharers share a lock at once.
#[test]
fn who_shares_the_kernels_lock_waits_for_nobody_who_does() {
    explore(1, || {
        let (lock, first, second) = (SharedLock::new(), Presence::new(), Presence::new());
        assert!(lock.try_share(&first) && lock.try_share(&second));
        second.leave();
        first.leave();
        lock.take(|| Some([&first, &second].into_iter()), || panic!("nobody shares it"));
        assert!(!lock.try_share(&first) && !first.is_in());
        lock.give();
        assert!(lock.try_share(&first));
    });
}

fn lock_thrice(preemptions: usize, kernel: fn() -> Kernel) {
    explore(preemptions, move || {
        let shared = Arc::new((WordLock::new(), Counter::new(), kernel()));
        let work = |shared: Arc<(WordLock, Counter, Kernel)>| {
            move || {
                let (lock, counter, kernel) = &*shared;
                lock.lock(kernel);
                counter.count();
                lock.unlock(kernel);
            }
        };
        let others = [0, 1].map(|_| thread::spawn(work(Arc::clone(&shared))));
        work(Arc::clone(&shared))();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.1.get(), 3);
        assert!(shared.0.try_lock() && !shared.0.try_lock());
    });
}

#[test]
fn the_c_librarys_lock_lets_one_in_at_a_time_and_wakes_who_sleeps() {
    lock_thrice(3, Kernel::new);
}

/// Comparing the word and beginning to wait have to be one step: otherwise a wake between the two is missed, and loom
/// finds threads that sleep for ever.
#[test]
#[cfg(loom)]
#[should_panic(expected = "deadlock")]
fn a_kernel_that_compares_before_it_queues_misses_a_wake() {
    lock_thrice(2, Kernel::of_two_steps);
}

#[test]
fn who_waits_for_a_step_sees_what_was_done_before_it() {
    explore(3, || {
        let shared = Arc::new((Step::new(), Counter::new(), Kernel::new()));
        let work = |shared: Arc<(Step, Counter, Kernel)>| {
            move || {
                let (step, counter, kernel) = &*shared;
                step.wait(kernel);
                assert!(step.is_done());
                assert_eq!(counter.get(), 1);
            }
        };
        let others = [0, 1].map(|_| thread::spawn(work(Arc::clone(&shared))));
        shared.1.count();
        shared.0.take(&shared.2);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// A task that is woken while it is queued already, or while it is polled.
#[test]
fn a_task_sees_what_was_done_before_it_was_woken_also_in_vain() {
    explore(8, || {
        let shared = Arc::new((Flag::new(true), Queue::new([1].into()), Counter::new()));
        let waker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (queued, queue, done) = &*shared;
                done.count();
                if queued.raise() {
                    queue.lock().unwrap().push_back(1);
                }
            })
        };
        let (queued, queue, done) = &*shared;
        let poll = || {
            let next = queue.lock().unwrap().pop_front();
            next.map(|_| {
                queued.lower();
                done.get()
            })
        };
        let mut seen = poll();
        waker.join().unwrap();
        while let Some(found) = poll() {
            seen = Some(found);
        }
        assert_eq!(seen, Some(1), "the task sleeps, and what it waits for has happened");
    });
}

/// The executor's loop, which sleeps if there is nothing to do: [`Flag`] and [`Knocks`] as it uses them.
#[test]
fn an_executor_that_sleeps_hears_every_knock() {
    explore(6, || {
        struct Shared {
            woken: Flag,
            knocks: Knocks,
            done: Counter,
            kernel: Kernel,
        }
        let shared = Arc::new(Shared {
            woken: Flag::new(true),
            knocks: Knocks::new(),
            done: Counter::new(),
            kernel: Kernel::new(),
        });
        let waker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.done.count();
                shared.woken.raise();
                shared.knocks.knock(|word| shared.kernel.wake(word, 1));
            })
        };
        loop {
            if shared.woken.lower() && shared.done.get() == 1 {
                break;
            }
            // It listens before it looks whether it may sleep.
            let heard = shared.knocks.heard();
            if !shared.woken.is_raised() {
                shared.kernel.wait(shared.knocks.word(), heard);
            }
        }
        waker.join().unwrap();
    });
}
