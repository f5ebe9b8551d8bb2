//! The end of a thread: what it has in flight ends, in steps.

use alloc::string::String;
use alloc::sync::Arc;

use capos_abi::Status;

use super::inner::Body;
use super::{ALIVE, Thread};
use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::object::memory::MemoryObject;
use crate::object::operation::{Ended, Kind, OperationRef, Ticket};
use crate::object::process::{Cause, End, Left, Process};
use crate::object::reaper::{self, Doomed};
use crate::object::thread::Unfinished;
use crate::object::{deadline, derivation, log, report};

/// How far the end of a thread has come.
#[derive(Default)]
pub struct Stopping {
    begun: bool,
    /// What it had. Nothing finds that any more, so its operations have ended for everything else, and are only to be taken out of where
    /// they wait.
    body: Option<Body>,
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
    fn begin_stop(self: &Arc<Self>, lock: &mut Exclusive, budget: &mut Budget) {
        self.halt(lock);
        self.origin.end();
        let (deadline, page) = {
            let mut inner = self.inner.lock();
            inner.wanted = 0;
            inner.resume = None;
            inner.stopping.body = inner.body.take();
            (inner.deadline.take(), core::mem::take(&mut inner.page))
        };
        self.forget_unfinished(budget);
        if let Some(key) = deadline {
            deadline::remove(key);
        }
        if let Some(request) = page.upgrade() {
            request.forget_waiter(lock, self);
        }
    }

    /// The entry that it worked on has failed: what was begun goes, as far as the budget allows. Whether all of it has.
    pub fn drop_unfinished(&self, lock: &mut Exclusive, budget: &mut Budget) -> bool {
        match self.take_unfinished() {
            Some(Unfinished::Mapping(mut showing)) => {
                let done = showing.undo(lock, budget);
                if !done {
                    self.keep(Unfinished::Mapping(showing));
                }
                done
            }
            unfinished => {
                forget(unfinished, budget);
                true
            }
        }
    }

    /// Nothing continues the entry that it worked on. What is mapped by it stays.
    fn forget_unfinished(&self, budget: &mut Budget) {
        forget(self.take_unfinished(), budget);
    }

    /// Ends what it has in flight and gives back what it had, as far as the budget allows. It never runs again. Whether nothing is left.
    pub fn stop(self: &Arc<Self>, lock: &mut Exclusive, budget: &mut Budget) -> bool {
        if !core::mem::replace(&mut self.inner.lock().stopping.begun, true) {
            self.begin_stop(lock, budget);
        }
        while budget.allows() {
            let next = {
                let mut inner = self.inner.lock();
                let Some(body) = &mut inner.stopping.body else { return true };
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
                    let is_copy = matches!(ended.kind, Some(Kind::Copy { .. }));
                    self.withdraw(lock, ticket, ended);
                    budget.spend(if is_copy { cost::ANSWER } else { cost::OPERATION });
                }
                None => {
                    let ring = self.inner.lock().stopping.body.as_ref().map(|body| Arc::clone(&body.ring_memory));
                    if ring.is_some_and(|ring| !self.unmap_ring(lock, &ring, budget)) {
                        return false;
                    }
                    let body = self.inner.lock().stopping.body.take();
                    drop(body);
                    ALIVE.fetch_sub(1, core::sync::atomic::Ordering::Relaxed);
                    budget.spend(cost::THREAD);
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

    /// Unmaps its rings where they are still mapped, as far as the budget allows; whether they are gone. What the process put in their place
    /// stays.
    pub(super) fn unmap_ring(&self, lock: &mut Exclusive, memory: &Arc<MemoryObject>, budget: &mut Budget) -> bool {
        self.process.space.unmap_object(lock, (self.ring_address, self.ring_bytes), memory, budget)
    }

    /// Ends this thread alone. The last thread's end is that of its process. Whether the thread ended, so that the scheduler has to
    /// forget it.
    fn finish(self: &Arc<Self>, lock: &mut Exclusive, end: End, budget: &mut Budget) -> bool {
        match self.process.leave(self) {
            Left::Others => {
                self.inner.lock().stopping.end = Some(Arc::new(end));
                if !self.end_alone(lock, budget) {
                    self.process.wait_for_thread();
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
        self.finish(lock, End { cause: Cause::Exited, code, report: String::new() }, &mut Budget::new())
    }

    /// Ends this thread alone, in the name of a process. Whether the scheduler has to forget it.
    #[must_use]
    pub fn kill(self: &Arc<Self>, lock: &mut Exclusive, killer: &Process, budget: &mut Budget) -> bool {
        let report = report::thread_killed(self, killer);
        self.finish(lock, End { cause: Cause::Killed, code: 0, report }, budget)
    }
}

fn forget(unfinished: Option<Unfinished>, budget: &mut Budget) {
    match unfinished {
        Some(Unfinished::Revocation(node, _)) => derivation::end_revocation(node),
        Some(Unfinished::Rings(_)) => budget.spend(cost::RINGS),
        Some(Unfinished::Memory(_) | Unfinished::Mapping(_) | Unfinished::Copy(..) | Unfinished::Eviction(_))
        | None => {}
    }
}
