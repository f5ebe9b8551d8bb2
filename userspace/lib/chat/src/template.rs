//! A model file's chat template.

use capos_jinja::{ErrorKind, Host, Limits, Value as Made};
use capos_tokenizer::Tokenizer;
use serde_json::Value;

use crate::ChatError;
use crate::guard::Guard;
use crate::history;
use crate::message::{Conversation, FORBIDDEN, Message, Role};
use crate::prompt::Prompt;

/// The limits of a template: some thousands of steps for each message of a long conversation, and more text than a context
/// holds. The levels fit into the stack of 256 KiB that a capOS process has.
const LIMITS: Limits = Limits { steps: 20_000_000, text: 2 << 20, depth: 112 };
/// The most messages of a conversation that is searched for the one that a template rejects.
const SEARCHED: usize = 32;
/// The most characters of an error message that a template raises.
const SAID: usize = 400;

/// A model file's chat template, with what it may use.
pub struct Template {
    template: capos_jinja::Template,
    guard: Guard,
    begin: String,
    end: String,
}

impl Template {
    /// Prepares the template of the model whose tokenizer this is.
    ///
    /// # Errors
    /// [`ChatError::NoTemplate`] where `source` is nothing, [`ChatError::Syntax`] where it is no template.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> Result<Self, ChatError> {
        if source.trim().is_empty() {
            return Err(ChatError::NoTemplate);
        }
        let template =
            capos_jinja::Template::new(source).map_err(|error| ChatError::Syntax { why: error.to_string() })?;
        let roles = tokenizer.vocabulary().roles();
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.vocabulary().text(id)).unwrap_or("").to_string();
        Ok(Self {
            template,
            guard: Guard::new(tokenizer.guarded_marks()),
            begin: text(roles.begin),
            end: text(roles.end),
        })
    }

    /// What the model is to read. A template that rejects the conversation is given other forms of it ([`history`]).
    ///
    /// # Errors
    /// [`ChatError::Rendering`] if the template rejects all of them, with its error for the unchanged
    /// conversation.
    pub fn render(&self, conversation: &Conversation<'_>) -> Result<Prompt, ChatError> {
        let error = match self.made(conversation, conversation.messages) {
            Ok(prompt) => return Ok(prompt),
            Err(error) => error,
        };
        // What reaches a limit does so in each form.
        let others = if error.kind == ErrorKind::Limit { Vec::new() } else { history::sets() };
        let mut forms = others.into_iter().filter_map(|set| history::in_forms(conversation.messages, set));
        match forms.find_map(|messages| self.made(conversation, &messages).ok()) {
            Some(prompt) => Ok(prompt),
            None => Err(self.rejection(conversation, &error)),
        }
    }

    /// The same, with calls and results written as texts: for templates that reject a conversation with them.
    ///
    /// # Errors
    /// [`ChatError::Rendering`] where the template rejects that, too.
    pub fn render_plain(&self, conversation: &Conversation<'_>) -> Result<Prompt, ChatError> {
        let messages = history::plain(conversation.messages);
        self.render(&Conversation { messages: &messages, ..*conversation })
    }

    fn made(&self, conversation: &Conversation<'_>, messages: &[Message]) -> Result<Prompt, capos_jinja::Error> {
        let tools = conversation.tools.iter().map(|tool| {
            let mut function = vec![
                member("name", Made::foreign(&tool.name)),
                member("description", Made::foreign(&tool.description)),
                member("parameters", foreign(&tool.parameters)),
            ];
            function.extend(tool.forbidden.then(|| member("permission", Made::own(FORBIDDEN))));
            Made::dict(vec![member("type", Made::own("function")), member("function", Made::dict(function))])
        });
        let values = vec![
            ("messages", Made::list(messages.iter().map(|message| value(message, messages)).collect())),
            ("tools", if conversation.tools.is_empty() { Made::None } else { Made::list(tools.collect()) }),
            ("add_generation_prompt", Made::Bool(conversation.answer)),
            ("bos_token", Made::own(&self.begin)),
            ("eos_token", Made::own(&self.end)),
        ];
        let made = self.template.render(values, Host { now: conversation.now }, LIMITS)?;
        Ok(Prompt::new(&made, &self.guard))
    }

    /// What is told of a conversation that no form of is taken.
    fn rejection(&self, conversation: &Conversation<'_>, error: &capos_jinja::Error) -> ChatError {
        let mut why: String = error.message.chars().take(SAID).collect();
        if let Some(line) = error.line {
            why = format!("{why} (line {line} of the template)");
        }
        let messages = conversation.messages;
        // The first message with which the template says the same is the one that it means.
        let is_meant = |length: &usize| {
            let until = messages.get(..*length).unwrap_or(messages);
            self.made(conversation, until).is_err_and(|found| found == *error)
        };
        let searches = error.kind != ErrorKind::Limit && messages.len() <= SEARCHED;
        let meant = if searches { (1..=messages.len()).find(is_meant) } else { None };
        let message = meant.and_then(|length| messages.get(length.saturating_sub(1)).zip(Some(length)));
        if let Some((message, number)) = message {
            let what = match (message.role, message.calls.len()) {
                (Role::System, _) => "instructions".into(),
                (Role::User, _) => "what the person said".into(),
                (Role::Assistant, 0) => "an answer".into(),
                (Role::Assistant, 1) => "an answer with a call".into(),
                (Role::Assistant, calls) => format!("an answer with {calls} calls"),
                (Role::Tool, _) => {
                    format!("the result of {}", history::called(messages, message).unwrap_or("a call"))
                }
            };
            why = format!("{why}, at message {number} of {}: {what}", messages.len());
        }
        ChatError::Rendering { why, message: message.map(|(_, number)| number) }
    }
}

fn member(key: &str, value: Made) -> (Made, Made) {
    (Made::own(key), value)
}

/// A message as templates know it.
fn value<'m>(message: &'m Message, all: &'m [Message]) -> Made {
    let mut members =
        vec![member("role", Made::own(message.role.name())), member("content", Made::foreign(&message.content))];
    if !message.calls.is_empty() {
        let calls = message.calls.iter().map(|call| {
            let function =
                vec![member("name", Made::foreign(&call.name)), member("arguments", foreign(&call.arguments))];
            Made::dict(vec![
                member("id", Made::foreign(&call.id)),
                member("type", Made::own("function")),
                member("function", Made::dict(function)),
            ])
        });
        members.push(member("tool_calls", Made::list(calls.collect())));
    }
    if message.role == Role::Tool {
        members.push(member("tool_call_id", Made::foreign(&message.call_id)));
        members.push(member("name", Made::foreign(history::called(all, message).unwrap_or(""))));
    }
    Made::dict(members)
}

/// A value that the template did not write.
fn foreign(value: &Value) -> Made {
    match value {
        Value::Null => Made::None,
        Value::Bool(value) => Made::Bool(*value),
        Value::Number(number) => {
            let whole = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
            whole.map_or_else(|| Made::Float(number.as_f64().unwrap_or(0.0)), Made::Int)
        }
        Value::String(text) => Made::foreign(text),
        Value::Array(values) => Made::list(values.iter().map(foreign).collect()),
        Value::Object(entries) => {
            Made::dict(entries.iter().map(|(key, value)| (Made::foreign(key), foreign(value))).collect())
        }
    }
}
