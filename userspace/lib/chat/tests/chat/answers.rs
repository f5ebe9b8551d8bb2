//! Answers as their tokens come.

use capos_chat::{AnswerReader, CallForm, Decision, Delta};
use capos_tokenizer::{Decoder, Marks, Tokenizer};
use proptest::prelude::*;

use crate::fixture::{FORMS, built_in_tokenizer, tokenizer, tools};

/// What an answer adds up to: text, and names with arguments.
pub fn sum(deltas: impl IntoIterator<Item = Delta>) -> (String, Vec<(String, String)>) {
    let (mut said, mut calls) = (String::new(), Vec::<(String, String)>::new());
    for delta in deltas {
        match delta {
            Delta::Text(text) => said.push_str(&text),
            Delta::Call { name, arguments, .. } if !name.is_empty() => calls.push((name, arguments)),
            Delta::Call { index, arguments, .. } => {
                assert_eq!(index as usize + 1, calls.len());
                calls.last_mut().unwrap().1.push_str(&arguments);
            }
        }
    }
    (said, calls)
}

fn read(tokenizer: &Tokenizer, form: CallForm, stops: &[&str], answer: &str) -> (String, usize, bool, Decision) {
    let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
    let mut reader = AnswerReader::new(tokenizer, Some(form), &tools(), &stops);
    let mut deltas = Vec::new();
    for id in tokenizer.encode(answer, Marks::All) {
        deltas.extend(reader.push(id));
    }
    let stopped = reader.stopped();
    let (rest, decision) = reader.finish();
    deltas.extend(rest);
    let (said, calls) = sum(deltas);
    (said, calls.len(), stopped, decision)
}

#[test]
fn characters_come_when_all_their_bytes_are_there() {
    let tokenizer = built_in_tokenizer();
    let mut reader = AnswerReader::new(&tokenizer, Some(CallForm::Lines), &[], &[]);
    let ids = tokenizer.encode("<|say|>ü!", Marks::All);
    assert_eq!(ids.len(), 4);
    let texts: Vec<Vec<Delta>> = ids.iter().map(|id| reader.push(*id)).collect();
    assert_eq!(texts, [vec![], vec![], vec![Delta::Text("ü".into())], vec![Delta::Text("!".into())]]);
    // What ends within a character is not lost.
    assert_eq!(reader.push(ids[1]), []);
    assert_eq!(reader.finish(), (vec![Delta::Text("\u{fffd}".into())], Decision::Say));
}

#[test]
fn a_stop_sequence_is_found_across_tokens() {
    for (tokenizer, form, mark) in
        [(built_in_tokenizer(), CallForm::Lines, "<|say|>"), (tokenizer(), CallForm::Hermes, "")]
    {
        let answer = format!("{mark}One.\nTwo!? Three.");
        let (said, _, stopped, _) = read(&tokenizer, form, &["!? T", "Three"], &answer);
        assert_eq!((said.as_str(), stopped), ("One.\nTwo", true));
        let (said, _, stopped, _) = read(&tokenizer, form, &["Three. "], &answer);
        assert_eq!((said.as_str(), stopped), ("One.\nTwo!? Three.", false));
    }
}

#[test]
fn calls_are_not_cut_by_stop_sequences() {
    let call = "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a.\"}}\n</tool_call>";
    let answer = format!("Now.{call}");
    assert_eq!(read(&tokenizer(), CallForm::Hermes, &[".", "}"], &answer), ("Now".into(), 0, true, Decision::Say));
    let (said, calls, stopped, decision) = read(&tokenizer(), CallForm::Hermes, &["a.", "Now.."], &answer);
    assert_eq!((said.as_str(), calls, stopped, decision), ("Now.", 1, false, Decision::Call));
}

/// A stop sequence that is the text of a mark ends the answer where the mark comes, as a token or spelled.
#[test]
fn marks_are_stop_sequences() {
    let (bytes, built_in) = (tokenizer(), built_in_tokenizer());
    for (tokenizer, form, stops, answer, said) in [
        (&bytes, CallForm::Hermes, &["<|im_start|>"][..], "One.<|im_start|>Two", "One."),
        (&bytes, CallForm::Hermes, &["Two", ".<|im_start|>"], "One.<|im_start|>Two", "One"),
        (&bytes, CallForm::Hermes, &["<|im_start|>user"], "One.<|im_start|>user", "One."),
        (&bytes, CallForm::Hermes, &["<tool_call>"], "One.<tool_call>\n{\"name\": \"read\"", "One."),
        (&bytes, CallForm::Hermes, &["<tool_call>\n"], "One.<tool_call>\n{\"name\": \"read\"", "One."),
        (&built_in, CallForm::Lines, &["<|tool|>"], "<|say|>One.<|tool|>Two", "One."),
    ] {
        assert_eq!(read(tokenizer, form, stops, answer), (said.into(), 0, true, Decision::Say), "{stops:?}");
    }
    let (said, _, stopped, _) = read(&bytes, CallForm::Hermes, &["<|im_start|>user"], "One.<|im_start|>me");
    assert_eq!((said.as_str(), stopped), ("One.me", false));
    // Text that was held back comes before the mark: the start of a mark, of a call without one, and of a character.
    for held in ["One<tool_", "{\"name\": \"re", "```json\n", "One.\n ", " \n"] {
        let answer = format!("{held}<|im_start|>Two");
        let expected = (held.into(), 0, true, Decision::Say);
        assert_eq!(read(&bytes, CallForm::Hermes, &["<|im_start|>"], &answer), expected, "{held}");
    }
    assert_eq!(read(&bytes, CallForm::Hermes, &["_<|im_start|>"], "One<tool_<|im_start|>").0, "One<tool");
    // In a call nothing stops.
    let call = "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a<|im_start|>\"}}\n</tool_call>";
    let (_, calls, stopped, _) = read(&bytes, CallForm::Hermes, &["<|im_start|>"], call);
    assert_eq!((calls, stopped), (1, false));
}

