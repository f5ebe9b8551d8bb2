//! A request to a model, and its results.

use alloc::vec::Vec;

use crate::EngineError;
use crate::mask::Mask;
use crate::sampler::Sampling;

/// Tokens that are wanted after others.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The tokens to begin with.
    pub prompt: Vec<u32>,
    /// How many new ones to make at most.
    pub limit: usize,
    /// Tokens after which nothing follows.
    pub ends: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
}

/// A request in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// A constraint on the new tokens, such as a grammar.
pub trait Constraint {
    /// Leaves in `allowed`, in which all tokens are when it comes, those that may be next. If one alone is left it is
    /// taken without the model, and several in a row go through the model together.
    ///
    /// # Errors
    /// [`EngineError::Constraint`] if it cannot decide; the request then fails with it.
    fn mask(&mut self, allowed: &mut Mask) -> Result<(), EngineError>;

    /// What is added to the logits of some of those tokens, which the model chooses too often or too seldom here.
    fn biases(&self) -> Vec<(u32, f32)> {
        Vec::new()
    }

    /// Records that a token has been chosen, which is not one of the request's ends.
    ///
    /// # Errors
    /// [`EngineError::Constraint`] if it must not be; the request then fails with it.
    fn accept(&mut self, token: u32) -> Result<(), EngineError>;
}

/// Something that happened to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// More of the prompt has passed through the model.
    Progress {
        /// Its tokens that have passed, including those of a prefix that was there already.
        done: usize,
        /// All its tokens.
        total: usize,
    },
    /// A new token.
    Token(u32),
    /// Nothing follows.
    Finish {
        /// Why.
        reason: Finish,
        /// Its usage.
        usage: Usage,
    },
}

/// Why a request has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Finish {
    /// The model chose this token, one of the request's ends.
    End(u32),
    /// All requested tokens are there.
    Limit,
    /// It was cancelled.
    Cancelled,
    /// No token fits after the last one.
    Full,
    /// It could not go on.
    Failed(EngineError),
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Those of the prompt.
    pub prompt: usize,
    /// Those of the prompt that did not have to pass through the model, since a sequence that begins with them had.
    pub reused: usize,
    /// New ones; the one that ended the text is not counted.
    pub new: usize,
}
