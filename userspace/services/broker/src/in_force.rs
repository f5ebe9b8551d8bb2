//! Whether what a session was given is still in force.

use alloc::rc::Rc;
use core::cell::RefCell;

use capos_policy::SessionPolicy;
use capos_rt::Clock;
use capos_schema::cap::CallError;

/// The policy of a session, for objects that were made for it. Such an object is no copy of a capability that could be revoked, so
/// it looks at each call whether the policy is valid.
#[derive(Clone)]
pub struct InForce {
    policy: Rc<RefCell<SessionPolicy>>,
    clock: Clock,
}

impl InForce {
    /// As long as this policy, or the one that takes its place, is valid.
    pub fn new(policy: Rc<RefCell<SessionPolicy>>, clock: Clock) -> Self {
        Self { policy, clock }
    }

    /// Nothing is done once the policy has expired.
    ///
    /// # Errors
    /// It has.
    pub fn check(&self) -> Result<(), CallError> {
        self.policy.borrow().valid(self.clock.now()).map_err(CallError::invalid_argument)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_policy::{Holder, Policy, PolicyBundle};
    use capos_schema::authority::Profile;
    use capos_schema::cap::CallContext;
    use capos_schema::kernel::{TimerClient, TimerServer};
    use capos_schema::local::Local;
    use core::cell::Cell;

    struct Hand(Rc<Cell<u64>>);

    impl TimerServer for Hand {
        async fn now(&self, _: &CallContext) -> Result<u64, CallError> {
            Ok(self.0.get())
        }

        async fn sleep_until(&self, _: &CallContext, _: u64) -> Result<(), CallError> {
            Ok(())
        }

        async fn set_wall_clock(&self, _: &CallContext, _: u64) -> Result<(), CallError> {
            Ok(())
        }

        async fn wall_clock(&self, _: &CallContext) -> Result<u64, CallError> {
            Ok(0)
        }
    }

    fn policy(issued: u64, expires: u64) -> SessionPolicy {
        let (policy, profile) = (Policy::default(), Profile::Operator);
        let holder = Holder { session: "s1".into(), principal: "ada".into(), profile };
        let bundle = PolicyBundle::issue(&policy, holder.clone(), (issued, expires), alloc::vec::Vec::new());
        SessionPolicy::load(&policy, bundle, &holder, issued).unwrap()
    }

    /// Requirement D28: what was made for a session, and is no copy that can be revoked, ends with its policy, too.
    #[test]
    fn d28_an_object_of_a_session_does_nothing_after_its_policy() {
        let (local, hand) = (Local::default(), Rc::new(Cell::new(10)));
        let clock = Clock::new(TimerClient::serve(&local, Rc::new(Hand(hand.clone()))).unwrap());
        let shared = Rc::new(RefCell::new(policy(10, 20)));
        let in_force = InForce::new(shared.clone(), clock);
        let check = |now| {
            hand.set(now);
            in_force.check().map_err(|error| error.to_string())
        };
        assert_eq!(check(19), Ok(()));
        assert!(check(20).unwrap_err().contains("has expired; /resume"));
        // Another bundle takes its place.
        *shared.borrow_mut() = policy(20, 30);
        assert_eq!(check(29), Ok(()));
        assert!(check(30).is_err());
    }
}
