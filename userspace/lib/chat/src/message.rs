//! What a conversation is made of.

use serde_json::Value;

use crate::ChatError;

/// What a tool that never runs has as its permission.
pub const FORBIDDEN: &str = "forbidden";

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// A person.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

impl Role {
    /// Its name in templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A call that the model made.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Names it within the conversation.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// An object.
    pub arguments: Value,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
    /// Of the model: what it called.
    pub calls: Vec<Call>,
    /// Of a tool: which call it answers.
    pub call_id: String,
    /// Of a tool: its name, if the call is written as text and so does not tell it.
    pub tool: String,
    /// Of the user's role: whether the person did not write it, but the system or a model did. Then it asks for nothing.
    pub untrusted: bool,
}

impl Message {
    /// A message of text.
    pub fn new(role: Role, content: &str) -> Self {
        Self {
            role,
            content: content.into(),
            calls: Vec::new(),
            call_id: String::new(),
            tool: String::new(),
            untrusted: false,
        }
    }

    /// Reads messages as they are usually written in JSON: a list of objects with `role` and `content`, `tool_calls`
    /// and `tool_call_id`.
    ///
    /// # Errors
    /// [`ChatError::Message`] that names the message.
    pub fn list(json: &Value) -> Result<Vec<Self>, ChatError> {
        let wrong = |why: &str| ChatError::Message { why: why.into() };
        let list = json.as_array().ok_or_else(|| wrong("messages must be a list of objects"))?;
        let numbered = |(at, message): (usize, &Value)| {
            Self::read(message).map_err(|why| wrong(&format!("message {}: {why}", at.saturating_add(1))))
        };
        list.iter().enumerate().map(numbered).collect()
    }

    fn read(json: &Value) -> Result<Self, &'static str> {
        let text = |key: &str| json.get(key).and_then(Value::as_str).unwrap_or("");
        let role = match text("role") {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            _ => return Err("its role is not system, user, assistant or tool"),
        };
        let content = match json.get("content") {
            None | Some(Value::Null) => "",
            Some(Value::String(content)) => content,
            Some(_) => return Err("its content is not a text"),
        };
        let calls = match json.get("tool_calls") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(calls)) => calls.iter().map(Call::read).collect::<Result<_, _>>()?,
            Some(_) => return Err("its tool_calls are not a list"),
        };
        Ok(Self { calls, call_id: text("tool_call_id").into(), ..Self::new(role, content) })
    }
}

impl Call {
    fn read(json: &Value) -> Result<Self, &'static str> {
        let function = json.get("function").unwrap_or(json);
        let name = function.get("name").and_then(Value::as_str).ok_or("a call has no name")?;
        let arguments = match function.get("arguments") {
            None => Value::Object(serde_json::Map::new()),
            Some(Value::String(text)) => {
                serde_json::from_str(text).map_err(|_| "a call's arguments are a text that is not JSON")?
            }
            Some(value) => value.clone(),
        };
        if !arguments.is_object() {
            return Err("a call's arguments are not an object");
        }
        let id = json.get("id").and_then(Value::as_str).unwrap_or("");
        Ok(Self { id: id.into(), name: name.into(), arguments })
    }
}

/// A tool of this turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// Names it for this session; goes with its calls.
    pub handle: String,
    /// Whether it is shown for explanation only, and never runs.
    pub forbidden: bool,
}

impl Tool {
    /// Reads tools as they are usually written in JSON: a list of objects with `name`, `description` and `parameters`,
    /// each in an object `function` or not; `permission` is `forbidden` for those that never run.
    ///
    /// # Errors
    /// [`ChatError::Message`] that names the tool.
    pub fn list(json: &Value) -> Result<Vec<Self>, ChatError> {
        let wrong = |why: String| ChatError::Message { why };
        let list = json.as_array().ok_or_else(|| wrong("tools must be a list of objects".into()))?;
        let mut tools: Vec<Self> = Vec::new();
        for (at, tool) in list.iter().enumerate() {
            let tool = tool.get("function").unwrap_or(tool);
            let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or("");
            let name = text("name");
            if name.is_empty() || tools.iter().any(|tool| tool.name == name) {
                let why = if name.is_empty() {
                    "has no name"
                } else {
                    "has the same name as another; give each tool its own"
                };
                return Err(wrong(format!("tool {} {why}", at.saturating_add(1))));
            }
            let nothing = || serde_json::json!({ "type": "object", "properties": {} });
            tools.push(Self {
                name: name.into(),
                description: text("description").into(),
                parameters: tool.get("parameters").cloned().unwrap_or_else(nothing),
                handle: text("handle").into(),
                forbidden: text("permission") == FORBIDDEN,
            });
        }
        Ok(tools)
    }
}

/// What a model is to answer to.
#[derive(Clone, Copy, Debug)]
pub struct Conversation<'a> {
    /// What was said.
    pub messages: &'a [Message],
    /// The tools of this turn.
    pub tools: &'a [Tool],
    /// Whether the model speaks next; otherwise what was said ends there.
    pub answer: bool,
    /// Seconds since 1970, where the time may be known.
    pub now: Option<i64>,
}
