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
    #[cfg(all(capos_guest, feature = "std"))]
    door: crate::rouse::Door,
}

impl Ready {
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
            self.ready.queue.lock().push_back(self.task);
            self.ready.announce();
        }
    }
}

struct TaskSlot {
    generation: u64,
    task: Option<Running>,
}

struct Running {
    /// Taken out while it is polled.
    future: Option<TaskFuture>,
    waker: Arc<TaskWaker>,
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
            slots.push(TaskSlot { generation: 0, task: None });
            slots.len().saturating_sub(1)
        });
        let generation = slots.get(index).map_or(0, |slot| slot.generation).saturating_add(1);
        let task = TaskId { index, generation };
        let waker = Arc::new(TaskWaker { task, queued: Flag::new(false), ready: self.ready.clone() });
        waker.wake_by_ref();
        if let Some(slot) = slots.get_mut(index) {
            *slot = TaskSlot { generation, task: Some(Running { future: Some(future), waker }) };
        }
        task
    }

    /// Ends a task: its future is dropped here, or when its poll returns if it ends itself.
    pub(crate) fn cancel(&self, task: TaskId) {
        let future = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(task.index) else { return };
            if slot.generation != task.generation || slot.task.is_none() {
                return;
            }
            self.free.borrow_mut().push(task.index);
            slot.task.take()
        };
        drop(future);
    }

    /// Polls one task that is ready. `false` if none is.
    fn step(&self) -> bool {
        let Some(task) = self.ready.queue.lock().pop_front() else { return false };
        let taken = {
            let mut slots = self.slots.borrow_mut();
            slots
                .get_mut(task.index)
                .filter(|slot| slot.generation == task.generation)
                .and_then(|slot| slot.task.as_mut())
                .and_then(|running| Some((running.future.take()?, running.waker.clone())))
        };
        let Some((mut future, wake)) = taken else { return true };
        // The effects of a thread before it woke a task that was still queued are visible to this poll.
        wake.queued.lower();
        let waker = Waker::from(wake);
        let ended = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let leftover = {
            let mut slots = self.slots.borrow_mut();
            match slots.get_mut(task.index).filter(|slot| slot.generation == task.generation) {
                Some(slot) if slot.task.is_some() => {
                    if ended {
                        self.free.borrow_mut().push(task.index);
                        slot.task = None;
                        Some(future)
                    } else {
                        if let Some(running) = slot.task.as_mut() {
                            running.future = Some(future);
                        }
                        None
                    }
                }
                // It was cancelled while it ran.
                _ => Some(future),
            }
        };
        drop(leftover);
        true
    }

    /// Drops every task.
    #[cfg(any(not(capos_guest), feature = "std"))]
    pub(crate) fn drop_all(&self) {
        loop {
            let tasks: Vec<Running> = {
                let (mut slots, mut free) = (self.slots.borrow_mut(), self.free.borrow_mut());
                let running = slots.iter_mut().enumerate().filter_map(|(index, slot)| {
                    let task = slot.task.take()?;
                    free.push(index);
                    Some(task)
                });
                running.collect()
            };
            // Dropping may start tasks.
            if tasks.is_empty() {
                break;
            }
        }
        self.ready.queue.lock().clear();
    }

    fn has_ready(&self) -> bool {
        !self.ready.queue.lock().is_empty()
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
            let batch = self.executor.ready.queue.lock().len();
            for _ in 0..batch {
                self.executor.step();
            }
            #[cfg(all(capos_guest, feature = "std"))]
            listener.listen(&self.executor.ready.door, &waker);
            if self.executor.has_ready() || woken.is_raised() {
                self.turn(Wait::No);
            } else if self.is_waiting() {
                self.turn(Wait::Completion);
            } else {
                self.turn(Wait::No);
                if !self.executor.has_ready() && !woken.is_raised() {
                    return Err(Error::new("every task waits, and nothing is in flight that could wake one"));
                }
            }
        }
    }
}
