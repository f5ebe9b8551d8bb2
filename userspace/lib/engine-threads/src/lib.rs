//! Threads that the inference engine shares its work among, on the host and in the model worker.
//!
//! They spin for a while before they sleep, since the next work arrives within microseconds. The caller does not wait
//! for a thread that has not joined by the time the others have finished. So a thread whose processor does something
//! else delays only the piece that it has begun.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod permission;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capos_engine::Pool;

pub use permission::permit_tiles;

/// For how long a thread looks for work before it sleeps.
const AWAKE: Duration = Duration::from_millis(5);

/// Looks for work before a thread yields the processor, since there may be fewer processors than threads.
const LOOKS: usize = 128;

/// The state of the work: in the lowest bits the number of threads that have joined and not yet left, then whether more
/// may join, then the round's number. One word, so that no thread joins a closed round, or a later round instead of the
/// one it read.
const JOINED: u64 = OPEN - 1;
const OPEN: u64 = 1 << 16;
const ROUND: u64 = OPEN << 1;

/// Threads at most: as many as [`JOINED`] can count.
const MOST: usize = 1 << 15;

/// The function that the threads run.
type Work<'w> = dyn Fn() + Sync + 'w;

/// The threads and their shared state.
pub struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// See [`JOINED`]. The round counts up with each piece of work, and when the threads are to end.
    state: AtomicU64,
    ends: AtomicBool,
    /// The work panicked on one of the threads.
    panicked: AtomicBool,
    work: Mutex<Option<&'static Work<'static>>>,
    /// Held by the caller that shares out work, so that there is one round at a time.
    caller: Mutex<()>,
    sleeping: Mutex<usize>,
    wake: Condvar,
}

impl Threads {
    /// `count` threads, the caller's own with them.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn new(count: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut handles = Vec::new();
        for index in 1..count.clamp(1, MOST) {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("engine-{index}"));
            handles.push(builder.spawn(move || shared.serve())?);
        }
        Ok(Self { shared, handles })
    }
}

impl Pool for Threads {
    fn threads(&self) -> usize {
        self.handles.len().saturating_add(1)
    }

    #[expect(unsafe_code, reason = "work that is lent to threads which live longer")]
    fn run(&self, work: &Work<'_>) {
        let _caller = lock(&self.shared.caller);
        // SAFETY: only the lifetime changes. The threads use `work` between joining this round and leaving it. Before
        // this function returns or unwinds, it closes the round, waits until all threads that joined have left, and
        // clears `work`. The lock above prevents another round meanwhile.
        let lasting = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        let shared = &*self.shared;
        *lock(&shared.work) = Some(lasting);
        let waiting = WaitForJoined { shared };
        shared.next_round(OPEN);
        work();
        drop(waiting);
    }
}

/// When dropped, ends the round: no thread may join any more, and it waits for those that have.
struct WaitForJoined<'s> {
    shared: &'s Shared,
}

impl Drop for WaitForJoined<'_> {
    fn drop(&mut self) {
        self.shared.state.fetch_and(!OPEN, Ordering::Relaxed);
        let mut looks = 0usize;
        while self.shared.state.load(Ordering::Acquire) & JOINED > 0 {
            looks = looks.wrapping_add(1);
            match looks.is_multiple_of(LOOKS) {
                true => std::thread::yield_now(),
                false => spin_loop(),
            }
        }
        *lock(&self.shared.work) = None;
        let panicked = self.shared.panicked.swap(false, Ordering::Relaxed);
        assert!(!panicked || std::thread::panicking(), "the work panicked on another thread");
    }
}

impl Shared {
    /// Begins the next round, which no thread has joined yet; `open` says whether threads may.
    fn next_round(&self, open: u64) {
        let sleeping = lock(&self.sleeping);
        self.state.fetch_add(ROUND | open, Ordering::Release);
        if *sleeping > 0 {
            self.wake.notify_all();
        }
    }

