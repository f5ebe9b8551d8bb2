//! Threads that the inference engine shares its work among, on the host and in the model worker.
//!
//! They wait for work without sleeping for a while, since the next comes within microseconds.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod permission;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capos_engine::Pool;

pub use permission::permit_tiles;

/// For how long a thread looks for work before it sleeps.
const AWAKE: Duration = Duration::from_millis(5);

/// Looks for work before a thread lets others have the processor, of which there may be fewer than threads.
const LOOKS: usize = 128;

/// What the threads run.
type Work<'w> = dyn Fn() + Sync + 'w;

/// The threads and what they share.
pub struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Counts up with each piece of work, and when the threads are to end.
    round: AtomicUsize,
    /// Threads that have not done this round's work.
    busy: AtomicUsize,
    ends: AtomicBool,
    /// The work panicked on one of the threads.
    panicked: AtomicBool,
    work: Mutex<Option<&'static Work<'static>>>,
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
        for index in 1..count.max(1) {
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
        // SAFETY: only the lifetime changes. The threads use `work` until they have counted themselves off `busy`;
        // this waits for that, also when `work` panics here, and takes it from them before it comes back.
        let lasting = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        let shared = &*self.shared;
        *lock(&shared.work) = Some(lasting);
        shared.busy.store(self.handles.len(), Ordering::Relaxed);
        let waiting = WaitForAll { shared };
        shared.next_round();
        work();
        drop(waiting);
    }
}

/// Waits, when dropped, until all other threads have done their work.
struct WaitForAll<'s> {
    shared: &'s Shared,
}

impl Drop for WaitForAll<'_> {
    fn drop(&mut self) {
        let mut looks = 0usize;
        while self.shared.busy.load(Ordering::Acquire) > 0 {
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
    fn next_round(&self) {
        let sleeping = lock(&self.sleeping);
        self.round.fetch_add(1, Ordering::Release);
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
            let work = *lock(&self.work);
            if let Some(work) = work
                && std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err()
            {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.busy.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits for the next round.
    fn wait_for_other_than(&self, seen: usize) -> usize {
        let began = Instant::now();
        while began.elapsed() < AWAKE {
            for _ in 0..LOOKS {
                let round = self.round.load(Ordering::Acquire);
                if round != seen {
                    return round;
                }
                spin_loop();
            }
            std::thread::yield_now();
        }
        let mut sleeping = lock(&self.sleeping);
        loop {
            let round = self.round.load(Ordering::Acquire);
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
        self.shared.next_round();
        for handle in self.handles.drain(..) {
            // What panicked there was said when the work ended.
            let _ = handle.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_runs_the_work_once_a_round() {
        let threads = Threads::new(3).unwrap();
        let count = AtomicUsize::new(0);
        for round in 1..=100 {
            threads.run(&|| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.load(Ordering::Relaxed), 3 * round);
        }
    }

    #[test]
    fn threads_that_sleep_are_woken() {
        let threads = Threads::new(2).unwrap();
        while *lock(&threads.shared.sleeping) == 0 {
            std::thread::yield_now();
        }
        let count = AtomicUsize::new(0);
        threads.run(&|| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_panic_on_another_thread_is_not_lost() {
        let threads = Threads::new(2).unwrap();
        let own = std::thread::current().id();
        let work = || assert_eq!(std::thread::current().id(), own);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| threads.run(&work)));
        assert!(outcome.is_err());
    }
}
