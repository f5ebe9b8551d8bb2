//! Answers held to schemas.

use std::sync::LazyLock;

use capos_chat::unmarked::MOST_TOOLS;
use capos_chat::{CallForm, CallReader, ChatError, Delta, Tool};
use capos_grammar::{Allowed, Grammar, Grammars, Rules};
use capos_tokenizer::{Decoder, Marks, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::{FORMS, tokenizer, tools, tools_with_now, written as call};

fn grammars() -> (Tokenizer, Grammars) {
    let tokenizer = tokenizer();
    let grammars = Grammars::new(&tokenizer).unwrap();
    (tokenizer, grammars)
}

fn grammar_of(
    tokenizer: &Tokenizer,
    grammars: &Grammars,
    form: Option<CallForm>,
    tools: &[Tool],
    schema: Option<&Value>,
) -> Result<Option<Grammar>, ChatError> {
    grammars.answer(tokenizer, Rules { form, tools, schema, ..Rules::default() })
}

/// Whether an answer may be said, and end where it does.
fn takes(tokenizer: &Tokenizer, grammar: &mut Grammar, answer: &str) -> bool {
    let ids = tokenizer.encode(answer, Marks::All);
    let all = ids.iter().all(|id| grammar.allowed().unwrap().contains(*id) && grammar.accept(*id).is_ok());
    all && grammar.may_end()
}

#[test]
fn calls_name_tools_of_the_turn_and_keep_to_their_schemas() {
    let ((tokenizer, grammars), tools) = (grammars(), tools());
    for form in FORMS {
        let takes = |answer: &str| {
            takes(
                &tokenizer,
                &mut grammar_of(&tokenizer, &grammars, Some(form), &tools, None).unwrap().unwrap(),
                answer,
            )
        };
        assert!(takes(&call(form, "read", "{\"path\": \"/tmp/ü\\n\"}")), "{form:?}");
        assert!(takes(&call(form, "read", "{\"path\":\"a\", \"lines\": [1, -2], \"mode\": \"hex\"}")), "{form:?}");
        assert!(
            takes(&call(form, "list_dir", "{\"path\": \"a\", \"depth\": 1.5, \"more\": {\"x\": null}}")),
            "{form:?}"
        );
        for (name, arguments) in [
            ("fly", "{\"path\": \"a\"}"),
            ("rea", "{\"path\": \"a\"}"),
            ("read ", "{\"path\": \"a\"}"),
            ("read", "{}"),
            ("read", "{\"path\": 1}"),
            ("read", "{\"path\": \"a\", \"other\": 1}"),
            ("read", "{\"path\": \"a\", \"mode\": \"octal\"}"),
            ("read", "{\"path\": \"a\", \"lines\": [1.5]}"),
            ("read", "\"a\""),
            ("list_dir", "7"),
            ("list_dir", "{\"depth\": 1}"),
        ] {
            assert!(!takes(&call(form, name, arguments)), "{form:?} {name} {arguments}");
        }
    }
}

#[test]
fn a_call_without_a_mark_may_be_just_a_name_if_its_tool_requires_no_arguments() {
    let (tokenizer, grammars) = grammars();
    let takes = |answer: &str| {
        let form = Some(CallForm::Hermes);
        takes(
            &tokenizer,
            &mut grammar_of(&tokenizer, &grammars, form, &tools_with_now(), None).unwrap().unwrap(),
            answer,
        )
    };
    let fenced = "```json\n{\n  \"name\": \"now\"\n}\n```";
    for answer in
        [fenced, "{\"name\": \"now\"}", "{\"name\": \"now\"}\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}"]
    {
        assert!(takes(answer), "{answer}");
    }
    for answer in
        ["{\"name\": \"now\"}\n{\"name\": \"read\", \"arguments\": {}}", "{\"name\": \"now\", \"arguments\": 1}"]
    {
        assert!(!takes(answer), "{answer}");
    }
    // A list of names is text, and behind a call a name alone is nothing.
    assert!(takes("[{\"name\": \"now\"}, {\"name\": \"now\"}]"));
    assert!(!takes("{\"name\": \"now\"}{\"name\": \"now\"}"));
}

/// The bounds that the schemas of our own interfaces have.
#[test]
fn numbers_of_all_widths_are_held() {
    let (tokenizer, grammars) = grammars();
    let schema = |least: i64, most: u64| {
        json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": least, "maximum": most}},
        "required": ["n"], "additionalProperties": false})
    };
    for (least, most, inside, outside) in [
        (
            i64::MIN,
            i64::MAX as u64,
            &["0", "-9223372036854774784", "9223372036854775807"][..],
            &["-9223372036854775809"][..],
        ),
        (0, u64::MAX, &["0", "9223372036854775807"], &["-1"]),
        (i64::from(i32::MIN), i32::MAX as u64, &["-2147483648", "2147483647"], &["2147483648", "-2147483649"]),
        (-128, 127, &["-128", "127"], &["128", "-129", "1.5"]),
    ] {
        let tools = [Tool { parameters: schema(least, most), ..tools().remove(1) }];
        for (numbers, good) in [(inside, true), (outside, false)] {
            for number in numbers {
                for answer in [
                    call(CallForm::Hermes, "read", &format!("{{\"n\": {number}}}")),
                    format!("{{\"name\": \"read\", \"arguments\": {{\"n\": {number}}}}}"),
                ] {
                    let mut grammar =
                        grammar_of(&tokenizer, &grammars, Some(CallForm::Hermes), &tools, None).unwrap().unwrap();
                    assert_eq!(takes(&tokenizer, &mut grammar, &answer), good, "{answer}");
                }
            }
        }
    }
}

