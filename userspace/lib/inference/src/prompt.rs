//! The part of a conversation that a model reads: as much of it as fits.

use capos_chat::{CallForm, ChatError, ChatFormat, Conversation, Message, Prompt, Role};
use capos_compaction::{Speaker, Steps};
use capos_engine::limits;
use capos_gguf::Header;
use capos_tokenizer::Tokenizer;

use crate::{Family, InferenceError, Request};

/// The part of a context that is kept for an answer whose length is not bounded otherwise. What is left out at once is also
/// measured in such parts.
const ANSWER_PART: usize = 4;
/// Bytes of a token, about.
const TOKEN_BYTES: usize = 3;

/// A prompt that fits.
pub struct Fitting {
    /// What the model reads.
    pub prompt: Prompt,
    /// Its tokens.
    pub ids: Vec<u32>,
    /// Messages of the conversation that are not in it.
    pub removed: usize,
}

/// How the prompts of a model file are made. The file's weights are not needed.
pub struct Prompts {
    tokenizer: Tokenizer,
    format: ChatFormat,
    family: Option<Family>,
    context: usize,
}

impl Prompts {
    /// The prompts of the file with this header, of at most `context` tokens, or as many as the file states.
    ///
    /// # Errors
    /// [`InferenceError`] if its vocabulary or its chat template cannot be used.
    pub fn of(header: &Header<'_>, context: Option<usize>) -> Result<Self, InferenceError> {
        let tokenizer = Tokenizer::new(header)?;
        let facts = header.facts();
        let stated = usize::try_from(facts.context_length).ok().filter(|tokens| *tokens > 0);
        let with_tools = CallForm::first(facts.templates_with_tools());
        Ok(Self {
            format: ChatFormat::of(header, &tokenizer)?,
            tokenizer,
            family: with_tools.and_then(|(template, form)| Family::of(template, form)).cloned(),
            context: context.or(stated).unwrap_or(limits::CONTEXT).clamp(1, limits::CONTEXT),
        })
    }

    /// How text becomes tokens.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// How the file writes conversations.
    pub fn format(&self) -> &ChatFormat {
        &self.format
    }

    pub(crate) fn set_family(&mut self, family: Option<Family>) {
        self.family = family;
    }

    /// Renders a conversation. Tools that the model cannot be shown are left out. If the conversation is too long, the examples
    /// of the model's family are left out, and then its oldest messages.
    ///
    /// # Errors
    /// [`InferenceError`] if the template rejects the conversation, or what has to stay of it is too long.
    pub fn fitting(&self, request: &Request) -> Result<Fitting, InferenceError> {
        let context = self.context;
        let part = context.checked_div(ANSWER_PART).unwrap_or(0);
        let room = request.limit.map_or(part, |limit| limit.min(part)).max(1);
        let tools = self.format.form().map_or(&[][..], |_| &request.tools);
        let render = |messages: &[Message], examples: bool| -> Result<(Prompt, Vec<u32>), ChatError> {
            let conversation = Conversation { messages, tools, answer: true, now: request.now };
            let prompt = self.prompt(&conversation, request.plain, examples)?;
            let ids = prompt.encode(&self.tokenizer);
            Ok((prompt, ids))
        };
        let fits = |ids: &[u32]| ids.len().saturating_add(room) <= context;
        if self.family.as_ref().is_some_and(|family| family.has_examples(tools, context)) {
            let (prompt, ids) = render(&request.messages, true)?;
            if fits(&ids) {
                return Ok(Fitting { prompt, ids, removed: 0 });
            }
        }
        let steps = Steps::of(spoken(request));
        let shorter = |count: usize| render(&without(&request.messages, &steps, count), false);
        let mut rendered = None;
        let is_enough = |count: usize| -> Result<bool, InferenceError> {
            let found = shorter(count)?;
            let is_enough = fits(&found.1);
            rendered = Some((count, found));
            Ok(is_enough)
        };
        let piece = part.saturating_mul(TOKEN_BYTES);
        let all = steps.count();
        let count = steps.fitting(piece, is_enough)?.unwrap_or(all);
        let (prompt, ids) = match rendered.take() {
            Some((last, found)) if last == count => found,
            _ => shorter(count)?,
        };
        // What has to stay may leave less room for the answer.
        let tokens = ids.len();
        if tokens >= context {
            return Err(InferenceError::TooLong { tokens, context });
        }
        let removed = request.messages.len().saturating_sub(steps.kept(count).count());
        Ok(Fitting { prompt, ids, removed })
    }

    /// Renders a conversation with what the model's family adds if there are tools, or without that if the template rejects it.
    /// An error then numbers the messages as the conversation does.
    pub(crate) fn prompt(
        &self,
        conversation: &Conversation<'_>,
        plain: bool,
        examples: bool,
    ) -> Result<Prompt, ChatError> {
        let render = |conversation: &Conversation<'_>| match plain {
            true => self.format.render_plain(conversation),
            false => self.format.render(conversation),
        };
        let family = self.family.as_ref().filter(|_| !conversation.tools.is_empty());
        let added = family.and_then(|family| {
            let context = if examples { self.context } else { 0 };
            let messages = family.messages(conversation.messages, conversation.tools, context);
            render(&Conversation { messages: &messages, ..*conversation }).ok()
        });
        added.map_or_else(|| render(conversation), Ok)
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
