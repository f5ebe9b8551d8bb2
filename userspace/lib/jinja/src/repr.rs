//! Values as Python's `str` and `repr` write them.

use crate::number;
use crate::text::{Char, push_own};
use crate::value::{Made, Value};

/// `str(value)`.
pub fn str(value: &Value, out: &mut Vec<Char>) {
    match value {
        Value::Undefined(_) => {}
        Value::Text(text) => out.extend_from_slice(text.chars()),
        other => repr(other, out),
    }
}

/// `repr(value)`.
pub fn repr(value: &Value, out: &mut Vec<Char>) {
    match value {
        Value::Undefined(_) => push_own(out, "Undefined"),
        Value::None => push_own(out, "None"),
        Value::Bool(value) => push_own(out, if *value { "True" } else { "False" }),
        Value::Int(value) => push_own(out, &value.to_string()),
        Value::Float(value) => push_own(out, &number::float(*value)),
        Value::Text(text) => quoted(text.chars(), out),
        Value::List(list) => sequence("[", list.items(), "]", out),
        Value::Tuple(list) if list.items().len() == 1 => sequence("(", list.items(), ",)", out),
        Value::Tuple(list) => sequence("(", list.items(), ")", out),
        Value::Dict(dict) => {
            push_own(out, "{");
            for (at, (key, value)) in dict.entries().iter().enumerate() {
                push_own(out, if at == 0 { "" } else { ", " });
                repr(key, out);
                push_own(out, ": ");
                repr(value, out);
            }
            push_own(out, "}");
        }
        Value::Made(Made::View(view)) if view.is_range => push_own(out, &view.name),
        Value::Made(Made::View(view)) => {
            push_own(out, &format!("{}(", view.name));
            sequence("[", view.items.items(), "])", out);
        }
        Value::Made(Made::Iterator(items)) => push_own(out, &format!("<{}>", items.name)),
        Value::Made(_) => push_own(out, &format!("<{}>", value.kind())),
    }
}

fn sequence(begin: &str, items: &[Value], end: &str, out: &mut Vec<Char>) {
    push_own(out, begin);
    for (at, item) in items.iter().enumerate() {
        push_own(out, if at == 0 { "" } else { ", " });
        repr(item, out);
    }
    push_own(out, end);
}

/// A text in quotes, with escapes.
fn quoted(text: &[Char], out: &mut Vec<Char>) {
    let has = |quote: char| text.iter().any(|c| *c == quote);
    let quote = if has('\'') && !has('"') { '"' } else { '\'' };
    out.push(Char::own(quote));
    for c in text {
        let escape = match c.get() {
            '\n' => "\\n".into(),
            '\r' => "\\r".into(),
            '\t' => "\\t".into(),
            '\\' => "\\\\".into(),
            other if other == quote => format!("\\{quote}"),
            ' '..='~' => String::new(),
            other if is_printable(other) => String::new(),
            other => match u32::from(other) {
                code @ ..=0xff => format!("\\x{code:02x}"),
                code @ ..=0xffff => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            },
        };
        if escape.is_empty() {
            out.push(*c);
        }
        out.extend(escape.chars().map(|escaped| c.with(escaped)));
    }
    out.push(Char::own(quote));
}

/// Whether a text shows a character unchanged. Rust's rules are Python's, except that marks that join the character
/// before them count as printable there.
fn is_printable(character: char) -> bool {
    let joins = JOINING.iter().any(|(first, last)| (*first..=*last).contains(&character));
    joins || character.escape_debug().count() == 1
}

/// Blocks of marks that join the character before them.
const JOINING: [(char, char); 18] = [
    ('\u{300}', '\u{36f}'),
    ('\u{483}', '\u{489}'),
    ('\u{591}', '\u{5bd}'),
    ('\u{64b}', '\u{65f}'),
    ('\u{6d6}', '\u{6dc}'),
    ('\u{900}', '\u{903}'),
    ('\u{93a}', '\u{94f}'),
    ('\u{981}', '\u{983}'),
    ('\u{e31}', '\u{e3a}'),
    ('\u{e47}', '\u{e4e}'),
    ('\u{1ab0}', '\u{1ace}'),
    ('\u{1dc0}', '\u{1dff}'),
    ('\u{20d0}', '\u{20f0}'),
    ('\u{302a}', '\u{302f}'),
    ('\u{3099}', '\u{309a}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{fe20}', '\u{fe2f}'),
    ('\u{e0100}', '\u{e01ef}'),
];