#[test]
fn text_stays_free() {
    let ((tokenizer, grammars), tools) = (grammars(), tools());
    for form in FORMS {
        for answer in ["Hello, Welt! 世界 😀\n\n{1, 2} <b> [x]", "It is done.", "a <tool", "1 < 2"] {
            let mut grammar = grammar_of(&tokenizer, &grammars, Some(form), &tools, None).unwrap().unwrap();
            assert!(takes(&tokenizer, &mut grammar, answer), "{form:?} {answer}");
        }
    }
    let mut grammar = grammar_of(&tokenizer, &grammars, Some(CallForm::Hermes), &tools, None).unwrap().unwrap();
    let twice = format!("First.\n{0}\n{0}", call(CallForm::Hermes, "read", "{\"path\": \"a\"}"));
    assert!(takes(&tokenizer, &mut grammar, &twice));
    for (form, name) in [(CallForm::MistralArgs, "read[CALL_ID]a1B2c3D4e"), (CallForm::Function, "read")] {
        let mut grammar = grammar_of(&tokenizer, &grammars, Some(form), &tools, None).unwrap().unwrap();
        let (one, other) = (call(form, name, "{\"path\": \"a\"}"), call(form, "list_dir", "{\"path\": \"b\"}"));
        assert!(takes(&tokenizer, &mut grammar, &format!("First.\n{one}{other}")), "{form:?}");
        let mut grammar = grammar_of(&tokenizer, &grammars, Some(form), &tools, None).unwrap().unwrap();
        assert!(!takes(&tokenizer, &mut grammar, &format!("First.\n{one}{}", call(form, "fly", "{}"))), "{form:?}");
    }
    // At the beginning all text is allowed, and no mark that is not the model's to make.
    let mut grammar = grammar_of(&tokenizer, &grammars, Some(CallForm::Hermes), &tools, None).unwrap().unwrap();
    let allowed = grammar.allowed().unwrap();
    let count = tokenizer.vocabulary().ids().filter(|id| allowed.contains(*id)).count();
    // All are allowed, except bytes with which no character begins.
    assert!(count > tokenizer.vocabulary().len() - 100, "{count}");
    assert!(!allowed.contains(tokenizer.vocabulary().find("<|im_start|>").unwrap()));
    assert_eq!(allowed.words().len(), tokenizer.vocabulary().len().div_ceil(32));
    // Nothing to hold to.
    assert!(grammar_of(&tokenizer, &grammars, Some(CallForm::Hermes), &[], None).unwrap().is_none());
    assert!(grammar_of(&tokenizer, &grammars, None, &tools, None).unwrap().is_none());
}

