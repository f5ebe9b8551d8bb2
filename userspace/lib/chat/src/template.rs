//! A model file's chat template.

use std::panic::{AssertUnwindSafe, catch_unwind};

use capos_tokenizer::{Marks, Piece, Tokenizer};
use minijinja::value::{Kwargs, Value as TemplateValue};
use minijinja::{AutoEscape, Environment, Error, ErrorKind};
use serde_json::{Map, Value, json};

use crate::bounds::{self, Made};
use crate::guard::Guard;
use crate::lines::{RESULT, USER};
use crate::message::{Conversation, FORBIDDEN, Message, Role};
use crate::{ChatError, json};

/// The template's name in its environment.
const NAME: &str = "chat_template";

/// Steps that a template may take: some thousands for each message of a long conversation.
const FUEL: u64 = 20_000_000;

/// How deep blocks and macros of a template may lie in each other, as the library counts it: a loop is one, a call of a
/// macro five or more. A process of capOS has 256 KiB of stack, which the library's own bound of 500 does not keep to.
const DEPTH: usize = 160;

/// A model file's chat template, with what it may use.
pub struct Template {
    environment: Environment<'static>,
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
        if let Some(why) = bounds::excess(source) {
            return Err(ChatError::Syntax { why });
        }
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(DEPTH);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", to_json);
        environment.add_test("iterable", is_iterable);
        environment.add_function("raise_exception", raise_exception);
        let added = environment.add_template_owned(NAME, source.to_string());
        added.map_err(|error| ChatError::Syntax { why: explain(&error) })?;
        let roles = tokenizer.vocabulary().roles();
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.vocabulary().text(id)).unwrap_or("").to_string();
        Ok(Self {
            guard: Guard::new(tokenizer.guarded_marks()),
            begin: text(roles.begin),
            end: text(roles.end),
            environment,
        })
    }

    /// What the model is to read.
    ///
    /// # Errors
    /// [`ChatError::Rendering`] where the template refuses the conversation.
    pub fn render(&self, conversation: &Conversation<'_>) -> Result<Prompt, ChatError> {
        let first = self.try_render(conversation, conversation.messages);
        let Err(refused) = first else { return first };
        // Some templates refuse instructions; what the first person says can carry them. And some refuse two questions
        // without an answer between them, which a turn that was given up leaves.
        let answered = with_answers_between(conversation.messages);
        let others =
            [with_instructions_inside(conversation.messages), with_instructions_inside(&answered), Some(answered)];
        let rendered = others.into_iter().flatten().find_map(|messages| self.try_render(conversation, &messages).ok());
        rendered.ok_or(refused)
    }

    fn try_render(&self, conversation: &Conversation<'_>, messages: &[Message]) -> Result<Prompt, ChatError> {
        let messages: Vec<Value> = messages.iter().map(|message| self.message(message, messages)).collect();
        let tools = conversation.tools.iter().map(|tool| {
            let mut function = json!({
                "name": self.guard.protect(&tool.name),
                "description": self.guard.protect(&tool.description),
                "parameters": self.protect(&tool.parameters),
            });
            if tool.forbidden
                && let Some(function) = function.as_object_mut()
            {
                function.insert("permission".into(), FORBIDDEN.into());
            }
            json!({ "type": "function", "function": function })
        });
        let tools = if conversation.tools.is_empty() { Value::Null } else { Value::Array(tools.collect()) };
        let mut environment = self.environment.clone();
        if let Some(now) = conversation.now {
            environment.add_function("strftime_now", move |format: &str| time(now, format));
        }
        let values = minijinja::context! {
            messages => TemplateValue::from_serialize(&messages),
            tools => TemplateValue::from_serialize(&tools),
            add_generation_prompt => conversation.answer,
            bos_token => self.begin,
            eos_token => self.end,
        };
        let mut made = Made::default();
        // The library panics at some sums that overflow.
        let rendered = catch_unwind(AssertUnwindSafe(|| {
            environment.get_template(NAME)?.render_captured_to(values, &mut made).map(drop)
        }));
        match (rendered, made.finish()) {
            (Err(_), _) => Err(ChatError::Rendering { why: "it asks for what cannot be counted".into() }),
            (_, Err(why)) => Err(ChatError::Rendering { why }),
            (Ok(Err(error)), _) => Err(ChatError::Rendering { why: explain(&error) }),
            (Ok(Ok(())), Ok(text)) => Ok(Prompt { text }),
        }
    }

    /// A message as templates know it.
    fn message(&self, message: &Message, all: &[Message]) -> Value {
        let mut out = Map::new();
        out.insert("role".into(), message.role.name().into());
        let content = match message.role {
            Role::Assistant => self.guard.protect_answer(&message.content),
            Role::System | Role::User | Role::Tool => self.guard.protect(&message.content),
        };
        out.insert("content".into(), content.into());
        if !message.calls.is_empty() {
            let calls = message.calls.iter().map(|call| {
                json!({ "id": self.guard.protect(&call.id), "type": "function", "function": {
                    "name": self.guard.protect(&call.name),
                    "arguments": self.protect(&call.arguments),
                }})
            });
            out.insert("tool_calls".into(), calls.collect());
        }
        if message.role == Role::Tool {
            let mut calls = all.iter().flat_map(|message| &message.calls);
            let name = calls.find(|call| call.id == message.call_id).map_or("", |call| call.name.as_str());
            out.insert("tool_call_id".into(), self.guard.protect(&message.call_id).into());
            out.insert("name".into(), self.guard.protect(name).into());
        }
        Value::Object(out)
    }

    /// Guards all text in a value.
    fn protect(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.guard.protect(text).into(),
            Value::Array(values) => values.iter().map(|value| self.protect(value)).collect(),
            Value::Object(entries) => {
                entries.iter().map(|(key, value)| (self.guard.protect(key), self.protect(value))).collect()
            }
            other => other.clone(),
        }
    }
}

