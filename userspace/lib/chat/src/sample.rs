//! A conversation that shows what a template takes.

use serde_json::json;

use crate::message::{Conversation, Message, Role, Tool};
use crate::{ChatError, ChatFormat};

/// The first second of 2026.
const NOW: i64 = 1_767_225_600;

impl ChatFormat {
    /// Renders sample conversations of an agent, and returns those that the template rejects. They are: instructions
    /// and a question; a call and its result; two calls in one answer; a question after a cancelled turn.
    ///
    /// # Errors
    /// [`ChatError::Rendering`] if it rejects even a question.
    pub fn try_out(&self) -> Result<Vec<String>, ChatError> {
        let message = |role, content: &str| Message::new(role, content);
        let call = |id: &str, path: &str| crate::Call {
            id: id.into(),
            name: "read_file".into(),
            arguments: json!({ "path": path }),
        };
        let calls = |calls| Message { calls, ..message(Role::Assistant, "I look.") };
        let result = |id: &str| Message { call_id: id.into(), ..message(Role::Tool, "Nothing is in it.") };
        let tools = [Tool {
            name: "read_file".into(),
            description: "Reads a file.".into(),
            parameters: json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] }),
            handle: String::new(),
            forbidden: false,
        }];
        let tools: &[Tool] = if self.form().is_some() { &tools } else { &[] };
        let asked = [message(Role::System, "Be brief."), message(Role::User, "What is in a?")];
        let render = |more: Vec<Message>, tools: &[Tool]| {
            let messages = [asked.as_slice(), &more].concat();
            self.render(&Conversation { messages: &messages, tools, answer: true, now: Some(NOW) }).map(drop)
        };
        render(Vec::new(), &[])?;
        let answered = || vec![message(Role::Assistant, "Nothing."), message(Role::User, "And in b?")];
        let one = vec![calls(vec![call("call-1", "a")]), result("call-1")];
        let two = vec![calls(vec![call("call-1", "a"), call("call-2", "b")]), result("call-1"), result("call-2")];
        let mut samples = vec![("a second question", answered(), &[] as &[Tool])];
        samples.push(("a question behind a turn that was given up", vec![message(Role::User, "Go on.")], &[]));
        if !tools.is_empty() {
            samples.push(("a question with tools", Vec::new(), tools));
            samples.push(("a call and its result", one.clone(), tools));
            samples.push(("two calls in one answer", two, tools));
            samples.push(("a question behind a call", [one, answered()].concat(), tools));
        }
        let rejected = samples.into_iter().filter_map(|(what, more, tools)| {
            let error = render(more, tools).err()?;
            Some(format!("{what}: {error}"))
        });
        Ok(rejected.collect())
    }
}
