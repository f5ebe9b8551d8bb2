//! JSON text to a value, strictly.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{ReflectError, short};

/// Longest text that is taken, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// A JSON value from text. Unlike `serde_json`'s own, an object that names a member twice is refused:
/// two readers could understand it differently. Members are sorted by name, so that one value has one text.
///
/// # Errors
/// Not JSON, longer than [`MAX_TEXT`], deeper than [`crate::MAX_DEPTH`], or a duplicate name.
pub fn parse(text: &str) -> Result<Value, ReflectError> {
    if text.len() > MAX_TEXT {
        return Err(ReflectError::whole("the text is longer than 1 MiB"));
    }
    let Strict(mut value) =
        serde_json::from_str(text).map_err(|error| ReflectError::whole(alloc::format!("not JSON: {error}")))?;
    if !depth(&value, crate::MAX_DEPTH) {
        return Err(ReflectError::whole("nested deeper than 64 levels"));
    }
    // `serde_json` keeps the order of the text if any crate of the build asks it to.
    value.sort_all_objects();
    Ok(value)
}

fn depth(value: &Value, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else { return !value.is_array() && !value.is_object() };
    match value {
        Value::Array(items) => items.iter().all(|item| depth(item, left)),
        Value::Object(members) => members.values().all(|member| depth(member, left)),
        _ => true,
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_string()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let Strict(value) = access.next_value()?;
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the name {:?} appears twice", short(&name))));
            }
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_one_text() {
        assert_eq!(parse(r#"{"b":1,"a":[{"d":2,"c":3}]}"#).unwrap().to_string(), r#"{"a":[{"c":3,"d":2}],"b":1}"#);
    }

    #[test]
    fn ordinary_text_is_taken() {
        let value = parse(r#"{"a":[1,-2,3.5,"x",null,true],"b":{}}"#).unwrap();
        assert_eq!(value, serde_json::json!({"a": [1, -2, 3.5, "x", null, true], "b": {}}));
    }

    #[test]
    fn duplicates_depth_length_and_garbage_are_refused() {
        for (text, part) in [
            (r#"{"a":1,"a":2}"#.to_string(), "appears twice"),
            (r#"{"x":{"a":1,"\u0061":2}}"#.to_string(), "appears twice"),
            ("[".repeat(65) + &"]".repeat(65), "deeper"),
            ("[".repeat(100_000), "not JSON"),
            ("\"".to_string() + &"x".repeat(MAX_TEXT) + "\"", "longer"),
            ("{} {}".to_string(), "not JSON"),
            ("1e999".to_string(), "not JSON"),
            ("NaN".to_string(), "not JSON"),
            (String::new(), "not JSON"),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(parse(&("[".repeat(64) + &"]".repeat(64))).is_ok());
    }
}
