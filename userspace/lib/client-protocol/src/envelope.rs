//! The parts that all messages have. They are read first, without keeping the rest.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::fmt;

use serde::de::{IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};

use crate::limits;
use crate::rpc::{Id, RpcError, code, why};

/// A member that is read later, or not at all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Member {
    #[default]
    Absent,
    Object,
    Null,
    Other,
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Kind;
        impl<'de> Visitor<'de> for Kind {
            type Value = Member;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("any value")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Member, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Member::Object)
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Member, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Member::Other)
            }
            fn visit_unit<E>(self) -> Result<Member, E> {
                Ok(Member::Null)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Member, E> {
                Ok(Member::Other)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Member, E> {
                Ok(Member::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Member, E> {
                Ok(Member::Other)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Member, E> {
                Ok(Member::Other)
            }
            fn visit_str<E>(self, _: &str) -> Result<Member, E> {
                Ok(Member::Other)
            }
        }
        deserializer.deserialize_any(Kind)
    }
}

/// The id as it came: a bad one is an error of the request and not of the whole line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RawId {
    #[default]
    Absent,
    Null,
    Id(Id),
    Bad,
}

impl<'de> Deserialize<'de> for RawId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = RawId;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("any value")
            }
            fn visit_unit<E>(self) -> Result<RawId, E> {
                Ok(RawId::Null)
            }
            fn visit_i64<E>(self, value: i64) -> Result<RawId, E> {
                Ok(RawId::Id(Id::Number(value)))
            }
            fn visit_u64<E>(self, value: u64) -> Result<RawId, E> {
                Ok(i64::try_from(value).map_or(RawId::Bad, |number| RawId::Id(Id::Number(number))))
            }
            fn visit_str<E>(self, value: &str) -> Result<RawId, E> {
                Ok(if value.len() <= limits::ID { RawId::Id(Id::Text(value.into())) } else { RawId::Bad })
            }
            fn visit_f64<E>(self, _: f64) -> Result<RawId, E> {
                Ok(RawId::Bad)
            }
            fn visit_bool<E>(self, _: bool) -> Result<RawId, E> {
                Ok(RawId::Bad)
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<RawId, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(RawId::Bad)
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<RawId, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(RawId::Bad)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A message without what its method decides.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub jsonrpc: Cow<'a, str>,
    #[serde(default)]
    pub id: RawId,
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    #[serde(default)]
    pub params: Member,
    #[serde(default)]
    pub result: Member,
    #[serde(default)]
    pub error: Option<RpcError>,
}

/// A member of a line, read as a type.
#[derive(Deserialize)]
pub(crate) struct WithParams<T> {
    pub params: T,
}

/// The result of a line, read as a type.
#[derive(Deserialize)]
pub(crate) struct WithResult<T> {
    pub result: T,
}

/// Reads the envelope of a line.
pub(crate) fn envelope(line: &[u8]) -> Result<Envelope<'_>, RpcError> {
    if line.len() > limits::LINE {
        let message = format!("the line has {} bytes; send at most {}", line.len(), limits::LINE);
        return Err(RpcError::new(code::INVALID_REQUEST, message));
    }
    if depth(line) > limits::NESTING {
        let message = format!("the line is nested deeper than {} levels; send it flatter", limits::NESTING);
        return Err(RpcError::new(code::PARSE, message));
    }
    let first = line.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'[') {
        // It may be no JSON at all, which makes no difference to what to do.
        let message = "a list of requests is not taken: send each request as an object in a line of its own";
        return Err(RpcError::new(code::INVALID_REQUEST, message));
    }
    let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(|error| {
        let (code, what) = if error.is_data() {
            (code::INVALID_REQUEST, "the line is no JSON-RPC 2.0 message")
        } else {
            (code::PARSE, "the line is not one JSON object")
        };
        RpcError::new(code, format!("{what}: {}", why(&error)))
    })?;
    if envelope.jsonrpc != "2.0" {
        let message = "the member jsonrpc is not \"2.0\": send JSON-RPC 2.0";
        return Err(RpcError::new(code::INVALID_REQUEST, message));
    }
    Ok(envelope)
}

/// How deep objects and lists are inside each other.
fn depth(line: &[u8]) -> usize {
    let (mut depth, mut most) = (0_usize, 0_usize);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in line {
        match (is_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (true, b'"') => is_text = false,
            (false, b'"') => is_text = true,
            (false, b'{' | b'[') => {
                depth = depth.saturating_add(1);
                most = most.max(depth);
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// The first bytes of a text that stands in a message.
pub(crate) fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(limits::NAME);
    text.get(..end).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_outside_of_texts() {
        for (line, found) in
            [("1", 0), ("{}", 1), ("[[],[[]]]", 3), (r#"{"[[[\"[[":[]}"#, 2), ("]]]]", 0), (r#""\\"[["#, 2)]
        {
            assert_eq!(depth(line.as_bytes()), found, "{line}");
        }
    }
}
