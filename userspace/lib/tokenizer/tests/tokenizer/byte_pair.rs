//! Byte-level vocabularies: the same tokens as reference libraries, and their text back.

use crate::fixture::{Fixture, expected, texts};
use capos_gguf::WriterValue;
use capos_tokenizer::{Decoder, Marks, Tokenizer};
use proptest::prelude::*;

fn tokenizer(family: &str) -> Tokenizer {
    Fixture::read("tokenizers/byte_pair.gguf").with_text("tokenizer.ggml.pre", family).tokenizer().unwrap()
}

#[test]
fn families_split_and_merge_as_their_own_tokenizers_do() {
    let all = expected("tokenizers/byte_pair.json");
    assert!(all.len() >= 16);
    for (family, expected) in all {
        let tokenizer = tokenizer(&family);
        for (at, text) in texts().iter().enumerate() {
            let plain = tokenizer.encode(text, Marks::Text);
            assert_eq!(plain, expected.ids[at], "{family}, text {at}: {text:?}");
            let marked = tokenizer.encode(text, Marks::All);
            assert_eq!(&marked, expected.marked(at), "{family} with marks, text {at}: {text:?}");
        }
    }
}

#[test]
fn text_comes_back() {
    let tokenizer = tokenizer("qwen2");
    for text in texts() {
        for marks in [Marks::All, Marks::Text, Marks::Foreign] {
            let ids = tokenizer.encode(&text, marks);
            let mut decoder = Decoder::new(&tokenizer).with_marks();
            let mut back: String = ids.iter().map(|id| decoder.push(*id)).collect();
            back.push_str(&decoder.finish());
            assert_eq!(back, text);
        }
    }
}

#[test]
fn characters_appear_when_they_are_complete() {
    let tokenizer = tokenizer("qwen2");
    let byte = |byte: u8| tokenizer.encode(std::str::from_utf8(&[byte]).unwrap(), Marks::Text)[0];
    let parts = tokenizer.encode("\u{10ffff}", Marks::Text);
    assert_eq!(parts.len(), 4, "The fixture merges this character's bytes.");
    let mut decoder = Decoder::new(&tokenizer);
    let shown: Vec<String> = parts.iter().map(|id| decoder.push(*id)).collect();
    assert_eq!(shown, ["", "", "", "\u{10ffff}"]);
    // Bytes that cannot become a character any more are shown as soon as that is known, and the following ones are
    // kept.
    let cut: Vec<u32> = parts[..2].iter().copied().chain([byte(b'x'), parts[0]]).collect();
    let mut decoder = Decoder::new(&tokenizer);
    let shown: Vec<String> = cut.iter().map(|id| decoder.push(*id)).collect();
    assert_eq!(shown, ["", "", "\u{fffd}x", ""]);
    assert_eq!(decoder.finish(), "\u{fffd}");
    let mut decoder = Decoder::new(&tokenizer);
    assert_eq!(decoder.push(parts[1]), "\u{fffd}");
}

#[test]
fn marks_have_text_only_where_asked() {
    let tokenizer = tokenizer("qwen2");
    let ids = tokenizer.encode("<|im_start|>a<tool_call>", Marks::All);
    assert_eq!(ids.len(), 3);
    assert_eq!(Decoder::new(&tokenizer).bytes(ids.clone()), b"a<tool_call>");
    assert_eq!(Decoder::new(&tokenizer).with_marks().bytes(ids), b"<|im_start|>a<tool_call>");
}

/// Text of people and tools never becomes a mark that means something, whatever they write.
#[test]
fn foreign_text_makes_no_marks() {
    let tokenizer = tokenizer("qwen2");
    let guarded: Vec<&str> = tokenizer.guarded_marks().collect();
    assert_eq!(guarded, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]);
    let mark = |text: &str| tokenizer.vocabulary().find(text).unwrap();
    let ids = tokenizer.encode("<|im_end|><tool_call></tool_call>      x", Marks::Foreign);
    assert!(guarded.iter().all(|text| !ids.contains(&mark(text))));
    // It is white space, and means nothing.
    assert!(ids.contains(&mark("    ")));
    let plain = tokenizer.encode("<tool_call>", Marks::Text);
    assert_eq!(plain, [mark("<tool_call>")]);
}

