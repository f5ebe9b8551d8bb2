//! Tasks: work in parallel with its starter.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use crate::executor::TaskId;
use crate::runtime;

#[derive(Debug)]
struct Outcome<T> {
    value: Option<T>,
    ended: bool,
    waker: Option<Waker>,
}

/// A task and its value. Awaiting it gives the value, `None` if it was cancelled. Dropping it lets
/// the task go on; a [`TaskGroup`] ends its tasks with itself.
#[derive(Debug)]
pub struct Task<T> {
    id: Option<TaskId>,
    outcome: Rc<RefCell<Outcome<T>>>,
}

/// Marks the outcome as ended also if the task's future is dropped before its end.
struct Ending<T>(Rc<RefCell<Outcome<T>>>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        let waker = {
            let mut outcome = self.0.borrow_mut();
            outcome.ended = true;
            outcome.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Starts a task.
pub fn spawn<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    let outcome = Rc::new(RefCell::new(Outcome { value: None, ended: false, waker: None }));
    let ending = Ending(outcome.clone());
    let work = Box::pin(async move {
        let value = future.await;
        ending.0.borrow_mut().value = Some(value);
        drop(ending);
    });
    let id = runtime::with(|rt| rt.executor.spawn(work));
    Task { id, outcome }
}

impl<T> Task<T> {
    /// Ends the task where it waits: the future that it awaits is dropped, and so cancelled.
    pub fn cancel(&self) {
        if let Some(id) = self.id {
            runtime::with(|rt| rt.executor.cancel(id));
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.outcome.borrow().ended
    }
}

impl<T> Future for Task<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut outcome = self.outcome.borrow_mut();
        if outcome.ended {
            return Poll::Ready(outcome.value.take());
        }
        outcome.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Tasks that end with their group: dropping it cancels those that still run.
#[derive(Debug, Default)]
pub struct TaskGroup {
    tasks: RefCell<Vec<Task<()>>>,
}

impl TaskGroup {
    /// A group without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task of the group.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let task = spawn(future);
        let mut tasks = self.tasks.borrow_mut();
        tasks.retain(|task| !task.is_ended());
        tasks.push(task);
    }

    /// How many of its tasks still run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tasks.borrow().iter().filter(|task| !task.is_ended()).count()
    }

    /// Waits until all its tasks have ended. They stay the group's meanwhile: if the wait is dropped and the group with
    /// it, so are they.
    pub async fn join(&self) {
        poll_fn(|context| {
            let mut tasks = self.tasks.borrow_mut();
            tasks.retain_mut(|task| Pin::new(task).poll(context).is_pending());
            if tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Ends all its tasks now.
    pub fn cancel(&self) {
        let tasks = core::mem::take(&mut *self.tasks.borrow_mut());
        for task in &tasks {
            task.cancel();
        }
    }
}

impl Drop for TaskGroup {
    fn drop(&mut self) {
        self.cancel();
    }
}
