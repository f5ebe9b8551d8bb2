//! How much a model can read at once, and what of that a request takes.
//!
//! Tokens are counted by the model's worker alone. What a request takes before it is sent is estimated: a token for each four
//! bytes, corrected by what the worker said of the request before.

use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::models::{ChatMessage, ModelInfo};

use super::Agent;
use crate::answer::infer::about_tokens;
use crate::conversation::about_tokens as of_message;
use crate::conversation::shown::Shown;
use crate::snapshot::Snapshot;
use crate::world::World;

/// The window is left this part of itself for an answer at most.
const ANSWER_PART: u64 = 4;
/// An estimate may be wrong by this part of the window.
const MARGIN_PART: u64 = 16;
/// What a worker says may correct an estimate by this factor at most: it is not trusted.
const MOST_CORRECTION: u64 = 4;
/// Bytes of a token that is estimated.
const TOKEN: u64 = 4;

/// What a request takes of what a model can read at once, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// What the model can read and write together; 0 if that is not known.
    pub tokens: u64,
    /// The system prompt.
    pub system: u64,
    /// The definitions of the tools.
    pub tools: u64,
    /// The messages of the conversation, or the summary in their place.
    pub history: u64,
}

/// One part of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// Its tokens.
    pub tokens: u64,
    /// The part of the window that it is meant to take at most, in percent.
    pub share: u64,
}

impl Part {
    /// How much of a window it takes, in percent; none if the window is not known. A part above its share has more percent than
    /// that.
    #[must_use]
    pub fn percent(&self, window: &Window) -> Option<u64> {
        let percent = self.tokens.saturating_mul(100).checked_div(window.tokens)?;
        Some(if self.is_above(window) { percent.max(self.share.saturating_add(1)) } else { percent })
    }

    /// Whether it takes more of a window than it is meant to.
    #[must_use]
    pub fn is_above(&self, window: &Window) -> bool {
        self.tokens.saturating_mul(100) > self.share.saturating_mul(window.tokens) && window.tokens > 0
    }
}

impl Window {
    /// What it is divided into, each part with its share: 10, 15 and 75 percent.
    #[must_use]
    pub fn parts(&self) -> [Part; 3] {
        let part = |name, tokens, share| Part { name, tokens, share };
        [part("system prompt", self.system, 10), part("tools", self.tools, 15), part("history", self.history, 75)]
    }

    /// What all parts take together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.parts().iter().fold(0, |sum, part| sum.saturating_add(part.tokens))
    }
}

/// What a model's worker said of a request, and what was estimated of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scale {
    model: String,
    said: u64,
    estimated: u64,
}

impl Scale {
    pub(crate) fn new(model: &str, said: u32, estimated: u64) -> Self {
        let said = u64::from(said).clamp(estimated / MOST_CORRECTION, estimated.saturating_mul(MOST_CORRECTION));
        Self { model: model.into(), said, estimated }
    }

    /// Tokens as the worker of this model counts them, about.
    fn tokens(&self, model: &str, estimated: u64) -> u64 {
        self.factor(model).map_or(estimated, |(said, of)| estimated.saturating_mul(said) / of)
    }

    /// The estimate that this number of the model's tokens would have had.
    fn estimate(&self, model: &str, tokens: u64) -> u64 {
        self.factor(model).map_or(tokens, |(said, of)| tokens.saturating_mul(of) / said)
    }

    fn factor(&self, model: &str) -> Option<(u64, u64)> {
        (self.model == model && self.said > 0 && self.estimated > 0).then_some((self.said, self.estimated))
    }
}

/// What there is room for, in estimated tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// In the model's window, and in a message.
    pub whole: u64,
    /// Of that, for the request.
    pub request: u64,
    /// What the system prompt and the tools take.
    pub fixed: u64,
    /// What the whole request takes.
    pub used: u64,
}

