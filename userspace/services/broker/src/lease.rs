//! Leave to run one call.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use core::cell::{Cell, RefCell};

use capos_policy::Lease;
use capos_rt::Clock;
use capos_schema::authority::{LeaseServer, ToolQuestion};
use capos_schema::cap::{CallContext, CallError};

/// A lease as the session holds it.
pub struct LeaseObject {
    lease: RefCell<Lease>,
    session: String,
    clock: Clock,
    /// Whether the session has ended, and the lease with it.
    ended: Rc<Cell<bool>>,
}

impl LeaseObject {
    /// A lease for one call of a session.
    pub fn new(session: &str, question: &ToolQuestion, clock: Clock, ended: Rc<Cell<bool>>) -> Self {
        let lease = RefCell::new(Lease::new(session, question, clock.now()));
        Self { lease, session: session.to_string(), clock, ended }
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
