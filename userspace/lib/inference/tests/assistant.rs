//! Conversations with small models whose weights mean nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::path::PathBuf;

use capos_chat::{Delta, Message, Role, Tool};
use capos_engine::generation::Options;
use capos_engine::{Machine, Sampling, Single, kernel};
use capos_gguf::{Header, small_model};
use capos_inference::{
    Assistant, Event, Finish, Grammar, InferenceError, LanguageModel, Loose, Reason, Request, RequestId,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../../tests/infer", name].iter().collect();
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A model file with a template.
fn file(template: &str) -> Vec<u8> {
    let vocabulary = read("tokenizers/byte_pair.gguf");
    let header = Header::parse(&vocabulary, vocabulary.len() as u64).unwrap();
    small_model(&header, Some(template), 11).unwrap()
}

fn hermes() -> Vec<u8> {
    file(&String::from_utf8(read("templates/hermes.jinja")).unwrap())
}

fn chatml() -> Vec<u8> {
    file(&String::from_utf8(read("templates/chatml.jinja")).unwrap())
}

fn assistant<'m>(model: &'m LanguageModel<'m>) -> Assistant<'m> {
    let machine = Machine { kernels: kernel::reference(), pool: &Single };
    Assistant::new(model, machine, Options::default())
}

fn request(text: &str) -> Request {
    let sampling = Sampling { temperature: 1.0, seed: 3, ..Sampling::default() };
    let messages = vec![Message::new(Role::User, text)];
    Request { messages, limit: Some(24), sampling: Some(sampling), ..Request::default() }
}

/// The results of a request: text, calls and how it ended.
#[derive(Default)]
struct Answer {
    text: String,
    calls: Vec<(String, String, String)>,
    progress: Vec<(usize, usize)>,
    loose: Vec<Loose>,
    finish: Option<Finish>,
    removed: usize,
}

impl Answer {
    fn take(&mut self, event: Event) {
        assert!(self.finish.is_none(), "Something follows the end.");
        match event {
            Event::Progress { done, total } => self.progress.push((done, total)),
            Event::Loose(loose) => self.loose.push(loose),
            Event::Removed(messages) => self.removed = messages,
            Event::Delta(Delta::Text(text)) => self.text.push_str(&text),
            Event::Delta(Delta::Call { index, name, handle, arguments }) => {
                if index as usize == self.calls.len() {
                    self.calls.push((name, handle, arguments));
                } else {
                    self.calls[index as usize].2.push_str(&arguments);
                }
            }
            Event::Finish(finish) => self.finish = Some(finish),
        }
    }

    fn reason(&self) -> Reason {
        self.finish.as_ref().unwrap().reason
    }
}

/// Runs all requests to their ends.
fn run(assistant: &mut Assistant<'_>, ids: &[RequestId]) -> Vec<Answer> {
    let mut answers: Vec<Answer> = ids.iter().map(|_| Answer::default()).collect();
    while !assistant.idle() {
        for (id, event) in assistant.step() {
            answers[ids.iter().position(|other| *other == id).unwrap()].take(event);
        }
    }
    answers
}

fn answer(model: &LanguageModel<'_>, request: Request) -> Answer {
    let mut assistant = assistant(model);
    let id = assistant.request(request).unwrap();
    run(&mut assistant, &[id]).pop().unwrap()
}

#[test]
fn a_conversation_gets_an_answer() {
    let file = chatml();
    let model = LanguageModel::open(&file, None).unwrap();
    assert!(!model.supports_tools());
    let given = answer(&model, request("Hello!"));
    let finish = given.finish.as_ref().unwrap();
    assert_eq!((finish.reason, finish.usage.new), (Reason::Length, 24));
    assert!(!given.text.is_empty() && finish.usage.prompt > 5);
    assert_eq!(given.progress.last(), Some(&(finish.usage.prompt, finish.usage.prompt)));
}

#[test]
fn several_requests_are_answered_as_each_by_itself() {
    let file = chatml();
    let model = LanguageModel::open(&file, None).unwrap();
    let texts = ["Hello!", "Tell me of the sea, and what lies beyond it.", "Hello?", ""];
    let alone: Vec<String> = texts.iter().map(|text| answer(&model, request(text)).text).collect();
    let mut assistant = assistant(&model);
    let ids: Vec<RequestId> = texts.iter().map(|text| assistant.request(request(text)).unwrap()).collect();
    let together: Vec<String> = run(&mut assistant, &ids).into_iter().map(|answer| answer.text).collect();
    assert_eq!(together, alone);
}

#[test]
fn a_stop_sequence_ends_the_answer_before_it() {
    let file = chatml();
    let model = LanguageModel::open(&file, None).unwrap();
    let whole = answer(&model, request("Hello!"));
    let characters: Vec<char> = whole.text.chars().collect();
    let stop: String = characters[6..11].iter().collect();
    let given = answer(&model, Request { stop_sequences: vec![stop.clone()], ..request("Hello!") });
    assert_eq!(given.reason(), Reason::Stop);
    assert_eq!(given.text, whole.text[..whole.text.find(&stop).unwrap()]);
    assert!(given.finish.unwrap().usage.new < 24);
}

#[test]
fn a_request_can_be_cancelled() {
    let file = chatml();
    let model = LanguageModel::open(&file, None).unwrap();
    let mut assistant = assistant(&model);
    let ids = [assistant.request(request("Hello!")).unwrap(), assistant.request(request("You!")).unwrap()];
    assistant.step();
    assistant.cancel(ids[0]);
    let answers = run(&mut assistant, &ids);
    assert_eq!([answers[0].reason(), answers[1].reason()], [Reason::Cancelled, Reason::Length]);
    assert_eq!(assistant.requests(), 0);
}

/// B18: whatever the weights are, an answer is a call of a tool, with its handle, or keeps to the schema, and nothing cuts it.
#[test]
fn answers_keep_to_the_tools_and_the_schema() {
    let file = hermes();
    let model = LanguageModel::open(&file, Some(1000)).unwrap();
    assert!(model.supports_tools());
    let tools = Tool::list(&serde_json::from_slice(&read("tools.json")).unwrap()).unwrap();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 0, "maximum": 99 } },
                         "required": ["n"], "additionalProperties": false });
    let (mut calls, mut texts) = (0, 0);
    for seed in 0..24 {
        let sampling = Some(Sampling { temperature: 1.0, seed, ..Sampling::default() });
        let wanted = Request { tools: tools.clone(), schema: Some(schema.clone()), sampling, ..request("List it.") };
        let stop_sequences = vec!["}".to_owned(), "\"".to_owned()];
        let given = answer(&model, Request { limit: Some(300), stop_sequences, ..wanted });
        match given.reason() {
            Reason::ToolCalls => {
                for (name, handle, arguments) in &given.calls {
                    assert!(tools.iter().any(|tool| tool.name == *name && tool.handle == *handle), "{name}");
                    assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                    calls += 1;
                }
            }
            Reason::Stop => {
                let value: Value = serde_json::from_str(&given.text).unwrap();
                assert!(value["n"].as_u64().is_some_and(|number| number < 100), "{value}");
                texts += 1;
            }
            reason => assert_eq!(reason, Reason::Length),
        }
    }
    assert!(calls + texts > 4, "{calls} {texts}");
    // Without a grammar nothing keeps it.
    let free = Request { tools, grammar: Grammar::Free, ..request("List it.") };
    assert_eq!(answer(&model, free).reason(), Reason::Length);
}