/// Where an answer begins with the object of a call, it is held as one behind a mark is.
#[test]
fn calls_without_a_mark_are_held_too() {
    let ((tokenizer, grammars), tools) = (grammars(), tools());
    let takes = |answer: &str| {
        let grammar = grammar_of(&tokenizer, &grammars, Some(CallForm::Hermes), &tools, None);
        takes(&tokenizer, &mut grammar.unwrap().unwrap(), answer)
    };
    let read = "{\n  \"name\": \"read\",\n  \"arguments\": {\n    \"path\": \"a\"\n  }\n}";
    for answer in [
        read.to_string(),
        format!("```json\n{read}\n```"),
        format!("```json\n{read}\n{read}\n```\nDone."),
        format!("```\n[{read}, {read}]\n```"),
        format!("{{{read}}}"),
        format!("```json\n{read}\n```\n```json\n{read}\n```"),
        format!("{read}\n```json\n{read}\n```"),
        format!("{read}\n</tool_call>\n{read}"),
        format!("{read}\n{}", call(CallForm::Hermes, "read", "{\"path\": \"a\"}")),
        format!("{}\n{read}", call(CallForm::Hermes, "read", "{\"path\": \"a\"}")),
    ] {
        assert!(takes(&answer), "{answer}");
        let wrong = answer.replace("\"path\"", "\"file\"");
        assert!(!takes(&wrong), "{wrong}");
        let more = answer.replace("\"a\"", "\"a\", \"other\": 1");
        assert!(!takes(&more), "{more}");
    }
    for text in [
        read.replace("read", "Ada"),
        format!("```json\n{}\n```", read.replace("\"name\"", "\"nom\"")),
        "```python\nread()\n```".into(),
        format!("It would be {}.", read.replace("path", "file")),
        read.replace("arguments", "version"),
        read.replace("arguments", "parameters").replace("path", "file"),
        // None that the reader takes for calls.
        read.replace("\"read", "\"re\\u0061d").replace("path", "file"),
        format!("\u{a0}{}", read.replace("path", "file")),
    ] {
        assert!(takes(&text), "{text}");
    }
}

/// Long names that differ at their ends are the most that a grammar has to tell apart. Of more tools than that, calls
/// without a mark are text, for the reader too.
#[test]
fn calls_without_a_mark_are_held_up_to_a_number_of_tools() {
    let (tokenizer, grammars) = grammars();
    for (count, held) in [(MOST_TOOLS, true), (MOST_TOOLS + 1, false)] {
        let name = |at: usize| format!("{}_{at}", "a_tool_with_a_name_as_long_as_any_that_people_give".repeat(2));
        // Every second one requires no arguments; the last one does.
        let bare = tools_with_now().remove(2);
        let named = |at| match at % 2 == count % 2 {
            true => Tool { name: name(at), ..bare.clone() },
            false => Tool { name: name(at), ..tools()[0].clone() },
        };
        let tools: Vec<Tool> = (0..count).map(named).collect();
        let call = format!("```json\n{{\"name\": \"{}\", \"arguments\": {{\"path\": \"a\"}}}}\n```", name(count - 1));
        let takes = |answer: &str| {
            let grammar = grammar_of(&tokenizer, &grammars, Some(CallForm::Hermes), &tools, None);
            takes(&tokenizer, &mut grammar.unwrap().unwrap(), answer)
        };
        assert!(takes(&call));
        assert_eq!(takes(&call.replace("path", "depth")), !held);
        let mut reader = CallReader::new(Some(CallForm::Hermes), &tools);
        reader.push(&call);
        assert_eq!(reader.calls() > 0, held);
    }
}

