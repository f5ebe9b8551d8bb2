//! One request: its tokens, and how the next one is chosen.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::request::{Constraint, Event, Finish, Request, RequestId, Usage};
use crate::EngineError;
use crate::mask::Mask;
use crate::sampler::Sampler;

/// Events, and the requests that they are of.
pub type Events = Vec<(RequestId, Event)>;

/// A constraint and the room for its mask. Once a token is about to be chosen that is up to date.
struct Constrained {
    constraint: Box<dyn Constraint>,
    allowed: Mask,
}

/// A request and its state.
pub struct Sequence {
    pub id: RequestId,
    /// The prompt and after it the new tokens.
    pub tokens: Vec<u32>,
    /// Why it has ended, once it has.
    pub finish: Option<Finish>,
    pub usage: Usage,
    /// Most tokens that can go through the model.
    context: usize,
    limit: usize,
    ends: Vec<u32>,
    sampler: Sampler,
    constrained: Option<Constrained>,
}

impl Sequence {
    pub fn new(
        id: RequestId,
        request: Request,
        constraint: Option<Box<dyn Constraint>>,
        vocabulary: usize,
        context: usize,
    ) -> Result<Self, EngineError> {
        let sampler = Sampler::new(request.sampling)?;
        let constrained = constraint.map(|constraint| Constrained { constraint, allowed: Mask::all(vocabulary) });
        Ok(Self {
            id,
            usage: Usage { prompt: request.prompt.len(), reused: 0, new: 0 },
            finish: (request.limit == 0).then_some(Finish::Limit),
            tokens: request.prompt,
            context,
            limit: request.limit,
            ends: request.ends,
            sampler,
            constrained,
        })
    }

    pub fn fail(&mut self, error: EngineError) {
        self.finish = Some(Finish::Failed(error));
    }

    /// Returns why the request has ended, if it has.
    pub fn tell_end(&mut self, events: &mut Events) {
        if let Some(reason) = self.finish.take() {
            events.push((self.id, Event::Finish { reason, usage: self.usage }));
        }
    }

    /// Chooses the next token by the logits after the last, and adds the tokens that follow without a choice.
    pub fn choose(&mut self, logits: &[f32], events: &mut Events) {
        let allowed = self.constrained.as_ref().map(|constrained| &constrained.allowed);
        let biases = self.constrained.as_ref().map(|constrained| constrained.constraint.biases()).unwrap_or_default();
        let biased = (!biases.is_empty()).then(|| {
            let mut biased = logits.to_vec();
            for (id, bias) in biases {
                if let Some(logit) = usize::try_from(id).ok().and_then(|id| biased.get_mut(id)) {
                    *logit += bias;
                }
            }
            biased
        });
        match self.sampler.choose(biased.as_deref().unwrap_or(logits), allowed, &self.tokens) {
            Some(token) => {
                self.add(token, events);
                self.add_forced(events);
            }
            None => self.fail(EngineError::NoLogits),
        }
    }

    /// Adds tokens as long as the constraint leaves no choice.
    pub fn add_forced(&mut self, events: &mut Events) {
        while self.finish.is_none() {
            let Some(Constrained { constraint, allowed }) = &mut self.constrained else { return };
            allowed.allow_all();
            if let Err(error) = constraint.mask(allowed) {
                return self.fail(error);
            }
            let mut ids = allowed.ids();
            match (ids.next(), ids.next()) {
                (Some(only), None) => {
                    drop(ids);
                    self.add(only, events);
                }
                (Some(_), Some(_)) => return,
                (None, _) => {
                    let why = "allows no token at all here".to_string();
                    drop(ids);
                    return self.fail(EngineError::Constraint { why });
                }
            }
        }
    }

    fn add(&mut self, token: u32, events: &mut Events) {
        if self.ends.contains(&token) {
            self.finish = Some(Finish::End(token));
            return;
        }
        if let Some(constrained) = &mut self.constrained
            && let Err(error) = constrained.constraint.accept(token)
        {
            return self.fail(error);
        }
        self.tokens.push(token);
        self.usage.new = self.usage.new.saturating_add(1);
        events.push((self.id, Event::Token(token)));
        if self.usage.new >= self.limit {
            self.finish = Some(Finish::Limit);
        } else if self.tokens.len() > self.context {
            self.finish = Some(Finish::Full);
        }
    }
}
