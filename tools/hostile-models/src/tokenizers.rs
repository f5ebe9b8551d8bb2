//! Vocabularies that are inconsistent, or made to take long.

use capos_gguf::{TensorType, WriterValue};

use crate::End::{self, Answers, Refused, Words};
use crate::parts::{Parts, TOKENS, WIDTH};

const KINDS: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";

/// A model with these tokens of byte pairs and no others.
fn byte_pairs(tokens: Vec<String>, merges: Vec<String>) -> Parts {
    let rows = tokens.len() as u64;
    Parts::talking()
        .with_text("tokenizer.ggml.model", "gpt2")
        .with_text("tokenizer.ggml.pre", "default")
        .without(KINDS)
        .without(SCORES)
        .with(TOKENS, WriterValue::Texts(tokens))
        .with("tokenizer.ggml.merges", WriterValue::Texts(merges))
        .with_tensor("token_embd.weight", TensorType::F32, &[WIDTH, rows])
}

/// Names and models.
pub fn all() -> Vec<(&'static str, End, Parts)> {
    let texts = |texts: Vec<String>| WriterValue::Texts(texts);
    let id = |key: &str, id: u32| Parts::talking().with(&format!("tokenizer.ggml.{key}"), WriterValue::U32(id));
    let letters = || -> Vec<String> { ('!'..='~').map(String::from).collect() };
    // Merges whose results are inputs of one another.
    let circle = ["a b", "b a", "ab a", "a ba", "aba b", "ab ab"].map(str::to_owned).to_vec();
    let doubling: Vec<String> =
        (0..11).map(|power| "a".repeat(1 << power)).map(|half| format!("{half} {half}")).collect();
    let doubled: Vec<String> = letters().into_iter().chain((1..12).map(|power| "a".repeat(1 << power))).collect();
    let rows = |rows| Parts::talking().with_tensor("token_embd.weight", TensorType::F32, &[WIDTH, rows]);
    vec![
        ("no-tokens", Refused("is empty"), Parts::talking().with(TOKENS, texts(Vec::new()))),
        ("token-list-missing", Refused("'tokenizer.ggml.tokens'"), Parts::talking().without(TOKENS)),
        ("tokens-alike", Refused("as token 0 is"), byte_pairs(vec!["a".into(), "b".into(), "a".into()], Vec::new())),
        ("end-outside", Refused("is not the number of a token"), id("eos_token_id", 259)),
        ("begin-outside", Refused("is not the number of a token"), id("bos_token_id", u32::MAX - 1)),
        ("unknown-outside", Refused("is not the number of a token"), id("unknown_token_id", 1 << 30)),
        ("more-tokens-than-rows", Refused("259 tokens"), rows(258)),
        ("more-rows-than-tokens", Answers, rows(300)),
        ("other-tokenizer", Refused("'abacus'"), Parts::talking().with_text("tokenizer.ggml.model", "abacus")),
        (
            "score-nan",
            Refused("is not a number"),
            Parts::talking().with(SCORES, WriterValue::F32s(vec![f32::NAN; 259])),
        ),
        ("scores-infinite", Words, Parts::talking().with(SCORES, WriterValue::F32s(vec![f32::INFINITY; 259]))),
        ("kind-unknown", Refused("is of type 77"), Parts::talking().with(KINDS, WriterValue::I32s(vec![77; 259]))),
        ("kind-negative", Refused("is of type -1"), Parts::talking().with(KINDS, WriterValue::I32s(vec![-1; 259]))),
        ("kinds-as-fractions", Refused(KINDS), Parts::talking().with(KINDS, WriterValue::F32s(vec![1.0; 259]))),
        ("scores-few", Refused("has 3 values"), Parts::talking().with(SCORES, WriterValue::F32s(vec![0.0; 3]))),
        ("kinds-few", Refused("has 3 values"), Parts::talking().with(KINDS, WriterValue::I32s(vec![1; 3]))),
        ("all-marks", Words, Parts::talking().with(KINDS, WriterValue::I32s(vec![3; 259]))),
        ("all-unused", Words, Parts::talking().with(KINDS, WriterValue::I32s(vec![5; 259]))),
        ("no-end", Words, byte_pairs(letters(), Vec::new()).without("tokenizer.ggml.eos_token_id")),
        (
            "merges-in-a-circle",
            Answers,
            byte_pairs(letters(), circle).with("tokenizer.ggml.eos_token_id", WriterValue::U32(0)),
        ),
        (
            "merges-that-double",
            Answers,
            byte_pairs(doubled, doubling).with("tokenizer.ggml.eos_token_id", WriterValue::U32(0)),
        ),
        ("merge-of-nothing", Refused("merge 0"), byte_pairs(letters(), vec![" ".into()])),
        ("long-token", Refused("5000 bytes"), byte_pairs(vec!["x".repeat(5000)], Vec::new())),
    ]
}