#[test]
fn an_answer_with_a_schema_keeps_to_it_or_is_a_call() {
    let ((tokenizer, grammars), tools) = (grammars(), tools());
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    for form in FORMS {
        let takes = |answer: &str| {
            takes(
                &tokenizer,
                &mut grammar_of(&tokenizer, &grammars, Some(form), &tools, Some(&schema)).unwrap().unwrap(),
                answer,
            )
        };
        assert!(takes("{\"n\": 12}"), "{form:?}");
        // An object without a mark is the answer's.
        let mark = if form.is_bare() { form.open() } else { "" };
        assert!(takes(&format!("{mark}{}", call(form, "read", "{\"path\": \"a\"}"))), "{form:?}");
        assert!(!takes("It is 12."), "{form:?}");
        assert!(!takes("{\"n\": 1.5}"), "{form:?}");
    }
    let mut grammar = grammar_of(&tokenizer, &grammars, None, &[], Some(&schema)).unwrap().unwrap();
    assert!(takes(&tokenizer, &mut grammar, "{\"n\":-3}"));
    // When it is complete nothing but an end can follow.
    let end = tokenizer.vocabulary().find("<|im_end|>").unwrap();
    let allowed = grammar.allowed().unwrap();
    assert!(allowed.contains(end) && !allowed.contains(tokenizer.encode("a", Marks::Text)[0]));
}

#[test]
fn schemas_that_cannot_be_held_to_are_told() {
    let (tokenizer, grammars) = grammars();
    for schema in [json!({ "if": {} }), json!({ "$ref": "https://example.org/x" }), json!(7), json!({ "type": "zahl" })]
    {
        let error = grammar_of(&tokenizer, &grammars, None, &[], Some(&schema)).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("{schema} is accepted."));
        assert!(error.starts_with("the answer cannot be held to the schemas: "), "{error}");
    }
}

/// What a schema refers to is found, also within a call.
#[test]
fn references_are_followed() {
    let (tokenizer, grammars) = grammars();
    let parameters = json!({
        "type": "object",
        "properties": { "kind": { "$ref": "#/$defs/kind" } },
        "required": ["kind"],
        "$defs": { "kind": { "enum": ["a", "b"] } },
    });
    let tool =
        Tool { name: "t".into(), description: String::new(), parameters, handle: String::new(), forbidden: false };
    let takes = |answer: &str| {
        let tools = [tool.clone()];
        takes(
            &tokenizer,
            &mut grammar_of(&tokenizer, &grammars, Some(CallForm::Hermes), &tools, None).unwrap().unwrap(),
            answer,
        )
    };
    assert!(takes(&call(CallForm::Hermes, "t", "{\"kind\": \"b\"}")));
    assert!(!takes(&call(CallForm::Hermes, "t", "{\"kind\": \"c\"}")));
}

fn tool(name: &str, parameters: Value) -> Tool {
    Tool { name: name.into(), description: String::new(), parameters, handle: String::new(), forbidden: false }
}

static SHARED: LazyLock<(Tokenizer, Grammars)> = LazyLock::new(grammars);

/// Whether a grammar for these tools takes a call with a mark, and the same without one.
fn takes_call(tools: &[Tool], form: CallForm, name: &str, arguments: &str) -> bool {
    let (tokenizer, grammars) = &*SHARED;
    let takes = |answer: &str| {
        takes(tokenizer, &mut grammar_of(tokenizer, grammars, Some(form), tools, None).unwrap().unwrap(), answer)
    };
    let marked = takes(&call(form, name, arguments));
    if form == CallForm::Hermes {
        assert_eq!(takes(&format!("{{\"name\": \"{name}\", \"arguments\": {arguments}}}")), marked, "{arguments}");
    }
    marked
}

