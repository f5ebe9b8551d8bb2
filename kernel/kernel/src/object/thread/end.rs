//! The end of a thread: what it has in flight ends, in steps.

use alloc::string::String;
use alloc::sync::Arc;

use capos_abi::Status;

use super::inner::Body;
use super::{ALIVE, Thread};
use crate::cpu::kernel_lock::Exclusive;
use crate::object::budget::{Budget, cost};
use crate::object::memory::MemoryObject;
use crate::object::operation::{Ended, Kind, OperationRef, Ticket};
use crate::object::process::{Cause, End, Left, Process};
use crate::object::reaper::{self, Doomed};
use crate::object::thread::Unfinished;
use crate::object::{deadline, derivation, log, report};

/// How far the end of a thread has come.
#[derive(Debug, Default)]
pub struct Stopping {
    begun: bool,
    /// How it ends, where it ends alone.
    end: Option<Arc<End>>,
}

impl Thread {
    /// Takes an operation that has ended without an answer out of where it was waiting.
    pub(super) fn withdraw(self: &Arc<Self>, lock: &mut Exclusive, ticket: Ticket, ended: Ended) {
        if let Some(watcher) = ended.watcher {
            watcher.complete(lock, Status::Ok);
        }
        let Some(kind) = ended.kind else { return };
        match kind {
            Kind::Queued { client, key, .. } => {
                client.endpoint.forget_call(key);
            }
            Kind::Sleep { deadline, .. } => deadline::remove(deadline),
            Kind::End { ending, key, .. } => ending.forget(key),
            Kind::Word { address, key: Some(key) } => self.process.words.forget(address, key),
            Kind::Log { key, .. } => log::forget_reader(key),
            Kind::Copy { copying, .. } => copying.cancel(lock, &OperationRef { thread: Arc::clone(self), ticket }),
            Kind::Receive { endpoint, key: Some(key), .. } => endpoint.forget_receiver(key),
            Kind::Wait { notification, key } => notification.forget(key),
            Kind::Watch { call } => {
                let own = |watcher: &OperationRef| watcher.ticket == ticket && Arc::ptr_eq(&watcher.thread, self);
                drop(call.thread.take_watcher(call.ticket, own));
            }
            Kind::Delivered { .. } | Kind::Receive { key: None, .. } | Kind::Word { key: None, .. } => {}
        }
    }

    /// It never runs again: no thread waits for an answer to its calls, and it waits for nothing.
    fn begin_stop(self: &Arc<Self>, lock: &mut Exclusive) {
        self.halt(lock);
        self.origin.end();
        let (deadline, page) = {
            let mut inner = self.inner.lock();
            inner.wanted = 0;
            inner.resume = None;
            (inner.deadline.take(), core::mem::take(&mut inner.page))
        };
        self.forget_unfinished();
        if let Some(key) = deadline {
            deadline::remove(key);
        }
        if let Some(request) = page.upgrade() {
            request.forget_waiter(lock, self);
        }
    }

    /// Nothing goes on with the entry that it worked on.
    pub fn forget_unfinished(&self) {
        if let Some(Unfinished::Revocation(node, _)) = self.take_unfinished() {
            derivation::end_revocation(node);
        }
    }

    /// Ends what it has in flight and gives back what it had, as far as the budget allows. It never runs again. Whether nothing is left.
    ///
    /// Until an operation has ended it is as it was: a call that is brought to a buffer of the thread is refused where the process gives its
    /// reply up.
    pub fn stop(self: &Arc<Self>, lock: &mut Exclusive, budget: &mut Budget) -> bool {
        if !core::mem::replace(&mut self.inner.lock().stopping.begun, true) {
            self.begin_stop(lock);
        }
        while budget.allows() {
            let next = {
                let mut inner = self.inner.lock();
                let Some(body) = &mut inner.body else { return true };
                let next = body.operations.end_last();
                // Where there were many places, their memory is a piece of work of its own.
                if next.is_none() {
                    let frames = body.operations.give_back();
                    budget.spend(cost::FREE.saturating_mul(frames));
                    if !budget.allows() {
                        return false;
                    }
                }
                next
            };
            match next {
                Some(None) => budget.spend(cost::LOOK),
                Some(Some((ticket, ended))) => {
                    if let Some(node) = ended.attachment {
                        derivation::forget(node);
                    }
                    self.withdraw(lock, ticket, ended);
                    budget.spend(cost::OPERATION);
                }
                None => {
                    let body = self.inner.lock().body.take();
                    if let Some(Body { ring_memory, .. }) = &body {
                        self.unmap_ring(lock, ring_memory);
                    }
                    drop(body);
                    ALIVE.fetch_sub(1, core::sync::atomic::Ordering::Relaxed);
                    return true;
                }
            }
        }
        false
    }

    /// Ends a thread that ends alone, as far as the budget allows. Whether it has ended, and all who waited for that are told.
    pub fn end_alone(self: &Arc<Self>, lock: &mut Exclusive, budget: &mut Budget) -> bool {
        if !self.stop(lock, budget) {
            return false;
        }
        let end = self.inner.lock().stopping.end.clone();
        end.is_none_or(|end| self.handle.end(lock, &end, budget))
    }

    /// Unmaps its rings where they are still mapped. What the process put in their place stays.
    pub(super) fn unmap_ring(&self, lock: &mut Exclusive, memory: &Arc<MemoryObject>) {
        self.process.space.unmap_object(lock, self.ring_address, self.ring_bytes, memory);
    }

    /// Ends this thread alone. The last thread's end is that of its process. Whether the thread ended, so that the scheduler has to
    /// forget it.
    fn finish(self: &Arc<Self>, lock: &mut Exclusive, end: End) -> bool {
        match self.process.leave(self) {
            Left::Others => {
                self.inner.lock().stopping.end = Some(Arc::new(end));
                if !self.end_alone(lock, &mut Budget::new()) {
                    reaper::add(Doomed::Thread(Arc::clone(self)));
                }
                return true;
            }
            Left::Nobody => self.process.doom(lock, end),
            Left::Before => {}
        }
        false
    }

    /// It never runs: whoever made it did not get its capability.
    pub fn abandon(self: &Arc<Self>, lock: &mut Exclusive) {
        self.process.disown(self);
        while !self.stop(lock, &mut Budget::new()) {}
    }

    /// It has made the system call EXIT for itself. As for [`Thread::kill`].
    #[must_use]
    pub fn exit(self: &Arc<Self>, lock: &mut Exclusive, code: i32) -> bool {
        self.finish(lock, End { cause: Cause::Exited, code, report: String::new() })
    }

    /// Ends this thread alone, in the name of a process. Whether the scheduler has to forget it.
    #[must_use]
    pub fn kill(self: &Arc<Self>, lock: &mut Exclusive, killer: &Process) -> bool {
        let report = report::thread_killed(self, killer);
        self.finish(lock, End { cause: Cause::Killed, code: 0, report })
    }
}
