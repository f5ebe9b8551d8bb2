//! Filters of one value. Those of lists are in `lists`.

use crate::Error;
use crate::expressions::without;
use crate::functions::Args;
use crate::json::Options;
use crate::machine::Machine;
use crate::methods::{cased, count, lines, padded};
use crate::number;
use crate::text::{Char, Text, push_own, trimmed};
use crate::value::{Made, Value};

/// All filters.
const NAMES: [&str; 47] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "wordcount",
];

/// Filters without arguments.
const BARE: [&str; 18] = [
    "abs",
    "capitalize",
    "count",
    "e",
    "escape",
    "first",
    "forceescape",
    "items",
    "last",
    "length",
    "list",
    "lower",
    "reverse",
    "safe",
    "string",
    "title",
    "upper",
    "urlencode",
];

/// Whether there is a filter of this name.
pub fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// What a filter says of a value that is not there.
fn present(value: &Value) -> Result<(), Error> {
    match value {
        Value::Undefined(what) => Err(Error::failed(&**what)),
        _ => Ok(()),
    }
}

/// A whole number of an argument.
pub fn whole(value: Option<Value>, missing: i128) -> Result<i128, Error> {
    match value {
        None => Ok(missing),
        Some(value) => value.as_int().ok_or_else(|| Error::failed(format!("a {} is not a whole number", value.kind()))),
    }
}

pub fn size(value: Option<Value>, missing: usize) -> Result<usize, Error> {
    match value {
        None => Ok(missing),
        some => Ok(usize::try_from(whole(some, 0)?.max(0)).unwrap_or(usize::MAX)),
    }
}

/// Whether an argument is given and true.
pub fn truth(value: Option<Value>) -> bool {
    value.is_some_and(|value| value.is_true())
}

