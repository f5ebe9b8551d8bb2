//! A strict validator for a subset of JSON Schema 2020-12.
//!
//! Keywords: `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`,
//! `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `minLength`, `maxLength`,
//! `minItems`, `maxItems`, `anyOf`, `$ref` to `#/$defs/…` and `$defs`; and those that say nothing
//! about validity: `$schema`, `title`, `description`, `default`, `examples`, `contentEncoding`.
//! Any other keyword is rejected: it must not look as if it were checked.

use alloc::format;
use alloc::string::String;
use core::cmp::Ordering;

use serde_json::{Map, Number, Value};

use crate::encode::kind_of;
use crate::error::{Path, ReflectError};

/// How many references may be followed without going deeper into the value.
const MAX_REFERENCES: usize = 16;

/// Checks a value against a schema, after checking the schema with [`check_schema`].
///
/// # Errors
/// If the value does not conform to the schema, with the path in the value; or if the schema uses
/// what is not supported, with the path in the schema.
pub fn validate(schema: &Value, value: &Value) -> Result<(), ReflectError> {
    check_schema(schema)?;
    check(schema, schema, value, &mut Path::default(), 0)
}

/// Checks that a schema uses only the keywords that [`validate`] supports, everywhere in it.
///
/// # Errors
/// Names the keyword and its path.
pub fn check_schema(schema: &Value) -> Result<(), ReflectError> {
    schema_at(schema, schema, &mut Path::default())
}

fn schema_at(root: &Value, schema: &Value, path: &mut Path) -> Result<(), ReflectError> {
    let members = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(members) => members,
        other => return Err(path.error(format!("a schema is an object or a boolean, not {}", kind_of(other)))),
    };
    for (keyword, argument) in members {
        path.name(keyword, |path| keyword_at(root, keyword, argument, path))?;
    }
    Ok(())
}

fn keyword_at(root: &Value, keyword: &str, argument: &Value, path: &mut Path) -> Result<(), ReflectError> {
    let expect = |good: bool, what: &str, path: &Path| {
        if good { Ok(()) } else { Err(path.error(format!("expected {what}"))) }
    };
    match keyword {
        "$schema" | "title" | "description" | "contentEncoding" => expect(argument.is_string(), "a string", path),
        "default" | "examples" | "const" => Ok(()),
        "type" => {
            let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
            let good =
                known(argument) || argument.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(known));
            expect(good, "the name of a JSON type, or several", path)
        }
        "enum" => expect(argument.as_array().is_some_and(|list| !list.is_empty()), "an array of values", path),
        "required" => {
            let good = argument.as_array().is_some_and(|list| list.iter().all(Value::is_string));
            expect(good, "an array of names", path)
        }
        "properties" | "$defs" => {
            let Some(members) = argument.as_object() else { return Err(path.error("expected an object of schemas")) };
            for (name, schema) in members {
                path.name(name, |path| schema_at(root, schema, path))?;
            }
            Ok(())
        }
        "items" | "additionalProperties" => schema_at(root, argument, path),
        "anyOf" => {
            let list = argument.as_array().filter(|list| !list.is_empty());
            let Some(list) = list else { return Err(path.error("expected an array of schemas")) };
            for (at, schema) in list.iter().enumerate() {
                path.index(at, |path| schema_at(root, schema, path))?;
            }
            Ok(())
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            expect(argument.is_number(), "a number", path)
        }
        "minLength" | "maxLength" | "minItems" | "maxItems" => {
            expect(argument.is_u64(), "an integer that is not negative", path)
        }
        "$ref" => expect(resolve(root, argument).is_some(), "`#/$defs/` and the name of a definition", path),
        _ => Err(path.error("this keyword is not supported")),
    }
}

const TYPES: &[&str] = &["null", "boolean", "integer", "number", "string", "array", "object"];

fn resolve<'s>(root: &'s Value, reference: &Value) -> Option<&'s Value> {
    let name = reference.as_str()?.strip_prefix("#/$defs/")?;
    root.get("$defs")?.get(name)
}

