//! Reading single members of a call's arguments without the rest.
//!
//! Arguments are as long as a message, and as a tree of values they take a hundred times that. So a caller that asks
//! the broker about a call could make it run out of memory.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The members with these names of the JSON object `text`, each as the text that it is, or `None` if it is something
/// else. The last of several members with one name counts.
///
/// # Errors
/// It is not a JSON object.
pub(crate) fn texts(
    text: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Option<String>>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = reader.deserialize_map(Members(is_wanted))?;
    reader.end()?;
    Ok(found)
}

struct Members<F>(F);

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for Members<F> {
    type Value = BTreeMap<String, Option<String>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if (self.0)(&name) {
                let value = map.next_value_seed(Text)?;
                found.insert(name, value);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// A text; `None` if it is not one.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(text.into()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;
    use serde_json::Value;

    /// The same from a tree of values.
    fn by_tree(text: &str, name: &str) -> Option<Option<Option<String>>> {
        let tree: Value = serde_json::from_str(text).ok().filter(Value::is_object)?;
        Some(tree.get(name).map(|value| value.as_str().map(String::from)))
    }

    fn by_members(text: &str, name: &str) -> Option<Option<Option<String>>> {
        Some(texts(text, |member| member == name).ok()?.remove(name))
    }

    #[test]
    fn members_are_those_of_the_tree() {
        for text in [
            r#"{"name":"ramfs"}"#,
            r#"{"name":"hello","name":"ramfs"}"#,
            r#"{"name":"ramfs","name":1}"#,
            r#"{"na\u006de":"ra\u006dfs"}"#,
            r#"{"other":{"name":"hello"},"name":[{"name":"a"},1.5,null,true,-1]}"#,
            r#"{"name":{"name":"a"}}"#,
            r#"{"name":null}"#,
            r#"{"name":"ramfs"} "#,
            r#"{"name":"ramfs"}x"#,
            r#"{"name":"ramfs""#,
            r#"["name"]"#,
            "\"name\"",
            "{}",
            "",
        ] {
            assert_eq!(by_members(text, "name"), by_tree(text, "name"), "{text}");
        }
        // A member that is deeper than a tree may be is skipped, and the next one is read.
        let deep = format!("{{\"other\":{}0{},\"name\":\"ramfs\"}}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(by_members(&deep, "name"), Some(Some(Some("ramfs".into()))));
    }

    proptest! {
        /// Holds for any bytes that look like JSON, except numbers and escapes that no value can hold: members that are
        /// not requested are not checked so closely.
        #[test]
        fn any_text_is_read_alike(text in r#"[{}\[\]":,0-9a-dn-tv-z\\ ]{0,40}"#, member in "(\\{\"(a|b)\":(\"[a-z]*\"|1|\\[\\]|null)(,\"a\":(\"x\"|2))?\\})") {
            for text in [&text, &member] {
                prop_assert_eq!(by_members(text, "a"), by_tree(text, "a"));
            }
        }
    }
}
