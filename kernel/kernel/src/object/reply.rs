//! Reply: the one-shot capability to answer a received call.

use alloc::sync::Arc;

use capos_abi::Status;

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
}
