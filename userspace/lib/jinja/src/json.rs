//! Values as Python's `json.dumps` writes them.

use crate::Error;
use crate::machine::Machine;
use crate::number;
use crate::text::{Char, push_own};
use crate::value::Value;

/// Options of `json.dumps`.
pub struct Options {
    pub indent: Option<Vec<Char>>,
    pub ascii: bool,
    pub sorted: bool,
    /// Between values, and between a key and its value.
    pub separators: [Vec<Char>; 2],
}

impl Machine<'_> {
    pub fn json(&mut self, value: &Value, options: &Options) -> Result<Vec<Char>, Error> {
        self.spend_value(value)?;
        let mut out = Vec::new();
        self.write_json(value, options, 1, &mut out)?;
        Ok(out)
    }

    fn write_json(&mut self, value: &Value, options: &Options, level: usize, out: &mut Vec<Char>) -> Result<(), Error> {
        match value {
            Value::None => push_own(out, "null"),
            Value::Bool(value) => push_own(out, if *value { "true" } else { "false" }),
            Value::Int(value) => push_own(out, &value.to_string()),
            Value::Float(value) => push_own(out, &written(*value)),
            Value::Text(text) => {
                self.spend_text(text.chars().len())?;
                quoted(text.chars(), options.ascii, out);
            }
            Value::List(list) | Value::Tuple(list) => {
                push_own(out, "[");
                for (at, item) in list.items().iter().enumerate() {
                    self.between(options, level, at, out)?;
                    self.write_json(item, options, level.saturating_add(1), out)?;
                }
                self.close("]", list.items().is_empty(), options, level, out)?;
            }
            Value::Dict(dict) => {
                push_own(out, "{");
                let mut entries: Vec<&(Value, Value)> = dict.entries().iter().collect();
                if options.sorted {
                    if entries.iter().zip(entries.iter().skip(1)).any(|(a, b)| a.0.order(&b.0).is_none()) {
                        return Err(Error::failed("keys of different kinds cannot be sorted"));
                    }
                    entries.sort_by(|a, b| a.0.order(&b.0).unwrap_or(std::cmp::Ordering::Equal));
                }
                for (at, (key, value)) in entries.into_iter().enumerate() {
                    self.between(options, level, at, out)?;
                    match key {
                        Value::Text(text) => quoted(text.chars(), options.ascii, out),
                        Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                            push_own(out, "\"");
                            self.write_json(key, options, level, out)?;
                            push_own(out, "\"");
                        }
                        other => return Err(Error::failed(format!("a key of JSON cannot be a {}", other.kind()))),
                    }
                    let [_, colon] = &options.separators;
                    self.push(out, colon)?;
                    self.write_json(value, options, level.saturating_add(1), out)?;
                }
                self.close("}", dict.entries().is_empty(), options, level, out)?;
            }
            other => return Err(Error::failed(format!("Object of type {} is not JSON serializable", other.kind()))),
        }
        Ok(())
    }

    fn between(&mut self, options: &Options, level: usize, at: usize, out: &mut Vec<Char>) -> Result<(), Error> {
        let [comma, _] = &options.separators;
        if at > 0 {
            self.push(out, comma)?;
        }
        self.line(options, level, out)
    }

    fn close(
        &mut self,
        end: &str,
        empty: bool,
        options: &Options,
        level: usize,
        out: &mut Vec<Char>,
    ) -> Result<(), Error> {
        if !empty {
            self.line(options, level.saturating_sub(1), out)?;
        }
        push_own(out, end);
        Ok(())
    }

    fn line(&mut self, options: &Options, level: usize, out: &mut Vec<Char>) -> Result<(), Error> {
        let Some(indent) = &options.indent else { return Ok(()) };
        out.push(Char::own('\n'));
        for _ in 0..level {
            self.push(out, indent)?;
        }
        Ok(())
    }
}

fn written(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        value => number::float(value),
    }
}

fn quoted(text: &[Char], ascii: bool, out: &mut Vec<Char>) {
    out.push(Char::own('"'));
    for c in text {
        let escape = match c.get() {
            '"' => "\\\"".into(),
            '\\' => "\\\\".into(),
            '\n' => "\\n".into(),
            '\r' => "\\r".into(),
            '\t' => "\\t".into(),
            '\x08' => "\\b".into(),
            '\x0c' => "\\f".into(),
            control @ ..'\x20' => format!("\\u{:04x}", u32::from(control)),
            other if ascii && !other.is_ascii() => {
                let mut units = [0u16; 2];
                other.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }
            _ => {
                out.push(*c);
                continue;
            }
        };
        out.extend(escape.chars().map(|escaped| c.with(escaped)));
    }
    out.push(Char::own('"'));
}
