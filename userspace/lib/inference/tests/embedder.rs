//! Texts that become vectors, with small models whose weights mean nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::path::Path;

use capos_engine::generation::Options;
use capos_engine::{EngineError, Machine, Single, kernel};
use capos_inference::{Embedder, EmbeddingId, EmbeddingModel, InferenceError, LanguageModel};
use serde_json::Value;

fn machine() -> Machine<'static> {
    Machine { kernels: kernel::reference(), pool: &Single }
}

fn read(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/infer").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn embedder<'m>(model: &'m EmbeddingModel<'m>) -> Embedder<'m> {
    Embedder::new(model.model(), model.tokenizer(), machine(), Options::default()).unwrap()
}

type Vectors = Result<Vec<Vec<f32>>, InferenceError>;

/// The results of all requests, in the order in which they end.
fn run(embedder: &mut Embedder<'_>) -> Vec<(EmbeddingId, Vectors)> {
    let mut ended = Vec::new();
    while !embedder.idle() {
        ended.extend(embedder.step());
    }
    ended
}

fn one(embedder: &mut Embedder<'_>, texts: &[&str]) -> Vectors {
    embedder.request(texts.iter().map(ToString::to_string).collect())?;
    run(embedder).remove(0).1
}

/// Texts take the whole path: the reference has its own tokens of them, and its own numbers.
#[test]
fn b03_vectors_of_texts_are_those_of_the_reference() {
    for name in ["bert", "bert-f32", "nomic-bert"] {
        let file = read(&format!("embedders/{name}.gguf"));
        let model = EmbeddingModel::open(&file, None).unwrap();
        let expected: Value = serde_json::from_slice(&read(&format!("embedders/{name}.json"))).unwrap();
        let texts: Vec<&str> =
            expected["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
        let found = one(&mut embedder(&model), &texts).unwrap();
        assert_eq!(found.len(), texts.len());
        for ((found, expected), text) in found.iter().zip(expected["vectors"].as_array().unwrap()).zip(texts) {
            let expected = expected.as_array().unwrap().iter().map(|value| value.as_f64().unwrap());
            let apart = found.iter().zip(expected).map(|(found, expected)| (f64::from(*found) - expected).powi(2));
            let apart = apart.sum::<f64>().sqrt();
            assert!(apart < 1e-3, "{name}, {text:?}: {apart} from the reference");
            let length = found.iter().map(|value| value * value).sum::<f32>().sqrt();
            assert!((length - 1.0).abs() < 1e-5, "{name}, {text:?}: its length is {length}");
        }
    }
}

#[test]
fn marks_in_a_text_are_text() {
    let file = read("embedders/bert.gguf");
    let model = EmbeddingModel::open(&file, None).unwrap();
    let vectors = one(&mut embedder(&model), &["[SEP]", "[ sep ]", "cat"]).unwrap();
    assert_eq!(vectors[0], vectors[1]);
    assert_ne!(vectors[0], vectors[2]);
}

#[test]
fn several_requests_come_to_what_each_comes_to_alone_and_none_waits_for_a_longer_one() {
    let file = read("embedders/bert.gguf");
    let model = EmbeddingModel::open(&file, None).unwrap();
    let options = Options { prefill: 16, ..Options::default() };
    let mut embedder = Embedder::new(model.model(), model.tokenizer(), machine(), options).unwrap();
    let long = ["water the plants", "feed a cat", "rain and snow in may"].repeat(7);
    let alone = (one(&mut embedder, &long).unwrap(), one(&mut embedder, &["go home"]).unwrap());
    assert_eq!((alone.0.len(), alone.1.len()), (21, 1));
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    let first = embedder.request(texts(&long)).unwrap();
    let second = embedder.request(texts(&["go home"])).unwrap();
    let none = embedder.request(Vec::new()).unwrap();
    let ended = run(&mut embedder);
    assert_eq!(ended.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [none, second, first]);
    assert_eq!(ended[0].1, Ok(Vec::new()));
    assert_eq!(ended[1].1.as_ref().unwrap(), &alone.1);
    assert_eq!(ended[2].1.as_ref().unwrap(), &alone.0);
}

#[test]
fn a_request_is_cancelled_between_any_two_steps_and_others_are_not() {
    let file = read("embedders/nomic-bert.gguf");
    let model = EmbeddingModel::open(&file, None).unwrap();
    let expected = one(&mut embedder(&model), &["go home"]).unwrap();
    for steps in 0..12 {
        let mut embedder = embedder(&model);
        let first = embedder.request(vec!["water the plants".to_owned(); 3]).unwrap();
        let second = embedder.request(vec!["go home".to_owned()]).unwrap();
        let mut ended: Vec<_> = (0..steps).filter_map(|_| embedder.step()).collect();
        embedder.cancel(first);
        embedder.cancel(first);
        ended.extend(run(&mut embedder));
        let found = ended.into_iter().find(|(id, _)| *id == second).unwrap().1;
        assert_eq!(found.unwrap(), expected, "cancelled after {steps} steps");
    }
}

#[test]
fn texts_that_do_not_fit_are_refused_and_never_cut() {
    let file = read("embedders/bert.gguf");
    let model = EmbeddingModel::open(&file, None).unwrap();
    let mut embedder = embedder(&model);
    // 62 letters and two marks fill the context, and one letter more does not fit.
    assert!(one(&mut embedder, &["a ".repeat(62).as_str()]).is_ok());
    let said = one(&mut embedder, &["cat", "a ".repeat(63).as_str()]).unwrap_err().to_string();
    assert_eq!(said, "text 2 has 65 tokens, and the model takes 64; divide it");
    let most = embedder.text_bytes();
    assert!(one(&mut embedder, &[" ".repeat(most).as_str()]).is_ok());
    let said = one(&mut embedder, &["cat", " ".repeat(most + 1).as_str()]).unwrap_err().to_string();
    assert_eq!(said, "text 2 has 1025 bytes, and this model takes texts of 1024; divide it");
}

#[test]
fn a_text_of_no_tokens_is_refused() {
    // This vocabulary puts nothing around texts.
    let vocabulary = read("tokenizers/byte_pair.gguf");
    let header = capos_gguf::Header::parse(&vocabulary, vocabulary.len() as u64).unwrap();
    let file = capos_gguf::small_model(&header, None, 11).unwrap();
    let model = EmbeddingModel::open(&file, None).unwrap();
    let said = one(&mut embedder(&model), &["cat", ""]).unwrap_err().to_string();
    assert_eq!(said, "text 2 has no tokens; leave it out");
}

#[test]
fn an_embedder_is_no_language_model_and_a_language_model_embeds() {
    for name in ["bert", "nomic-bert"] {
        let file = read(&format!("embedders/{name}.gguf"));
        let error = LanguageModel::open(&file, None).map(|_| ()).unwrap_err();
        assert_eq!(error, InferenceError::Engine(EngineError::WritesNothing));
        assert!(error.to_string().starts_with("this model embeds texts and writes none"), "{error}");
    }
    let file = read("models/talking.gguf");
    let model = LanguageModel::open(&file, None).unwrap();
    let mut embedder = Embedder::new(model.model(), model.tokenizer(), machine(), Options::default()).unwrap();
    let vectors = one(&mut embedder, &["the cat", "the snow"]).unwrap();
    assert!(vectors[0] != vectors[1] && vectors.iter().all(|vector| vector.len() == 64));
}
