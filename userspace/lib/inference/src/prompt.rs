//! The part of a conversation that a model reads: as much of it as fits.

use capos_chat::{Conversation, Message, Prompt, Role, Tool};
use capos_compaction::{Speaker, Steps};

use crate::{InferenceError, LanguageModel, Request};

/// The part of a context that is kept for an answer whose length is not bounded otherwise. What is left out at once is also
/// measured in such parts.
const ANSWER_PART: usize = 4;
/// Bytes of a token, about.
const TOKEN_BYTES: usize = 3;

/// A prompt that fits.
pub struct Fitting {
    pub prompt: Prompt,
    /// Its tokens.
    pub ids: Vec<u32>,
    /// Messages of the conversation that are not in it.
    pub removed: usize,
}

/// Renders a conversation. If it is too long, its oldest messages are left out.
pub fn fitting(model: &LanguageModel<'_>, request: &Request) -> Result<Fitting, InferenceError> {
    let context = model.model().context();
    let part = context.checked_div(ANSWER_PART).unwrap_or(0);
    let room = request.limit.map_or(part, |limit| limit.min(part)).max(1);
    let render = |messages: Vec<Message>| -> Result<(Prompt, Vec<u32>), InferenceError> {
        let messages = read(model, messages, &request.tools);
        let conversation = Conversation { messages: &messages, tools: &request.tools, answer: true, now: request.now };
        let format = model.format();
        let prompt = if request.plain { format.render_plain(&conversation)? } else { format.render(&conversation)? };
        let ids = prompt.encode(model.tokenizer());
        Ok((prompt, ids))
    };
    let steps = Steps::of(spoken(request));
    let mut rendered = None;
    let mut fits = |count: usize| -> Result<bool, InferenceError> {
        let found = render(without(&request.messages, &steps, count))?;
        let fits = found.1.len().saturating_add(room) <= context;
        rendered = Some((count, found));
        Ok(fits)
    };
    let piece = part.saturating_mul(TOKEN_BYTES);
    let all = steps.count();
    let count = steps.fitting(piece, &mut fits)?.unwrap_or(all);
    let (prompt, ids) = match rendered.take() {
        Some((last, found)) if last == count => found,
        _ => render(without(&request.messages, &steps, count))?,
    };
    // What has to stay may leave less room for the answer.
    let tokens = ids.len();
    if tokens >= context {
        return Err(InferenceError::TooLong { tokens, context });
    }
    let removed = request.messages.len().saturating_sub(steps.kept(count).count());
    Ok(Fitting { prompt, ids, removed })
}

/// What a model reads of these messages: with what its family has besides, if there are tools.
pub fn read(model: &LanguageModel<'_>, messages: Vec<Message>, tools: &[Tool]) -> Vec<Message> {
    let context = model.model().context();
    let family = model.family().filter(|_| !tools.is_empty());
    match family {
        Some(family) => family.messages(&messages, tools, context),
        None => messages,
    }
}

/// Who says how much in a conversation. What stands behind the request in the role of its author is the runner's.
fn spoken(request: &Request) -> impl Iterator<Item = (Speaker, usize)> + '_ {
    request.messages.iter().enumerate().map(|(place, message)| {
        let is_behind = request.goal.is_some_and(|goal| place > goal);
        let speaker = if message.role == Role::User && is_behind { Speaker::Reminder } else { speaker(message.role) };
        (speaker, length(message))
    })
}

fn speaker(role: Role) -> Speaker {
    match role {
        Role::System => Speaker::System,
        Role::User => Speaker::Person,
        Role::Assistant => Speaker::Model,
        Role::Tool => Speaker::Tool,
    }
}

fn length(message: &Message) -> usize {
    let calls = message.calls.iter().map(|call| call.name.len().saturating_add(call.arguments.to_string().len()));
    calls.fold(message.content.len(), usize::saturating_add)
}

/// The messages that stay, with markers in the places of the others.
fn without(messages: &[Message], steps: &Steps, count: usize) -> Vec<Message> {
    steps.shorten(messages.iter().cloned(), count, |message| &mut message.content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_stays_behind_the_marker() {
        let roles = [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Assistant, Role::User];
        let messages: Vec<Message> =
            roles.iter().zip('a'..).map(|(role, text)| Message::new(*role, &text.to_string())).collect();
        let steps = Steps::of(messages.iter().map(|message| (speaker(message.role), length(message))));
        let texts = |count: usize| {
            without(&messages, &steps, count).into_iter().map(|message| message.content).collect::<Vec<String>>()
        };
        assert_eq!(texts(0).concat(), "abcdef");
        assert_eq!(texts(1), ["a", "[Earlier conversation truncated — 4 messages removed]\n\nf"]);
    }
}
