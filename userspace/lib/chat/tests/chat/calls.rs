//! Reading calls out of answers.

use capos_chat::{CallForm, CallReader, Delta};
use proptest::prelude::*;

use crate::fixture::{FORMS, text, tools, tools_with_now, written};

/// What an answer adds up to: its text, and each call's name, handle and arguments.
type Read = (String, Vec<(String, String, String)>);

fn read(form: Option<CallForm>, pieces: &[&str]) -> Read {
    read_by(CallReader::new(form, &tools_with_now()), pieces)
}

fn read_by(mut reader: CallReader, pieces: &[&str]) -> Read {
    let mut deltas: Vec<Delta> = pieces.iter().flat_map(|piece| reader.push(piece)).collect();
    deltas.extend(reader.finish());
    let (mut text, mut calls) = (String::new(), Vec::<(String, String, String)>::new());
    for delta in deltas {
        match delta {
            Delta::Text(more) => text.push_str(&more),
            Delta::Call { index, name, handle, arguments } => {
                if index as usize == calls.len() {
                    assert!(!name.is_empty());
                    calls.push((name, handle, arguments));
                } else {
                    assert!(index as usize + 1 == calls.len() && name.is_empty() && handle.is_empty());
                    calls.last_mut().unwrap().2.push_str(&arguments);
                }
            }
        }
    }
    (text, calls)
}

fn whole(form: CallForm, answer: &str) -> Read {
    read(Some(form), &[answer])
}

fn call(name: &str, arguments: &str) -> (String, String, String) {
    let handle = tools_with_now().into_iter().find(|tool| tool.name == name).map_or(String::new(), |tool| tool.handle);
    (name.into(), handle, arguments.into())
}

