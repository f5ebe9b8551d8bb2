//! Times at which waits end: all of a process's on one timer.
//!
//! A piece of an answer comes every few milliseconds, and a timer for each would be two more calls.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

use capos_rt::{CancelToken, Clock};

/// How late a wait may end, in nanoseconds: a time that is set while the timer runs is looked at after this long.
pub const TICK: u64 = 1_000_000_000;

/// By time and, where several have the same, by number.
type Key = (u64, u64);

/// The times that are set.
pub struct Deadlines {
    clock: Clock,
    set: RefCell<BTreeMap<Key, CancelToken>>,
    numbers: Cell<u64>,
    ticking: Cell<bool>,
}

impl Deadlines {
    /// None is set.
    pub fn new(clock: Clock) -> Rc<Self> {
        let (set, numbers, ticking) = Default::default();
        Rc::new(Self { clock, set, numbers, ticking })
    }

    /// Nanoseconds since boot.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Sets a time, in nanoseconds since boot, until what is returned is dropped.
    pub fn at(self: &Rc<Self>, time: u64) -> Deadline {
        let number = self.numbers.get();
        self.numbers.set(number.wrapping_add(1));
        let (key, passed) = ((time, number), CancelToken::new());
        self.set.borrow_mut().insert(key, passed.clone());
        if !self.ticking.replace(true) {
            drop(capos_rt::spawn(self.clone().tick()));
        }
        Deadline { deadlines: self.clone(), key, passed }
    }

    /// Runs as long as any is set.
    async fn tick(self: Rc<Self>) {
        loop {
            let now = self.clock.now();
            let later = self.set.borrow_mut().split_off(&(now.saturating_add(1), 0));
            let passed = self.set.replace(later);
            passed.into_values().for_each(|passed| passed.cancel());
            let Some((next, _)) = self.set.borrow().keys().next().copied() else { break };
            self.clock.sleep_until(next.min(now.saturating_add(TICK))).await;
        }
        self.ticking.set(false);
    }
}

/// A time that is set.
pub struct Deadline {
    deadlines: Rc<Deadlines>,
    key: Key,
    passed: CancelToken,
}

impl Deadline {
    /// Waits until it has passed.
    pub async fn passed(&self) {
        self.passed.cancelled().await;
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.deadlines.set.borrow_mut().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use capos_rt::simulated::{self, Object};
    use capos_rt::{join, join_all, yield_now};

    fn with_timer<F: Future<Output = ()>>(test: impl FnOnce(Rc<Deadlines>) -> F) {
        simulated::run(&[("timer", Object::Timer)], |env| test(Deadlines::new(env.clock().unwrap())));
    }

    #[test]
    fn each_passes_at_its_time_and_no_earlier() {
        with_timer(|deadlines| async move {
            let wait = async |time: u64| {
                deadlines.at(time).passed().await;
                deadlines.now()
            };
            let times = [5 * TICK, TICK / 2, 5 * TICK, 3 * TICK, 0];
            assert_eq!(join_all(times.map(wait)).await, times);
            // One that is set while the timer waits for a later one.
            let late = async {
                yield_now().await;
                let now = deadlines.now();
                wait(now + TICK / 4).await - now
            };
            let now = deadlines.now();
            let (far, near) = join(wait(now + 9 * TICK), late).await;
            assert_eq!(far, now + 9 * TICK);
            assert!((TICK / 4..=TICK).contains(&near), "{near}");
        });
    }

    /// The timer of a process in which nothing waits does not run.
    #[test]
    fn one_that_is_dropped_is_waited_for_no_longer() {
        with_timer(|deadlines| async move {
            let dropped: Vec<Deadline> = (0..100).map(|at| deadlines.at(3600 * TICK + at)).collect();
            yield_now().await;
            drop(dropped);
            assert!(deadlines.set.borrow().is_empty());
            deadlines.clock.sleep(2 * TICK).await;
            yield_now().await;
            assert!(!deadlines.ticking.get());
            deadlines.at(deadlines.now() + TICK).passed().await;
            assert_eq!(deadlines.now(), 3 * TICK);
        });
    }
}
