//! The part of a conversation that a model reads: as much of it as fits.

use capos_chat::{Conversation, Message, Prompt, Role};

use crate::{InferenceError, LanguageModel, Request};

/// The part of a context that is kept for an answer whose length is not bounded otherwise.
const ANSWER_PART: usize = 4;

/// Renders a conversation. If it is too long, its oldest turns are left out: a person's message with everything after
/// it. Instructions and the latest turn stay.
pub fn fitting(model: &LanguageModel<'_>, request: &Request) -> Result<(Prompt, Vec<u32>), InferenceError> {
    let context = model.model().context();
    let part = context.checked_div(ANSWER_PART).unwrap_or(0);
    let room = request.limit.map_or(part, |limit| limit.min(part)).max(1);
    let fits = |ids: &[u32]| ids.len().saturating_add(room) <= context;
    let render = |left_out: usize| -> Result<(Prompt, Vec<u32>), InferenceError> {
        let messages = without_turns(&request.messages, left_out);
        let conversation = Conversation { messages: &messages, tools: &request.tools, answer: true, now: request.now };
        let format = model.format();
        let prompt = if request.plain { format.render_plain(&conversation)? } else { format.render(&conversation)? };
        let ids = prompt.encode(model.tokenizer());
        Ok((prompt, ids))
    };
    let whole = render(0)?;
    if fits(&whole.1) {
        return Ok(whole);
    }
    let turns = request.messages.iter().filter(|message| message.role == Role::User).count();
    // Leaving out `too_few` of the oldest turns does not suffice; leaving out `enough` does, if any number does.
    let (mut too_few, mut enough) = (0, turns.saturating_sub(1));
    let mut found = render(enough)?;
    if !fits(&found.1) {
        // A long turn may leave less room for the answer.
        let tokens = found.1.len();
        return if tokens < context { Ok(found) } else { Err(InferenceError::TooLong { tokens, context }) };
    }
    while enough.saturating_sub(too_few) > 1 {
        let middle = too_few.midpoint(enough);
        let shorter = render(middle)?;
        if fits(&shorter.1) {
            (enough, found) = (middle, shorter);
        } else {
            too_few = middle;
        }
    }
    Ok(found)
}

/// The messages without the `left_out` oldest turns. Messages before the first turn belong to it, except instructions.
fn without_turns(messages: &[Message], left_out: usize) -> Vec<Message> {
    let mut turn = 0usize;
    let kept = messages.iter().filter(|message| {
        if message.role == Role::User {
            turn = turn.saturating_add(1);
        }
        message.role == Role::System || left_out == 0 || turn > left_out
    });
    kept.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_turns_go_first_and_instructions_stay() {
        let roles = [Role::System, Role::Assistant, Role::User, Role::Assistant, Role::Tool, Role::User, Role::System];
        let messages: Vec<Message> =
            roles.iter().zip('a'..).map(|(role, text)| Message::new(*role, &text.to_string())).collect();
        let left =
            |count| without_turns(&messages, count).into_iter().map(|message| message.content).collect::<String>();
        assert_eq!([left(0), left(1), left(2)], ["abcdefg", "afg", "ag"]);
    }
}