impl Machine<'_> {
    #[inline(never)]
    pub fn filter(&mut self, name: &str, value: Value, args: Args) -> Result<Value, Error> {
        if BARE.contains(&name) && !(args.positional.is_empty() && args.named.is_empty()) {
            return Err(Error::failed(format!("the filter '{name}' takes no arguments")));
        }
        self.spend_args(&args)?;
        match name {
            "abs" => match &value {
                Value::Float(number) => Ok(Value::Float(number.abs())),
                other => {
                    present(other)?;
                    let number = other.as_int().and_then(i128::checked_abs);
                    number
                        .map(Value::Int)
                        .ok_or_else(|| Error::failed(format!("a {} has no absolute value", other.kind())))
                }
            },
            "attr" => {
                let [name] = args.bind("attr", ["name"])?;
                let name = name.map(|name| self.str(&name)).transpose()?.unwrap_or_default();
                let name: String = name.iter().map(|c| c.get()).collect();
                if matches!(value, Value::Dict(_)) && !crate::methods::has(&value, &name) {
                    return Ok(without(&value, "attribute", &format!("'{name}'")));
                }
                self.attribute(&value, &name)
            }
            "d" | "default" => {
                let [default, boolean] = args.bind("default", ["default_value", "boolean"])?;
                let missing = value.is_undefined() || truth(boolean) && !value.is_true();
                Ok(if missing { default.unwrap_or_else(|| Value::own("")) } else { value })
            }
            "count" | "length" => count(Self::length(&value)?),
            "int" => self.int(&value, args),
            "float" => {
                let [default] = args.bind("float", ["default"])?;
                present(&value)?;
                let read = match &value {
                    Value::Text(text) => number::read_float(&text.to_string()),
                    other => other.as_float(),
                };
                Ok(read.map(Value::Float).or(default).unwrap_or(Value::Float(0.0)))
            }
            "round" => round(&value, args),
            "tojson" => self.tojson(&value, args),
            "lower" | "upper" | "capitalize" => {
                let text = self.str(&value)?;
                self.text(cased(&text, name))
            }
            "title" => {
                let text = self.str(&value)?;
                self.text(titled(&text))
            }
            "string" | "safe" => self.str(&value).map(|text| Value::Text(text.into())),
            "trim" => {
                let [set] = args.bind("trim", ["chars"])?;
                let text = self.str(&value)?;
                let set = set.filter(|set| !matches!(set, Value::None)).map(|set| self.str(&set)).transpose()?;
                self.spend(set.as_ref().map_or(0, Vec::len).saturating_mul(text.len()).checked_div(16).unwrap_or(0))?;
                Ok(Value::Text(trimmed(&text, set.as_deref(), true, true).into()))
            }
            "replace" => {
                let [old, new, most] = args.bind("replace", ["old", "new", "count"])?;
                let (Some(old), Some(new)) = (old, new) else {
                    return Err(Error::failed("replace takes the text to find and its replacement"));
                };
                let (text, old, new) = (self.str(&value)?, self.str(&old)?, self.str(&new)?);
                let most = most.as_ref().and_then(Value::as_int).and_then(|most| usize::try_from(most).ok());
                self.replaced(&text, &old, &new, most).map(|text| Value::Text(text.into()))
            }
            "center" => {
                let [width] = args.bind("center", ["width"])?;
                let (text, width) = (self.str(&value)?, size(width, 80)?);
                self.spend_text(width.max(text.len()))?;
                Ok(Value::Text(padded(&text, width, Char::own(' '), "center").into()))
            }
            "indent" => self.indent(&value, args),
            "truncate" => self.truncate(&value, args),
            "wordcount" => {
                let text = self.str(&value)?;
                let is_word = |c: &Char| c.get() == '_' || c.get().is_alphanumeric();
                count(text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count())
            }
            "e" | "escape" | "forceescape" => {
                let mut out = Vec::new();
                for c in self.str(&value)? {
                    let escape = match c.get() {
                        '&' => "&amp;",
                        '<' => "&lt;",
                        '>' => "&gt;",
                        '"' => "&#34;",
                        '\'' => "&#39;",
                        _ => {
                            out.push(c);
                            continue;
                        }
                    };
                    out.extend(escape.chars().map(|escaped| c.with(escaped)));
                }
                self.text(out)
            }
            "urlencode" => self.url_encode(&value),
            "format" => {
                let text = self.str(&value)?;
                let values = match args.named.is_empty() {
                    true => Value::tuple(args.positional),
                    false => {
                        Value::dict(args.named.into_iter().map(|(name, value)| (Value::Text(name), value)).collect())
                    }
                };
                self.printf(&text, &values)
            }
            other => self.list_filter(other, value, args),
        }
    }

    fn int(&mut self, value: &Value, args: Args) -> Result<Value, Error> {
        let [default, base] = args.bind("int", ["default", "base"])?;
        present(value)?;
        let base = u32::try_from(whole(base, 10)?).unwrap_or(10);
        let read = match value {
            Value::Text(text) => {
                let text = text.to_string();
                number::read_int(&text, base).or_else(|| number::read_float(&text).and_then(number::truncated))
            }
            Value::Float(number) => number::truncated(*number),
            other => other.as_int(),
        };
        Ok(read.map(Value::Int).or(default).unwrap_or(Value::Int(0)))
    }

    fn tojson(&mut self, value: &Value, args: Args) -> Result<Value, Error> {
        let [ascii, indent, separators, sorted] =
            args.bind("tojson", ["ensure_ascii", "indent", "separators", "sort_keys"])?;
        let indent = match indent {
            None | Some(Value::None) => None,
            Some(Value::Text(text)) => Some(text.chars().to_vec()),
            width => {
                let width = size(width, 0)?;
                self.spend_text(width)?;
                Some(vec![Char::own(' '); width])
            }
        };
        let own = |text: &str| Text::own(text).chars().to_vec();
        let separators = match separators {
            None | Some(Value::None) => [own(if indent.is_some() { "," } else { ", " }), own(": ")],
            Some(given) => {
                let wrong = || Error::failed("separators of tojson are two texts");
                let texts: Option<Vec<Vec<Char>>> =
                    self.iterate(&given)?.iter().map(|text| text.as_text().map(|text| text.chars().to_vec())).collect();
                texts.and_then(|texts| texts.try_into().ok()).ok_or_else(wrong)?
            }
        };
        let options = Options { indent, ascii: truth(ascii), sorted: truth(sorted), separators };
        let out = self.json(value, &options)?;
        self.text(out)
    }

    fn indent(&mut self, value: &Value, args: Args) -> Result<Value, Error> {
        let [width, first, blank] = args.bind("indent", ["width", "first", "blank"])?;
        let text = value.as_text().cloned().ok_or_else(|| Error::failed("only a text can be indented"))?;
        let (first, blank) = (truth(first), truth(blank));
        let indention = match width {
            Some(Value::Text(text)) => text.chars().to_vec(),
            width => {
                let width = size(width, 4)?;
                self.spend_text(width)?;
                vec![Char::own(' '); width]
            }
        };
        let whole = [text.chars(), &[Char::own('\n')]].concat();
        let mut out = Vec::new();
        for (at, line) in lines(&whole, false).into_iter().enumerate() {
            self.push(&mut out, if at > 0 { &[const { Char::own('\n') }] } else { &[] })?;
            let indents = if at == 0 { first } else { blank || !line.is_empty() };
            self.push(&mut out, if indents { &indention } else { &[] })?;
            self.push(&mut out, line)?;
        }
        Ok(Value::Text(out.into()))
    }

    fn truncate(&mut self, value: &Value, args: Args) -> Result<Value, Error> {
        let [length, kill, end, leeway] = args.bind("truncate", ["length", "killwords", "end", "leeway"])?;
        let end = end.map_or_else(|| Ok(Text::own("...").chars().to_vec()), |end| self.str(&end))?;
        let (length, leeway) = (size(length, 255)?, size(leeway.filter(|leeway| !matches!(leeway, Value::None)), 5)?);
        if end.len() > length {
            return Err(Error::failed("truncate: the ending is longer than the permitted length"));
        }
        if Self::length(value)? <= length.saturating_add(leeway) {
            return Ok(value.clone());
        }
        let text = value.as_text().ok_or_else(|| Error::failed(format!("a {} cannot be truncated", value.kind())))?;
        let text = text.chars();
        let cut = text.get(..length.saturating_sub(end.len())).unwrap_or_default();
        let word = if truth(kill) { None } else { cut.iter().rposition(|c| *c == ' ') };
        let kept = word.and_then(|at| cut.get(..at)).unwrap_or(cut);
        self.text([kept, &end].concat())
    }

    fn url_encode(&mut self, value: &Value) -> Result<Value, Error> {
        let mut out = Vec::new();
        let pairs = match value {
            Value::Text(_) => None,
            Value::Dict(dict) => Some(dict.entries().iter().map(|(k, v)| vec![k.clone(), v.clone()]).collect()),
            value if Self::is_iterable(value) => {
                let pairs = self.iterate(value)?;
                Some(pairs.iter().map(|pair| self.iterate(pair)).collect::<Result<Vec<_>, Error>>()?)
            }
            _ => None,
        };
        let Some(pairs) = pairs else {
            let text = self.str(value)?;
            quote(&text, '/', &mut out);
            return self.text(out);
        };
        for (at, pair) in pairs.iter().enumerate() {
            push_own(&mut out, if at > 0 { "&" } else { "" });
            if pair.len() != 2 {
                return Err(Error::failed("urlencode takes a text, a dictionary or pairs"));
            }
            for (at, part) in pair.iter().enumerate() {
                push_own(&mut out, if at > 0 { "=" } else { "" });
                quote(&self.str(part)?, ' ', &mut out);
            }
        }
        self.text(out)
    }
}