/// A tool that no grammar can enforce is shown to the model, and the others are enforced as before.
#[test]
fn a_tool_that_cannot_be_held_is_told_of() {
    let file = hermes();
    let model = LanguageModel::open(&file, Some(1000)).unwrap();
    let mut tools = Tool::list(&serde_json::from_slice(&read("tools.json")).unwrap()).unwrap();
    let asked = |tools: &[Tool]| answer(&model, Request { tools: tools.to_vec(), ..request("List it.") });
    assert_eq!(asked(&tools).loose, []);
    tools[0].parameters = json!({ "properties": { "a": { "not": { "const": 1 } } } });
    let given = asked(&tools);
    let told: Vec<&str> = given.loose.iter().map(|loose| loose.tool.as_str()).collect();
    assert_eq!(told, [tools[0].name.as_str()]);
    assert_eq!(given.loose[0].why, "Unimplemented keys: [\"not\"]");
    assert_eq!(given.reason(), Reason::Length);
}

#[test]
fn what_cannot_be_asked_for_is_refused_in_words() {
    let file = chatml();
    let model = LanguageModel::open(&file, None).unwrap();
    let refused = |request| assistant(&model).request(request).unwrap_err().to_string();
    let schema = Some(json!({ "if": {} }));
    let why = refused(Request { schema, ..request("x") });
    assert!(why.starts_with("the answer cannot be held to the schemas: "), "{why}");
    let sampling = Some(Sampling { temperature: -1.0, ..Sampling::default() });
    let why = refused(Request { sampling, ..request("x") });
    assert!(why.contains("temperature"), "{why}");
    let file = &file[..100];
    assert!(matches!(LanguageModel::open(file, None), Err(InferenceError::File(_))));
}

