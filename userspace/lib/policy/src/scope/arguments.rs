//! Reading single members of a call's arguments without the rest.
//!
//! Arguments are as long as a message, and as a tree of values they take a hundred times that. So a caller that asks
//! the broker about a call could make it run out of memory.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Elements of a list at most, before it counts as something else.
const MOST: usize = 1024;

/// What a member is, as far as rules look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    Bool(bool),
    Other,
}

/// A member of an object, and whether the object has several with its name. The last one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub value: Member,
    pub doubled: bool,
}

/// The members with these names of the JSON object `text`.
///
/// # Errors
/// It is not a JSON object.
pub(crate) fn members(
    text: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Found>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = reader.deserialize_map(Members(is_wanted))?;
    reader.end()?;
    Ok(found)
}

/// The same, each as the text that it is, or `None` if it is something else.
///
/// # Errors
/// It is not a JSON object.
pub(crate) fn texts(
    text: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Option<String>>, serde_json::Error> {
    let of = |found: Found| match found.value {
        Member::Text(text) => Some(text),
        Member::Texts(_) | Member::Bool(_) | Member::Other => None,
    };
    Ok(members(text, is_wanted)?.into_iter().map(|(name, found)| (name, of(found))).collect())
}

struct Members<F>(F);

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for Members<F> {
    type Value = BTreeMap<String, Found>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found: Self::Value = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if (self.0)(&name) {
                let value = map.next_value_seed(Value)?;
                let doubled = found.contains_key(&name);
                found.insert(name, Found { value, doubled });
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Any value.
struct Value;

impl<'de> DeserializeSeed<'de> for Value {
    type Value = Member;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Member::Text(text.into()))
    }

    fn visit_bool<E>(self, is: bool) -> Result<Self::Value, E> {
        Ok(Member::Bool(is))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Member::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Member::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Member::Other)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Member::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut texts = Some(Vec::new());
        while let Some(element) = seq.next_element_seed(Element)? {
            texts = match (texts, element) {
                (Some(mut texts), Some(text)) if texts.len() < MOST => {
                    texts.push(text);
                    Some(texts)
                }
                _ => None,
            };
        }
        Ok(texts.map_or(Member::Other, Member::Texts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Member::Other)
    }
}

/// An element of a list, if it is a text. A list in it is skipped, however deep it is.
struct Element;

impl<'de> DeserializeSeed<'de> for Element {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element {
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
    #![allow(clippy::unwrap_used)]
    use super::*;
    use alloc::format;
    use proptest::prelude::*;
    use serde_json::Value as Tree;

    /// The same from a tree of values.
    fn by_tree(text: &str, name: &str) -> Option<Option<Option<String>>> {
        let tree: Tree = serde_json::from_str(text).ok().filter(Tree::is_object)?;
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

    #[test]
    fn lists_flags_and_doubled_members_are_told_apart() {
        let long = format!("{{\"a\":[{}\"x\"]}}", "\"x\",".repeat(MOST));
        for (text, value, doubled) in [
            (r#"{"a":["x","y"]}"#, Member::Texts(["x", "y"].map(String::from).into()), false),
            (r#"{"a":[]}"#, Member::Texts(Vec::new()), false),
            (r#"{"a":["x",1]}"#, Member::Other, false),
            (r#"{"a":["x",["y"],{"z":1},null,true,-1,1.5]}"#, Member::Other, false),
            (r#"{"a":true}"#, Member::Bool(true), false),
            (r#"{"a":"x","\u0061":"y"}"#, Member::Text("y".into()), true),
            (long.as_str(), Member::Other, false),
        ] {
            let found = members(text, |member| member == "a").unwrap().remove("a").unwrap();
            assert_eq!(found, Found { value, doubled }, "{}", text.get(..40).unwrap_or(text));
        }
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
