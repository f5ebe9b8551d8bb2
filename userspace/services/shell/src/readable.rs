//! Results of tools as a person reads them. The model is sent them as they are.

use alloc::string::{String, ToString};
use core::sync::atomic::{AtomicI16, Ordering};

use serde_json::{Map, Value};

/// What names of times end with, which are numbers of seconds since 1970.
const SECONDS: &str = "Unix";

/// A result that is JSON, on one line, with dates instead of times in seconds. Anything else is unchanged.
pub fn readable(text: &str) -> String {
    structured(text).map_or_else(|| text.to_string(), |value| value.to_string())
}

/// The same on as many lines as it has members.
pub fn laid_out(text: &str) -> String {
    let pretty = structured(text).and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.unwrap_or_else(|| text.to_string())
}

/// The value of a result that is structured and written in the system's form. A file's text is shown unchanged.
fn structured(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    let written = value.to_string();
    (value.is_object() && written == text).then(|| dated(value))
}

fn dated(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(dated).collect()),
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| match (name.strip_suffix(SECONDS), value.as_u64()) {
                (Some(short), Some(seconds)) => (short.to_string(), Value::String(date(seconds))),
                _ => (name, dated(value)),
            });
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// A time in seconds since 1970 as a text.
fn date(seconds: u64) -> String {
    if seconds == 0 {
        return "unknown".to_string();
    }
    date_of(seconds.saturating_mul(1_000_000_000))
}

/// A time in nanoseconds since 1970 as a text.
pub fn date_of(nanoseconds: u64) -> String {
    capos_audit::local(nanoseconds, offset())
}

/// Minutes by which the time of the person at this terminal is ahead of UTC, as the setting `session.utc_offset` says.
static OFFSET: AtomicI16 = AtomicI16::new(0);

/// Times are shown and read at this offset from now on.
pub fn set_offset(minutes: i16) {
    OFFSET.store(minutes, Ordering::Relaxed);
}

/// The offset at which times are shown and read.
pub fn offset() -> i16 {
    OFFSET.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_and_the_rest_stays() {
        let entries = r#"{"entries":[{"bytes":5,"modifiedUnix":1795251907,"name":"a"},{"modifiedUnix":0}]}"#;
        assert_eq!(
            readable(entries),
            r#"{"entries":[{"bytes":5,"modified":"2026-11-21 09:05:07 UTC","name":"a"},{"modified":"unknown"}]}"#
        );
        for same in ["Welcome.\n", "5", r#"{"modifiedUnix":"x"}"#, r#"{"aUnix": 2}"#, r#"{"modifiedUnix":17952519"#] {
            assert_eq!(readable(same), same);
        }
    }

    #[test]
    fn structure_has_lines_of_its_own() {
        assert_eq!(laid_out("{\"a\":1,\"b\":[\"x\"]}"), "{\n  \"a\": 1,\n  \"b\": [\n    \"x\"\n  ]\n}");
        assert_eq!(laid_out("one\ntwo"), "one\ntwo");
    }
}
