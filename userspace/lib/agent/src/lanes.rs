//! Calls that run side by side where they touch different capabilities, and in order where they share one.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll};

use capos_schema::cap::LocalBoxFuture;

/// A set of calls in the order in which they were added.
pub struct Lanes<T> {
    slots: Vec<Slot<T>>,
    quiet: Quiet,
}

/// Whether all work of a set has ended, for the future that runs [in parallel](Lanes::beside) with it.
#[derive(Clone, Default)]
pub struct Quiet(Rc<Cell<bool>>);

impl Quiet {
    /// Ends when all has ended. It is polled again whenever the set is.
    pub async fn wait(&self) {
        poll_fn(|_| if self.0.get() { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

struct Slot<T> {
    keys: Vec<u64>,
    work: Work<T>,
}

enum Work<T> {
    Pending(LocalBoxFuture<'static, T>),
    Done(T),
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), quiet: Quiet::default() }
    }
}

impl<T> Lanes<T> {
    /// Adds work that touches these capabilities. It starts when it is polled and no earlier work that touches one of
    /// them is left.
    pub fn push(&mut self, keys: Vec<u64>, work: LocalBoxFuture<'static, T>) {
        self.slots.push(Slot { keys, work: Work::Pending(work) });
    }

    /// Adds what is done already, so that it has its place in the order.
    pub fn push_done(&mut self, value: T) {
        self.slots.push(Slot { keys: Vec::new(), work: Work::Done(value) });
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut busy: Vec<u64> = Vec::new();
        let mut all = Poll::Ready(());
        for slot in &mut self.slots {
            let Work::Pending(work) = &mut slot.work else { continue };
            if !slot.keys.iter().any(|key| busy.contains(key))
                && let Poll::Ready(value) = work.as_mut().poll(cx)
            {
                slot.work = Work::Done(value);
                continue;
            }
            busy.extend_from_slice(&slot.keys);
            all = Poll::Pending;
        }
        all
    }

    /// Runs all to their end.
    pub async fn finish(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    /// Says, to the future that runs in parallel with them, whether they have ended.
    pub fn quiet(&self) -> Quiet {
        self.quiet.clone()
    }

    /// Runs them while `other` runs.
    pub async fn beside<R>(&mut self, other: impl Future<Output = R>) -> R {
        let mut other = pin!(other);
        poll_fn(|cx| {
            // Work that ends lets later work start, in the same poll.
            let ended = self.poll(cx).is_ready();
            self.quiet.0.set(ended);
            other.as_mut().poll(cx)
        })
        .await
    }

    /// The values in order. Work that has not ended is dropped.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().filter_map(|slot| match slot.work {
            Work::Done(value) => Some(value),
            Work::Pending(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::rc::Rc;
    use core::cell::RefCell;
    use core::task::Waker;

    use crate::Signal;

    fn work(name: u32, gate: &Signal, trace: &Rc<RefCell<Vec<u32>>>) -> LocalBoxFuture<'static, u32> {
        let (gate, trace) = (gate.clone(), trace.clone());
        Box::pin(async move {
            trace.borrow_mut().push(name);
            gate.wait().await;
            name
        })
    }

    #[test]
    fn what_waits_for_quiet_goes_on_when_the_last_has_ended() {
        let (trace, gate) = (Rc::new(RefCell::new(Vec::new())), Signal::default());
        let mut lanes = Lanes::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let quiet = lanes.quiet();
        assert!(pin!(lanes.beside(quiet.wait())).poll(cx).is_ready());
        lanes.push(Vec::from([1]), work(1, &gate, &trace));
        let mut waits = pin!(lanes.beside(quiet.wait()));
        assert!(waits.as_mut().poll(cx).is_pending());
        gate.set();
        assert!(waits.as_mut().poll(cx).is_ready());
    }

    /// Requirement J10.
    #[test]
    fn disjoint_calls_run_together_and_sharing_ones_in_order() {
        let trace = Rc::new(RefCell::new(Vec::new()));
        let (a, b, c) = (Signal::default(), Signal::default(), Signal::default());
        let mut lanes = Lanes::default();
        lanes.push(Vec::from([1]), work(1, &a, &trace));
        lanes.push(Vec::from([1, 2]), work(2, &b, &trace));
        lanes.push(Vec::from([2]), work(3, &c, &trace));
        lanes.push(Vec::from([3]), work(4, &a, &trace));
        lanes.push_done(5);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(lanes.poll(cx).is_pending());
        assert_eq!(*trace.borrow(), [1, 4]);
        c.set();
        a.set();
        assert!(lanes.poll(cx).is_pending());
        assert_eq!(*trace.borrow(), [1, 4, 2]);
        b.set();
        assert!(lanes.poll(cx).is_ready());
        assert_eq!(*trace.borrow(), [1, 4, 2, 3]);
        assert_eq!(lanes.into_values().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }
}
