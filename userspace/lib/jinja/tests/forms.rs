//! Forms of templates, compared with what jinja2 makes of them (`tests/infer/make_forms.py`).

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

use capos_jinja::{Host, Limits, Template, Value};
use serde_json::Value as Json;

const LIMITS: Limits = Limits { steps: 1_000_000, text: 1 << 20, depth: 200 };

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::None,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number.into()),
            (_, Some(number)) => Value::Int(number.into()),
            _ => Value::Float(number.as_f64().unwrap()),
        },
        Json::String(text) => Value::foreign(text),
        Json::Array(items) => Value::list(items.iter().map(value).collect()),
        Json::Object(members) => {
            Value::dict(members.iter().map(|(key, member)| (Value::own(key), value(member))).collect())
        }
    }
}

fn forms() -> Json {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/infer/forms.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn render(source: &str, values: &Json) -> Result<String, String> {
    let template = Template::new(source).map_err(|error| error.to_string())?;
    let values = values.as_object().unwrap().iter().map(|(name, found)| (name.as_str(), value(found))).collect();
    let made = template.render(values, Host { now: Some(1_767_225_600) }, LIMITS).map_err(|error| error.to_string())?;
    Ok(made.iter().map(|c| c.get()).collect())
}

#[test]
fn forms_of_templates_give_what_jinja2_gives() {
    let forms = forms();
    let mut wrong = Vec::new();
    let cases = forms["cases"].as_array().unwrap();
    for case in cases {
        let source = case["source"].as_str().unwrap();
        let made = render(source, &forms["values"]);
        let right = match &case["text"] {
            Json::String(text) => made.as_deref() == Ok(text),
            _ => made.is_err(),
        };
        if !right {
            wrong.push(format!("{source}\n   expected {case}\n   made     {made:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(cases.len() > 200);
}
