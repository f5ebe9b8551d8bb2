//! Canonical JSON: members sorted by the bytes of their names, no white space, one line.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The canonical text of a value.
pub(crate) fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// SHA-256 of the canonical text of an object without its member `hash`.
pub(crate) fn hash(value: &Value) -> [u8; 32] {
    let mut bare = value.clone();
    if let Some(object) = bare.as_object_mut() {
        object.remove("hash");
    }
    sha256(text(&bare).as_bytes())
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (at, (name, member)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
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
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_sorted_at_every_depth() {
        let value: Value = serde_json::from_str(r#"{"b":[{"z":1,"a":"\u001b\n"}],"a":true}"#).unwrap();
        assert_eq!(text(&value), r#"{"a":true,"b":[{"a":"\u001b\n","z":1}]}"#);
    }
}
