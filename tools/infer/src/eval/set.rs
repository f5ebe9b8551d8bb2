//! Evaluation sets: conversations with the answers that are right.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use capos_chat::{Message, Role, Tool};
use serde_json::{Value, json};

/// The version of the form that is read.
const VERSION: u64 = 1;

/// A conversation of a set.
#[derive(Default)]
pub struct Conversation {
    /// What happens in it.
    pub class: String,
    /// Whether its tools are capOS's own.
    pub own: bool,
    pub tools: Vec<Tool>,
    pub messages: Vec<Message>,
    /// The model's turns: which of the messages they are, and their right answers.
    pub turns: Vec<(usize, Turn)>,
}

/// The answer in one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// `call`, `say`, `none` or `forbidden`.
    pub decision: String,
    /// With `forbidden`, which tool is.
    pub tool: String,
    pub content: String,
    /// Names and arguments.
    pub calls: Vec<(String, Value)>,
}

/// The conversations of a set's folder.
pub fn read(folder: &Path) -> Result<Vec<Conversation>> {
    let text = |name: &str| {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok::<_, anyhow::Error>((path, text))
    };
    let (path, about) = text("set.json")?;
    let about: Value = serde_json::from_str(&about).with_context(|| format!("{} is not JSON", path.display()))?;
    let version = about.get("version").and_then(Value::as_u64);
    ensure!(
        version == Some(VERSION),
        "{} is not of version {VERSION}, the only one that this program reads",
        path.display()
    );
    let (path, lines) = text("conversations.jsonl")?;
    let numbered = lines.lines().enumerate().map(|(line, text)| {
        let read = || Conversation::read(&serde_json::from_str(text)?);
        read().with_context(|| format!("line {} of {}", line.saturating_add(1), path.display()))
    });
    numbered.collect()
}

impl Conversation {
    fn read(json: &Value) -> Result<Self> {
        let member = |name: &str| json.get(name).with_context(|| format!("there is no '{name}'"));
        let messages = Message::list(member("messages")?)?;
        let all = member("messages")?.as_array().map_or(&[][..], Vec::as_slice);
        let turns = messages.iter().zip(all).enumerate().filter(|(_, (message, _))| message.role == Role::Assistant);
        let turns = turns.map(|(at, (message, json))| (at, Turn::read(message, json)));
        Ok(Self {
            class: member("class")?.as_str().context("its 'class' is not a text")?.into(),
            own: member("own")?.as_bool().context("its 'own' is not a Boolean")?,
            tools: Tool::list(member("tools")?)?,
            turns: turns.collect(),
            messages,
        })
    }
}

impl Turn {
    fn read(message: &Message, json: &Value) -> Self {
        let text = |name: &str| json.get(name).and_then(Value::as_str).unwrap_or("").to_string();
        let calls = message.calls.iter().map(|call| (call.name.clone(), call.arguments.clone()));
        Self {
            decision: text("decision"),
            tool: text("tool"),
            content: message.content.clone(),
            calls: calls.collect(),
        }
    }

    /// The form in which produced answers are written.
    pub fn to_json(&self) -> Value {
        let call = |(name, arguments): &(String, Value)| json!({ "type": "function", "function": { "name": name, "arguments": arguments } });
        let calls: Vec<Value> = self.calls.iter().map(call).collect();
        json!({ "content": self.content, "tool_calls": calls, "decision": self.decision, "tool": self.tool })
    }
}