/// Marks of bars that the file counts as text are not found in people's text, though the template writes them in parts.
#[test]
fn marks_that_templates_put_together_are_guarded() {
    let fixture = Fixture::read("tokenizers/byte_pair.gguf").with_text("tokenizer.ggml.pre", "qwen2");
    let fixture = fixture.with_text("tokenizer.chat_template", "{{ '<|' + messages[0].role + '|>' }}");
    let mut tokens = fixture.texts("tokenizer.ggml.tokens");
    let marks = ["<|user|>", "<｜tool｜>", "<table>"];
    let first = tokens.len() as u32;
    tokens.extend(marks.map(String::from));
    let kinds = (0..tokens.len() as u32).map(|id| if id < first { 1 } else { 4 }).collect();
    let fixture = fixture.with("tokenizer.ggml.tokens", WriterValue::Texts(tokens));
    let tokenizer = fixture.with("tokenizer.ggml.token_type", WriterValue::I32s(kinds)).tokenizer().unwrap();
    for (id, mark) in (first..).zip(marks) {
        assert_eq!(tokenizer.encode(mark, Marks::All), [id]);
        assert_eq!(tokenizer.encode(mark, Marks::Foreign) == [id], mark == "<table>", "{mark}");
        assert_eq!(tokenizer.guarded_marks().any(|guarded| guarded == mark), mark != "<table>", "{mark}");
    }
}

/// The fixture with all tokens of ordinary type, and some more.
fn without_types(family: &str, template: &str, more: &[&str], merges: &[&str]) -> Tokenizer {
    let fixture = Fixture::read("tokenizers/byte_pair.gguf").with_text("tokenizer.ggml.pre", family);
    let fixture = fixture.without("tokenizer.ggml.token_type").with_text("tokenizer.chat_template", template);
    let with = |fixture: Fixture, key: &str, more: &[&str]| {
        let mut texts = fixture.texts(key);
        texts.extend(more.iter().map(ToString::to_string));
        fixture.with(key, WriterValue::Texts(texts))
    };
    let fixture = with(fixture, "tokenizer.ggml.tokens", more);
    with(fixture, "tokenizer.ggml.merges", merges).tokenizer().unwrap()
}

/// Marks whose types say that they are ordinary text are one token in a template's output, and none in other text.
#[test]
fn marks_of_ordinary_type_are_marks() {
    let said = "<start_of_turn>{{ messages[0].role }}<｜User｜>[TOOL_CALLS]<|' + role + '|>";
    let marks = ["<|im_start|>", "<start_of_turn>", "<｜User｜>", "[TOOL_CALLS]", "<|user|>", "<|reserved_7|>"];
    let more = ["<start_of_turn>", "<｜User｜>", "[TOOL_CALLS]", "<|user|>", "<|reserved_7|>", "<b", "<b>", "[0]"];
    let merges = ["< b", "<b >"];
    for (family, template) in [("qwen2", said), ("llama-bpe", said), ("gpt-2", said)] {
        let tokenizer = without_types(family, &format!("{template}<b>"), &more, &merges);
        let id = |text: &str| tokenizer.vocabulary().find(text).unwrap();
        for mark in marks.into_iter().chain(["<b>"]) {
            let text = format!("a{mark}b");
            assert_eq!(tokenizer.encode(&text, Marks::All)[1], id(mark), "{family} {mark}");
            assert_eq!(tokenizer.encode(&text, Marks::All).len(), 3, "{family} {mark}");
            for marks in [Marks::Text, Marks::Foreign] {
                let ids = tokenizer.encode(&text, marks);
                assert!(!ids.contains(&id(mark)), "{family} {mark} {marks:?}");
                assert_eq!(Decoder::new(&tokenizer).bytes(ids), text.as_bytes());
            }
            assert!(tokenizer.guarded_marks().any(|guarded| guarded == mark), "{family} {mark}");
        }
        assert!(!tokenizer.guarded_marks().any(|guarded| ["<b", "[0]", "a"].contains(&guarded)), "{family}");
        // In an answer they are text, as the form of calls may need them.
        assert_eq!(Decoder::new(&tokenizer).bytes([id("<start_of_turn>")]), b"<start_of_turn>");
    }
}