    fn serve(&self) {
        let mut seen = 0;
        loop {
            seen = self.wait_for_other_than(seen);
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            if !self.join(seen) {
                continue;
            }
            let work = *lock(&self.work);
            if let Some(work) = work
                && std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err()
            {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.state.fetch_sub(1, Ordering::Release);
        }
    }

    /// Joins a round, unless it is over.
    fn join(&self, round: u64) -> bool {
        let joined = |state: u64| (round_of(state) == round && state & OPEN > 0).then(|| state.saturating_add(1));
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, joined).is_ok()
    }

    /// Waits for the next round.
    fn wait_for_other_than(&self, seen: u64) -> u64 {
        let began = Instant::now();
        while began.elapsed() < AWAKE {
            for _ in 0..LOOKS {
                let round = round_of(self.state.load(Ordering::Acquire));
                if round != seen {
                    return round;
                }
                spin_loop();
            }
            std::thread::yield_now();
        }
        let mut sleeping = lock(&self.sleeping);
        loop {
            let round = round_of(self.state.load(Ordering::Acquire));
            if round != seen {
                return round;
            }
            *sleeping = sleeping.saturating_add(1);
            sleeping = self.wake.wait(sleeping).unwrap_or_else(PoisonError::into_inner);
            *sleeping = sleeping.saturating_sub(1);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.shared.next_round(0);
        for handle in self.handles.drain(..) {
            // A panic there was reported when the work ended.
            let _ = handle.join();
        }
    }
}

fn round_of(state: u64) -> u64 {
    state / ROUND
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn each_thread_joins_a_round_once_at_most() {
        let threads = Threads::new(3).unwrap();
        for _ in 0..1000 {
            let who = Mutex::new(Vec::new());
            threads.run(&|| lock(&who).push(std::thread::current().id()));
            let who = who.into_inner().unwrap();
            let different: std::collections::HashSet<_> = who.iter().collect();
            assert!(different.contains(&std::thread::current().id()));
            assert_eq!(different.len(), who.len());
        }
        assert_eq!(threads.shared.state.load(Ordering::Relaxed), 1000 * ROUND);
    }

    #[test]
    fn threads_that_sleep_are_woken() {
        let threads = Threads::new(2).unwrap();
        while *lock(&threads.shared.sleeping) == 0 {
            std::thread::yield_now();
        }
        // Neither is done before the other has come.
        let both = Barrier::new(2);
        threads.run(&|| {
            both.wait();
        });
    }

    #[test]
    fn a_round_is_joined_while_it_is_open_and_no_other_in_its_place() {
        let shared = Shared::default();
        assert!(!shared.join(0), "there was no round");
        shared.next_round(OPEN);
        assert!(!shared.join(0) && !shared.join(2) && shared.join(1) && shared.join(1));
        assert_eq!(shared.state.load(Ordering::Relaxed), ROUND | OPEN | 2);
        shared.state.fetch_sub(2, Ordering::Relaxed);
        drop(WaitForJoined { shared: &shared });
        assert!(!shared.join(1), "it was over");
        shared.next_round(OPEN);
        assert!(!shared.join(1) && shared.join(2));
    }

    #[test]
    fn who_does_not_come_is_not_waited_for() {
        // Threads that never look for work.
        let threads = Threads { shared: Arc::default(), handles: vec![std::thread::spawn(|| {})] };
        let count = AtomicU64::new(0);
        threads.run(&|| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 1);
    }

    #[test]
    fn work_that_was_joined_is_waited_for() {
        let threads = Threads::new(2).unwrap();
        let own = std::thread::current().id();
        let (both, done) = (Barrier::new(2), AtomicBool::new(false));
        threads.run(&|| {
            both.wait();
            if std::thread::current().id() != own {
                (0..100).for_each(|_| std::thread::yield_now());
                done.store(true, Ordering::Relaxed);
            }
        });
        assert!(done.into_inner());
    }

    #[test]
    fn a_panic_on_another_thread_is_not_lost() {
        let threads = Threads::new(2).unwrap();
        let own = std::thread::current().id();
        let both = Barrier::new(2);
        let work = || {
            both.wait();
            assert_eq!(std::thread::current().id(), own);
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| threads.run(&work)));
        assert!(outcome.is_err());
    }
}
