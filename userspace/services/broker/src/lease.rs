//! Leave to run one call.

use alloc::string::{String, ToString};
use core::cell::RefCell;

use capos_policy::Lease;
use capos_rt::Clock;
use capos_schema::authority::{LeaseServer, ToolQuestion};
use capos_schema::cap::{CallContext, CallError};

/// A lease as the session holds it.
pub struct LeaseObject {
    lease: RefCell<Lease>,
    session: String,
    clock: Clock,
}

impl LeaseObject {
    /// A lease for one call of a session.
    pub fn new(session: &str, question: &ToolQuestion, clock: Clock) -> Self {
        let lease = RefCell::new(Lease::new(session, question, clock.now()));
        Self { lease, session: session.to_string(), clock }
    }
}

impl LeaseServer for LeaseObject {
    async fn redeem(&self, _cx: &CallContext, question: ToolQuestion) -> Result<(), CallError> {
        let used = self.lease.borrow_mut().redeem(&self.session, &question, self.clock.now());
        used.map_err(|why| CallError::invalid_argument(why.to_string()))
    }
}
