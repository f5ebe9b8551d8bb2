//! What the authority broker decides, without the broker: which calls are permitted, and which need a person's consent.
//!
//! The type [`Policy`] is the configuration of a system. A [`PolicyBundle`] is what it permits one session, until a time. The
//! type [`SessionPolicy`] is the bundle in the form in which calls are checked. It
//! answers questions about a tool call by look-ups alone: is the tool granted, are its arguments in scope, and which
//! approval does it need. Around it, [`Lease`], [`Approvals`], [`Passphrase`] and [`Rates`] keep state. Nothing here
//! does I/O; the caller supplies each time, in nanoseconds of one clock.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod approval;
mod backend;
mod binding;
mod budget;
mod bundle;
mod category;
mod dimension;
mod labels;
mod lease;
mod listing;
mod map;
mod passphrase;
mod profile;
mod quota;
mod risk;
mod scope;
mod service_end;
mod session;

pub use approval::{Answer, Approvals, Standing, matches, may_stand, unagreed};
pub use backend::{check_backend_policy, may_open};
pub use binding::{BY_HAND, Binding, BindingError, STEP};
pub use budget::{Rate, Rates, TooMany};
pub use bundle::{
    BoundBy, BundleError, Capability, FORMAT, Holder, MAX_COMPARED, MAX_SEARCHED, MODEL_CALL, PolicyBundle,
};
pub use category::{Category, category};
pub use dimension::dimension;
pub use labels::{Egress, LABEL_LIMIT, all_above, class_below, join, join_provenance, label_below, label_size};
pub use lease::{Lease, LeaseError};
pub use listing::{changes, listed};
pub use map::{Modes, Override, Permission, stricter};
pub use passphrase::{Attempts, Passphrase, PassphraseError, StepUpError};
pub use profile::{ModelAccess, Patience, ProfileBudgets, ProfileRules, is_remote};
pub use quota::{Quota, Size};
pub use risk::{RiskRules, usual};
pub use scope::{
    ArgumentRules, At, CommandRules, DomainRules, Measured, PathError, PathIndex, PathRules, Scope, ScopeError, host,
    matches_wildcard, normalise,
};
pub use service_end::ServiceEnds;
pub use session::{Explanation, Gate, GrantedTool, Policy, Review, ScopeRule, SessionPolicy, Target};
