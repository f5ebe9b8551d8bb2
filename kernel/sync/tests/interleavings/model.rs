//! The basis of the tests: with `--cfg loom` loom's threads, each order of whose steps is tried, otherwise those of the
//! host; and a kernel in which a thread can sleep.

use std::collections::VecDeque;
use std::convert::Infallible;
pub use std::sync::Arc;

use capos_sync::primitives::{AtomicU32, Ordering};
use capos_sync::{Futex, Waited, WordWaits};

#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex};
#[cfg(loom)]
pub use loom::thread;
#[cfg(not(loom))]
pub use std::sync::{Condvar, Mutex};
#[cfg(not(loom))]
pub use std::thread;

/// Tries every order of steps in which no more than `preemptions` threads are interrupted where they could go on; on the
/// host some orders that come about.
pub fn explore(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    #[cfg(loom)]
    {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        // A thread that waits in a loop takes many steps.
        builder.max_branches = 100_000;
        let orders = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&orders);
        builder.check(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            test();
        });
        println!("{} orders", orders.load(std::sync::atomic::Ordering::Relaxed));
    }
    #[cfg(not(loom))]
    (0..preemptions * 10).for_each(|_| test());
}

/// A thread that sleeps in the kernel.
struct Sleeper {
    woken: Mutex<bool>,
    wakes: Condvar,
}

/// Threads that wait for one word, as the kernel keeps them.
pub struct Kernel {
    waits: WordWaits<Arc<Sleeper>>,
    /// Whether it compares the word when it queues the waiting thread, as the kernel does, or before that.
    one_step: bool,
}

/// The word's name. There is one, and its place in memory is not to matter.
const WORD: u64 = 64;

impl Kernel {
    pub fn new() -> Self {
        Self { waits: WordWaits::new(1), one_step: true }
    }

    /// One that does it wrong.
    #[cfg(loom)]
    pub fn of_two_steps() -> Self {
        Self { one_step: false, ..Self::new() }
    }
}

impl Futex for Kernel {
    fn wait(&self, word: &AtomicU32, expected: u32) {
        let sleeper = Arc::new(Sleeper { woken: Mutex::new(false), wakes: Condvar::new() });
        // The kernel reads it without the lock's help; only the lock orders its reading.
        let holds = || word.load(Ordering::Relaxed) == expected;
        if !self.one_step && !holds() {
            return;
        }
        let compare = || Ok::<_, Infallible>(!self.one_step || holds());
        match self.waits.wait(WORD, compare, || Ok(Arc::clone(&sleeper)), |_, _| ()) {
            Ok(Waited::Queued) => {
                let mut woken = sleeper.woken.lock().unwrap();
                while !*woken {
                    woken = sleeper.wakes.wait(woken).unwrap();
                }
            }
            Ok(Waited::Changed) => {}
            Ok(Waited::NoMemory(_)) => panic!("there is memory enough"),
        }
    }

    fn wake(&self, _: *const AtomicU32, count: u32) {
        self.waits.wake(WORD, count, |sleeper| {
            *sleeper.woken.lock().unwrap() = true;
            sleeper.wakes.notify_one();
            true
        });
    }
}

/// Tasks that can go on.
pub type Queue = Mutex<VecDeque<u32>>;

/// A number that is read and written in two steps, so that two concurrent threads are detected.
pub struct Counter(AtomicU32);

impl Counter {
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub fn count(&self) {
        self.0.store(self.get() + 1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
