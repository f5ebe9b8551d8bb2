//! Inconsistent vocabularies are rejected with an error message.

use crate::fixture::{Fixture, expected, texts};
use capos_gguf::WriterValue;
use capos_tokenizer::{Marks, Tokenizer};
use proptest::prelude::*;

const TOKENS: &str = "tokenizer.ggml.tokens";
const KINDS: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";

fn sample() -> Fixture {
    Fixture::read("tokenizers/byte_pair.gguf")
}

fn list(texts: &[&str]) -> WriterValue {
    WriterValue::Texts(texts.iter().map(ToString::to_string).collect())
}

fn refused(fixture: &Fixture) -> String {
    match fixture.tokenizer() {
        Ok(_) => panic!("This is accepted."),
        Err(error) => error.to_string(),
    }
}

/// A file with these tokens and nothing that depends on their number.
fn with_tokens(tokens: WriterValue) -> Fixture {
    let sample = sample().with(TOKENS, tokens).without(KINDS).with(MERGES, list(&[]));
    sample.without("tokenizer.ggml.bos_token_id").without("tokenizer.ggml.eos_token_id")
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    assert_eq!(
        refused(&sample().without("tokenizer.ggml.model")),
        "the file has no metadata entry 'tokenizer.ggml.model', which names the kind of tokenizer; \
         convert the model again"
    );
    assert!(refused(&sample().without(TOKENS)).contains("no metadata entry 'tokenizer.ggml.tokens'"));
    assert!(refused(&sample().without(MERGES)).contains("no metadata entry 'tokenizer.ggml.merges'"));
    assert!(
        refused(&sample().with_text("tokenizer.ggml.model", "abacus")).contains("'abacus', which is not known here")
    );
    assert!(refused(&sample().with_text("tokenizer.ggml.pre", "chop")).contains("'chop', which is not known here"));
}

#[test]
fn entries_of_wrong_types_are_named() {
    let number = WriterValue::U32(1);
    for key in [TOKENS, KINDS, SCORES, MERGES] {
        assert_eq!(
            refused(&sample().with(key, number.clone())),
            format!("the metadata entry '{key}' is not an array; convert the model again")
        );
    }
    let numbers = WriterValue::I32s(vec![1, 2, 3]);
    for key in [TOKENS, MERGES] {
        assert!(refused(&sample().with(key, numbers.clone())).contains("is not an array of texts"));
    }
    assert!(refused(&sample().with("tokenizer.ggml.pre", number.clone())).contains("is not a text"));
    let flag = sample().with("tokenizer.ggml.add_bos_token", number);
    assert!(refused(&flag).contains("'tokenizer.ggml.add_bos_token' is no truth value"));
}

#[test]
fn numbers_that_do_not_fit_are_told() {
    let few = sample().with(KINDS, WriterValue::I32s(vec![1; 3]));
    assert!(refused(&few).contains("'tokenizer.ggml.token_type' has 3 values, but there are 11"));
    let few = sample().with(SCORES, WriterValue::F32s(vec![1.0; 3]));
    assert!(refused(&few).contains("'tokenizer.ggml.scores' has 3 values, but there are 11"));
    let outside = sample().with("tokenizer.ggml.bos_token_id", WriterValue::U32(99_999));
    assert!(refused(&outside).contains("'tokenizer.ggml.bos_token_id' is not the number of a token; there are 11"));
    assert!(refused(&with_tokens(list(&[]))).contains("'tokenizer.ggml.tokens' is empty"));
    let kind = with_tokens(list(&["a", "b"])).with(KINDS, WriterValue::I32s(vec![1, 77]));
    assert_eq!(
        refused(&kind),
        "token 1 of the vocabulary is of type 77; only 0 to 6 are known; convert the model again"
    );
    let score = with_tokens(list(&["a", "b"])).with(SCORES, WriterValue::F32s(vec![0.0, f32::NAN]));
    assert!(refused(&score).contains("has a value that is not a number (NaN)"));
    let no_token = with_tokens(list(&["a"])).with_bool("tokenizer.ggml.add_bos_token", true);
    assert!(refused(&no_token).contains("asks for a token that the file does not name"));
}