#[test]
fn ends_of_answers_are_known() {
    let tokenizer = tokenizer("qwen2");
    let ends: Vec<&str> =
        tokenizer.vocabulary().answer_ends().iter().map(|id| tokenizer.vocabulary().text(*id).unwrap()).collect();
    assert_eq!(ends, ["<|endoftext|>", "<|im_end|>"]);
    assert_eq!((tokenizer.begin(), tokenizer.end()), (None, None));
}

/// The family or the file says whether text begins with the begin token.
#[test]
fn text_begins_as_the_file_says() {
    let begin = tokenizer("llama-bpe").begin();
    assert_eq!(begin, tokenizer("llama-bpe").vocabulary().find("<|endoftext|>"));
    let fixture = Fixture::read("tokenizers/byte_pair.gguf").with_text("tokenizer.ggml.pre", "llama-bpe");
    let off = fixture.with_bool("tokenizer.ggml.add_bos_token", false).tokenizer().unwrap();
    assert_eq!(off.begin(), None);
    let on =
        Fixture::read("tokenizers/byte_pair.gguf").with_bool("tokenizer.ggml.add_eos_token", true).tokenizer().unwrap();
    assert_eq!(on.end(), on.vocabulary().find("<|im_end|>"));
}

/// A megabyte that is a single word, of one letter or of two in turn: the work grows with the length, not its square.
#[test]
fn long_words_are_encoded_soon() {
    let tokenizer = tokenizer("qwen2");
    let started = std::time::Instant::now();
    for text in ["a".repeat(1 << 20), "ab".repeat(1 << 19), " ".repeat(1 << 20) + "x", "\u{301}".repeat(1 << 19)] {
        let ids = tokenizer.encode(&text, Marks::All);
        assert_eq!(Decoder::new(&tokenizer).bytes(ids), text.as_bytes());
    }
    for family in ["deepseek-llm", "deepseek-v3", "gpt-4o", "tekken", "bloom", "default"] {
        let tokenizer = self::tokenizer(family);
        for text in [" ".repeat(1 << 18) + "x", "'".repeat(1 << 18), "A".repeat(1 << 18)] {
            let ids = tokenizer.encode(&text, Marks::All);
            assert_eq!(Decoder::new(&tokenizer).bytes(ids), text.as_bytes());
        }
    }
    // Squared it would be an hour.
    assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
}

proptest! {
    /// Any text comes back, in every family.
    #[test]
    fn any_text_comes_back(text in "\\PC*|[ \\t\\r\\n'a-zA-Z0-9<|>_]*", at in 0usize..16) {
        let family = expected("tokenizers/byte_pair.json").into_keys().nth(at).unwrap();
        let tokenizer = tokenizer(&family);
        let ids = tokenizer.encode(&text, Marks::All);
        let back = Decoder::new(&tokenizer).with_marks().bytes(ids);
        prop_assert_eq!(String::from_utf8(back).unwrap(), text);
    }
}

/// A word that is longer than any is merged in parts, and comes back whole.
#[test]
fn a_word_without_end_comes_back() {
    let tokenizer = tokenizer("qwen2");
    let word = "the".repeat(capos_tokenizer::limits::MERGED_BYTES);
    let ids = tokenizer.encode(&word, Marks::Text);
    assert!(ids.len() < word.len(), "nothing was merged");
    assert_eq!(Decoder::new(&tokenizer).bytes(ids), word.as_bytes());
}
