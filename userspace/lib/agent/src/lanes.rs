//! Calls that run side by side where they touch different capabilities, and in order where they share one.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll};

use capos_schema::cap::LocalBoxFuture;

/// A set of calls in the order in which they were added.
///
/// Of calls that share a capability one runs at a time, the earlier first. A call whose question is still open holds no
/// capability: calls after it that only read begin meanwhile. Those that change something wait for it, so that changes keep
/// their order.
pub struct Lanes<T> {
    slots: Vec<Slot<T>>,
    quiet: Quiet,
}

/// How many calls at the beginning of a set have ended, for the future that runs [in parallel](Lanes::beside) with it.
#[derive(Clone, Default)]
pub struct Quiet(Rc<Cell<usize>>);

impl Quiet {
    /// Ends when all calls before this place have ended. It is polled again whenever the set is.
    pub async fn before(&self, place: usize) {
        poll_fn(|_| if self.0.get() >= place { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// What a call touches.
#[derive(Clone, Debug, Default)]
pub struct Touches {
    /// The capabilities.
    pub keys: Vec<u64>,
    /// It changes nothing there.
    pub only_reads: bool,
}

struct Slot<T> {
    touches: Touches,
    work: Work<T>,
}

enum Work<T> {
    /// It is not decided yet.
    Asked,
    /// It has not begun.
    Ready(LocalBoxFuture<'static, T>),
    /// It holds its capabilities.
    Begun(LocalBoxFuture<'static, T>),
    Done(T),
}

impl<T> Work<T> {
    /// Lets work that holds its capabilities go on.
    fn go_on(mut work: LocalBoxFuture<'static, T>, cx: &mut Context<'_>) -> Self {
        match work.as_mut().poll(cx) {
            Poll::Ready(value) => Self::Done(value),
            Poll::Pending => Self::Begun(work),
        }
    }
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), quiet: Quiet::default() }
    }
}

fn share(one: &[u64], other: &[u64]) -> bool {
    one.iter().any(|key| other.contains(key))
}

impl<T> Lanes<T> {
    /// Adds what is done already, so that it has its place in the order.
    pub fn push_done(&mut self, value: T) {
        self.slots.push(Slot { touches: Touches::default(), work: Work::Done(value) });
    }

    /// Adds a call that is not decided yet; its place.
    pub fn reserve(&mut self, touches: Touches) -> usize {
        self.slots.push(Slot { touches, work: Work::Asked });
        self.slots.len().saturating_sub(1)
    }

    /// Whether a call that ends before this one begins may still change something that this one touches. A read does not wait for
    /// a call whose question is open.
    pub fn may_change(&self, touches: &Touches) -> bool {
        let is_before = |slot: &&Slot<T>| match slot.work {
            Work::Done(_) => false,
            Work::Asked => !touches.only_reads,
            Work::Ready(_) | Work::Begun(_) => true,
        };
        let mut open = self.slots.iter().filter(is_before);
        open.any(|slot| !slot.touches.only_reads && share(&slot.touches.keys, &touches.keys))
    }

    /// The call at this place may run. It starts when the set is polled and its capabilities are free.
    pub fn permit(&mut self, place: usize, work: LocalBoxFuture<'static, T>) {
        self.put(place, Work::Ready(work));
    }

    /// The call at this place does not run.
    pub fn settle(&mut self, place: usize, value: T) {
        self.put(place, Work::Done(value));
    }

    fn put(&mut self, place: usize, work: Work<T>) {
        if let Some(slot) = self.slots.get_mut(place) {
            slot.work = work;
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Work that ends lets other work start, in the same poll.
        while self.poll_once(cx) {}
        let open = self.slots.iter().position(|slot| !matches!(slot.work, Work::Done(_)));
        self.quiet.0.set(open.unwrap_or(self.slots.len()));
        if open.is_none() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Polls each that runs or may begin; whether one ended.
    fn poll_once(&mut self, cx: &mut Context<'_>) -> bool {
        let begun = self.slots.iter().filter(|slot| matches!(slot.work, Work::Begun(_)));
        let mut held: Vec<u64> = begun.flat_map(|slot| slot.touches.keys.iter().copied()).collect();
        // What earlier calls will need that have not begun.
        let (mut ahead, mut asked): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut has_ended = false;
        for slot in &mut self.slots {
            let Touches { keys, only_reads } = &slot.touches;
            let blocked = share(keys, &held) || share(keys, &ahead) || (!only_reads && share(keys, &asked));
            slot.work = match core::mem::replace(&mut slot.work, Work::Asked) {
                Work::Asked => {
                    asked.extend_from_slice(keys);
                    Work::Asked
                }
                Work::Ready(work) if blocked => {
                    ahead.extend_from_slice(keys);
                    Work::Ready(work)
                }
                Work::Ready(work) | Work::Begun(work) => {
                    held.extend_from_slice(keys);
                    let work = Work::go_on(work, cx);
                    has_ended |= matches!(work, Work::Done(_));
                    work
                }
                Work::Done(value) => Work::Done(value),
            };
        }
        has_ended
    }

    /// Runs all to their end. Each of them is decided.
    pub async fn finish(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    /// Says, to the future that runs in parallel with them, which of them have ended.
    pub fn quiet(&self) -> Quiet {
        self.quiet.clone()
    }

    /// Runs them while `other` runs.
    pub async fn beside<R>(&mut self, other: impl Future<Output = R>) -> R {
        let mut other = pin!(other);
        poll_fn(|cx| {
            let _ = self.poll(cx);
            other.as_mut().poll(cx)
        })
        .await
    }

    /// The values in order. Work that has not ended is dropped.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().filter_map(|slot| match slot.work {
            Work::Done(value) => Some(value),
            Work::Asked | Work::Ready(_) | Work::Begun(_) => None,
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

    fn push(lanes: &mut Lanes<u32>, touches: Touches, work: LocalBoxFuture<'static, u32>) {
        let place = lanes.reserve(touches);
        lanes.permit(place, work);
    }

    fn changes(keys: &[u64]) -> Touches {
        Touches { keys: keys.into(), only_reads: false }
    }

    fn reads(keys: &[u64]) -> Touches {
        Touches { keys: keys.into(), only_reads: true }
    }

    /// What was asked about holds nothing: reads of the same capability go first, and changes keep their order.
    #[test]
    fn c23_a_call_that_is_asked_about_blocks_only_itself() {
        let trace = Rc::new(RefCell::new(Vec::new()));
        let (gate, slow) = (Signal::default(), Signal::default());
        gate.set();
        let mut lanes = Lanes::default();
        let place = lanes.reserve(changes(&[1]));
        push(&mut lanes, reads(&[1]), work(2, &gate, &trace));
        push(&mut lanes, changes(&[1]), work(3, &gate, &trace));
        push(&mut lanes, reads(&[1]), work(4, &gate, &trace));
        push(&mut lanes, changes(&[2]), work(5, &gate, &trace));
        push(&mut lanes, reads(&[3]), work(6, &slow, &trace));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(lanes.poll(cx).is_pending());
        // The read behind the change waits for the change, and that for the answer.
        assert_eq!(*trace.borrow(), [2, 5, 6]);
        lanes.permit(place, work(1, &gate, &trace));
        assert!(lanes.poll(cx).is_pending());
        assert_eq!(*trace.borrow(), [2, 5, 6, 1, 3, 4]);
        slow.set();
        assert!(lanes.poll(cx).is_ready());
        assert_eq!(lanes.into_values().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6], "in the order of the calls");
    }

    /// A read that went first holds its capability until it has ended, whoever gets an answer meanwhile.
    #[test]
    fn c23_what_is_permitted_waits_for_a_read_that_has_begun() {
        let (trace, gate) = (Rc::new(RefCell::new(Vec::new())), Signal::default());
        let mut lanes = Lanes::default();
        let place = lanes.reserve(changes(&[1]));
        push(&mut lanes, reads(&[1]), work(2, &gate, &trace));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(lanes.poll(cx).is_pending());
        lanes.permit(place, work(1, &gate, &trace));
        assert!(lanes.poll(cx).is_pending());
        assert_eq!(*trace.borrow(), [2]);
        gate.set();
        assert!(lanes.poll(cx).is_ready());
        assert_eq!(*trace.borrow(), [2, 1]);
    }

    /// Only a call that changes something, shares a capability and ends before, may change what another one finds.
    #[test]
    fn c23_a_call_is_looked_at_again_if_another_may_change_what_it_touches() {
        let (trace, gate) = (Rc::new(RefCell::new(Vec::new())), Signal::default());
        let mut lanes = Lanes::default();
        push(&mut lanes, reads(&[1]), work(1, &gate, &trace));
        let asked = lanes.reserve(changes(&[2]));
        push(&mut lanes, changes(&[3]), work(2, &gate, &trace));
        lanes.push_done(3);
        for (touches, may) in [
            (changes(&[1]), false),
            (changes(&[2]), true),
            (reads(&[2]), false),
            (reads(&[3]), true),
            (changes(&[4]), false),
        ] {
            assert_eq!(lanes.may_change(&touches), may, "{touches:?}");
        }
        lanes.settle(asked, 9);
        assert!(!lanes.may_change(&changes(&[2])));
    }

    #[test]
    fn what_is_settled_has_its_place_and_runs_nothing() {
        let (trace, gate) = (Rc::new(RefCell::new(Vec::new())), Signal::default());
        gate.set();
        let mut lanes = Lanes::default();
        let place = lanes.reserve(changes(&[1]));
        push(&mut lanes, changes(&[1]), work(2, &gate, &trace));
        lanes.settle(place, 9);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(lanes.poll(cx).is_ready());
        assert_eq!(lanes.into_values().collect::<Vec<_>>(), [9, 2]);
    }

    #[test]
    fn what_waits_for_quiet_goes_on_when_the_last_has_ended() {
        let (trace, gate) = (Rc::new(RefCell::new(Vec::new())), Signal::default());
        let mut lanes = Lanes::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let quiet = lanes.quiet();
        assert!(pin!(lanes.beside(quiet.before(0))).poll(cx).is_ready());
        push(&mut lanes, changes(&[1]), work(1, &gate, &trace));
        let mut waits = pin!(lanes.beside(quiet.before(1)));
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
        push(&mut lanes, changes(&[1]), work(1, &a, &trace));
        push(&mut lanes, changes(&[1, 2]), work(2, &b, &trace));
        push(&mut lanes, changes(&[2]), work(3, &c, &trace));
        push(&mut lanes, changes(&[3]), work(4, &a, &trace));
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
