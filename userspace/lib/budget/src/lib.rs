//! Budgets: what a session, a run and a step may use.
//!
//! A budget has eight dimensions ([`Dimension`]), each with a limit and a policy ([`Rule`]). Budgets nest: a principal's holds
//! its sessions', a session's holds its runs', and a step reserves from its run's. A step reserves before it begins and
//! settles when it has ended ([`Ledger`]). What holds, whatever happens between:
//!
//! * No step begins if a budget that it belongs to is used up, or if it needs more than a budget has left.
//! * No budget is exceeded by more than the step that used it up took beyond its reservation.
//! * A reservation that was never settled counts as used once the ledger is read again ([`Kept`]).
//! * A child run gets a part of its parent's budget: what both use together is within the parent's.
//!
//! Nothing here does input or output. All arithmetic saturates.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

mod account;
mod amounts;
mod dimension;
mod estimate;
mod kept;
mod ledger;
mod plan;

pub use account::{Account, Crossed};
pub use amounts::{Amounts, UNLIMITED};
pub use dimension::Dimension;
pub use estimate::{Estimate, Judged};
pub use kept::Kept;
pub use ledger::{Exceeded, Ledger, Refused, ScopeId, ScopeKind, Ticket};
pub use plan::{OnExceed, Plan, Rule};