fn check(root: &Value, schema: &Value, value: &Value, path: &mut Path, references: usize) -> Result<(), ReflectError> {
    let members = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Object(members) => members,
        _ => return Err(path.error("nothing is allowed here")),
    };
    if let Some(reference) = members.get("$ref") {
        if references >= MAX_REFERENCES {
            return Err(path.error("the schema's references form a cycle"));
        }
        let Some(target) = resolve(root, reference) else {
            return Err(path.error("the schema refers to a definition that it does not have"));
        };
        check(root, target, value, path, references.saturating_add(1))?;
    }
    check_value(members, value, path)?;
    if let Some(options) = members.get("anyOf").and_then(Value::as_array) {
        let mut last = None;
        let fits = options.iter().any(|option| {
            let result = check(root, option, value, path, references.saturating_add(1));
            last = result.err();
            last.is_none()
        });
        if !fits {
            // With one option its own refusal says more.
            return Err(match last {
                Some(error) if options.len() == 1 => error,
                _ => path.error("the value fits none of the allowed forms"),
            });
        }
    }
    match value {
        Value::Object(object) => check_object(root, members, object, path),
        Value::Array(items) => {
            if let Some(schema) = members.get("items") {
                for (at, item) in items.iter().enumerate() {
                    path.index(at, |path| check(root, schema, item, path, 0))?;
                }
            }
            check_count(members, "minItems", "maxItems", "items", items.len(), path)
        }
        Value::String(text) => check_count(members, "minLength", "maxLength", "characters", text.chars().count(), path),
        Value::Number(number) => check_range(members, number, path),
        Value::Null | Value::Bool(_) => Ok(()),
    }
}

/// `type`, `enum` and `const`, which take any value.
fn check_value(members: &Map<String, Value>, value: &Value, path: &Path) -> Result<(), ReflectError> {
    if let Some(wanted) = members.get("type") {
        let fits = match wanted {
            Value::String(name) => is_type(value, name),
            Value::Array(names) => names.iter().filter_map(Value::as_str).any(|name| is_type(value, name)),
            _ => false,
        };
        if !fits {
            return Err(path.error(format!("expected type {wanted}, found {}", kind_of(value))));
        }
    }
    if let Some(allowed) = members.get("enum").and_then(Value::as_array)
        && !allowed.iter().any(|candidate| equal(candidate, value))
    {
        return Err(path.error(format!("expected one of {}", members.get("enum").unwrap_or(&Value::Null))));
    }
    if let Some(wanted) = members.get("const")
        && !equal(wanted, value)
    {
        return Err(path.error(format!("expected {wanted}")));
    }
    Ok(())
}

fn check_object(
    root: &Value,
    members: &Map<String, Value>,
    object: &Map<String, Value>,
    path: &mut Path,
) -> Result<(), ReflectError> {
    for name in members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            return Err(path.error(format!("the member {name:?} is missing")));
        }
    }
    let properties = members.get("properties").and_then(Value::as_object);
    let additional = members.get("additionalProperties");
    for (name, value) in object {
        let schema = properties.and_then(|properties| properties.get(name));
        path.name(name, |path| match (schema, additional) {
            (Some(schema), _) => check(root, schema, value, path, 0),
            (None, Some(Value::Bool(false))) => Err(path.error("there is no member of this name")),
            (None, Some(schema)) => check(root, schema, value, path, 0),
            (None, None) => Ok(()),
        })?;
    }
    Ok(())
}

fn check_count(
    members: &Map<String, Value>,
    least: &str,
    most: &str,
    what: &str,
    count: usize,
    path: &Path,
) -> Result<(), ReflectError> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    if let Some(least) = members.get(least).and_then(Value::as_u64)
        && count < least
    {
        return Err(path.error(format!("expected at least {least} {what}, found {count}")));
    }
    if let Some(most) = members.get(most).and_then(Value::as_u64)
        && count > most
    {
        return Err(path.error(format!("expected at most {most} {what}, found {count}")));
    }
    Ok(())
}

fn check_range(members: &Map<String, Value>, number: &Number, path: &Path) -> Result<(), ReflectError> {
    let limit = |keyword: &str| members.get(keyword).and_then(Value::as_number);
    let order = |keyword: &str| limit(keyword).map(|limit| (limit, compare(number, limit)));
    if let Some((least, Some(Ordering::Less))) = order("minimum") {
        return Err(path.error(format!("{number} is less than {least}")));
    }
    if let Some((most, Some(Ordering::Greater))) = order("maximum") {
        return Err(path.error(format!("{number} is more than {most}")));
    }
    if let Some((least, Some(Ordering::Less | Ordering::Equal))) = order("exclusiveMinimum") {
        return Err(path.error(format!("{number} is not more than {least}")));
    }
    if let Some((most, Some(Ordering::Greater | Ordering::Equal))) = order("exclusiveMaximum") {
        return Err(path.error(format!("{number} is not less than {most}")));
    }
    Ok(())
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_number().is_some_and(is_integer),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// In JSON Schema 1.0 is an integer.
fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|value| value % 1.0 == 0.0)
}

