//! JSON-RPC 2.0 as the Agent Client Protocol uses it: one object per line.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use agent_client_protocol_schema::v1::{Error, RequestId};
use capos_client_protocol::code;
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Bytes of a line that is taken from the editor. Prompts have a limit of their own.
pub const LINE: usize = 1 << 20;
/// Bytes of the id of a request.
const ID: usize = 256;

/// What the editor sent.
pub enum Message<'a> {
    /// A request.
    Request(RequestId, Cow<'a, str>, Option<&'a RawValue>),
    /// A notification.
    Notification(Cow<'a, str>, Option<&'a RawValue>),
    /// The answer to a request of ours.
    Answer(RequestId, Result<&'a RawValue, String>),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Cow<'a, str>,
    #[serde(default, deserialize_with = "some")]
    id: Option<RequestId>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Failure>,
}

/// An id that is there, `null` included.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<RequestId>, D::Error> {
    RequestId::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
struct Failure {
    #[serde(default)]
    message: String,
}

fn is_long(id: &RequestId) -> bool {
    matches!(id, RequestId::Str(text) if text.len() > ID)
}

/// An error with a message.
pub fn error(code: i32, message: impl Into<String>) -> Error {
    Error::new(code, message)
}

/// Reads a line of the editor.
///
/// # Errors
/// It is no JSON-RPC message: what to answer, and with which id.
pub fn read(line: &[u8]) -> Result<Message<'_>, Box<(RequestId, Error)>> {
    let invalid = |id, message: &str| Err(Box::new((id, error(code::INVALID_REQUEST, message))));
    if line.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return invalid(
            RequestId::Null,
            "a list of messages is not taken: send each as an object in a line of its own",
        );
    }
    let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(|why| {
        let code = if why.is_data() { code::INVALID_REQUEST } else { code::PARSE };
        Box::new((RequestId::Null, error(code, format!("the line is no JSON-RPC 2.0 message: {why}"))))
    })?;
    let Envelope { jsonrpc, id, method, params, result, error: failure } = envelope;
    if jsonrpc != "2.0" {
        return invalid(RequestId::Null, "the member jsonrpc is not \"2.0\": send JSON-RPC 2.0");
    }
    if id.as_ref().is_some_and(is_long) {
        return invalid(RequestId::Null, "the id is longer than 256 bytes");
    }
    match (method, id) {
        (Some(_), Some(RequestId::Null)) => {
            invalid(RequestId::Null, "the id of a request is null: use a number or a text")
        }
        (Some(method), Some(id)) => Ok(Message::Request(id, method, params)),
        (Some(method), None) => Ok(Message::Notification(method, params)),
        (None, Some(id)) => match (result, failure) {
            (Some(result), None) => Ok(Message::Answer(id, Ok(result))),
            (None, Some(failure)) => Ok(Message::Answer(id, Err(failure.message))),
            _ => invalid(RequestId::Null, "an answer has either result or error, and a request has a method"),
        },
        (None, None) => invalid(RequestId::Null, "the member method is missing"),
    }
}

/// The id of a request of which this is the beginning, if its id and its method stand there.
#[must_use]
pub fn id_of(beginning: &[u8]) -> Option<RequestId> {
    let begun = Begun::default();
    // The line was cut off, so it cannot be read to its end.
    drop((&begun).deserialize(&mut serde_json::Deserializer::from_slice(beginning)));
    begun.id.take().filter(|id| begun.has_method.get() && !is_long(id))
}

/// The members at the beginning of an object.
#[derive(Default)]
struct Begun {
    id: Cell<Option<RequestId>>,
    has_method: Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for &Begun {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &Begun {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            match &*name {
                "id" => self.id.set(Some(members.next_value()?)),
                "method" => {
                    members.next_value::<IgnoredAny>()?;
                    self.has_method.set(true);
                }
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Reads parameters. Absent ones are an empty object.
///
/// # Errors
/// They are not the method's.
pub fn params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, Error> {
    serde_json::from_str(params.map_or("{}", RawValue::get))
        .map_err(|why| error(code::INVALID_PARAMS, format!("the parameters cannot be read: {why}")))
}

#[derive(Serialize)]
struct Line<'a, P, R> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Error>,
}

fn line<P: Serialize, R: Serialize>(line: &Line<'_, P, R>) -> String {
    // A path that is no UTF-8 would fail; paths here come from JSON.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text
}

const EMPTY: Line<'static, (), ()> =
    Line { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None };

/// The line that answers a request.
pub fn result_line<R: Serialize>(id: &RequestId, result: &R) -> String {
    line(&Line::<(), &R> {
        jsonrpc: "2.0",
        id: Some(id),
        method: None,
        params: None,
        result: Some(result),
        error: None,
    })
}

/// The line that says why a request was not done.
pub fn error_line(id: &RequestId, error: &Error) -> String {
    line(&Line { id: Some(id), error: Some(error), ..EMPTY })
}

/// The line of a request to the editor.
pub fn request_line<P: Serialize>(id: i64, method: &str, params: &P) -> String {
    let id = RequestId::Number(id);
    let (method, params) = (Some(method), Some(params));
    line(&Line::<&P, ()> { jsonrpc: "2.0", id: Some(&id), method, params, result: None, error: None })
}

/// The line of a notification to the editor.
pub fn notification_line<P: Serialize>(method: &str, params: &P) -> String {
    let (method, params) = (Some(method), Some(params));
    line(&Line::<&P, ()> { jsonrpc: "2.0", id: None, method, params, result: None, error: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_line_has_an_error() {
        for (line, code, part) in [
            ("x", code::PARSE, "no JSON-RPC"),
            ("[]", code::INVALID_REQUEST, "list"),
            ("1", code::INVALID_REQUEST, "no JSON-RPC"),
            (r#"{"id":1,"method":"x"}"#, code::INVALID_REQUEST, "2.0"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, code::INVALID_REQUEST, "null"),
            (r#"{"jsonrpc":"2.0"}"#, code::INVALID_REQUEST, "method is missing"),
            (r#"{"jsonrpc":"2.0","id":1}"#, code::INVALID_REQUEST, "either"),
        ] {
            let Err(why) = read(line.as_bytes()) else { panic!("{line} was taken") };
            let (id, error) = *why;
            assert_eq!((i32::from(error.code), id), (code, RequestId::Null), "{line}");
            assert!(error.message.contains(part), "{line}: {}", error.message);
        }
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        let line = request_line(3, "m", &[1]);
        let Ok(Message::Request(RequestId::Number(3), method, Some(params))) = read(line.trim().as_bytes()) else {
            panic!("{line}")
        };
        assert_eq!((method.as_ref(), params.get()), ("m", "[1]"));
        assert!(matches!(read(notification_line("n", &()).trim().as_bytes()), Ok(Message::Notification(..))));
        assert!(matches!(
            read(result_line(&RequestId::Number(1), &"r").trim().as_bytes()),
            Ok(Message::Answer(_, Ok(_)))
        ));
        let failed = error_line(&RequestId::Null, &error(-1, "why"));
        assert!(
            matches!(read(failed.trim().as_bytes()), Ok(Message::Answer(RequestId::Null, Err(why))) if why == "why")
        );
    }
}