/// What a model is to read, with the text of people, tools and documents guarded in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    text: String,
}

impl Prompt {
    /// The text for people to look at. Marks in it and text that only looks like one cannot be told apart.
    pub fn text(&self) -> String {
        Guard::restore(&self.text)
    }

    /// The tokens. Marks come from the template only.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let restored = self.pieces(tokenizer);
        let begins = restored.first().and_then(|first| first.as_ref().ok().copied());
        // Templates write the begin token or leave it to the tokenizer.
        let added = tokenizer.begin().filter(|begin| begins != Some(*begin));
        let mut pieces: Vec<Piece<'_>> = added.map(Piece::Token).into_iter().collect();
        for piece in &restored {
            match piece {
                Ok(id) => pieces.push(Piece::Token(*id)),
                Err(text) => pieces.extend(tokenizer.split(text, Marks::Foreign)),
            }
        }
        tokenizer.encode_pieces(&pieces)
    }

    /// What people and tools say in a prompt of the built-in model, as far as the model is shown it.
    pub fn said(&self, tokenizer: &Tokenizer) -> Vec<String> {
        let marks = [USER, RESULT].map(|mark| tokenizer.vocabulary().find(mark));
        let pieces = self.pieces(tokenizer);
        let pairs = pieces.iter().zip(pieces.iter().skip(1));
        let said = pairs.filter_map(|(mark, text)| {
            let is_said = mark.as_ref().is_ok_and(|mark| marks.contains(&Some(*mark)));
            text.as_ref().err().filter(|_| is_said)
        });
        said.cloned().collect()
    }

    /// The marks, and the texts between them as they are meant.
    fn pieces(&self, tokenizer: &Tokenizer) -> Vec<Result<u32, String>> {
        let pieces = tokenizer.split(&self.text, Marks::All);
        let restored = pieces.into_iter().map(|piece| match piece {
            Piece::Token(id) => Ok(id),
            Piece::Text(text) => Err(Guard::restore(text)),
        });
        restored.collect()
    }
}

/// The messages with the instructions before what the first person says, where there are instructions.
fn with_instructions_inside(messages: &[Message]) -> Option<Vec<Message>> {
    let instructions: Vec<&str> =
        messages.iter().filter(|message| message.role == Role::System).map(|message| &*message.content).collect();
    let mut others: Vec<Message> = messages.iter().filter(|message| message.role != Role::System).cloned().collect();
    let first = others.iter_mut().find(|message| message.role == Role::User)?;
    first.content = [instructions.join("\n\n").as_str(), first.content.as_str()].join("\n\n");
    Some(others).filter(|_| !instructions.is_empty())
}

/// What stands for the answer of a turn that was given up.
const GIVEN_UP: &str = "(interrupted)";

/// The messages with an answer in front of each question that follows something else than an answer.
fn with_answers_between(messages: &[Message]) -> Vec<Message> {
    let mut out: Vec<Message> = Vec::new();
    let mut open = false;
    for message in messages {
        match message.role {
            Role::User if open => out.push(Message::new(Role::Assistant, GIVEN_UP)),
            Role::User => open = true,
            Role::Assistant => open = !message.calls.is_empty(),
            Role::System | Role::Tool => {}
        }
        out.push(message.clone());
    }
    out
}

fn to_json(value: &TemplateValue, indent: Option<usize>, options: Kwargs) -> Result<String, Error> {
    let indent = indent.or(options.get("indent")?);
    let value = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("this is no JSON: {error}")))?;
    Ok(json::write(&value, indent))
}

/// What loops go over, and as Python has it nothing is not.
fn is_iterable(value: &TemplateValue) -> bool {
    !value.is_none() && !value.is_undefined() && value.try_iter().is_ok()
}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn time(now: i64, format: &str) -> Result<String, Error> {
    let wrong = |why: String| Error::new(ErrorKind::InvalidOperation, why);
    let time = jiff::Timestamp::from_second(now).map_err(|error| wrong(error.to_string()))?;
    jiff::fmt::strtime::format(format, time).map_err(|error| wrong(error.to_string()))
}

/// What an error says, and where in the template.
fn explain(error: &Error) -> String {
    let text = error.detail().map_or_else(|| error.kind().to_string(), ToString::to_string);
    match error.line() {
        Some(line) => format!("{} (line {line} of the template)", Guard::restore(&text)),
        None => Guard::restore(&text),
    }
}
