//! Ending: how a process or a thread has ended, and who waits for that. It outlives both.

use alloc::sync::Arc;

use capos_abi::{ExceptionKind, Status};
use capos_captable::{KeyedList, ListKey};
use capos_schema::kernel_capnp::{exit_info, process, thread};
use capos_schema::sync::{Completion, Exception};
use spin::Mutex;

use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::object::Answer;
use crate::object::invocation::{self, Invocation};
use crate::object::operation::{Kind, OperationRef};
use crate::object::process::{Cause, End};

#[derive(Default)]
struct Inner {
    end: Option<Arc<End>>,
    waiters: KeyedList<OperationRef>,
}

/// The end of something that has one, which is to come or has come.
pub struct Ending {
    inner: Mutex<Inner>,
    /// Answers a call that waits for it.
    answer: fn(&mut Exclusive, &OperationRef, &End),
}

impl core::fmt::Debug for Ending {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Ending")
    }
}

impl Ending {
    /// One that is to come. `answer` answers those who wait for it.
    pub fn new(answer: fn(&mut Exclusive, &OperationRef, &End)) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), answer })
    }

    /// The end, if it has come.
    pub fn get(&self) -> Option<Arc<End>> {
        self.inner.lock().end.clone()
    }

    /// Whether it has come.
    pub fn has_come(&self) -> bool {
        self.inner.lock().end.is_some()
    }

    /// It has come. The first end counts: false where there was one.
    pub fn set(&self, end: &Arc<End>) -> bool {
        let mut inner = self.inner.lock();
        let first = inner.end.is_none();
        inner.end.get_or_insert_with(|| Arc::clone(end));
        first
    }

    /// Tells those who wait, where it has come, as far as the budget allows. Whether all are told. No lock may be held.
    pub fn tell(&self, lock: &mut Exclusive, budget: &mut Budget) -> bool {
        loop {
            let (waiter, end) = {
                let mut inner = self.inner.lock();
                let Some(end) = inner.end.clone() else { return true };
                if inner.waiters.is_empty() {
                    return true;
                }
                // Only then, so that nothing is left where the last one has been told.
                let Some(waiter) = Some(&mut inner.waiters).filter(|_| budget.allows()).and_then(KeyedList::pop) else {
                    return false;
                };
                (waiter, end)
            };
            (self.answer)(lock, &waiter, &end);
            budget.spend(cost::ANSWER);
        }
    }

    /// Answers a call that asks for it: with `write` where it has come, later otherwise.
    ///
    /// # Errors
    /// The caller has too many operations in flight; no memory to wait.
    pub fn wait(self: &Arc<Self>, cx: &mut Invocation<'_>, write: impl FnOnce(&End)) -> Answer {
        if let Some(end) = self.get() {
            write(&end);
            return Ok(Completion::Done);
        }
        let operation = cx.defer(|call| Kind::Delivered { call })?;
        let call = operation.peek().and_then(|operation| operation.kind.call());
        let ended = {
            let mut inner = self.inner.lock();
            match (&inner.end, call) {
                (Some(end), _) => Some(Arc::clone(end)),
                (None, Some(call)) => {
                    let refused = || Exception::new(ExceptionKind::Overloaded, Status::OutOfMemory.words());
                    let key = inner.waiters.push(operation.clone()).ok_or_else(refused)?;
                    let ending = Arc::clone(self);
                    operation.thread.update(operation.ticket, |kind| *kind = Kind::End { call, ending, key });
                    None
                }
                // The caller has ended meanwhile, so no thread waits.
                (None, None) => None,
            }
        };
        let Some(end) = ended else { return Ok(Completion::Pending) };
        write(&end);
        Ok(Completion::Done)
    }

    /// Takes a waiter out of the list.
    pub fn forget(&self, key: ListKey) {
        let waiter = self.inner.lock().waiters.remove(key);
        drop(waiter);
    }
}

/// Writes how something ended.
pub fn write_exit(end: &End, mut exit: exit_info::Builder<'_>) {
    exit.set_cause(match end.cause {
        Cause::Exited => exit_info::Cause::Exited,
        Cause::Killed => exit_info::Cause::Killed,
        Cause::Fault => exit_info::Cause::Fault,
        Cause::CpuTime => exit_info::Cause::CpuTime,
    });
    exit.set_code(end.code);
    exit.set_report(end.report.as_str());
}

/// Answers a call of `wait` of a process.
pub fn answer_process(lock: &mut Exclusive, waiter: &OperationRef, end: &End) {
    invocation::answer_later(lock, waiter, |mut results| {
        write_exit(end, results.reborrow().init_as::<process::wait_results::Builder<'_>>().init_exit());
        Ok(Completion::Done)
    });
}

/// Answers a call of `wait` of a thread.
pub fn answer_thread(lock: &mut Exclusive, waiter: &OperationRef, end: &End) {
    invocation::answer_later(lock, waiter, |mut results| {
        write_exit(end, results.reborrow().init_as::<thread::wait_results::Builder<'_>>().init_exit());
        Ok(Completion::Done)
    });
}
