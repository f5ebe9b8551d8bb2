//! The tests of this crate through its public interface, in one program.

mod bundle;
mod confirmed;
mod consents;
mod files;
mod labels;
mod layers;
mod listing;
mod policy;
mod rates;
mod reviews;
mod step_up;
mod support;
mod texts;
