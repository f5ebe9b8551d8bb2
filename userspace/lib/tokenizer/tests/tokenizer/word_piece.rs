//! WordPiece vocabularies.

use capos_tokenizer::{Decoder, Marks, Tokenizer};

use crate::fixture::{Fixture, expected, texts};

fn tokenizer() -> Tokenizer {
    Fixture::read("tokenizers/word_piece.gguf").tokenizer().unwrap()
}

#[test]
fn tokens_are_those_of_the_reference() {
    let expected = &expected("tokenizers/word_piece.json")["word_piece"];
    for (at, text) in texts().iter().enumerate() {
        assert_eq!(tokenizer().encode(text, Marks::Text), expected.ids[at], "text {at}: {text:?}");
        assert_eq!(&tokenizer().encode(text, Marks::All), expected.marked(at), "text {at} with marks: {text:?}");
    }
}

#[test]
fn texts_lie_between_marks_of_their_own() {
    let tokenizer = tokenizer();
    assert_eq!((tokenizer.begin(), tokenizer.end()), (Some(2), Some(3)));
    let ids = tokenizer.encode("The models", Marks::Text);
    assert_eq!(Decoder::new(&tokenizer).bytes(ids), b" the models");
}

#[test]
fn capital_letters_and_accents_are_kept_where_the_file_says_so() {
    let file = Fixture::read("tokenizers/word_piece.gguf").with_bool("tokenizer.ggml.normalizer.lowercase", false);
    let kept = file.tokenizer().unwrap();
    let unknown = kept.vocabulary().roles().unknown.unwrap();
    assert_eq!(kept.encode("THE", Marks::Text), [unknown]);
    assert_ne!(tokenizer().encode("THE", Marks::Text), [unknown]);
    assert_eq!(tokenizer().encode("thé", Marks::Text), tokenizer().encode("the", Marks::Text));
    let file = Fixture::read("tokenizers/word_piece.gguf").with_bool("tokenizer.ggml.normalizer.strip_accents", false);
    assert_ne!(file.tokenizer().unwrap().encode("thé", Marks::Text), tokenizer().encode("the", Marks::Text));
}

#[test]
fn long_words_are_unknown() {
    let tokenizer = tokenizer();
    let unknown = tokenizer.vocabulary().roles().unknown.unwrap();
    assert_ne!(tokenizer.encode(&"a".repeat(100), Marks::Text), [unknown]);
    assert_eq!(tokenizer.encode(&"a".repeat(101), Marks::Text), [unknown]);
    assert_eq!(tokenizer.encode(&"a".repeat(1 << 20), Marks::Text), [unknown]);
}