/// Requirement F03: a conversation that is too long loses its oldest messages, and the rest fits.
#[test]
fn f03_the_oldest_messages_of_a_long_conversation_are_left_out() {
    let file = chatml();
    let model = LanguageModel::open(&file, Some(200)).unwrap();
    let turn = |number: usize| {
        [
            Message::new(Role::User, &format!("Question {number}, with some words in it to fill the room.")),
            Message::new(Role::Assistant, &format!("Answer {number}.")),
        ]
    };
    let mut messages = vec![Message::new(Role::System, "Be brief.")];
    messages.extend((0..20).flat_map(turn));
    messages.push(Message::new(Role::User, "And now?"));
    let long = answer(&model, Request { messages: messages.clone(), ..request("") });
    let prompt = long.finish.clone().unwrap().usage.prompt;
    assert!(prompt <= 200 - 24 && prompt > 40, "{prompt}");
    // The same as if a marker stood in place of the oldest.
    let without = |messages: &[Message], place: usize, count: usize| {
        let mut kept = messages.to_vec();
        kept.drain(place..place + count);
        kept[place].content = capos_compaction::marked(count, &kept[place].content);
        kept
    };
    assert!(long.removed > 0 && long.removed.is_multiple_of(2), "{}", long.removed);
    let same = answer(&model, Request { messages: without(&messages, 1, long.removed), ..request("") });
    assert_eq!((same.text, same.removed), (long.text, 0));
    // A long chain of calls in the last turn, too: what the person asked and the latest call stay.
    let mut messages = vec![Message::new(Role::System, "Be brief."), Message::new(Role::User, "Do it all.")];
    for number in 0..20 {
        messages.push(Message::new(Role::Assistant, &format!("I do part {number} of it now.")));
        messages.push(Message::new(Role::Tool, &format!("Part {number} was done.")));
    }
    let long = answer(&model, Request { messages: messages.clone(), ..request("") });
    assert!(long.removed > 0 && long.removed.is_multiple_of(2), "{}", long.removed);
    let same = answer(&model, Request { messages: without(&messages, 2, long.removed), ..request("") });
    assert_eq!((same.text, same.removed), (long.text, 0));
    // What has to stay fits, or nothing does.
    let huge = "many words ".repeat(200);
    let error = assistant(&model).request(request(&huge)).unwrap_err();
    assert!(matches!(error, InferenceError::TooLong { tokens, context: 200 } if tokens > 200), "{error}");
    assert!(error.to_string().contains("say less or offer fewer tools"));
}

/// Requirement F06: what the runner says behind the request of a turn, in the role of a person, does not push it out.
#[test]
fn f06_a_reminder_does_not_push_out_the_request_of_a_turn() {
    let file = chatml();
    let model = LanguageModel::open(&file, Some(200)).unwrap();
    let mut messages = vec![Message::new(Role::System, "Be brief."), Message::new(Role::User, "Do it all.")];
    for number in 0..20 {
        messages.push(Message::new(Role::Assistant, &format!("I do part {number} of it now.")));
        messages.push(Message::new(Role::Tool, &format!("Part {number} was done.")));
    }
    messages.push(Message::new(Role::User, "It is not done yet."));
    messages.push(Message::new(Role::Assistant, "I do the rest."));
    let long = answer(&model, Request { messages: messages.clone(), goal: Some(1), ..request("") });
    let mut kept = messages.clone();
    kept.drain(2..2 + long.removed);
    kept[2].content = capos_compaction::marked(long.removed, &kept[2].content);
    let same = answer(&model, Request { messages: kept, ..request("") });
    assert!(long.removed > 0 && long.removed <= messages.len() - 3, "{}", long.removed);
    assert_eq!((same.text, same.removed), (long.text, 0));
}

