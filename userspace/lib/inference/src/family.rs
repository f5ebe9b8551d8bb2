//! Families of published models: what they read besides a conversation, because they call tools better then.
//!
//! What is best for a family is data: the files in `families/`. `capos-infer eval` compares such files.

use std::collections::HashMap;
use std::sync::LazyLock;

use capos_chat::{CallForm, Message, Role, Tool};
use serde_json::Value;

use crate::InferenceError;

/// The text in a family's system message that stands for the one of the session.
const SESSION: &str = "{session}";
/// The texts in the form of a call that stand for the tool's name and, after it, the arguments' object, both as JSON.
const NAME: &str = "{name}";
const ARGUMENTS: &str = "{arguments}";
/// The members of a file. The first is for people.
const MEMBERS: [&str; 5] = ["about", "template", "system", "call", "examples"];
/// Examples are left out if conversations with the model are shorter than this many tokens: they have some hundred.
const LEAST_CONTEXT: usize = 8192;

/// The known families.
static KNOWN: LazyLock<Vec<Family>> = LazyLock::new(|| {
    let files = [include_str!("../families/qwen2.5.json")];
    files.into_iter().filter_map(|file| Family::read(file).ok()).collect()
});

/// What models of a family read besides a conversation about tools.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// A text that their chat templates have in them.
    template: String,
    /// The system message, with [`SESSION`].
    system: String,
    /// How a call that was made is written, if not as their chat template has it: the texts before its name, between that and
    /// its arguments, and after these.
    call: Option<[String; 3]>,
    /// Turns of a made-up conversation before the first one.
    examples: Vec<Vec<Message>>,
}

impl Family {
    /// Reads a file: an object with `template`, a text that the chat templates of the family have in them; `system`, the
    /// lines of the system message, one of which is `{session}`; `call`, the text of a call with `{name}` and then
    /// `{arguments}`, which may be absent; and `examples`, a list of turns, each a list of messages ([`Message::list`]).
    ///
    /// # Errors
    /// [`InferenceError::Family`] that says what is wrong.
    pub fn read(file: &str) -> Result<Self, InferenceError> {
        let wrong = |why: &str| InferenceError::Family { why: why.into() };
        let json: Value = serde_json::from_str(file).map_err(|error| wrong(&format!("it is no JSON: {error}")))?;
        let template = json.get("template").and_then(Value::as_str).filter(|text| !text.is_empty());
        let template = template.ok_or_else(|| wrong("`template` has to be a text that is not empty"))?;
        let lines = json.get("system").and_then(Value::as_array).cloned().unwrap_or_default();
        let system: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
        if system.len() != lines.len() || !system.contains(&SESSION) {
            return Err(wrong("`system` has to be a list of lines, one of which is {session}"));
        }
        let parts = |call: &Value| -> Option<[String; 3]> {
            let (before, rest) = call.as_str()?.split_once(NAME)?;
            let (between, after) = rest.split_once(ARGUMENTS)?;
            Some([before, between, after].map(Into::into))
        };
        let call = json
            .get("call")
            .map(|call| parts(call).ok_or_else(|| wrong("`call` has to be a text with {name}, and then {arguments}")));
        let call = call.transpose()?;
        let examples = json.get("examples").map_or(Some(Vec::new()), |examples| examples.as_array().cloned());
        let examples = examples.ok_or_else(|| wrong("`examples` has to be a list of turns"))?;
        if let Some(key) =
            json.as_object().and_then(|members| members.keys().find(|key| !MEMBERS.contains(&key.as_str())))
        {
            return Err(wrong(&format!("`{key}` is none of its members, which are {}", MEMBERS.join(", "))));
        }
        let examples: Vec<Vec<Message>> = examples.iter().map(Message::list).collect::<Result<_, _>>()?;
        if examples.iter().any(|turn| turn.first().is_none_or(|first| first.role != Role::User)) {
            return Err(wrong("each of `examples` has to begin with a message of the user"));
        }
        Ok(Self { template: template.into(), system: system.join("\n"), call, examples })
    }