/// Marks of no form are no part of what was said, and those of the form are found as tokens only where they are some.
#[test]
fn marks_have_no_text() {
    let (said, ..) = read(&tokenizer(), CallForm::Hermes, &[], "a<|im_start|>b");
    assert_eq!(said, "ab");
    let (said, _, _, decision) = read(&built_in_tokenizer(), CallForm::Lines, &[], "<|say|>a<|tool|>b<|invoke|>c");
    assert_eq!((said.as_str(), decision), ("abc", Decision::Say));
    // They change nothing of the call that follows.
    let call = "{\"name\": \"read\", \"arguments\": {}}";
    for before in ["<|im_start|>", "\n<|im_start|>", "\n<|im_start|>\n"] {
        let (_, calls, ..) = read(&tokenizer(), CallForm::Hermes, &[], &format!("{before}{call}"));
        assert_eq!(calls, 1, "{before:?}");
    }
    let (said, calls, ..) =
        read(&tokenizer(), CallForm::Hermes, &[], &format!("<tool_call>{call}</tool_call>\n<|im_start|>"));
    assert_eq!((said.as_str(), calls), ("", 1));
}

/// What is held back in one form or another, and what decides about it.
const PARTS: [&str; 14] = [
    "<tool_",
    "call>",
    "[TOOL_",
    "CALLS]",
    "<func",
    "tion=",
    "<|python",
    "_tag|>",
    "{\"name\": \"read\"",
    "```json",
    "\n",
    " ",
    "a",
    "ü🦀",
];

proptest! {
    /// However an answer is cut into tokens, and wherever it stops: its text is all that came before the mark.
    #[test]
    fn all_text_before_a_stop_mark_is_given(
        parts in prop::collection::vec(prop::sample::select(&PARTS[..]), 0..12),
        taken in 0..60_usize,
        form in prop::option::of(prop::sample::select(&FORMS[..])),
        has_schema in any::<bool>(),
    ) {
        thread_local! {
            static TOKENIZER: Tokenizer = tokenizer();
        }
        TOKENIZER.with(|tokenizer| {
            let tokens = parts.iter().flat_map(|part| tokenizer.encode(part, Marks::Foreign));
            let tokens: Vec<u32> = tokens.take(taken).collect();
            let text = Decoder::within(tokenizer).bytes(tokens.iter().copied());
            let text = String::from_utf8_lossy(&text).into_owned();
            let calls = form.is_some_and(|form| text.contains(form.open()) || form.is_bare() && text.contains('{'));
            prop_assume!(!calls);
            let mut reader = AnswerReader::new(tokenizer, form, &tools(), &["<|im_start|>".into()]);
            if has_schema {
                reader = reader.with_schema();
            }
            let stop = tokenizer.encode("<|im_start|>", Marks::All);
            let mut deltas: Vec<Delta> = tokens.iter().chain(&stop).flat_map(|id| reader.push(*id)).collect();
            prop_assert!(reader.stopped());
            deltas.extend(reader.finish().0);
            prop_assert_eq!(sum(deltas), (text, Vec::new()));
            Ok(())
        })?;
    }

    /// Whatever tokens a model makes that is held to nothing, also such as its vocabulary has not.
    #[test]
    fn any_tokens_are_read(ids in prop::collection::vec(prop_oneof![0u32..12, 12u32..1030], 0..60), lines in any::<bool>()) {
        thread_local! {
            static TOKENIZERS: [Tokenizer; 2] = [tokenizer(), built_in_tokenizer()];
        }
        let (text, calls, decision) = TOKENIZERS.with(|tokenizers| {
            let form = if lines { CallForm::Lines } else { CallForm::Hermes };
            let mut reader = AnswerReader::new(&tokenizers[usize::from(lines)], Some(form), &tools(), &["\n\n".into()]);
            let mut deltas: Vec<Delta> = ids.iter().flat_map(|id| reader.push(*id)).collect();
            let (rest, decision) = reader.finish();
            deltas.extend(rest);
            let (text, calls) = sum(deltas);
            (text, calls, decision)
        });
        prop_assert!(!text.contains("\n\n"));
        prop_assert!(calls.is_empty() || decision == Decision::Call);
    }
}
