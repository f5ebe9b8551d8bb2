//! Cancellation that one side asks for and many may watch.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::future::poll_fn;
use core::task::{Poll, Waker};

#[derive(Debug, Default)]
struct State {
    cancelled: bool,
    wakers: Vec<Waker>,
    /// Cancelled together with this one.
    children: Vec<CancelToken>,
}

/// A request to stop. Clones are the same token.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    state: Rc<RefCell<State>>,
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
            let mut state = self.state.borrow_mut();
            // Children without other holders are no longer needed.
            state.children.retain(|child| Rc::strong_count(&child.state) > 1);
            state.children.push(child.clone());
        }
        child
    }

    /// Asks all watchers to stop.
    pub fn cancel(&self) {
        let (wakers, children) = {
            let mut state = self.state.borrow_mut();
            state.cancelled = true;
            (core::mem::take(&mut state.wakers), core::mem::take(&mut state.children))
        };
        for waker in wakers {
            waker.wake();
        }
        for child in children {
            child.cancel();
        }
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state.borrow().cancelled
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            if state.cancelled {
                return Poll::Ready(());
            }
            if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                state.wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// An error if it was cancelled.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}
