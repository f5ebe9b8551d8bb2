//! Prompt caches: what a model has read once is not read again, and a file that is none changes nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::path::PathBuf;

use capos_chat::{Delta, Message, Role, Tool};
use capos_engine::generation::Options;
use capos_engine::{CacheType, EngineError, Machine, Sampling, Single, Usage, kernel};
use capos_gguf::{Header, small_model};
use capos_inference::{Assistant, Event, InferenceError, LanguageModel, Request, beginning, token_bytes};

const ID: &str = "sha256:00-llama";

fn read(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../../tests/infer", name].iter().collect();
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn file(seed: u64) -> Vec<u8> {
    let vocabulary = read("tokenizers/byte_pair.gguf");
    let header = Header::parse(&vocabulary, vocabulary.len() as u64).unwrap();
    small_model(&header, Some(&String::from_utf8(read("templates/hermes.jinja")).unwrap()), seed).unwrap()
}

fn tools() -> Vec<Tool> {
    Tool::list(&serde_json::from_slice(&read("tools.json")).unwrap()).unwrap()
}

fn machine() -> Machine<'static> {
    Machine { kernels: kernel::reference(), pool: &Single }
}

/// What sessions are told first.
const SYSTEM: &str = "You help.";

/// The prompt cache of what sessions with these tools begin with.
fn prompt_cache(model: &LanguageModel<'_>, sets: &[Vec<Tool>]) -> Vec<u8> {
    let beginnings: Vec<Vec<u32>> = sets.iter().map(|tools| beginning(model, SYSTEM, tools).unwrap()).collect();
    let mut told = (0, 0);
    let cache = capos_inference::prompt_cache(model, ID, &beginnings, machine(), |done, all| told = (done, all));
    let all = beginnings.iter().map(Vec::len).sum();
    assert_eq!(told, (all, all));
    let cache = cache.unwrap();
    assert!(cache.len() > all * token_bytes(model));
    cache
}

fn assistant<'m>(model: &'m LanguageModel<'m>, cache: CacheType) -> Assistant<'m> {
    Assistant::new(model, machine(), Options { cache: Some(cache), ..Options::default() })
}

/// The answer's text, and what was used.
fn answer(assistant: &mut Assistant<'_>, tools: &[Tool], text: &str) -> (String, Usage) {
    let sampling = Some(Sampling { temperature: 1.0, seed: 3, ..Sampling::default() });
    let messages = vec![Message::new(Role::System, SYSTEM), Message::new(Role::User, text)];
    let request = Request { messages, tools: tools.to_vec(), limit: Some(24), sampling, ..Request::default() };
    assistant.request(request).unwrap();
    let (mut said, mut usage) = (String::new(), None);
    while !assistant.idle() {
        for (_, event) in assistant.step() {
            match event {
                Event::Delta(Delta::Text(text)) => said.push_str(&text),
                Event::Finish(finish) => usage = Some(finish.usage),
                _ => {}
            }
        }
    }
    (said, usage.unwrap())
}

#[test]
fn what_is_in_the_cache_is_not_read_again_and_the_answer_is_the_same() {
    let file = file(11);
    let model = LanguageModel::open(&file, Some(1000)).unwrap();
    let (all, fewer) = (tools(), tools()[1..].to_vec());
    let cache = prompt_cache(&model, &[all.clone(), fewer.clone()]);
    assert_eq!(cache, prompt_cache(&model, &[all.clone(), fewer.clone()]));
    for tools in [&all, &fewer] {
        let (without, used) = answer(&mut assistant(&model, CacheType::F16), tools, "List it.");
        assert_eq!(used.reused, 0);
        let mut with = assistant(&model, CacheType::F16);
        assert!(with.preload(ID, &cache).unwrap() > 200);
        for text in ["List it.", "List it."] {
            let (said, used) = answer(&mut with, tools, text);
            assert_eq!(said, without);
            assert!(used.reused + 24 > used.prompt && used.reused < used.prompt, "{used:?}");
        }
        // A machine whose fastest form has bytes takes them, too.
        let mut bytes = assistant(&model, CacheType::Q8_0);
        bytes.preload(ID, &cache).unwrap();
        let (_, used) = answer(&mut bytes, tools, "List it.");
        assert!(used.reused + 24 > used.prompt, "{used:?}");
    }
    // Of other tools it uses what is the same.
    let mut with = assistant(&model, CacheType::F16);
    with.preload(ID, &cache).unwrap();
    let other = all[..1].to_vec();
    let (said, used) = answer(&mut with, &other, "List it.");
    assert_eq!(said, answer(&mut assistant(&model, CacheType::F16), &other, "List it.").0);
    assert!(used.reused > 0 && used.reused < used.prompt, "{used:?}");
}

#[test]
fn another_models_cache_or_a_damaged_one_is_rejected() {
    let file = file(11);
    let model = LanguageModel::open(&file, Some(1000)).unwrap();
    let cache = prompt_cache(&model, &[tools()]);
    let rejected = |id: &str, cache: &[u8]| assistant(&model, CacheType::F16).preload(id, cache).unwrap_err();
    let why = |error: InferenceError| match error {
        InferenceError::Engine(EngineError::Stored { why }) => why,
        other => panic!("{other}"),
    };
    assert_eq!(why(rejected("sha256:01-llama", &cache)), "they are of another model");
    assert_eq!(why(rejected(ID, b"CAPOSPRC\x02\0\0\0")), "this is no prompt cache of a known version");
    for length in (0..200).chain([cache.len() / 2, cache.len() - 1]) {
        assert_eq!(why(rejected(ID, &cache[..length])), "the file ends in the middle of them", "{length}");
    }
    // A token that the vocabulary does not have, and one that it has.
    let first_token = 8 + 4 + 4 + ID.len() + 4 + 4;
    let changed = |bytes: [u8; 4]| {
        let mut changed = cache.clone();
        changed[first_token..first_token + 4].copy_from_slice(&bytes);
        changed
    };
    let error = rejected(ID, &changed([0xff; 4]));
    assert!(matches!(error, InferenceError::Engine(EngineError::Token { .. })), "{error}");
    let mut other = assistant(&model, CacheType::F16);
    other.preload(ID, &changed([1, 0, 0, 0])).unwrap();
    assert_eq!(answer(&mut other, &tools(), "List it.").1.reused, 0);
}

/// A template with the date in front begins differently each day.
#[test]
fn conversations_that_begin_with_the_time_have_no_common_beginning() {
    let vocabulary = read("tokenizers/byte_pair.gguf");
    let header = Header::parse(&vocabulary, vocabulary.len() as u64).unwrap();
    let template = String::from_utf8(read("templates/header.jinja")).unwrap();
    let file = small_model(&header, Some(&template), 11).unwrap();
    let model = LanguageModel::open(&file, Some(1000)).unwrap();
    assert!(beginning(&model, SYSTEM, &tools()).unwrap().is_empty());
}

/// A machine with little memory gives a model a shorter context.
#[test]
fn a_beginning_that_is_too_long_is_left_out() {
    let file = file(11);
    let (whole, short) = [Some(1000), Some(250)].map(|context| LanguageModel::open(&file, context).unwrap()).into();
    let fewer = tools()[..1].to_vec();
    let cache = prompt_cache(&whole, &[tools(), fewer.clone()]);
    let mut assistant = assistant(&short, CacheType::F16);
    assert!(assistant.preload(ID, &cache).unwrap() < 250);
    assert!(answer(&mut assistant, &fewer, "List it.").1.reused > 100);
}