/// Answers in each form, and what is in them.
fn samples() -> Vec<(CallForm, &'static str, Read)> {
    // White space is left out where there is no mark.
    let spare = vec![call("read", "{\"path\":\"a}\\\"{\"}"), call("list_dir", "{}")];
    let both = vec![call("read", "{\"path\": \"a}\\\"{\"}"), call("list_dir", "{}")];
    vec![
        (
            CallForm::Hermes,
            "Let me see.\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}}\n</tool_call>\n\
             <tool_call>\n{\"arguments\": {}, \"name\": \"list_dir\"}\n</tool_call>\n",
            ("Let me see.\n".into(), both.clone()),
        ),
        // As Qwen2.5-Coder writes them, whatever its template shows.
        (
            CallForm::Hermes,
            "```json\n{\n  \"name\": \"read\",\n  \"arguments\": {\"path\": \"a}\\\"{\"}\n}\n{\n  \"name\": \"list_dir\",\n  \
             \"arguments\": {}\n}\n```\nDone.",
            ("\nDone.".into(), spare.clone()),
        ),
        // A fence that was not opened is not closed.
        (
            CallForm::Hermes,
            "{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}}\n```json\n{\"name\": \"list_dir\", \"arguments\": {}}\n```\n\
             ```python\nread()\n```",
            ("\n```python\nread()\n```".into(), spare.clone()),
        ),
        // Nor is there need for the mark that was to end it.
        (
            CallForm::Hermes,
            "{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}}, {\"name\": \"list_dir\", \"arguments\": {}}\n</tool_call>, and so on.",
            (", and so on.".into(), spare.clone()),
        ),
        (
            CallForm::Hermes,
            "{{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}}}}\n```\n[{\"name\": \"list_dir\", \"arguments\": {}}]\n```",
            (String::new(), spare.clone()),
        ),
        (
            CallForm::Hermes,
            "```\n{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}}\n```\n<tool_call>\n{\"name\": \"list_dir\", \
             \"arguments\": {}}</tool_call>",
            (String::new(), spare.clone()),
        ),
        // What ends it may be there in any order, and a mark closes no fence.
        (
            CallForm::Hermes,
            "```json\n{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}}\n</tool_call>\n{\"name\": \"list_dir\", \
             \"arguments\": {}}\n</tool_call>\n```\nDone.",
            ("\nDone.".into(), spare.clone()),
        ),
        (
            CallForm::Hermes,
            "```json\n{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}}\n```\n</tool_call>\n```json\n{\"name\": \
             \"list_dir\", \"arguments\": {}}\n```\n</tool_call>Done.",
            ("Done.".into(), spare.clone()),
        ),
        // A fence with a language is part of the text.
        (
            CallForm::Hermes,
            "```json\n{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}}\n{\"name\": \"list_dir\", \"arguments\": \
             {}}\n```python\nread()\n```",
            ("```python\nread()\n```".into(), spare.clone()),
        ),
        (
            CallForm::Mistral,
            "[TOOL_CALLS][{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}}, \
             {\"name\": \"list_dir\", \"arguments\": {} , \"id\": \"123456789\"}]",
            (String::new(), both.clone()),
        ),
        // What ends the list ends the calls.
        (
            CallForm::Mistral,
            "[TOOL_CALLS] [{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}},{\"name\": \"list_dir\", \"arguments\": {}}], and {\"name\": \
             \"read\", \"arguments\": {}} [1]",
            (", and {\"name\": \"read\", \"arguments\": {}} [1]".into(), both.clone()),
        ),
        (
            CallForm::Mistral,
            "[TOOL_CALLS][{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}};{\"name\": \"list_dir\", \"arguments\": {}}] []",
            (" []".into(), both.clone()),
        ),
        // Or there is one call and no list.
        (
            CallForm::Mistral,
            "[TOOL_CALLS]{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}}{\"name\": \"read\"}, [{}] \
             [TOOL_CALLS] {\"name\": \"list_dir\", \"arguments\": {}}",
            ("{\"name\": \"read\"}, [{}] ".into(), both.clone()),
        ),
        (
            CallForm::Phi,
            "<|tool_call|>[{\"name\": \"read\", \"arguments\": {\"path\": \"a}\\\"{\"}},\
             {\"name\": \"list_dir\", \"arguments\": \"{}\"}]<|/tool_call|> Done.",
            (" Done.".into(), both.clone()),
        ),
        (
            CallForm::Llama3,
            " {\"name\": \"read\", \"parameters\": {\"path\": \"a}\\\"{\"}}; {\"name\":\"list_dir\",\"parameters\":{}}",
            (String::new(), both.clone()),
        ),
        (
            CallForm::MistralArgs,
            "I look. [TOOL_CALLS]read[ARGS]{\"path\": \"a}\\\"{\"}[TOOL_CALLS]list_dir[CALL_ID]a1B2c3D4e[ARGS] {}",
            ("I look. ".into(), both.clone()),
        ),
        (
            CallForm::Function,
            "<function=read>{\"path\": \"a}\\\"{\"}</function>\n<function=list_dir>\n{}\n</function> Done.",
            (" Done.".into(), both.clone()),
        ),
        (
            CallForm::Llama3,
            "<|python_tag|>{\"type\": \"function\", \"name\": \"read\", \"parameters\": {\"path\": \"a}\\\"{\"}}\
             {\"name\": \"list_dir\", \"parameters\": {}}",
            (String::new(), both),
        ),
    ]
}

#[test]
fn calls_of_each_family_are_read() {
    for (form, answer, expected) in samples() {
        assert_eq!(whole(form, answer), expected, "{answer}");
    }
}

/// However the answer is cut, and the pieces of a call come as soon as they are known.
#[test]
fn calls_come_as_they_are_written() {
    for (form, answer, expected) in samples() {
        let characters: Vec<String> = answer.chars().map(String::from).collect();
        let pieces: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(read(Some(form), &pieces), expected, "{answer}");
    }
    let tools = tools();
    let mut reader = CallReader::new(Some(CallForm::Hermes), &tools);
    assert_eq!(reader.push("Hi <tool"), [Delta::Text("Hi ".into())]);
    assert_eq!(reader.push("_call>{\"name\": \"re"), []);
    let (name, handle) = ("read".to_string(), tools[1].handle.clone());
    let first = Delta::Call { index: 0, name, handle, arguments: "{\"pa".into() };
    assert_eq!(reader.push("ad\", \"arguments\": {\"pa"), [first]);
    let (name, handle) = (String::new(), String::new());
    let second = Delta::Call { index: 0, name, handle, arguments: "th\"".into() };
    assert_eq!(reader.push("th\""), [second]);
    assert_eq!(reader.calls(), 0);
}

