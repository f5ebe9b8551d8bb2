//! Leave to run one call.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use core::cell::{Cell, RefCell};

use capos_policy::Lease;
use capos_rt::Clock;
use capos_schema::authority::{LeaseServer, ToolQuestion};
use capos_schema::cap::{CallContext, CallError};

use crate::permit::Permit;

/// A lease as the session holds it.
pub struct LeaseObject {
    lease: RefCell<Lease>,
    session: String,
    clock: Clock,
    /// Whether the session has ended, and the lease with it.
    ended: Rc<Cell<bool>>,
    /// One of those that the session may hold.
    _held: Option<Permit>,
}

impl LeaseObject {
    /// A lease for one call of a session, whose policy permits nothing from `expires` on.
    pub fn new(session: &str, question: &ToolQuestion, clock: Clock, ended: Rc<Cell<bool>>, expires: u64) -> Self {
        let lease = RefCell::new(Lease::new(session, question, clock.now()).no_later(expires));
        Self { lease, session: session.to_string(), clock, ended, _held: None }
    }

    /// The same lease, which is one of those that the session holds.
    #[must_use]
    pub fn held(self, held: Permit) -> Self {
        Self { _held: Some(held), ..self }
    }
}

impl LeaseServer for LeaseObject {
    async fn redeem(&self, _cx: &CallContext, question: ToolQuestion) -> Result<(), CallError> {
        if self.ended.get() {
            return Err(CallError::invalid_argument("the session of this lease has ended; log in again"));
        }
        let used = self.lease.borrow_mut().redeem(&self.session, &question, self.clock.now());
        used.map_err(|why| CallError::invalid_argument(why.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::authority::LeaseClient;
    use capos_schema::kernel::{TimerClient, TimerServer};
    use capos_schema::local::{Local, run};

    const SECOND: u64 = 1_000_000_000;

    /// A timer that goes where it is put.
    struct Hand(Rc<Cell<u64>>);

    impl TimerServer for Hand {
        async fn now(&self, _cx: &CallContext) -> Result<u64, CallError> {
            Ok(self.0.get())
        }

        async fn sleep_until(&self, _cx: &CallContext, _nanoseconds: u64) -> Result<(), CallError> {
            Ok(())
        }

        async fn set_wall_clock(&self, _: &CallContext, _: u64) -> Result<(), CallError> {
            Err(CallError::unimplemented("this clock is not set"))
        }

        async fn wall_clock(&self, _cx: &CallContext) -> Result<u64, CallError> {
            Ok(0)
        }
    }

    /// A lease as a session gets it when the clock says `now`, and what belongs to it.
    struct Given {
        lease: LeaseClient,
        question: ToolQuestion,
        hand: Rc<Cell<u64>>,
        ended: Rc<Cell<bool>>,
    }

    impl Given {
        fn at(now: u64) -> Self {
            Self::until(now, u64::MAX)
        }

        /// The same of a session whose policy expires then.
        fn until(now: u64, expires: u64) -> Self {
            let (hand, ended, local) = (Rc::new(Cell::new(now)), Rc::new(Cell::new(false)), Local::default());
            let clock = Clock::new(TimerClient::serve(&local, Rc::new(Hand(hand.clone()))).unwrap());
            let question = ToolQuestion { tool: "delete_file".into(), call_id: "call-1".into(), ..Default::default() };
            let object = LeaseObject::new("s1", &question, clock, ended.clone(), expires);
            Self { lease: LeaseClient::serve(&local, Rc::new(object)).unwrap(), question, hand, ended }
        }

        /// Uses it at this time; why it could not be.
        fn redeem(&self, now: u64) -> Option<String> {
            self.hand.set(now);
            let answer = run(self.lease.redeem(&self.question)).unwrap();
            answer.err().map(|error| error.to_string())
        }
    }

    /// Requirement D11: a step-up is good for a minute on the broker's own clock, from the moment that it was given.
    #[test]
    fn a_lease_ends_by_time() {
        let given = 1000 * SECOND;
        let late = Given::at(given);
        let why = late.redeem(given + 60 * SECOND).unwrap();
        assert!(why.contains("the lease has expired; authenticate again"), "{why}");
        assert!(late.redeem(given + 3600 * SECOND).is_some(), "and stays so");
        assert_eq!(Given::at(given).redeem(given + 60 * SECOND - 1), None);
    }

    /// Requirement D28: a lease does not outlast the policy that it was given under.
    #[test]
    fn a_lease_ends_with_its_policy() {
        let policy = 1010 * SECOND;
        assert_eq!(Given::until(1000 * SECOND, policy).redeem(policy - 1), None);
        let why = Given::until(1000 * SECOND, policy).redeem(policy).unwrap();
        assert!(why.contains("the lease has expired"), "{why}");
    }

    #[test]
    fn a_lease_is_used_once_and_ends_with_its_session() {
        let used = Given::at(0);
        assert_eq!(used.redeem(1), None);
        let why = used.redeem(2).unwrap();
        assert!(why.contains("the lease has been used"), "{why}");
        let over = Given::at(0);
        over.ended.set(true);
        let why = over.redeem(1).unwrap();
        assert!(why.contains("the session of this lease has ended"), "{why}");
    }
}
