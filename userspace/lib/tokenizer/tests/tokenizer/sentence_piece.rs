//! SentencePiece vocabularies.

use capos_gguf::WriterValue;
use capos_tokenizer::{Decoder, Marks, Tokenizer};

use crate::fixture::{Fixture, expected, texts};

fn tokenizer(name: &str) -> Tokenizer {
    Fixture::read(&format!("tokenizers/{name}.gguf")).tokenizer().unwrap()
}

#[test]
fn tokens_are_those_of_the_reference() {
    let all = expected("tokenizers/sentence_piece.json");
    assert_eq!(all.len(), 2);
    for (name, expected) in all {
        let tokenizer = tokenizer(&name);
        for (at, text) in texts().iter().enumerate() {
            assert_eq!(tokenizer.encode(text, Marks::Text), expected.ids[at], "{name}, text {at}: {text:?}");
            let marked = tokenizer.encode(text, Marks::All);
            assert_eq!(&marked, expected.marked(at), "{name} with marks, text {at}: {text:?}");
        }
    }
}

#[test]
fn text_comes_back() {
    for name in ["sentence_piece", "sentence_piece_bare"] {
        let tokenizer = tokenizer(name);
        // The sign for a space is one when it comes back.
        for text in texts().iter().filter(|text| !text.contains('▁')) {
            let ids = tokenizer.begin().into_iter().chain(tokenizer.encode(text, Marks::Text));
            let mut decoder = Decoder::new(&tokenizer);
            let mut back: String = ids.map(|id| decoder.push(id)).collect();
            back.push_str(&decoder.finish());
            assert_eq!(&back, text, "{name}");
        }
    }
}

#[test]
fn an_answer_keeps_its_first_space() {
    let tokenizer = tokenizer("sentence_piece");
    let ids = tokenizer.encode("the", Marks::Text);
    assert_eq!(Decoder::new(&tokenizer).bytes(ids.clone()), b"the");
    assert_eq!(Decoder::within(&tokenizer).bytes(ids), b" the");
}

#[test]
fn text_begins_with_the_begin_token_unless_the_file_says_no() {
    assert_eq!(tokenizer("sentence_piece").begin(), Some(1));
    let silent = Fixture::read("tokenizers/sentence_piece.gguf").without("tokenizer.ggml.add_bos_token");
    assert_eq!(silent.tokenizer().unwrap().begin(), Some(1));
    let off = Fixture::read("tokenizers/sentence_piece.gguf").with_bool("tokenizer.ggml.add_bos_token", false);
    assert_eq!(off.tokenizer().unwrap().begin(), None);
}

/// Models of the name Phi-3 were trained without white space after marks.
#[test]
fn white_space_after_marks_is_left_out_where_models_want_it() {
    let text = "<end_of_turn> \n\tthe";
    let bare = Fixture::read("tokenizers/sentence_piece_bare.gguf");
    let kept = bare.tokenizer().unwrap().encode(text, Marks::All);
    let phi = bare.with_text("general.name", "Phi-3.5 mini").tokenizer().unwrap();
    let stripped = phi.encode(text, Marks::All);
    assert_eq!(stripped, phi.encode("<end_of_turn>the", Marks::All));
    assert!(stripped.len() < kept.len());
    let begin = phi.encode("<s> the", Marks::All);
    assert_eq!(begin, [vec![1], phi.encode(" the", Marks::All)].concat());
}

/// Marks whose types say that they are ordinary text are one token in a template's output, and none in other text,
/// though merging would produce them.
#[test]
fn marks_of_ordinary_type_are_marks() {
    let letters = "<start_of_turn>".chars().map(String::from);
    let steps = (2.."<start_of_turn>".len()).map(|end| "<start_of_turn>"[..end].to_string());
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>", "▁"].map(String::from).to_vec();
    for token in letters.chain(steps).chain(["<start_of_turn>", "<other_mark>", "i", "<i", "<i>"].map(String::from)) {
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    let count = tokens.len();
    let fixture = Fixture::read("tokenizers/sentence_piece.gguf")
        .with("tokenizer.ggml.tokens", WriterValue::Texts(tokens))
        .with("tokenizer.ggml.scores", WriterValue::F32s(vec![0.0; count]))
        .with("tokenizer.ggml.token_type", WriterValue::I32s(vec![1; count]))
        .with_bool("tokenizer.ggml.add_space_prefix", false)
        .with_text("tokenizer.chat_template", "{{ '<start_of_turn>' + role }}");
    let tokenizer = fixture.tokenizer().unwrap();
    for mark in ["<start_of_turn>", "<other_mark>", "<s>", "</s>"] {
        let id = tokenizer.vocabulary().find(mark).unwrap();
        assert_eq!(tokenizer.encode(mark, Marks::All), [id], "{mark}");
        assert!(!tokenizer.encode(mark, Marks::Foreign).contains(&id), "{mark}");
        assert!(!tokenizer.encode(mark, Marks::Text).contains(&id), "{mark}");
    }
    // A text that looks like a mark, but that merges produce and the template does not contain, is an ordinary word.
    let word = tokenizer.vocabulary().find("<i>").unwrap();
    assert_eq!(tokenizer.encode("<i>", Marks::Foreign), [word]);
}

/// Without byte tokens and without an unknown token, what has no token is left out.
#[test]
fn what_has_no_token() {
    let tokens = ["<unk>", "<s>", "</s>", "▁", "a", "▁a"].map(String::from).to_vec();
    let fixture = Fixture::read("tokenizers/sentence_piece.gguf")
        .with("tokenizer.ggml.tokens", WriterValue::Texts(tokens))
        .with("tokenizer.ggml.scores", WriterValue::F32s(vec![0.0, 0.0, 0.0, -2.0, -1.0, -0.5]))
        .with("tokenizer.ggml.token_type", WriterValue::I32s(vec![2, 3, 3, 1, 1, 1]));
    assert_eq!(fixture.tokenizer().unwrap().encode("a xa", Marks::All), [5, 3, 0, 4]);
}

/// Half a megabyte of one letter, and of a character that falls back to bytes.
#[test]
fn long_texts_are_encoded_soon() {
    let started = std::time::Instant::now();
    for name in ["sentence_piece", "sentence_piece_bare"] {
        let tokenizer = tokenizer(name);
        for text in ["a".repeat(1 << 19), " ".repeat(1 << 19), "the ".repeat(1 << 17), "\u{10fffd}".repeat(1 << 17)] {
            let ids = tokenizer.encode(&text, Marks::All);
            assert_eq!(Decoder::new(&tokenizer).bytes(ids), text.as_bytes());
        }
    }
    // Squared it would be an hour.
    assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
}

/// A text is merged as a whole, unless it exceeds every usual length: then in parts that no merge would join anyway.
#[test]
fn a_text_without_end_has_the_tokens_of_its_words() {
    let tokenizer = tokenizer("sentence_piece");
    let sentence = " the quick brown fox";
    let once = tokenizer.encode(&sentence.repeat(2), Marks::Text);
    let per_sentence = once.len() - tokenizer.encode(sentence, Marks::Text).len();
    let count = 3 * capos_tokenizer::limits::MERGED_BYTES / sentence.len();
    let all = tokenizer.encode(&sentence.repeat(count), Marks::Text);
    assert_eq!(all.len(), once.len() + (count - 2) * per_sentence);
    assert_eq!(all[all.len() - per_sentence..], once[once.len() - per_sentence..]);
}
