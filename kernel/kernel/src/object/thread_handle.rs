//! What a Thread capability designates: it outlives the thread, so that everybody can learn how
//! that ended, and keeps nothing of it.

use alloc::string::String;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicI8, AtomicU64, Ordering};

use spin::Mutex;

use crate::cpu::budget::Budget;
use crate::cpu::kernel_lock::Exclusive;
use crate::object::account::Charge;
use crate::object::ending::{self, Ending};
use crate::object::process::End;
use crate::object::thread::Thread;

static NEXT: AtomicU64 = AtomicU64::new(1);

struct Life {
    /// The thread itself, while it lives.
    thread: Weak<Thread>,
    name: String,
}

/// A thread as others know it.
pub struct ThreadHandle {
    pub id: u64,
    /// CPU time that it has used, ticks of the time-stamp counter.
    pub cpu_ticks: AtomicU64,
    priority: AtomicI8,
    /// The processors that it may run on, from bit 0.
    affinity: AtomicU64,
    life: Mutex<Life>,
    pub ending: Arc<Ending>,
    _charge: Charge,
}

impl core::fmt::Debug for ThreadHandle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "thread {}", self.id)?;
        let name = &self.life.lock().name;
        if name.is_empty() { Ok(()) } else { write!(f, " `{name}`") }
    }
}

impl ThreadHandle {
    /// That of a thread which is being made; `charge` pays for it for as long as anybody holds it.
    pub fn new(thread: Weak<Thread>, priority: i8, charge: Charge) -> Arc<Self> {
        let life = Life { thread, name: String::new() };
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            cpu_ticks: AtomicU64::new(0),
            priority: AtomicI8::new(priority),
            affinity: AtomicU64::new(u64::MAX),
            life: Mutex::new(life),
            ending: Ending::new(ending::answer_thread),
            _charge: charge,
        })
    }

    /// The thread, while it lives.
    pub fn living(&self) -> Option<Arc<Thread>> {
        self.life.lock().thread.upgrade()
    }

    /// Which threads it goes before.
    pub fn priority(&self) -> i8 {
        self.priority.load(Ordering::Relaxed)
    }

    /// Says which threads it goes before; [`crate::sched::scheduler::rank`] then moves it.
    pub fn set_priority(&self, priority: i8) {
        self.priority.store(priority, Ordering::Relaxed);
    }

    /// Whether it may run on the processor of this number.
    pub fn may_run_on(&self, processor: u32) -> bool {
        self.affinity.load(Ordering::Relaxed).checked_shr(processor).is_some_and(|rest| rest & 1 == 1)
    }

    /// Says which processors it may run on; [`crate::sched::scheduler::settle`] then moves it.
    pub fn set_affinity(&self, processors: u64) {
        self.affinity.store(processors, Ordering::Relaxed);
    }

    /// Its name; empty where it has none.
    pub fn name(&self) -> String {
        self.life.lock().name.clone()
    }

    /// Gives it a name.
    pub fn set_name(&self, name: String) {
        let old = core::mem::replace(&mut self.life.lock().name, name);
        drop(old);
    }

    /// Tells those who wait that it has ended, as far as the budget allows. The first end counts. Whether all are told.
    pub fn end(&self, lock: &mut Exclusive, end: &Arc<End>, budget: &mut Budget) -> bool {
        self.ending.set(end);
        let thread = core::mem::take(&mut self.life.lock().thread);
        drop(thread);
        self.ending.tell(lock, budget)
    }
}