#[test]
fn text_is_text() {
    for form in FORMS {
        for answer in ["", " ", "Hello <tool", "a [TOOL_ b <| c", "The set {1, 2}.", "x\n\n", "1 <func"] {
            assert_eq!(whole(form, answer), (answer.into(), vec![]), "{form:?}");
        }
    }
    // An answer of JSON that names no tool is an answer.
    for answer in ["{\"name\": \"Ada\", \"age\": 36}", "{\"a\": 1}", "{\"name\": 1}", "{broken"] {
        assert_eq!(whole(CallForm::Llama3, answer), (answer.into(), vec![]));
    }
    for answer in [
        "```json\n{\"name\": \"Ada\", \"age\": 36}\n```",
        "{{\"name\": \"fly\", \"arguments\": {}}}",
        "```json\n{\"name\": 1}```",
        "{\"name\": \"re\\u0061d\", \"arguments\": {}}",
        "{\"name\": \"a\"b, \"name\": \"read\", \"arguments\": {}}",
        "{\"name\": \"x\": 1, \"name\": \"read\", \"arguments\": {}}",
        "{\"name\": \"\\q\", \"arguments\": \"hello\"}",
        "{\"name\": \"read\", \"version\": \"1.0\"}",
        "[{\"name\": \"read\", \"description\": \"Reads.\"}, {\"name\": \"list_dir\", \"description\": \"Lists.\"}]",
        "{\"name\": \"read\", \"parameters\": {}}",
        "\u{a0}{\"name\": \"read\", \"arguments\": {}}",
        "```json\n{\"nam",
        "```json\n[{\"name\": \"re",
        "``",
        "```python\nread()\n```",
        "It would be ```json\n{\"name\": \"read\", \"arguments\": {}}\n```",
    ] {
        let characters: Vec<String> = answer.chars().map(String::from).collect();
        let pieces: Vec<&str> = characters.iter().map(String::as_str).collect();
        for pieces in [&pieces[..], &[answer]] {
            assert_eq!(read(Some(CallForm::Hermes), pieces), (answer.into(), vec![]));
        }
    }
    let answer = "<tool_call>{\"name\": \"read\"}</tool_call>";
    assert_eq!(read(None, &[answer]), (answer.into(), vec![]));
}

/// Where an answer has a schema, JSON is the answer, whatever stands in it.
#[test]
fn an_answer_with_a_schema_is_a_call_only_behind_a_mark() {
    for (form, bare, marked) in [
        (
            CallForm::Llama3,
            "{\"name\": \"read\", \"parameters\": {}}",
            "<|python_tag|>{\"name\": \"read\", \"parameters\": {}}",
        ),
        (
            CallForm::Hermes,
            "{\"name\": \"read\", \"arguments\": {}}",
            "<tool_call>{\"name\": \"read\", \"arguments\": {}}</tool_call>\n",
        ),
        (
            CallForm::Mistral,
            "[{\"name\": \"read\", \"arguments\": {}}]",
            "[TOOL_CALLS][{\"name\": \"read\", \"arguments\": {}}]",
        ),
        (
            CallForm::Phi,
            "[{\"name\": \"read\", \"arguments\": {}}]",
            "<|tool_call|>[{\"name\": \"read\", \"arguments\": {}}]<|/tool_call|>\n",
        ),
        (CallForm::MistralArgs, "\"read[ARGS]{}\"", "[TOOL_CALLS]read[ARGS]{}"),
        (CallForm::Function, "\"read>{}\"", "<function=read>{}</function>\n"),
    ] {
        let quoted = format!("{{\"note\": \"{}{{}}\"}}", form.open());
        for (answer, calls) in [(bare, 0), (&quoted, 0), (marked, 1)] {
            let read = |pieces: &mut dyn Iterator<Item = String>| {
                let mut reader = CallReader::new(Some(form), &tools()).with_schema();
                let mut deltas: Vec<Delta> = pieces.flat_map(|piece| reader.push(&piece)).collect();
                let calls = reader.calls();
                deltas.extend(reader.finish());
                let text = deltas
                    .iter()
                    .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None });
                (calls, text.collect::<String>())
            };
            let expected = (calls, if calls == 0 { answer.to_string() } else { String::new() });
            assert_eq!(read(&mut answer.chars().map(String::from)), expected, "{answer}");
            assert_eq!(read(&mut std::iter::once(answer.to_string())), expected, "{answer}");
        }
    }
}

