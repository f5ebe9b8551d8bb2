//! Reply: the one-shot capability to answer a received call.
//!
//! Who holds it may wait until nobody waits for the answer any more. That wait hangs on the caller's
//! own operation, one at most, so it takes no memory and ends with the call in every case.

use alloc::sync::Arc;

use capos_abi::Status;

use super::process::Process;
use crate::operation::OperationRef;
use crate::pager::PageIn;

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
    pub fn refuse(&self, status: Status) {
        match self {
            Self::Thread(operation) => {
                operation.complete(status);
            }
            Self::PageIn(request) => request.fail(status.words()),
        }
    }

    /// The reply goes to another process: who waits through it in this one is told that it is gone.
    pub fn leaves(&self, process: &Process) {
        let is_here = |watcher: &OperationRef| core::ptr::eq(Arc::as_ptr(&watcher.thread.process), process);
        if let Self::Thread(call) = self
            && let Some(watcher) = call.thread.take_watcher(call.ticket, is_here)
        {
            watcher.complete(Status::StaleCapability);
        }
    }
}
