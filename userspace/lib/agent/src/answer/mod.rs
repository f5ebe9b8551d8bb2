//! What a model answers, and the calls that it proposes by that.

pub mod facts;
pub mod infer;
pub mod proposals;
pub mod response;