impl Room {
    /// Bytes of the system prompt and the messages for which there is room next to tools of `tools` tokens.
    pub(crate) fn bytes(&self, tools: u64) -> usize {
        let bytes = self.request.saturating_sub(tools).saturating_mul(TOKEN);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

impl<W: World> Agent<W> {
    /// What the next request takes of the model's window, about.
    #[must_use]
    pub fn window(&self, snapshot: &Snapshot) -> Window {
        let ModelInfo { id, context_tokens, .. } = self.world.info();
        let scaled = |estimated| self.scale.tokens(&id, estimated);
        Window {
            tokens: context_tokens.into(),
            system: scaled(self.of_system()),
            tools: scaled(of_tools(snapshot)),
            history: scaled(self.of_history()),
        }
    }

    fn of_system(&self) -> u64 {
        u64::try_from(self.system_prompt().len()).unwrap_or(u64::MAX) / TOKEN
    }

    /// Estimated tokens of the messages that are sent.
    pub(crate) fn of_history(&self) -> u64 {
        let shown = Shown::of(self.conversation.entries());
        let messages = shown.entries.iter().map(|(_, entry)| of_message(&entry.message));
        let standing: Vec<ChatMessage> = self.lessons().chain(shown.standing()).collect();
        messages.chain(standing.iter().map(of_message)).fold(0, |sum, tokens| sum.saturating_add(tokens.into()))
    }

    /// What there is room for in a request to this model.
    pub(crate) fn room(&self, snapshot: &Snapshot, model: &ModelInfo) -> Room {
        let message = u64::try_from(self.bounds.request).unwrap_or(u64::MAX) / TOKEN;
        let whole = match model.context_tokens {
            0 => message,
            tokens => self.scale.estimate(&model.id, tokens.into()).min(message),
        };
        let answer = self.scale.estimate(&model.id, self.session.limits.max_tokens_per_call.into());
        let kept = answer.min(whole / ANSWER_PART).saturating_add(whole / MARGIN_PART);
        let fixed = self.of_system().saturating_add(of_tools(snapshot));
        Room { whole, request: whole.saturating_sub(kept), fixed, used: fixed.saturating_add(self.of_history()) }
    }

    /// Notes what a worker said of a request, from which it left nothing out.
    pub(crate) fn measure(&mut self, model: &str, said: u32, request: &capos_schema::models::InferenceRequest) {
        if said > 0 && !self.was_cut {
            self.scale = Scale::new(model, said, about_tokens(request));
        }
    }
}

/// Estimated tokens of the definitions of tools.
pub(crate) fn of_tools(snapshot: &Snapshot) -> u64 {
    let bytes = snapshot.tools().iter().fold(0_usize, |sum, tool| {
        let found = &tool.descriptor;
        sum.saturating_add(found.param_schema.len()).saturating_add(found.description.len())
    });
    u64::try_from(bytes).unwrap_or(u64::MAX) / TOKEN
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirement F04.
    #[test]
    fn f04_a_part_above_its_share_is_known() {
        let window = Window { tokens: 1000, system: 100, tools: 151, history: 750 };
        let above: Vec<bool> = window.parts().iter().map(|part| part.is_above(&window)).collect();
        assert_eq!((above, window.used()), (Vec::from([false, true, false]), 1001));
        assert_eq!(window.parts().map(|part| part.percent(&window)), [Some(10), Some(16), Some(75)]);
        assert_eq!(window.parts().iter().map(|part| part.share).sum::<u64>(), 100);
        let unknown = Window { tokens: 0, ..window };
        assert!(unknown.parts().iter().all(|part| !part.is_above(&unknown) && part.percent(&unknown).is_none()));
    }

    #[test]
    fn the_messages_have_the_room_that_the_tools_leave() {
        let room = Room { whole: 200, request: 100, fixed: 30, used: 50 };
        assert_eq!([0, 20, 100, 101].map(|tools| room.bytes(tools)), [100, 80, 0, 0].map(|left| left * TOKEN as usize));
    }

    #[test]
    fn tools_take_their_descriptions_and_parameters() {
        let mut tool = crate::Tool::default();
        (tool.descriptor.name, tool.descriptor.handle) = ("read".into(), "/object/a".into());
        (tool.descriptor.description, tool.descriptor.param_schema) = ("x".repeat(100), "y".repeat(300));
        assert_eq!(of_tools(&Snapshot::new(Vec::from([tool])).unwrap()), 400 / TOKEN);
        assert_eq!(of_tools(&Snapshot::default()), 0);
    }

    #[test]
    fn an_estimate_is_corrected_within_bounds() {
        let scale = Scale::new("m", 300, 100);
        assert_eq!((scale.tokens("m", 50), scale.estimate("m", 150)), (150, 50));
        assert_eq!((scale.tokens("other", 50), scale.estimate("other", 150)), (50, 150));
        // A worker that lies changes what fits by no more than that.
        assert_eq!(Scale::new("m", u32::MAX, 100).tokens("m", 10), 40);
        assert_eq!(Scale::new("m", 0, 100).tokens("m", 100), 25);
        assert_eq!(Scale::new("m", 7, 0).tokens("m", 5), 5);
    }
}
