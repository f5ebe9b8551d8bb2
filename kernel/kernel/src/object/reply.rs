//! Reply: the one-shot capability to answer a received call.
//!
//! Its holder may wait until no thread waits for the answer any more. That wait hangs on the caller's
//! own operation, one at most, so it takes no memory and ends with the call in every case.
//!
//! It keeps nothing of a caller that has died: otherwise a server that never answers could keep all that the
//! caller's account was carved with from whoever pays for it.

use alloc::sync::{Arc, Weak};

use capos_abi::Status;
use spin::Mutex;

use crate::cpu::kernel_lock::Exclusive;
use crate::object::memory::page_request::PageIn;
use crate::object::operation::{OperationRef, Ticket};
use crate::object::process::Process;
use crate::object::thread::Thread;

/// Who waits for the answer.
#[derive(Clone, Debug)]
pub enum Caller {
    /// A thread's CALL.
    Thread(OperationRef),
    /// The kernel, for pages.
    PageIn(Arc<PageIn>),
}

impl Caller {
    /// Ends the call without results: the server is gone, dropped it, or could not take it.
    pub fn refuse(&self, lock: &mut Exclusive, status: Status) {
        match self {
            Self::Thread(operation) => {
                operation.complete(lock, status);
            }
            Self::PageIn(request) => request.fail(lock, status.words()),
        }
    }

    /// The reply to its call.
    pub fn reply(&self) -> Reply {
        match self {
            Self::Thread(operation) => Reply::Thread(Arc::clone(&operation.thread.origin), operation.ticket),
            Self::PageIn(request) => Reply::PageIn(Arc::clone(request)),
        }
    }
}

/// Where the replies to a thread's calls find it. It is small, and all that they keep of a thread that has
/// ended.
#[derive(Debug)]
pub struct Origin(Mutex<Weak<Thread>>);

impl Origin {
    /// That of a thread which is being made.
    pub fn new(thread: Weak<Thread>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(thread)))
    }

    /// The thread, while it lives.
    pub fn thread(&self) -> Option<Arc<Thread>> {
        self.0.lock().upgrade()
    }

    /// The thread has ended: no thread waits for an answer to its calls.
    pub fn end(&self) {
        let thread = core::mem::take(&mut *self.0.lock());
        drop(thread);
    }
}

/// What a Reply capability designates: the call that it answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A thread's CALL.
    Thread(Arc<Origin>, Ticket),
    /// The kernel's, for pages.
    PageIn(Arc<PageIn>),
}

impl Reply {
    /// Who made the call. `None` where the thread has ended, and so no thread waits.
    pub fn caller(&self) -> Option<Caller> {
        match self {
            Self::Thread(origin, ticket) => {
                Some(Caller::Thread(OperationRef { thread: origin.thread()?, ticket: *ticket }))
            }
            Self::PageIn(request) => Some(Caller::PageIn(Arc::clone(request))),
        }
    }

    /// It goes to another process: who waits through it in this one is told that it is gone.
    pub fn leaves(&self, lock: &mut Exclusive, process: &Process) {
        let is_here = |watcher: &OperationRef| core::ptr::eq(Arc::as_ptr(&watcher.thread.process), process);
        if let Some(Caller::Thread(call)) = self.caller()
            && let Some(watcher) = call.thread.take_watcher(call.ticket, is_here)
        {
            watcher.complete(lock, Status::StaleCapability);
        }
    }
}
