//! The whole path of a file, whatever it is: opened, shown a tool, asked twice, read for some tokens.

use capos_chat::{Message, Role, Tool};
use capos_engine::generation::Options;
use capos_engine::{EngineError, Machine, Single, kernel};
use capos_inference::{Assistant, Embedder, EmbeddingModel, Event, InferenceError, LanguageModel, Reason, Request};
use serde_json::json;

/// Tokens of an answer.
const ANSWER: usize = 4;
/// Steps after which something does not come to an end: those of an answer, and of a prompt as long as a context may be.
const STEPS: usize = 1000;

/// How far it got.
#[derive(Debug, PartialEq, Eq)]
pub enum Way {
    /// The file was refused.
    Refused(String),
    /// A request was, or came to no answer.
    Failed(String),
    /// There were answers.
    Answered,
}

fn machine() -> Machine<'static> {
    Machine { kernels: kernel::available().last().copied().unwrap_or(kernel::reference()), pool: &Single }
}

/// The whole path with a model that writes nothing: it is asked for vectors of two texts, twice.
fn embed(file: &[u8]) -> Way {
    let model = match EmbeddingModel::open(file, None) {
        Ok(model) => model,
        Err(error) => return Way::Refused(error.to_string()),
    };
    let embedder = Embedder::new(model.model(), model.tokenizer(), machine(), Options::default());
    let mut embedder = match embedder {
        Ok(embedder) => embedder,
        Err(error) => return Way::Refused(error.to_string()),
    };
    for _ in 0..2 {
        if let Err(error) = embedder.request(vec!["Hi aaaaaaaaaaa [SEP]".to_owned(), String::new()]) {
            return Way::Failed(error.to_string());
        }
        for steps in 0.. {
            assert!(steps < STEPS, "it does not come to an end");
            match embedder.step() {
                None => {}
                Some((_, Err(error))) => return Way::Failed(error.to_string()),
                Some((_, Ok(vectors))) => {
                    assert_eq!(vectors.len(), 2);
                    break;
                }
            }
        }
    }
    Way::Answered
}

/// The whole path.
pub fn drive(file: &[u8]) -> Way {
    let model = match LanguageModel::open(file, None) {
        Ok(model) => model,
        Err(InferenceError::Engine(EngineError::WritesNothing)) => return embed(file),
        Err(error) => return Way::Refused(error.to_string()),
    };
    let machine = machine();
    let mut assistant = Assistant::new(&model, machine, Options::default());
    let tool = Tool {
        name: "read".into(),
        description: "Reads a file.".into(),
        parameters: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
        handle: "/object/read".into(),
        forbidden: false,
    };
    // The second is constrained to a schema, too, and begins as the first does.
    for schema in [None, Some(json!({ "type": "integer" }))] {
        let messages = vec![Message::new(Role::User, "Hi aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa <s>")];
        let wanted = Request { messages, tools: vec![tool.clone()], schema, limit: Some(ANSWER), ..Request::default() };
        if let Err(error) = assistant.request(wanted) {
            return Way::Failed(error.to_string());
        }
        let mut steps = 0;
        while !assistant.idle() {
            for (_, event) in assistant.step() {
                if let Event::Finish(finish) = event
                    && finish.reason == Reason::Error
                {
                    return Way::Failed(finish.error.map(|error| error.to_string()).unwrap_or_default());
                }
            }
            steps += 1;
            assert!(steps < STEPS, "it does not come to an end");
        }
    }
    Way::Answered
}