/// White space and brackets without end are read once, and not with each piece again; they are text then.
#[test]
fn what_stands_around_calls_has_an_end() {
    for form in FORMS {
        let call = &*written(form, "read", "{}");
        for (before, space) in [
            ("", " "),
            ("", "}]"),
            (call, " "),
            (call, "\n```\n"),
            ("```json\n{\"name\": \"read\", \"arguments\": {}}", "\n"),
        ] {
            for (count, behind) in
                [(100, "x"), (5_000, ""), (5_000, "x"), (5_000, call), (20_000, call), (20_000, "```")]
            {
                let answer = format!("{before}{}{behind}", space.repeat(count));
                let pieces: Vec<String> = answer.chars().map(String::from).collect();
                let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
                for schema in [false, true] {
                    let tools = tools();
                    let reader = || {
                        let reader = CallReader::new(Some(form), &tools);
                        if schema { reader.with_schema() } else { reader }
                    };
                    assert_eq!(
                        read_by(reader(), &pieces),
                        read_by(reader(), &[&answer]),
                        "{form:?} {before} {space:?} {count} {behind}"
                    );
                }
            }
        }
    }
    let spaces = " ".repeat(400_000);
    assert_eq!(read(Some(CallForm::Hermes), &spaces.split_inclusive(' ').collect::<Vec<_>>()), (spaces, vec![]));
}