/// Exact for integers of 64 bits.
fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    let wide = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (wide(left), wide(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// Equality as JSON Schema has it: numbers by value.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare(left, right) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, value)| right.get(name).is_some_and(|other| equal(value, other)))
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(schema: &Value, value: &Value) -> String {
        validate(schema, value).unwrap_err().to_string()
    }

    #[test]
    fn what_fits_is_taken_and_what_does_not_is_named() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "description": "a reply",
            "properties": {
                "count": {"type": "integer", "minimum": 0, "maximum": 10},
                "name": {"type": "string", "minLength": 1, "maxLength": 3},
                "kind": {"enum": ["a", "b", 1]},
                "list": {"type": "array", "items": {"type": ["string", "null"]}, "minItems": 1, "maxItems": 2},
                "ratio": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                "fixed": {"const": {"x": [1]}}
            },
            "required": ["count"],
            "additionalProperties": false
        });
        let good =
            json!({"count": 3, "name": "äöü", "kind": 1.0, "list": ["x", null], "ratio": 0.5, "fixed": {"x": [1.0]}});
        assert_eq!(validate(&schema, &good), Ok(()));
        assert_eq!(validate(&schema, &json!({"count": 3.0})), Ok(()));
        for (value, part) in [
            (json!([]), "$: expected type \"object\", found an array"),
            (json!({}), "$: the member \"count\" is missing"),
            (json!({"count": -1}), "$.count: -1 is less than 0"),
            (json!({"count": 11}), "$.count: 11 is more than 10"),
            (json!({"count": 1.5}), "$.count: expected type \"integer\""),
            (json!({"count": 1, "name": ""}), "$.name: expected at least 1 characters"),
            (json!({"count": 1, "name": "abcd"}), "$.name: expected at most 3"),
            (json!({"count": 1, "kind": "c"}), "$.kind: expected one of"),
            (json!({"count": 1, "list": []}), "$.list: expected at least 1 items"),
            (json!({"count": 1, "list": ["a", 1]}), "$.list[1]: expected type"),
            (json!({"count": 1, "list": ["a", "b", "c"]}), "$.list: expected at most 2"),
            (json!({"count": 1, "ratio": 0}), "$.ratio: 0 is not more than 0"),
            (json!({"count": 1, "ratio": 1.0}), "$.ratio: 1.0 is not less than 1"),
            (json!({"count": 1, "fixed": {"x": [2]}}), "$.fixed: expected {"),
            (json!({"count": 1, "more": 1}), "$.more: there is no member"),
        ] {
            let error = refusal(&schema, &value);
            assert!(error.starts_with(part), "{error}");
        }
    }

    #[test]
    fn alternatives_and_definitions() {
        let schema = json!({
            "$ref": "#/$defs/Tree",
            "$defs": {"Tree": {"anyOf": [
                {"type": "integer"},
                {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
            ]}}
        });
        assert_eq!(validate(&schema, &json!([1, [2, [3]]])), Ok(()));
        assert!(refusal(&schema, &json!([1, ["x"]])).contains("none of the allowed forms"));
        let cycle = json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}});
        assert!(refusal(&cycle, &json!(1)).contains("cycle"));
        let cycle = json!({"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}});
        assert!(refusal(&cycle, &json!(1)).contains("cycle"));
    }

    #[test]
    fn integers_are_compared_exactly() {
        let schema = json!({"type": "integer", "maximum": u64::MAX - 1, "minimum": i64::MIN});
        assert_eq!(validate(&schema, &json!(u64::MAX - 1)), Ok(()));
        assert!(validate(&schema, &json!(u64::MAX)).is_err());
        assert_eq!(validate(&schema, &json!(i64::MIN)), Ok(()));
    }

    #[test]
    fn unsupported_keywords_are_refused_wherever_they_are() {
        for (schema, path) in [
            (json!({"pattern": "x"}), "$.pattern"),
            (json!({"properties": {"a": {"format": "date"}}}), "$.properties.a.format"),
            (json!({"anyOf": [true, {"not": {}}]}), "$.anyOf[1].not"),
            (json!({"items": {"oneOf": []}}), "$.items.oneOf"),
            (json!({"$defs": {"x": {"if": true}}}), "$[\"$defs\"].x.if"),
            (json!({"type": "date"}), "$.type"),
            (json!({"type": []}), "$.type"),
            (json!({"required": "a"}), "$.required"),
            (json!({"minimum": "1"}), "$.minimum"),
            (json!({"minLength": -1}), "$.minLength"),
            (json!({"enum": []}), "$.enum"),
            (json!({"$ref": "other.json"}), "$[\"$ref\"]"),
            (json!({"$ref": "#/$defs/none"}), "$[\"$ref\"]"),
            (json!(3), "$"),
        ] {
            let error = refusal(&schema, &json!({}));
            assert!(error.starts_with(&format!("{path}: ")), "{error} is not at {path}");
        }
    }

    #[test]
    fn true_allows_and_false_refuses_everything() {
        assert_eq!(validate(&json!(true), &json!(1)), Ok(()));
        assert!(validate(&json!(false), &json!(1)).is_err());
    }

    #[test]
    fn deep_values_and_schemas_are_refused() {
        let (mut value, mut schema) = (json!(1), json!({}));
        for _ in 0..70 {
            value = json!([value]);
            schema = json!({"items": schema});
        }
        assert!(validate(&schema, &value).is_err());
    }
}