/// A tool's schema becomes a part of a larger one. Its references still start from its own root.
#[test]
fn references_count_from_the_tools_own_schema() {
    let properties = |reference: &str| {
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": { "a/b": { "enum": ["x", "y"] }, "c d": { "$ref": reference, "description": "the same" } },
            "required": ["c d"],
            "additionalProperties": false,
            "$defs": { "k": { "$ref": "#/definitions/e%25f~0", "$defs": { "in": { "enum": ["x", "y"] } } } },
            "definitions": { "e%f~": { "enum": ["x", "y"] } },
        })
    };
    for reference in ["#/properties/a~1b", "#/$defs/k", "#/$defs/k/$defs/in", "#/definitions/e%25f~0"] {
        let tools = [tool("t", properties(reference))];
        for form in FORMS {
            assert!(takes_call(&tools, form, "t", "{\"c d\": \"y\"}"), "{reference} {form:?}");
            assert!(!takes_call(&tools, form, "t", "{\"c d\": \"z\"}"), "{reference} {form:?}");
        }
    }
    // `#` is the arguments' schema, and not that of the call.
    let tree = json!({
        "properties": { "n": { "type": "integer" }, "child": { "$ref": "#" } },
        "required": ["n"],
        "additionalProperties": false,
    });
    let tools = [tool("t", tree.clone()), tool("u", json!({ "$ref": "#/$defs/tree", "$defs": { "tree": tree } }))];
    for form in FORMS {
        for name in ["t", "u"] {
            assert!(takes_call(&tools, form, name, "{\"n\": 1}"), "{form:?} {name}");
        }
        assert!(takes_call(&tools, form, "t", "{\"n\": 1, \"child\": {\"n\": 2, \"child\": {\"n\": 3}}}"), "{form:?}");
        for wrong in
            ["{\"n\": 1, \"child\": {}}", "{\"n\": 1, \"child\": {\"name\": \"t\"}}", "{\"child\": {\"n\": 1}}"]
        {
            assert!(!takes_call(&tools, form, "t", wrong), "{form:?} {wrong}");
        }
    }
    // The names of two tools' definitions do not meet.
    let of = |value: &str| json!({ "properties": { "v": { "$ref": "#/$defs/v" } }, "required": ["v"], "$defs": { "v": { "const": value } } });
    let tools = [tool("t", of("x")), tool("u", of("y"))];
    assert!(takes_call(&tools, CallForm::Hermes, "u", "{\"v\": \"y\"}"));
    assert!(!takes_call(&tools, CallForm::Hermes, "u", "{\"v\": \"x\"}"));
}

/// Formats that are not checked, and keywords for people or other programs, constrain nothing.
#[test]
fn annotations_are_not_held_to() {
    for format in ["path", "binary", "byte", "password", "iri", "int64", "regex", "idn-email", "uri-reference", "x-own"]
    {
        let text = json!({ "type": ["string", "integer"], "format": format, "contentEncoding": "base64", "nullable": true,
            "examples": [{ "$ref": "#/x" }], "x-order": 1, "uniqueItems": false, "deprecated": true });
        let map = json!({ "type": "object", "propertyNames": { "type": "string" }, "additionalProperties": text });
        let tools = [tool("t", json!({ "properties": { "a": map }, "required": ["a"] }))];
        let (tokenizer, grammars) = &*SHARED;
        let grammar = grammar_of(tokenizer, grammars, Some(CallForm::Hermes), &tools, None).unwrap().unwrap();
        assert_eq!(grammar.loose(), [], "{format}");
        assert!(takes_call(&tools, CallForm::Hermes, "t", "{\"a\": {\"b\": \"~ x\"}}"), "{format}");
        assert!(!takes_call(&tools, CallForm::Hermes, "t", "{\"a\": {\"b\": null}}"), "{format}");
    }
}

