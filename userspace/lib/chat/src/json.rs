//! JSON as Python writes it, which is what models were trained with: a space after commas and colons.

use std::io;

use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Writes `{"a": 1, "b": [2, 3]}`.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// A value on one line, or on several with `indent` spaces for each level.
pub fn write(value: &Value, indent: Option<usize>) -> String {
    use serde::Serialize;
    let mut out = Vec::new();
    let written = match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut out, Spaced)),
        Some(width) => {
            let spaces = " ".repeat(width.min(16));
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut out, formatter))
        }
    };
    // Values of JSON always can be written to memory.
    written.map_or_else(|_| String::new(), |()| String::from_utf8(out).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn as_python_does() {
        let value = json!({ "b": [1, 2.5, "ü<'&"], "a": {}, "n": null });
        assert_eq!(super::write(&value, None), "{\"b\": [1, 2.5, \"ü<'&\"], \"a\": {}, \"n\": null}");
        let lines = "{\n  \"b\": [\n    1,\n    2.5,\n    \"ü<'&\"\n  ],\n  \"a\": {},\n  \"n\": null\n}";
        assert_eq!(super::write(&value, Some(2)), lines);
    }
}
