//! What the model worker says in the guest, computed on the host: `tests/scenarios/engine` compares.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

use std::path::Path;

use capos_chat::{Delta, Message, Role};
use capos_engine::generation::Options;
use capos_engine::kernel::{self, Kernels};
use capos_engine::{Machine, Sampling, Single};
use capos_inference::{Assistant, Event, LanguageModel, Request};

fn read(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)).unwrap()
}

/// What `userspace/tests/probe/src/engine.rs` asks, answered with these kernels.
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
    let said = answer(&model, &kernel::Scalar);
    assert!(said.split(' ').count() > 10, "{said}");
    for kernels in kernel::available() {
        assert_eq!(answer(&model, kernels), said, "{}", kernels.name());
    }
    let script = String::from_utf8(read("tests/scenarios/engine/model.jsonl")).unwrap();
    let expected = format!("{{\"tool\": \"the engine says: {said}\"}}");
    assert!(script.contains(&expected), "model.jsonl has no {expected}");
}
