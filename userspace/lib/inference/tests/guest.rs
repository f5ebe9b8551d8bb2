//! The guest's model worker's answers and embeddings, computed on the host: `tests/scenarios/engine` and
//! `tests/scenarios/embedder` compare.
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests count as tests.

use std::path::Path;

use capos_chat::{Delta, Message, Role};
use capos_engine::generation::Options;
use capos_engine::kernel::{self, Kernels};
use capos_engine::{Machine, Sampling, Single};
use capos_inference::{Assistant, Embedder, EmbeddingModel, Event, LanguageModel, Request};

fn read(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)).unwrap()
}

/// The requests of `userspace/tests/probe/src/engine.rs`, answered with these kernels.
fn answer(model: &LanguageModel<'_>, kernels: &dyn Kernels) -> String {
    let mut assistant = Assistant::new(model, Machine { kernels, pool: &Single }, Options::default());
    let messages = vec![Message::new(Role::User, "Say a sentence.")];
    let request = Request { messages, limit: Some(24), sampling: Some(Sampling::default()), ..Request::default() };
    assistant.request(request).unwrap();
    let mut text = String::new();
    while !assistant.idle() {
        for (_, event) in assistant.step() {
            if let Event::Delta(Delta::Text(more)) = event {
                text.push_str(&more);
            }
        }
    }
    text
}

#[test]
fn b01_the_guest_says_what_the_host_computes() {
    let file = read("tests/infer/models/talking.gguf");
    let model = LanguageModel::open(&file, None).unwrap();
    let said = answer(&model, kernel::reference());
    assert!(said.split(' ').count() > 10, "{said}");
    for kernels in kernel::available() {
        assert_eq!(answer(&model, kernels), said, "{}", kernels.name());
    }
    let script = String::from_utf8(read("tests/scenarios/engine/model.jsonl")).unwrap();
    let expected = format!("{{\"tool\": \"the engine says: {said}\"}}");
    assert!(script.contains(&expected), "model.jsonl has no {expected}");
}

/// How far the numbers in `vectors.txt` may be from the host's: they are written with five digits.
const WRITTEN: f32 = 1e-4;

/// The vectors that `userspace/tests/probe/src/embedder.rs` compares with: a model, a text and numbers in a line.
#[test]
fn b03_the_guest_embeds_as_the_host_does() {
    let written = String::from_utf8(read("tests/scenarios/embedder/vectors.txt")).unwrap();
    assert!(written.lines().count() > 5);
    for line in written.lines() {
        let [name, text, numbers] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let folder = if name == "talking" { "models" } else { "embedders" };
        let file = read(&format!("tests/infer/{folder}/{name}.gguf"));
        let model = EmbeddingModel::open(&file, None).unwrap();
        let machine = Machine { kernels: kernel::reference(), pool: &Single };
        let mut embedder = Embedder::new(model.model(), model.tokenizer(), machine, Options::default()).unwrap();
        embedder.request(vec![text.to_owned()]).unwrap();
        let found = loop {
            if let Some((_, vectors)) = embedder.step() {
                break vectors.unwrap().remove(0);
            }
        };
        let numbers: Vec<f32> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
        let apart = found.iter().zip(&numbers).map(|(found, written)| (found - written).powi(2)).sum::<f32>().sqrt();
        let shown: Vec<String> = found.iter().map(|number| format!("{number:.5}")).collect();
        assert!(numbers.len() == found.len() && apart < WRITTEN, "{name}\t{text}\t{}", shown.join(" "));
    }
}