/// A file without a template gets a transcript, and its answer ends where the next speaker would begin.
#[test]
fn a_file_without_a_template_goes_on_with_a_transcript() {
    let file = file("");
    let model = LanguageModel::open(&file, None).unwrap();
    assert!(!model.supports_tools());
    let given = answer(&model, request("Hello!"));
    assert_eq!(given.reason(), Reason::Length);
    let expected = model.tokenizer().encode("User: Hello!\n\nAssistant:", capos_tokenizer::Marks::Foreign).len();
    let begin = usize::from(model.tokenizer().begin().is_some());
    assert_eq!(given.finish.unwrap().usage.prompt, expected + begin);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever a conversation holds, there is an answer or a message that says why there is none.
    #[test]
    fn any_conversation_is_answered_or_refused(
        messages in prop::collection::vec((0usize..4, "(<\\|im_end\\|>|<tool_call>|\\{|\\}|\"|ü|\u{2bd2}|\0|a ){0,9}"), 0..5),
        name in "[a-z<|>{}\"\\\\ü]{1,6}",
        description in "(<\\|im_end\\|>|\\.|\n|ü| ){0,6}",
        kind in "(string|integer|x|array)",
    ) {
        let file = hermes();
        let model = LanguageModel::open(&file, Some(600)).unwrap();
        let roles = [Role::System, Role::User, Role::Assistant, Role::Tool];
        let messages = messages.into_iter().map(|(role, text)| Message::new(roles[role], &text)).collect();
        let parameters = json!({ "type": "object", "properties": { (name.clone()): { "type": kind } } });
        let tools = vec![Tool { name, description, parameters, handle: "/object/x".into(), forbidden: false }];
        let mut assistant = assistant(&model);
        match assistant.request(Request { messages, tools, limit: Some(6), ..request("") }) {
            Ok(id) => prop_assert_eq!(run(&mut assistant, &[id])[0].finish.as_ref().unwrap().error.clone(), None),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

/// An answer that can be nothing but a text, or a call with a text, that repeats the same three hundred times.
fn endless(call: bool, end_repetition: bool) -> Answer {
    let file = hermes();
    let model = LanguageModel::open(&file, Some(2000)).unwrap();
    let text = json!({ "type": "string", "enum": ["7 ".repeat(300)] });
    let (limit, sampling) = (Some(1500), Some(Sampling::default()));
    let asked = Request { end_repetition, limit, sampling, ..request("Say it.") };
    if !call {
        return answer(&model, Request { schema: Some(text), ..asked });
    }
    let parameters = json!({ "type": "object", "properties": { "text": text }, "required": ["text"] });
    let tool =
        json!({ "type": "function", "function": { "name": "say", "description": "Says.", "parameters": parameters } });
    // Text that is not a call has no likely character, so that it ends soon.
    let schema = Some(json!({ "type": "integer", "minimum": 0, "maximum": 9 }));
    let asked = Request { tools: Tool::list(&json!([tool])).unwrap(), schema, ..asked };
    let with =
        |seed| Request { sampling: Some(Sampling { temperature: 1.0, seed, ..Sampling::default() }), ..asked.clone() };
    (0..200).map(|seed| answer(&model, with(seed))).find(|given| given.reason() == Reason::ToolCalls).unwrap()
}

#[test]
fn an_answer_that_repeats_itself_ends_where_that_is_asked_for() {
    let (whole, ended) = (endless(false, false), endless(false, true));
    assert_eq!((whole.reason(), ended.reason()), (Reason::Stop, Reason::Repetition));
    assert!(whole.text.starts_with(&ended.text), "{} {}", ended.text, whole.text);
    let [whole, ended] = [whole, ended].map(|answer| answer.finish.unwrap().usage.new);
    assert!(ended > 192 && ended < whole, "{ended} of {whole}");
}

#[test]
fn what_a_call_is_given_may_repeat_itself() {
    let given = endless(true, true);
    assert_eq!(given.reason(), Reason::ToolCalls);
    let arguments: Value = serde_json::from_str(&given.calls[0].2).unwrap();
    assert_eq!(arguments["text"], "7 ".repeat(300));
    assert!(given.finish.unwrap().usage.new > 210);
}
