//! The same tokens as llama.cpp, whose answers are in `tests/infer/llama_cpp_tokens.json`; `make judge-infer` asks it
//! again.

use capos_tokenizer::{Marks, Tokenizer};
use serde_json::Value;

use crate::fixture::{Fixture, ids, json, texts};

/// Compares the tokens of all texts that llama.cpp can take.
fn check(tokenizer: &Tokenizer, what: &str, answer: &Value, texts: &[String]) {
    let unlike: Vec<u32> = ids(&answer["unlike"]);
    let answered = answer["ids"].as_object().unwrap();
    assert!(answered.len() > 50);
    for (at, plain) in answered {
        let marked = answer["marked"].get(at).unwrap_or(plain);
        let at: usize = at.parse().unwrap();
        for (marks, theirs) in [(Marks::Text, plain), (Marks::All, marked)] {
            let ours = tokenizer.encode(&texts[at], marks);
            let same = ours == ids(theirs);
            assert_eq!(
                same,
                !unlike.contains(&(at as u32)),
                "{what}, text {at} ({marks:?}): {ours:?}, llama.cpp {theirs}"
            );
        }
    }
    let text = tokenizer.encode("Hello world", Marks::Text);
    let surrounded: Vec<u32> = tokenizer.begin().into_iter().chain(text).chain(tokenizer.end()).collect();
    assert_eq!(surrounded, ids(&answer["surrounded"]), "{what}");
}

#[test]
fn tokens_are_those_of_llama_cpp() {
    let texts = texts();
    for answer in json("llama_cpp_tokens.json").as_array().unwrap() {
        let name = answer["vocabulary"].as_str().unwrap();
        let file = || Fixture::read(&format!("tokenizers/{name}.gguf"));
        for family in answer["families"].as_array().unwrap() {
            let family = family.as_str().unwrap();
            let tokenizer = file().with_text("tokenizer.ggml.pre", family).tokenizer().unwrap();
            check(&tokenizer, &format!("{name} of family {family}"), answer, &texts);
        }
        if answer["families"] == Value::Array(Vec::new()) {
            check(&file().tokenizer().unwrap(), name, answer, &texts);
        }
    }
}
