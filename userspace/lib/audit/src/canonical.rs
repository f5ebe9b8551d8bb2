//! Canonical JSON: members sorted by the bytes of their names, no white space, one line.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The canonical text of a value.
pub(crate) fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The canonical text of an object with these members.
pub(crate) fn members(members: &Map<String, Value>) -> String {
    let mut out = String::with_capacity(1024);
    object(members, &mut out);
    out
}

fn object(members: &Map<String, Value>, out: &mut String) {
    let mut members: Vec<(&String, &Value)> = members.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    out.push('{');
    for (at, (name, member)) in members.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        quote(name, out);
        out.push(':');
        write(member, out);
    }
    out.push('}');
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => object(members, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::String(text) => quote(text, out),
        plain => out.push_str(&plain.to_string()),
    }
}

/// A text in quotes.
fn quote(text: &str, out: &mut String) {
    if text.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        return out.push_str(&Value::from(text).to_string());
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_sorted_at_every_depth() {
        let value: Value = serde_json::from_str(r#"{"b":[{"z":1,"a":"\u001b\n"}],"a":true}"#).unwrap();
        assert_eq!(text(&value), r#"{"a":true,"b":[{"a":"\u001b\n","z":1}]}"#);
    }

    #[test]
    fn texts_are_written_as_serde_writes_them() {
        for letter in (0..0x300).filter_map(char::from_u32) {
            for text in [letter.to_string(), alloc::format!("a{letter}b")] {
                assert_eq!(super::text(&Value::from(text.as_str())), Value::from(text).to_string());
            }
        }
    }
}