/// A text as addresses have it. What is `kept` stays; a blank that is kept becomes a plus.
fn quote(text: &[Char], kept: char, out: &mut Vec<Char>) {
    for c in text {
        let character = c.get();
        if character.is_ascii_alphanumeric() || "_.-~".contains(character) || character == kept {
            out.push(if character == ' ' { c.with('+') } else { *c });
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            out.extend(format!("%{byte:02X}").chars().map(|escaped| c.with(escaped)));
        }
    }
}

/// jinja2's `title`: words begin behind blanks, hyphens and opening brackets.
fn titled(text: &[Char]) -> Vec<Char> {
    let mut out = Vec::with_capacity(text.len());
    let mut begins = true;
    for c in text {
        let changed = cased(std::slice::from_ref(c), if begins { "upper" } else { "lower" });
        out.extend(changed);
        begins = c.is_space() || matches!(c.get(), '-' | '(' | '{' | '[' | '<');
    }
    out
}

fn round(value: &Value, args: Args) -> Result<Value, Error> {
    let [precision, method] = args.bind("round", ["precision", "method"])?;
    present(value)?;
    let precision = i32::try_from(whole(precision, 0)?.clamp(-400, 400)).unwrap_or(0);
    let method = method.and_then(|method| method.as_text().map(ToString::to_string)).unwrap_or_else(|| "common".into());
    let not_a_number = || Error::failed(format!("a {} cannot be rounded", value.kind()));
    match method.as_str() {
        "common" => match value {
            Value::Float(number) => Ok(Value::Float(number::round(*number, precision))),
            other => other.as_int().map(|n| Value::Int(number::round_int(n, precision))).ok_or_else(not_a_number),
        },
        "ceil" | "floor" => {
            let number = value.as_float().ok_or_else(not_a_number)?;
            let unit = 10f64.powi(precision);
            let scaled = number * unit;
            Ok(Value::Float(if method == "ceil" { scaled.ceil() } else { scaled.floor() } / unit))
        }
        _ => Err(Error::failed("method must be common, ceil or floor")),
    }
}

/// Whether a value is a function.
pub fn is_callable(value: &Value) -> bool {
    matches!(
        value,
        Value::Made(Made::Function(_) | Made::Macro(_) | Made::Method(_) | Made::Joiner(_) | Made::Loop(_))
            | Value::Undefined(_)
    )
}