    /// The family of a model whose calls have this form, by its template for conversations with tools. The known ones write
    /// calls without a mark.
    pub(crate) fn of(template: &str, form: CallForm) -> Option<&'static Self> {
        KNOWN.iter().find(|family| form.may_lack_mark() && template.contains(&family.template))
    }

    /// The examples of these tools, if the model's context has that many tokens. There are none if no example of a call remains:
    /// a model that reads only answers without calls makes none.
    fn examples<'e>(&'e self, tools: &'e [Tool], context: usize) -> impl Iterator<Item = &'e Vec<Message>> {
        let offered =
            |message: &Message| message.calls.iter().all(|call| tools.iter().any(|tool| tool.name == call.name));
        let calls = |turn: &Vec<Message>| turn.iter().any(|message| !message.calls.is_empty());
        let turns = self.examples.iter().filter(move |turn| turn.iter().all(offered));
        let are_read = context >= LEAST_CONTEXT && turns.clone().any(calls);
        turns.filter(move |_| are_read)
    }

    /// Whether there are such examples.
    pub(crate) fn has_examples(&self, tools: &[Tool], context: usize) -> bool {
        !tools.is_empty() && self.examples(tools, context).next().is_some()
    }

    /// What a model reads of a conversation about tools, if its context has that many tokens.
    pub(crate) fn messages(&self, messages: &[Message], tools: &[Tool], context: usize) -> Vec<Message> {
        let (session, rest) = match messages.split_first() {
            Some((first, rest)) if first.role == Role::System => (first.content.as_str(), rest),
            _ => ("", messages),
        };
        let mut all = Vec::from([Message::new(Role::System, &self.system.replace(SESSION, session))]);
        all.extend(self.examples(tools, context).flatten().chain(rest).cloned());
        self.write_calls(&mut all);
        all
    }

    /// Writes calls as texts, if the family does. Their results then name the tools.
    fn write_calls(&self, messages: &mut [Message]) {
        let Some([before, between, after]) = &self.call else { return };
        let mut called: HashMap<String, String> = HashMap::new();
        for message in messages {
            if message.role == Role::Tool
                && let Some(tool) = called.get(&message.call_id)
            {
                message.tool.clone_from(tool);
            }
            for call in std::mem::take(&mut message.calls) {
                if !message.content.is_empty() {
                    message.content.push('\n');
                }
                let (name, arguments) = (Value::from(call.name.as_str()).to_string(), call.arguments.to_string());
                let text = [before, name.as_str(), between, arguments.as_str(), after];
                message.content.extend(text);
                called.insert(call.id, call.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use capos_chat::Call;

    use super::*;

    fn tool(name: &str) -> Tool {
        let (name, description, handle) = (name.to_string(), String::new(), String::new());
        Tool { name, description, parameters: Value::Null, handle, forbidden: false }
    }

    fn texts(messages: &[Message]) -> Vec<(Role, &str)> {
        messages.iter().map(|message| (message.role, message.content.as_str())).collect()
    }

    #[test]
    fn the_files_of_this_folder_are_families() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/families");
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        for path in &files {
            Family::read(&std::fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        }
        assert_eq!(KNOWN.len(), files.len());
    }

    /// Models take examples for a part of the conversation: "delete it" after them is about a file of theirs.
    #[test]
    fn examples_are_about_things_that_say_so_and_their_last_turn_is_about_none() {
        fn check(value: &Value) {
            for (key, value) in value.as_object().into_iter().flatten() {
                let text =
                    value.as_str().filter(|text| ["path", "from", "to", "name"].contains(&&**key) && *text != ".");
                assert!(text.is_none_or(|text| text.contains("example")), "{value}");
                check(value);
            }
            value.as_array().into_iter().flatten().for_each(check);
        }
        for family in KNOWN.iter() {
            for message in family.examples.iter().flatten() {
                message.calls.iter().for_each(|call| check(&call.arguments));
                serde_json::from_str(&message.content).iter().for_each(check);
            }
            let last = family.examples.last().unwrap();
            assert!(last.iter().all(|message| message.role != Role::Tool && message.calls.is_empty()), "{last:?}");
        }
    }

    /// A model that has read such a refusal refuses, whatever tools there are.
    #[test]
    fn no_example_refuses_what_a_tool_may_do() {
        let served = "add book buy call copy create delete find list mail make open order pay pizza play read remind run \
                      search send set show start stop tell translate turn weather write";
        let served: Vec<&str> = served.split(' ').collect();
        for turn in KNOWN.iter().flat_map(|family| &family.examples) {
            let is_refusal = turn.iter().any(|message| message.content.to_lowercase().contains("none of my tools"));
            let wish = turn[0].content.to_lowercase();
            let word = wish.split(|c: char| !c.is_alphabetic()).find(|word| served.contains(word));
            assert!(!is_refusal || word.is_none(), "{wish}: {word:?}");
        }
    }

    #[test]
    fn a_family_adds_to_the_session_s_message_and_gives_examples_of_tools_that_are_offered() {
        let file = r#"{"template": "I am A.", "system": ["I am A.", "{session}", "Be brief."], "examples": [
            [{"role": "user", "content": "one"}, {"role": "assistant", "tool_calls": [{"name": "read", "arguments": {}}]}],
            [{"role": "user", "content": "two"}],
            [{"role": "user", "content": "2"}, {"role": "assistant", "tool_calls": [{"name": "list", "arguments": {}}]}]]}"#;
        let family = Family::read(file).unwrap();
        let said = [Message::new(Role::System, "Help."), Message::new(Role::User, "three")];
        let read = family.messages(&said, &[tool("read")], LEAST_CONTEXT);
        let expected = [
            (Role::System, "I am A.\nHelp.\nBe brief."),
            (Role::User, "one"),
            (Role::Assistant, ""),
            (Role::User, "two"),
            (Role::User, "three"),
        ];
        assert_eq!(texts(&read), expected);
        let read = family.messages(&said, &[tool("write")], LEAST_CONTEXT);
        assert_eq!(texts(&read), [expected[0], expected[4]]);
        let read = family.messages(&said[1..], &[tool("read")], LEAST_CONTEXT - 1);
        assert_eq!(texts(&read), [(Role::System, "I am A.\n\nBe brief."), expected[4]]);
    }

    #[test]
    fn a_family_may_write_calls_as_texts() {
        let file =
            r#"{"template": "A", "system": ["{session}"], "call": "CALL {name} WITH {arguments}", "examples": []}"#;
        let call = |name: &str| Call { id: String::new(), name: name.into(), arguments: serde_json::json!({"a": 1}) };
        // What is inserted is no form.
        let both =
            Message { calls: Vec::from([call("{arguments}"), call("y")]), ..Message::new(Role::Assistant, "Yes.") };
        let result = Message::new(Role::Tool, "done");
        let read = Family::read(file).unwrap().messages(&[both, result], &[], 0);
        assert_eq!(
            texts(&read)[1..],
            [
                (Role::Assistant, "Yes.\nCALL \"{arguments}\" WITH {\"a\":1}\nCALL \"y\" WITH {\"a\":1}"),
                (Role::Tool, "done"),
            ]
        );
        assert!(read.iter().all(|message| message.calls.is_empty()));
        assert_eq!(read.last().unwrap().tool, "y");
    }

    #[test]
    fn a_family_is_known_by_its_template() {
        let qwen = "{{ 'You are Qwen, created by Alibaba Cloud. You help.' }}";
        assert!(Family::of(qwen, CallForm::Hermes).is_some());
        assert!(Family::of(qwen, CallForm::Mistral).is_none());
        assert!(Family::of("You are not.", CallForm::Hermes).is_none());
    }

    #[test]
    fn a_file_that_is_no_family_is_rejected_with_the_reason() {
        for (file, why) in [
            ("{", "it is no JSON"),
            ("{}", "`template` has to be"),
            (r#"{"template": "a", "system": ["{session}"], "call": "{name}"}"#, "`call` has to be"),
            (r#"{"template": "a", "system": ["{session}"], "call": 1}"#, "`call` has to be"),
            (r#"{"template": "a", "system": ["{session}"], "call": "{arguments} {name}"}"#, "`call` has to be"),
            (r#"{"template": "a", "system": ["{session}"], "examples": {}}"#, "`examples` has to be"),
            (r#"{"template": "a", "system": ["{session}"], "example": []}"#, "`example` is none of its members"),
            (r#"{"template": "a", "system": ["b"]}"#, "`system` has to be"),
            (r#"{"template": "a", "system": ["{session}", 1]}"#, "`system` has to be"),
            (
                r#"{"template": "a", "system": ["{session}"], "examples": [[]]}"#,
                "has to begin with a message of the user",
            ),
            (r#"{"template": "a", "system": ["{session}"], "examples": [[{"role": "cat"}]]}"#, "its role is not"),
        ] {
            let error = Family::read(file).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