/// The formats that are not taken for annotations are those that the library holds to.
#[test]
fn formats_that_are_checked_are_held_to() {
    for (format, good) in [
        ("date", "2026-11-25"),
        ("date-time", "2026-11-25T12:00:00Z"),
        ("duration", "P1D"),
        ("email", "a@b.c"),
        ("hostname", "a.example"),
        ("ipv4", "10.0.0.1"),
        ("ipv6", "::1"),
        ("time", "12:00:00Z"),
        ("uri", "https://example.org/x"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
    ] {
        let tools = [tool("t", json!({ "properties": { "a": { "type": "string", "format": format } } }))];
        assert!(takes_call(&tools, CallForm::Function, "t", &format!("{{\"a\": \"{good}\"}}")), "{format}");
        assert!(!takes_call(&tools, CallForm::Function, "t", "{\"a\": \"(not)\"}"), "{format}");
    }
}

/// Schemas that no grammar holds to, with what is held of them: a call that is taken, and one that is not.
#[test]
fn one_tool_that_cannot_be_held_does_not_end_the_request() {
    let long = "ü".repeat(200);
    for (bad, good, wrong) in [
        (
            json!({ "properties": { "a": { "not": { "const": 1 } }, "b": { "type": "null" } } }),
            "{\"a\": 2}",
            "{\"b\": 1}",
        ),
        (
            json!({ "properties": { "a": { "$ref": "https://example.org/x" }, "b": { "type": "null" } } }),
            "{\"a\": 2}",
            "{\"b\": 1}",
        ),
        (json!({ "properties": { "a": { "$ref": "#/nowhere" } }, "required": ["a"] }), "{\"a\": 2}", "{}"),
        (
            json!({ "properties": { "a": { "oneOf": [{ "type": "number" }, { "type": "integer" }] } } }),
            "{\"a\": 1}",
            "{\"a\": \"x\"}",
        ),
        (json!({ "properties": { "a": { "type": "array", "uniqueItems": true } } }), "{\"a\": [1]}", "{\"a\": 1}"),
        (json!({ "properties": { "a": { "if": {}, "then": { "type": "null" } } } }), "{\"a\": 1}", "[]"),
        (json!({ "properties": { "a": { "type": "string", "pattern": "(?=x)" } } }), "{\"a\": 1}", "[]"),
        (json!({ "properties": { "a": { "type": "zahl" } } }), "{\"a\": 1}", "7"),
        (json!({ "properties": { "a": { "minimum": long } } }), "{\"a\": 1}", "null"),
        (json!({ "properties": { "a": { "minLength": format!("a{long}") } } }), "{\"a\": 1}", "null"),
        (json!({ "properties": { "a": false }, "required": ["a"] }), "{\"a\": 1}", "\"x\""),
        (json!({ "properties": [] }), "{\"a\": 1}", "null"),
        (json!({ "$ref": "#" }), "{\"a\": 1}", "null"),
        (json!({ "anyOf": [{ "$ref": "#" }] }), "{\"a\": 1}", "null"),
        (json!({ "allOf": [{ "$ref": "#" }] }), "{\"a\": 1}", "null"),
        (
            json!({ "$ref": "#/$defs/a", "type": "object", "$defs": { "a": { "$ref": "#/$defs/b", "minProperties": 1 }, "b": { "$ref": "#/$defs/a", "maxProperties": 3 } } }),
            "{\"a\": 1}",
            "null",
        ),
        (json!(7), "{\"a\": 1}", "null"),
        (json!(false), "{}", "null"),
        (json!("x"), "{}", "null"),
        (Value::Null, "{}", "null"),
    ] {
        let good_tool = json!({ "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let tools = [tool("good", good_tool), tool("bad", bad.clone())];
        for form in [CallForm::Hermes, CallForm::MistralArgs] {
            assert!(takes_call(&tools, form, "good", "{\"n\": 1}"), "{bad}");
            assert!(!takes_call(&tools, form, "good", "{\"n\": \"x\"}"), "{bad}");
            assert!(takes_call(&tools, form, "bad", good), "{bad}");
            assert!(!takes_call(&tools, form, "bad", wrong), "{bad}");
        }
        let (tokenizer, grammars) = &*SHARED;
        let answer = json!({ "type": "integer" });
        for answer in [None, Some(&answer)] {
            let grammar = grammar_of(tokenizer, grammars, Some(CallForm::Hermes), &tools, answer).unwrap().unwrap();
            let told: Vec<&str> = grammar.loose().iter().map(|loose| loose.tool.as_str()).collect();
            assert!(told == ["bad"] || told.is_empty() && bad == false, "{bad} {told:?}");
            assert!(grammar.loose().iter().all(|loose| (1..300).contains(&loose.why.len())));
        }
        // The answer's own schema is held, or refused.
        let refused = grammar_of(tokenizer, grammars, Some(CallForm::Hermes), &tools, Some(&json!({ "not": {} })));
        assert!(refused.is_err(), "{bad}");
    }
}

/// Tools of which each is small enough, and all of them are not.
#[test]
fn tools_that_are_too_large_together_are_held_loosely() {
    let (tokenizer, grammars) = &*SHARED;
    let many = |at: usize| {
        (0..300)
            .map(|n| (format!("p{at}_{n}"), json!({ "enum": [format!("v{n}"), n] })))
            .collect::<serde_json::Map<_, _>>()
    };
    let tools: Vec<Tool> = (0..60)
        .map(|at| tool(&format!("t{at}"), json!({ "properties": many(at), "additionalProperties": false })))
        .collect();
    let mut grammar = grammar_of(tokenizer, grammars, Some(CallForm::MistralArgs), &tools, None).unwrap().unwrap();
    assert_eq!(grammar.loose().len(), tools.len());
    assert!(takes(tokenizer, &mut grammar, &call(CallForm::MistralArgs, "t23", "{\"x\": 1}")));
}

/// Picks among the allowed tokens: whichever, and after a while what comes to an end.
fn pick(tokenizer: &Tokenizer, allowed: &Allowed, step: usize, random: u64) -> u32 {
    let vocabulary = tokenizer.vocabulary();
    let ending = ["<|im_end|>", "\"", "}", "]", "</tool_call>", ":", "1"];
    let ending = ending.iter().filter_map(|text| vocabulary.find(text)).find(|id| allowed.contains(*id));
    if let Some(id) = ending.filter(|_| step > 60) {
        return id;
    }
    let all: Vec<u32> = vocabulary.ids().filter(|id| allowed.contains(*id)).collect();
    assert!(!all.is_empty());
    all[(random % all.len() as u64) as usize]
}

fn is_valid(name: &str, arguments: &Value) -> bool {
    let path = arguments["path"].is_string();
    match name {
        "list_dir" => path && arguments.get("depth").is_none_or(Value::is_number),
        "read" => {
            let keys =
                arguments.as_object().unwrap().keys().all(|key| matches!(key.as_str(), "path" | "lines" | "mode"));
            let is_whole = |line: &Value| line.as_f64().is_some_and(|number| number.fract() == 0.0);
            let lines = arguments.get("lines").is_none_or(|lines| lines.as_array().unwrap().iter().all(is_whole));
            path && keys && lines && arguments.get("mode").is_none_or(|mode| mode == "text" || mode == "hex")
        }
        "now" => arguments.is_object(),
        _ => false,
    }
}

/// Names and arguments of the calls in an answer, each of a tool of the turn.
fn calls_in(form: CallForm, tools: &[Tool], text: &str) -> Vec<(String, String)> {
    let mut reader = CallReader::new(Some(form), tools);
    let mut deltas: Vec<Delta> = text.chars().flat_map(|character| reader.push(&character.to_string())).collect();
    deltas.extend(reader.finish());
    let mut calls = Vec::<(String, String)>::new();
    for delta in deltas {
        if let Delta::Call { name, handle, arguments, .. } = delta {
            if !name.is_empty() {
                assert!(tools.iter().any(|tool| tool.name == name && tool.handle == handle), "{text}");
                calls.push((name, String::new()));
            }
            calls.last_mut().unwrap().1.push_str(&arguments);
        }
    }
    calls
}

/// How many calls have ended in an answer.
fn ended(mut reader: CallReader, pieces: &[String]) -> u32 {
    pieces.iter().for_each(|piece| drop(reader.push(piece)));
    reader.calls()
}

static MADE: LazyLock<(Tokenizer, Grammars)> = LazyLock::new(grammars);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is picked from what is allowed behind the mark: the call parses, names a tool of the turn with its
    /// handle, and its arguments keep to the schema.
    #[test]
    fn whatever_is_picked_is_a_call(seed in any::<u64>(), at in 0..=FORMS.len()) {
        let ((tokenizer, grammars), tools) = (grammars(), tools_with_now());
        let form = FORMS.get(at).copied().unwrap_or(CallForm::Hermes);
        let mut grammar = grammar_of(&tokenizer, &grammars, Some(form), &tools, None).unwrap().unwrap();
        let begin = match at {
            _ if at == FORMS.len() => "```json\n{\"name\": \"read\", \"arguments\":",
            _ if form.is_bare() => "{",
            _ => form.open(),
        };
        let mut answer = tokenizer.encode(begin, Marks::All);
        for id in &answer {
            grammar.accept(*id).unwrap();
        }
        let mut random = seed;
        for step in 0.. {
            prop_assert!(step < 400, "It does not end.");
            let allowed = grammar.allowed().unwrap();
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = pick(&tokenizer, &allowed, step, random >> 33);
            if tokenizer.vocabulary().answer_ends().contains(&id) {
                break;
            }
            grammar.accept(id).unwrap();
            answer.push(id);
        }
        let text = String::from_utf8(Decoder::within(&tokenizer).with_marks().bytes(answer)).unwrap();
        let calls = calls_in(form, &tools, &text);
        prop_assert!(!calls.is_empty(), "{}", text);
        for (name, arguments) in calls {
            match serde_json::from_str(&arguments) {
                Ok(arguments) => prop_assert!(is_valid(&name, &arguments), "{}", text),
                // Schemas do not bound the exponent of a number, and 1e999 is none of 64 bits: who reads the call says so.
                Err(why) => prop_assert!(why.to_string().starts_with("number out of range"), "{}: {}", why, text),
            }
        }
    }
}

/// Parts of answers that look like calls without a mark.
const PARTS: [&str; 35] = [
    "```",
    "```json\n",
    "\n```\n",
    " ",
    "[",
    "]",
    "{",
    "}",
    ",",
    ";",
    "\u{a0}",
    "a",
    "{\"name\": ",
    "\"read\"",
    "\"now\"",
    "{\"name\": \"now\"}",
    "{\"name\": \"now\", \"arguments\": {}}",
    ", \"arguments\": ",
    ", \"name\": ",
    ", \"parameters\": ",
    "{\"name\": \"\\q\"",
    "{\"path\": \"a\"}",
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<|tool_call|>",
    "<|/tool_call|>",
    "{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}",
    "{\"name\": \"read\", \"arguments\": {}}",
    "{\"name\": \"read\", \"parameters\": {\"path\": \"a\"}}",
    "{\"name\": \"re\\u0061d\", \"arguments\": {}}",
    "{\"name\": \"list_dir\", \"arguments\": {\"path\": \"<tool_call>{\\\"\", \"name\": \"read\", \"arguments\": {\"path\": 1}}}",
    "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>",
    "[TOOL_CALLS][{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}]",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// What the grammar lets pass and the reader takes for a call keeps to its tool's schema: where the one sees text the
    /// other sees no call.
    #[test]
    fn what_passes_as_text_is_read_as_text(
        parts in prop::collection::vec(prop::sample::select(&PARTS[..]), 0..7),
        form in prop::sample::select(&FORMS[..]),
    ) {
        let ((tokenizer, grammars), tools, text) = (&*MADE, tools_with_now(), parts.concat());
        let calls = calls_in(form, &tools, &text);
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let reader = || CallReader::new(Some(form), &tools);
        prop_assert_eq!(ended(reader(), std::slice::from_ref(&text)), ended(reader(), &characters), "{}", text);
        let mut grammar = grammar_of(tokenizer, grammars, Some(form), &tools, None).unwrap().unwrap();
        if takes(tokenizer, &mut grammar, &text) {
            for (name, arguments) in calls {
                let arguments: Option<Value> = serde_json::from_str(&arguments).ok();
                prop_assert!(arguments.is_some_and(|arguments| is_valid(&name, &arguments)), "{}", text);
            }
        }
    }
}
