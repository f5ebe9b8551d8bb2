//! Ctrl-C, as long as no prompt takes it.

use alloc::rc::Rc;
use core::cell::Cell;

use capos_async_lock::Waiters;

use crate::link::Link;

/// How often Ctrl-C was pressed while no prompt was open. It is counted all the time, so that none is lost between a
/// line and what the line begins.
#[derive(Default)]
pub struct Interrupts {
    count: Cell<u64>,
    waiting: Waiters,
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
        self.waiting.wake();
    }

    /// How many there have been.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Ends when there have been more than `known`.
    pub async fn after(&self, known: u64) {
        self.waiting.until(|| (self.count.get() > known).then_some(())).await;
    }
}

#[cfg(test)]
mod tests {
    use core::future::Future;
    use core::pin::pin;
    use core::task::Context;

    use capos_async_lock::Woken;

    use super::*;

    /// A task that is polled for each piece of an answer keeps one waker.
    #[test]
    fn a_task_that_is_polled_often_is_woken_once() {
        let interrupts = Interrupts::default();
        let (woken, waker) = Woken::new();
        let mut wait = pin!(interrupts.after(0));
        for _ in 0..1000 {
            assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        interrupts.happened();
        assert_eq!(woken.count(), 1);
    }

    #[test]
    fn an_interrupt_before_the_wait_counts() {
        let interrupts = Interrupts::default();
        let known = interrupts.count();
        interrupts.happened();
        assert!(capos_schema::local::run(interrupts.after(known)).is_some());
        assert!(capos_schema::local::run(interrupts.after(interrupts.count())).is_none());
    }
}
