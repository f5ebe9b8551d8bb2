//! Canonical JSON: members sorted by the bytes of their names, no white space, one line.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The member that has the hash of all others.
const HASH: &str = "hash";

/// The canonical text of a value.
pub(crate) fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The hash of the canonical text of an object with these members, which are no `hash`, and the text with the hash among them.
pub(crate) fn with_hash(members: &Map<String, Value>) -> ([u8; 32], String) {
    let mut out = String::with_capacity(1536);
    let (mut at, mut first) = (1, true);
    object(members, &mut out, &mut |name, end| {
        if name < HASH {
            (at, first) = (end, false);
        }
    });
    let hash = sha256(out.as_bytes());
    let digits = hex::encode(hash);
    let member = match (first, members.is_empty()) {
        (true, true) => alloc::format!("\"{HASH}\":\"{digits}\""),
        (true, false) => alloc::format!("\"{HASH}\":\"{digits}\","),
        (false, _) => alloc::format!(",\"{HASH}\":\"{digits}\""),
    };
    out.insert_str(at, &member);
    (hash, out)
}

/// Writes an object; `wrote` gets the name of each member and where it ends.
fn object(members: &Map<String, Value>, out: &mut String, wrote: &mut dyn FnMut(&str, usize)) {
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
        wrote(name, out.len());
    }
    out.push('}');
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => object(members, out, &mut |_, _| ()),
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
    if text.bytes().any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
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
    fn the_hash_is_where_its_name_belongs() {
        for (others, expected) in [
            ("{}", "{#}"),
            (r#"{"a":1}"#, r#"{"a":1,#}"#),
            (r#"{"z":1}"#, r#"{#,"z":1}"#),
            (r#"{"kind":{"a":1},"fields":{"z":2,"hash":3}}"#, r#"{"fields":{"hash":3,"z":2},#,"kind":{"a":1}}"#),
            (r#"{"hashes":1,"has":2}"#, r#"{"has":2,#,"hashes":1}"#),
        ] {
            let Value::Object(members) = serde_json::from_str(others).unwrap() else { panic!("{others}") };
            let (hash, line) = with_hash(&members);
            assert_eq!(hash, sha256(text(&Value::Object(members)).as_bytes()));
            assert_eq!(line, expected.replace('#', &alloc::format!("\"hash\":\"{}\"", hex::encode(hash))));
        }
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
