//! The parts of an inference request that a script may use.

use alloc::vec::Vec;

/// An inference request as the player sees it. The worker borrows it from the decoded message.
#[derive(Clone, Debug, Default)]
pub struct RequestView<'a> {
    pub messages: Vec<MessageView<'a>>,
    pub tools: Vec<ToolView<'a>>,
    /// The most tokens to answer with; 0 means no limit.
    pub max_tokens: u32,
    /// Text that ends the answer when it would appear in it; empty entries are ignored.
    pub stop_sequences: Vec<&'a str>,
    pub temperature: f32,
    /// JSON Schema of the final answer; empty if none is asked for.
    pub response_schema: &'a str,
    /// The audit log's name of the request.
    pub nonce: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

#[derive(Clone, Copy, Debug)]
pub struct MessageView<'a> {
    pub role: Role,
    pub content: &'a str,
}

/// An advertised tool: the name and the handle under which it is called.
#[derive(Clone, Copy, Debug)]
pub struct ToolView<'a> {
    pub name: &'a str,
    pub handle: &'a str,
}

impl<'a> RequestView<'a> {
    /// The content of the last message of that role, if there is one.
    #[must_use]
    pub fn last(&self, role: Role) -> Option<&'a str> {
        self.messages.iter().rev().find(|message| message.role == role).map(|message| message.content)
    }

    /// The tool results that this request brings: none if the person has spoken since they came in.
    pub fn fresh_results(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.messages.iter().rev().take_while(|message| message.role == Role::Tool).map(|message| message.content)
    }

    /// How many messages the model has in the conversation already.
    #[must_use]
    pub fn assistant_messages(&self) -> u64 {
        self.messages.iter().filter(|message| message.role == Role::Assistant).count() as u64
    }

    /// The handle of the tool of exactly that name.
    #[must_use]
    pub fn handle(&self, name: &str) -> Option<&'a str> {
        self.tools.iter().find(|tool| tool.name == name).map(|tool| tool.handle)
    }
}
