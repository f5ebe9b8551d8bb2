//! Ctrl-C, as long as no prompt takes it.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Poll, Waker};

use crate::link::Link;

/// How often Ctrl-C was pressed while no prompt was open. It is counted all the time, so that none is lost between a
/// line and what the line begins.
#[derive(Default)]
pub struct Interrupts {
    count: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Interrupts {
    /// Counts, for as long as the terminal is there.
    pub fn watch(link: Rc<Link>) -> Rc<Self> {
        let interrupts: Rc<Self> = Rc::default();
        let counted = interrupts.clone();
        capos_rt::spawn(async move {
            while link.wait(|terminal| async move { terminal.wait_interrupt().await }).await.is_ok() {
                counted.happened();
            }
        });
        interrupts
    }

    /// Ctrl-C was pressed.
    pub fn happened(&self) {
        self.count.set(self.count.get().saturating_add(1));
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// How many there have been.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Ends when there have been more than `known`.
    pub async fn after(&self, known: u64) {
        poll_fn(|cx| {
            if self.count.get() > known {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_before_the_wait_counts() {
        let interrupts = Interrupts::default();
        let known = interrupts.count();
        interrupts.happened();
        assert!(capos_schema::local::run(interrupts.after(known)).is_some());
        assert!(capos_schema::local::run(interrupts.after(interrupts.count())).is_none());
    }
}
