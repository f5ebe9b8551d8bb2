//! What a model's family adds to conversations, and that it never takes the place of what was said.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::path::PathBuf;

use capos_chat::{ChatError, Message, Role, Tool};
use capos_gguf::{Header, small_model};
use capos_inference::{Family, Fitting, InferenceError, LanguageModel, Request};
use serde_json::json;

/// The shortest context with which examples are read.
const CONTEXT: usize = 8192;
/// The text of the family's example.
const EXAMPLE: &str = "An example of a question.";

fn read(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../../tests/infer", name].iter().collect();
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The prompt of a request for tools, to a model with this template whose family has an example and writes calls as texts.
fn fitting(template: &str, messages: &[Message], plain: bool) -> Result<Fitting, InferenceError> {
    let vocabulary = read("tokenizers/byte_pair.gguf");
    let header = Header::parse(&vocabulary, vocabulary.len() as u64).unwrap();
    let file = small_model(&header, Some(template), 11).unwrap();
    let mut model = LanguageModel::open(&file, Some(CONTEXT)).unwrap();
    let family = json!({ "template": "a", "system": ["{session}"], "call": "{name}: {arguments}",
        "examples": [[{ "role": "user", "content": EXAMPLE },
            { "role": "assistant", "content": "EXAMPLE", "tool_calls": [{ "name": "list_dir" }] }]] });
    model.set_family(Some(Family::read(&family.to_string()).unwrap()));
    let tools = Tool::list(&serde_json::from_slice(&read("tools.json")).unwrap()).unwrap();
    let request = Request { messages: messages.to_vec(), tools, limit: Some(24), plain, ..Request::default() };
    model.prompts().fitting(&request)
}

fn hermes() -> String {
    String::from_utf8(read("templates/hermes.jinja")).unwrap()
}

/// A conversation whose first question has this many words.
fn conversation(words: usize) -> Vec<Message> {
    let said = [(Role::User, "word ".repeat(words)), (Role::Assistant, "Yes.".into()), (Role::User, "And now?".into())];
    said.iter().map(|(role, text)| Message::new(*role, text)).collect()
}

/// A call of `read`, and its result.
fn with_a_call() -> Vec<Message> {
    let call = json!([{ "id": "call-1", "name": "read", "arguments": {} }]);
    Message::list(&json!([
        { "role": "user", "content": "Look." },
        { "role": "assistant", "tool_calls": call },
        { "role": "tool", "tool_call_id": "call-1", "content": "one" },
    ]))
    .unwrap()
}

/// Tries each length from where the examples still fit to where not even the conversation does.
#[test]
fn examples_are_left_out_before_anything_that_was_said() {
    let template = hermes();
    let fitted = |words: usize| fitting(&template, &conversation(words), false).unwrap();
    let whole = |words: usize| {
        let Fitting { prompt, removed, .. } = fitted(words);
        (prompt.text().contains(EXAMPLE), removed)
    };
    let tokens = |words: usize| fitted(words).ids.len();
    let (few, more) = (tokens(100), tokens(200));
    let most = (CONTEXT - 24 - few) * 100 / (more - few) + 100;
    assert_eq!(whole(most - 30), (true, 0));
    let without = (most - 30..most + 60).map(whole).find(|(example, _)| !example);
    assert_eq!(without, Some((false, 0)), "The examples go, and all messages stay.");
    let shorter = (most - 30..most + 60).map(whole).find(|(_, removed)| *removed > 0);
    assert_eq!(shorter, Some((false, 2)));
    // What has to stay may fit without the examples only, or not even so.
    let last = |words: usize| vec![Message::new(Role::User, &"word ".repeat(words))];
    let of_last = |words: usize| fitting(&template, &last(words), false);
    let error = of_last(2 * most).map(|fitting| fitting.ids.len()).unwrap_err();
    assert!(matches!(error, InferenceError::TooLong { context: CONTEXT, .. }), "{error}");
    let longest = (most..most + 60).map(of_last).take_while(Result::is_ok).last().unwrap().unwrap();
    assert!(!longest.prompt.text().contains(EXAMPLE));
}

#[test]
fn results_of_calls_that_are_written_as_texts_have_their_tools_names() {
    let text = fitting(&hermes(), &with_a_call(), true).unwrap().prompt.text();
    assert!(text.contains("\"read\": {}") && text.contains("Result of the tool read:\none"), "{text}");
    // Templates are told the names, too.
    let template = hermes().replace("'\\n<tool_response>\\n'", "'\\nof ' ~ message.name ~ '\\n'");
    let text = fitting(&template, &with_a_call(), false).unwrap().prompt.text();
    assert!(text.contains("\nof read\none"), "{text}");
}

#[test]
fn an_error_numbers_the_messages_of_the_conversation() {
    let raise =
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('No results!') }}{% endif %}{% endfor %}";
    let error = fitting(&(raise.to_owned() + &hermes()), &with_a_call(), false).err().unwrap();
    assert!(error.to_string().contains("No results! (line 1 of the template), at message 3 of 3: the result of read"));
    assert!(matches!(error, InferenceError::Chat(ChatError::Rendering { message: Some(3), .. })));
}

#[test]
fn a_template_that_rejects_what_a_family_adds_gets_the_conversation_alone() {
    let raise =
        "{% for m in messages %}{% if 'EXAMPLE' in m.content %}{{ raise_exception('No!') }}{% endif %}{% endfor %}";
    let text = fitting(&(raise.to_owned() + &hermes()), &with_a_call(), false).unwrap().prompt.text();
    assert!(text.contains("<tool_call>\n{\"name\": \"read\"") && !text.contains(EXAMPLE), "{text}");
}