#[test]
fn what_is_no_call_is_not_lost() {
    let (said, calls) = whole(CallForm::Hermes, "<tool_call>\n{\"nome\": \"read\"}\n</tool_call>!");
    assert_eq!((said.as_str(), calls.len()), ("{\"nome\": \"read\"}\n</tool_call>!", 0));
    // A tool that there is not is for others to judge; it has no handle.
    let (_, calls) = whole(CallForm::Hermes, "<tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call>");
    assert_eq!(calls, [("fly".into(), String::new(), "{}".into())]);
    // What was cut off stays cut off, so that no arguments are made up.
    let (_, calls) = whole(CallForm::Hermes, "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"/e");
    assert_eq!(calls, [call("read", "{\"path\": \"/e")]);
    let (said, _) = whole(CallForm::Hermes, "<tool_call>{\"name\": \"re");
    assert_eq!(said, "{\"name\": \"re");
}

/// The same for names outside of objects: anything that is no name is text, and a name is a call once it is complete.
#[test]
fn names_outside_of_objects_are_calls_or_text() {
    for (form, answer) in [
        (CallForm::Function, "Write <function=name of it> here."),
        (CallForm::Function, "<function=rea"),
        (CallForm::Function, "<function=>{}"),
        (CallForm::Function, "<function=\"read\">"),
        (CallForm::MistralArgs, "[TOOL_CALLS]read[AR"),
        (CallForm::MistralArgs, "[TOOL_CALLS][{\"name\": \"read\"}]"),
        (CallForm::MistralArgs, "[TOOL_CALLS][CALL_ID]x[ARGS]{}"),
    ] {
        assert_eq!(whole(form, answer), (answer.into(), vec![]), "{form:?}");
    }
    let long = format!("<function={}>{{}}</function>", "a".repeat(600));
    assert_eq!(whole(CallForm::Function, &long), (long.clone(), vec![]));
    let (_, calls) = whole(CallForm::Function, "<function=fly>{\"to\": 1}</function>");
    assert_eq!(calls, [("fly".into(), String::new(), "{\"to\": 1}".into())]);
    let (_, calls) = whole(CallForm::MistralArgs, "[TOOL_CALLS]read[ARGS]{\"path\": \"/e");
    assert_eq!(calls, [call("read", "{\"path\": \"/e")]);
    assert_eq!(whole(CallForm::MistralArgs, "[TOOL_CALLS]read[ARGS] no"), ("no".into(), vec![call("read", "")]));
    let tools = tools();
    let mut reader = CallReader::new(Some(CallForm::MistralArgs), &tools);
    assert_eq!(reader.push("[TOOL_CALLS]re"), []);
    let (name, handle) = ("read".to_string(), tools[1].handle.clone());
    let named = Delta::Call { index: 0, name, handle, arguments: String::new() };
    assert_eq!(reader.push("ad[ARGS]"), [named]);
    let (name, handle) = (String::new(), String::new());
    assert_eq!(reader.push("{\"pa"), [Delta::Call { index: 0, name, handle, arguments: "{\"pa".into() }]);
}

#[test]
fn templates_tell_the_form() {
    let form = |name: &str| CallForm::of(&text(&format!("templates/{name}.jinja")));
    assert_eq!(form("hermes"), Some(CallForm::Hermes));
    assert_eq!(form("header"), Some(CallForm::Llama3));
    assert_eq!(form("instruct"), Some(CallForm::Mistral));
    assert_eq!(form("bars"), Some(CallForm::Phi));
    assert_eq!((form("chatml"), form("turns")), (None, None));
    // XML within the mark, and a template that does not tell the model of tools.
    assert_eq!(CallForm::of("{{ tools }}<tool_call>"), Some(CallForm::Hermes));
    assert_eq!(CallForm::of("{{ tools }}<tool_call><function=x>"), None);
    assert_eq!(CallForm::of("{{ tools }}<function=x></function><parameter=y>"), None);
    // Names outside of objects, whatever else of the family's is in the template.
    assert_eq!(form("arguments"), Some(CallForm::MistralArgs));
    assert_eq!(form("functions"), Some(CallForm::Function));
    assert_eq!(CallForm::of("{{ tools }}<|python_tag|><function=x>{}</function>"), Some(CallForm::Function));
    assert_eq!(CallForm::of("{{ messages }}<tool_call>"), None);
}

proptest! {
    /// No answer makes it panic, and the way it is cut makes no difference.
    #[test]
    fn any_answer_is_read(
        answer in "(<tool_call>|</tool_call>|\\{|\\}|\"|name|arguments|\": |read|now|\\[TOOL_CALLS\\]|\\[ARGS\\]|\\[CALL_ID\\]|<function=|</function>|>|\\[|\\]|,|;|```|json|\\\\|ü| |\n){0,30}",
        at in 0..FORMS.len(),
    ) {
        let form = FORMS[at];
        let characters: Vec<String> = answer.chars().map(String::from).collect();
        let pieces: Vec<&str> = characters.iter().map(String::as_str).collect();
        prop_assert_eq!(read(Some(form), &pieces), whole(form, &answer));
    }
}

#[test]
fn a_call_may_be_just_a_name_if_its_tool_requires_no_arguments() {
    let read = |answer: &str| read_by(CallReader::new(Some(CallForm::Hermes), &tools_with_now()), &[answer]);
    let now = call("now", "{}");
    let fenced = "```json\n{\n  \"name\": \"now\"\n}\n```";
    assert_eq!(read(fenced), (String::new(), vec![now.clone()]));
    let several = "{\"name\": \"now\"}\n{\"name\": \"now\", \"arguments\": {}}{\"name\": \"read\"}";
    assert_eq!(read(several), ("{\"name\": \"read\"}".into(), vec![now.clone(), now.clone()]));
    // A list of names calls nothing, and a second name alone neither.
    for list in ["[{\"name\": \"now\"}]", "```json\n[\n  {\"name\": \"now\"},\n  {\"name\": \"now\"}\n]\n```"] {
        assert_eq!(read(list), (list.into(), Vec::new()));
    }
    assert_eq!(read("{\"name\": \"now\"}{\"name\": \"now\"}"), ("{\"name\": \"now\"}".into(), vec![now.clone()]));
    assert_eq!(read("<tool_call>\n{\"name\": \"now\"}\n</tool_call>"), (String::new(), vec![now]));
}