#[test]
fn tokens_are_told_apart_and_bounded() {
    let twice = with_tokens(list(&["a", "b", "a"]));
    assert_eq!(refused(&twice), "token 2 of the vocabulary is 'a', as token 0 is; convert the model again");
    // Placeholders without a text may be many.
    assert!(with_tokens(list(&["", "a", "", ""])).tokenizer().is_ok());
    let long = "x".repeat(5000);
    assert_eq!(
        refused(&with_tokens(list(&[&long]))),
        "token 0 of the vocabulary has 5000 bytes; at most 4096 are accepted; convert the model again"
    );
    let many = WriterValue::Texts(vec![String::new(); (1 << 20) + 1]);
    assert!(refused(&with_tokens(many)).contains("has 1048577 values; at most 1048576 are accepted"));
    let marks: Vec<String> = (0..1000).map(|at| format!("{at:04000}")).collect();
    let kinds = WriterValue::I32s(vec![3; marks.len()]);
    let marks = with_tokens(WriterValue::Texts(marks)).with(KINDS, kinds);
    assert!(refused(&marks).contains("makes marks of tokens of 4000000 bytes; at most 1048576 are accepted"));
    // Each of the tokens that count as text is looked for in the template.
    let texts: Vec<String> = (0..100_000).map(|at| format!("{at:05}")).collect();
    let kinds = WriterValue::I32s(vec![4; texts.len()]);
    let template = WriterValue::Text("x".repeat(100_000));
    let sought = with_tokens(WriterValue::Texts(texts)).with(KINDS, kinds).with("tokenizer.chat_template", template);
    let why = refused(&sought);
    assert!(why.contains("tokenizer.chat_template") && why.contains("100000 bytes, in which 100000 tokens"), "{why}");
}

#[test]
fn merges_are_pairs() {
    for merge in ["", "a", " ", "ab", "a ", "  "] {
        let bad = sample().with(MERGES, list(&["a b", merge]));
        let message =
            "merge 1 in 'tokenizer.ggml.merges' is not two texts with a space between them; convert the model again";
        assert_eq!(refused(&bad), message, "{merge:?}");
    }
}

/// Merges of texts that are not tokens lead to others that are, and else leave bytes.
#[test]
fn merges_go_through_texts_that_are_no_tokens() {
    let tokens = || with_tokens(list(&["a", "b", "c", "abc"]));
    let both = tokens().with(MERGES, list(&["a b", "ab c"])).tokenizer().unwrap();
    assert_eq!(both.encode("abcab", Marks::All), [3, 0, 1]);
    let one = tokens().with(MERGES, list(&["a b"])).tokenizer().unwrap();
    assert_eq!(one.encode("abc", Marks::All), [0, 1, 2]);
}

/// A byte without a token is the unknown token if there is one, and else is left out.
#[test]
fn bytes_without_tokens() {
    let tokens = || with_tokens(list(&["a", "b", "?"]));
    assert_eq!(tokens().tokenizer().unwrap().encode("axb", Marks::All), [0, 1]);
    let unknown = tokens().with("tokenizer.ggml.unknown_token_id", WriterValue::U32(2)).tokenizer().unwrap();
    assert_eq!(unknown.encode("axb", Marks::All), [0, 2, 1]);
}

/// Converters have written some marks as text of the vocabulary; they are still marks.
#[test]
fn known_marks_are_marks() {
    let tokens = with_tokens(list(&["<", "<|fim_prefix|>", "<|im_end|>", "<|other|>"]));
    let tokenizer = tokens.with(KINDS, WriterValue::I32s(vec![1, 4, 1, 4])).tokenizer().unwrap();
    let text = "<|fim_prefix|><|im_end|><|other|>";
    assert_eq!(tokenizer.encode(text, Marks::All), [1, 2, 3]);
    assert_eq!(tokenizer.encode(text, Marks::Text), [0, 0, 3]);
    assert_eq!(tokenizer.vocabulary().answer_ends(), [2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any vocabulary is rejected or encodes any text; and no token is made that does not exist.
    #[test]
    fn any_vocabulary_is_judged(
        tokens in prop::collection::btree_set("[a-eĠĊ<|>]{0,4}", 1..40),
        merges in prop::collection::vec("[a-eĠ]{1,3} [a-eĠ]{1,3}", 0..40),
        kinds in prop::collection::vec(0..8i32, 40),
        model in prop::sample::select(vec!["gpt2", "llama", "bert", "t5"]),
        text in "[a-e <|>\\n]{0,60}",
    ) {
        let count = tokens.len();
        let fixture = with_tokens(WriterValue::Texts(tokens.into_iter().collect()))
            .with(KINDS, WriterValue::I32s(kinds[..count].to_vec()))
            .with(MERGES, WriterValue::Texts(merges))
            .with_text("tokenizer.ggml.model", model);
        if let Ok(tokenizer) = fixture.tokenizer() {
            for marks in [Marks::All, Marks::Text, Marks::Foreign] {
                let ids = tokenizer.encode(&text, marks);
                prop_assert!(ids.iter().all(|id| (*id as usize) < count));
            }
        }
    }
}

/// The fixture itself, so that the files above are rejected for their own reasons.
#[test]
fn the_sample_is_accepted() {
    let tokenizer: Tokenizer = sample().tokenizer().unwrap();
    assert_eq!(tokenizer.encode(&texts()[6], Marks::Text), expected("tokenizers/byte_pair.json")["gpt-2"].ids[6]);
}
