//! The single-threaded executor: tasks, and the queue of those that can go on.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};

use capos_sync::Flag;
use spin::Mutex;

use crate::error::Error;
use crate::runtime::{Runtime, Wait};

/// A task's future.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Names a task: its place, and how many the place held before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskId {
    index: usize,
    generation: u64,
}

/// Tasks that can go on, in the order in which they were woken.
#[derive(Debug, Default)]
struct Ready {
    queue: Mutex<VecDeque<TaskId>>,
    /// How many there are, for the loop, which looks more often than it takes one.
    length: AtomicUsize,
    #[cfg(all(capos_guest, feature = "std"))]
    door: crate::rouse::Door,
}

impl Ready {
    /// One more task can go on.
    fn push(&self, task: TaskId) {
        let mut queue = self.queue.lock();
        queue.push_back(task);
        self.length.store(queue.len(), Ordering::Release);
        drop(queue);
        self.announce();
    }

    /// Takes the one that waits longest.
    fn pop(&self) -> Option<TaskId> {
        let mut queue = self.queue.lock();
        let task = queue.pop_front();
        self.length.store(queue.len(), Ordering::Release);
        task
    }

    /// How many tasks can go on.
    #[inline]
    fn len(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }

    /// Says that something can go on: another thread may have seen to it, while the loop sleeps.
    #[inline]
    fn announce(&self) {
        #[cfg(all(capos_guest, feature = "std"))]
        self.door.knock();
    }
}

/// Wakes one task. Waking twice before it runs counts once.
struct TaskWaker {
    task: TaskId,
    queued: Flag,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.raise() {
            self.ready.push(self.task);
        }
    }
}

struct TaskSlot {
    generation: u64,
    /// Taken out while it is polled.
    task: Option<Running>,
    /// Whether it is polled, and was not cancelled meanwhile.
    polled: bool,
}

struct Running {
    future: TaskFuture,
    wake: Arc<TaskWaker>,
    /// The same, for the future's context.
    waker: Waker,
}

/// All tasks of the thread.
#[derive(Default)]
pub(crate) struct Executor {
    slots: RefCell<Vec<TaskSlot>>,
    free: RefCell<Vec<usize>>,
    ready: Arc<Ready>,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

/// Wakes the loop for its main future.
struct MainWaker {
    woken: Flag,
    ready: Arc<Ready>,
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.raise();
        self.ready.announce();
    }
}

impl Executor {
    /// Adds a task; it runs at the next turn.
    pub(crate) fn spawn(&self, future: TaskFuture) -> TaskId {
        let mut slots = self.slots.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(TaskSlot { generation: 0, task: None, polled: false });
            slots.len().saturating_sub(1)
        });
        let generation = slots.get(index).map_or(0, |slot| slot.generation).saturating_add(1);
        let task = TaskId { index, generation };
        let wake = Arc::new(TaskWaker { task, queued: Flag::new(false), ready: self.ready.clone() });
        wake.wake_by_ref();
        if let Some(slot) = slots.get_mut(index) {
            let waker = Waker::from(wake.clone());
            *slot = TaskSlot { generation, task: Some(Running { future, wake, waker }), polled: false };
        }
        task
    }

    /// Ends a task: its future is dropped here, or when its poll returns if it ends itself.
    pub(crate) fn cancel(&self, task: TaskId) {
        let future = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(task.index) else { return };
            if slot.generation != task.generation {
                return;
            }
            if !core::mem::take(&mut slot.polled) && slot.task.is_none() {
                return;
            }
            self.free.borrow_mut().push(task.index);
            slot.task.take()
        };
        drop(future);
    }

    /// Polls one task that is ready, if there is one.
    fn step(&self) {
        let Some(task) = self.ready.pop() else { return };
        let taken = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.get_mut(task.index).filter(|slot| slot.generation == task.generation);
            slot.and_then(|slot| {
                let running = slot.task.take()?;
                slot.polled = true;
                Some(running)
            })
        };
        let Some(mut running) = taken else { return };
        // The effects of a thread before it woke a task that was still queued are visible to this poll.
        running.wake.queued.lower();
        let ended = running.future.as_mut().poll(&mut Context::from_waker(&running.waker)).is_ready();
        let mut slots = self.slots.borrow_mut();
        if let Some(slot) = slots.get_mut(task.index)
            && slot.generation == task.generation
            && core::mem::take(&mut slot.polled)
        {
            if !ended {
                slot.task = Some(running);
                return;
            }
            self.free.borrow_mut().push(task.index);
        }
        // It has ended, or was cancelled while it ran. Dropping it may start tasks.
        drop(slots);
        drop(running);
    }

    /// Drops every task.
    #[cfg(any(not(capos_guest), feature = "std"))]
    pub(crate) fn drop_all(&self) {
        loop {
            let tasks: Vec<Running> = {
                let (mut slots, mut free) = (self.slots.borrow_mut(), self.free.borrow_mut());
                let running = slots.iter_mut().enumerate().filter_map(|(index, slot)| {
                    let task = slot.task.take();
                    if core::mem::take(&mut slot.polled) || task.is_some() {
                        free.push(index);
                    }
                    task
                });
                running.collect()
            };
            // Dropping may start tasks.
            if tasks.is_empty() {
                break;
            }
        }
        while self.ready.pop().is_some() {}
    }

    fn has_ready(&self) -> bool {
        self.ready.len() > 0
    }
}

/// The end of the loop, also by a panic.
struct Ending<'a>(&'a Runtime);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        // A process without `std` ends with its loop, and the kernel takes everything back.
        #[cfg(any(not(capos_guest), feature = "std"))]
        {
            self.0.executor.drop_all();
            self.0.settle();
        }
        self.0.end();
    }
}

impl Runtime {
    /// Runs all tasks until `main` has ended.
    ///
    /// # Errors
    /// Every task waits and nothing is in flight that could wake one, or the loop runs already.
    pub(crate) fn block_on<T>(&self, main: impl Future<Output = T>) -> Result<T, Error> {
        if !self.begin() {
            return Err(Error::new("the executor runs already; await the future instead"));
        }
        let ending = Ending(self);
        let result = self.run(main);
        drop(ending);
        result
    }

    fn run<T>(&self, main: impl Future<Output = T>) -> Result<T, Error> {
        let mut main = pin!(main);
        let main_waker = Arc::new(MainWaker { woken: Flag::new(true), ready: self.executor.ready.clone() });
        let woken = &main_waker.woken;
        let waker = Waker::from(main_waker.clone());
        #[cfg(all(capos_guest, feature = "std"))]
        let mut listener = crate::rouse::Listener::default();
        loop {
            if woken.lower()
                && let Poll::Ready(value) = main.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Ok(value);
            }
            // Ready tasks run before the ring is entered again; tasks that become ready meanwhile
            // come after, so that a task that wakes itself does not delay completions.
            for _ in 0..self.executor.ready.len() {
                self.executor.step();
            }
            #[cfg(all(capos_guest, feature = "std"))]
            listener.listen(&self.executor.ready.door, &waker);
            let is_ready = || self.executor.has_ready() || woken.is_raised();
            let idle = !is_ready();
            let wait = if idle && self.is_waiting() { Wait::Completion } else { Wait::No };
            self.turn(wait);
            if idle && wait == Wait::No && !is_ready() {
                return Err(Error::new("every task waits, and nothing is in flight that could wake one"));
            }
        }
    }
}
