//! Cancellation that one side asks for and many may watch.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;

use capos_async_lock::Waiters;

#[derive(Debug, Default)]
struct State {
    cancelled: Cell<bool>,
    waiting: Waiters,
    /// Cancelled together with this one.
    children: RefCell<Vec<CancelToken>>,
}

/// A request to stop. Clones are the same token.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    state: Rc<State>,
}

/// Something was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cancelled")
    }
}

impl core::error::Error for Cancelled {}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that is cancelled with this one, and can be cancelled alone.
    #[must_use]
    pub fn child(&self) -> Self {
        let child = Self::new();
        if self.is_cancelled() {
            child.cancel();
        } else {
            let mut children = self.state.children.borrow_mut();
            // Children without other holders are no longer needed.
            children.retain(|child| Rc::strong_count(&child.state) > 1);
            children.push(child.clone());
        }
        child
    }

    /// Asks all watchers to stop.
    pub fn cancel(&self) {
        self.state.cancelled.set(true);
        self.state.waiting.wake();
        for child in self.state.children.take() {
            child.cancel();
        }
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state.cancelled.get()
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        self.state.waiting.until(|| self.is_cancelled().then_some(())).await;
    }

    /// An error if it was cancelled.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}
