//! Methods of Python's texts, lists and dictionaries. Those that change a value are not there, as in jinja2's sandbox.

use crate::Error;
use crate::functions::Args;
use crate::machine::Machine;
use crate::text::{Char, Text, find, find_last, trimmed};
use crate::value::{Made, Value};

const OF_TEXTS: [&str; 44] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
];
const OF_DICTS: [&str; 5] = ["get", "items", "keys", "values", "copy"];

/// Those whose arguments may have names.
const WITH_NAMES: [&str; 6] = ["split", "rsplit", "splitlines", "expandtabs", "format", "encode"];

/// Whether a value has a method.
pub fn has(value: &Value, name: &str) -> bool {
    match value {
        Value::Text(_) => OF_TEXTS.contains(&name),
        Value::Dict(_) => OF_DICTS.contains(&name),
        Value::List(_) => ["count", "index", "copy"].contains(&name),
        Value::Tuple(_) => ["count", "index"].contains(&name),
        Value::Made(Made::Cycler(_)) => ["next", "reset"].contains(&name),
        Value::Float(_) => name == "is_integer",
        Value::Int(_) => name == "bit_length",
        _ => false,
    }
}

fn wrong(method: &str) -> Error {
    Error::failed(format!("'{method}' was called with other arguments than it takes"))
}

/// The text that a method needs.
fn text_of(value: Option<&Value>, method: &str) -> Result<Text, Error> {
    value.and_then(Value::as_text).cloned().ok_or_else(|| wrong(method))
}

/// A number that is not negative; negative ones count as nothing.
fn size_of(value: Option<&Value>, method: &str) -> Result<usize, Error> {
    let number = value.and_then(Value::as_int).ok_or_else(|| wrong(method))?;
    Ok(usize::try_from(number.max(0)).unwrap_or(usize::MAX))
}

impl Machine<'_> {
    #[inline(never)]
    pub fn method(&mut self, this: &Value, name: &str, args: Args) -> Result<Value, Error> {
        self.spend_value(this)?;
        if !args.named.is_empty() && !WITH_NAMES.contains(&name) {
            return Err(Error::failed(format!("{name}() takes no keyword arguments")));
        }
        match this {
            Value::Text(text) => self.text_method(&text.clone(), name, args),
            Value::Dict(dict) => match name {
                "get" => {
                    let [key, default] = args.bind("get", ["key", "default"])?;
                    let key = key.ok_or_else(|| wrong(name))?;
                    Ok(dict.get(&key).cloned().or(default).unwrap_or(Value::None))
                }
                "items" => {
                    let pairs =
                        dict.entries().iter().map(|(key, value)| Value::tuple(vec![key.clone(), value.clone()]));
                    let pairs = pairs.collect();
                    self.checked(Value::view("dict_items", pairs))
                }
                "keys" => Ok(Value::view("dict_keys", dict.entries().iter().map(|(key, _)| key.clone()).collect())),
                "values" => {
                    Ok(Value::view("dict_values", dict.entries().iter().map(|(_, value)| value.clone()).collect()))
                }
                _ => Ok(this.clone()),
            },
            Value::Float(number) => Ok(Value::Bool(number.fract() == 0.0)),
            Value::Int(number) => {
                let bits = i128::BITS.saturating_sub(number.unsigned_abs().leading_zeros());
                Ok(Value::Int(i128::from(bits)))
            }
            other => {
                let items = other.as_items().unwrap_or_default();
                match name {
                    "copy" => Ok(this.clone()),
                    "count" => {
                        let [item] = args.bind("count", ["value"])?;
                        let item = item.ok_or_else(|| wrong(name))?;
                        self.spend_value(&item)?;
                        count(items.iter().filter(|found| found.equals(&item)).count())
                    }
                    _ => {
                        let [item, start, end] = args.bind("index", ["value", "start", "stop"])?;
                        let item = item.ok_or_else(|| wrong(name))?;
                        let (start, end) = Self::span(items.len(), start.as_ref(), end.as_ref())?;
                        let mut places = items.iter().enumerate().take(end).skip(start);
                        match places.find(|(_, found)| found.equals(&item)) {
                            Some((at, _)) => count(at),
                            None => Err(Error::failed("the value is not in the list")),
                        }
                    }
                }
            }
        }
    }

    fn text_method(&mut self, text: &Text, name: &str, args: Args) -> Result<Value, Error> {
        let chars = text.chars();
        match name {
            "strip" | "lstrip" | "rstrip" => {
                let [set] = args.bind(name, ["chars"])?;
                let set = match set {
                    None | Some(Value::None) => None,
                    set => Some(text_of(set.as_ref(), name)?),
                };
                if let Some(set) = &set {
                    self.spend(set.chars().len().saturating_mul(chars.len()).checked_div(16).unwrap_or(0))?;
                }
                let set = set.as_ref().map(Text::chars);
                Ok(Value::Text(trimmed(chars, set, name != "rstrip", name != "lstrip").into()))
            }
            "startswith" | "endswith" => {
                let [part, start, end] = args.bind(name, ["prefix", "start", "end"])?;
                let (start, end) = Self::span(chars.len(), start.as_ref(), end.as_ref())?;
                let parts = match &part {
                    Some(Value::Tuple(parts)) => parts.items().iter().map(|part| text_of(Some(part), name)).collect(),
                    part => text_of(part.as_ref(), name).map(|part| vec![part]),
                }?;
                let Some(within) = chars.get(start..end.max(start)).filter(|_| start <= end) else {
                    return Ok(Value::Bool(false));
                };
                let is = |part: &Text| match name {
                    "startswith" => within.starts_with(part.chars()),
                    _ => within.ends_with(part.chars()),
                };
                Ok(Value::Bool(parts.iter().any(is)))
            }
            "removeprefix" | "removesuffix" => {
                let [part] = args.bind(name, ["prefix"])?;
                let part = text_of(part.as_ref(), name)?;
                let left = if name == "removeprefix" {
                    chars.strip_prefix(part.chars())
                } else {
                    chars.strip_suffix(part.chars())
                };
                Ok(Value::Text(left.unwrap_or(chars).into()))
            }
            "split" | "rsplit" => {
                let [separator, most] = args.bind(name, ["sep", "maxsplit"])?;
                let most = match most.as_ref().map(Value::as_int) {
                    None => None,
                    Some(Some(most)) => usize::try_from(most).ok(),
                    Some(None) => return Err(wrong(name)),
                };
                let separator = match separator {
                    None | Some(Value::None) => None,
                    separator => Some(text_of(separator.as_ref(), name)?),
                };
                if separator.as_ref().is_some_and(|separator| separator.chars().is_empty()) {
                    return Err(Error::failed("empty separator"));
                }
                let parts = split(chars, separator.as_ref().map(Text::chars), most, name == "rsplit");
                self.list(parts.into_iter().map(|part| Value::Text(part.into())).collect())
            }
            "splitlines" => {
                let [keep] = args.bind(name, ["keepends"])?;
                let lines = lines(chars, keep.is_some_and(|keep| keep.is_true()));
                self.list(lines.into_iter().map(|line| Value::Text(line.into())).collect())
            }
            "partition" | "rpartition" => {
                let [separator] = args.bind(name, ["sep"])?;
                let separator = text_of(separator.as_ref(), name)?;
                let part = separator.chars();
                if part.is_empty() {
                    return Err(Error::failed("empty separator"));
                }
                let at = if name == "partition" { find(chars, part, 0) } else { find_last(chars, part) };
                let piece = |piece: Option<&[Char]>| Value::Text(piece.unwrap_or_default().into());
                let pieces = match (at, name) {
                    (Some(at), _) => [
                        piece(chars.get(..at)),
                        piece(chars.get(at..at.saturating_add(part.len()))),
                        piece(chars.get(at.saturating_add(part.len())..)),
                    ],
                    (None, "partition") => [Value::Text(text.clone()), piece(None), piece(None)],
                    (None, _) => [piece(None), piece(None), Value::Text(text.clone())],
                };
                self.tuple(pieces.into())
            }
            "find" | "index" | "rfind" | "rindex" | "count" => self.places(chars, name, args),
            "replace" => {
                let [old, new, most] = args.bind(name, ["old", "new", "count"])?;
                let (old, new) = (text_of(old.as_ref(), name)?, text_of(new.as_ref(), name)?);
                let most = most.as_ref().and_then(Value::as_int).and_then(|most| usize::try_from(most).ok());
                let replaced = self.replaced(chars, old.chars(), new.chars(), most)?;
                Ok(Value::Text(replaced.into()))
            }
            "join" => {
                let [values] = args.bind(name, ["iterable"])?;
                let values = self.iterate(&values.ok_or_else(|| wrong(name))?)?;
                let mut out = Vec::new();
                for (at, value) in values.iter().enumerate() {
                    let part = value.as_text();
                    let part =
                        part.ok_or_else(|| Error::failed(format!("join takes texts and not a {}", value.kind())))?;
                    self.push(&mut out, if at == 0 { &[] } else { chars })?;
                    self.push(&mut out, part.chars())?;
                }
                Ok(Value::Text(out.into()))
            }
            "ljust" | "rjust" | "center" => {
                let [width, fill] = args.bind(name, ["width", "fillchar"])?;
                let fill = fill.map_or(Ok(Text::own(" ")), |fill| text_of(Some(&fill), name))?;
                let &[fill] = fill.chars() else {
                    return Err(Error::failed("the fill character must be exactly one character long"));
                };
                let width = size_of(width.as_ref(), name)?;
                self.spend_text(width.max(chars.len()))?;
                Ok(Value::Text(padded(chars, width, fill, name).into()))
            }
            "zfill" => {
                let [width] = args.bind(name, ["width"])?;
                let width = size_of(width.as_ref(), name)?;
                self.spend_text(width.max(chars.len()))?;
                let signs = usize::from(chars.first().is_some_and(|c| *c == '+' || *c == '-'));
                let (sign, digits) = chars.split_at_checked(signs).unwrap_or_default();
                let zeros = padded(digits, width.saturating_sub(signs), Char::own('0'), "rjust");
                Ok(Value::Text([sign, &zeros].concat().into()))
            }
            "expandtabs" => {
                let [size] = args.bind(name, ["tabsize"])?;
                let size = size.map_or(Ok(8), |size| size_of(Some(&size), name))?;
                let tabs = chars.iter().filter(|c| **c == '\t').count();
                self.spend_text(tabs.saturating_mul(size).saturating_add(chars.len()))?;
                Ok(Value::Text(expanded(chars, size).into()))
            }
            "format" => self.format(chars, &args),
            "format_map" => {
                let [Some(Value::Dict(dict))] = args.bind(name, ["mapping"])? else { return Err(wrong(name)) };
                let named = dict
                    .entries()
                    .iter()
                    .map(|(k, v)| (k.as_text().cloned().unwrap_or_else(|| Text::own("")), v.clone()));
                self.format(chars, &Args { positional: Vec::new(), named: named.collect() })
            }
            "encode" => Err(Error::failed("a template cannot make bytes of a text")),
            _ if !args.positional.is_empty() || !args.named.is_empty() => Err(wrong(name)),
            _ if name.starts_with("is") => Ok(Value::Bool(is(chars, name))),
            _ => {
                let changed = cased(chars, name);
                self.text(changed)
            }
        }
    }

    fn places(&mut self, chars: &[Char], name: &str, args: Args) -> Result<Value, Error> {
        let [part, start, end] = args.bind(name, ["sub", "start", "end"])?;
        let part = text_of(part.as_ref(), name)?;
        let (start, end) = Self::span(chars.len(), start.as_ref(), end.as_ref())?;
        let within = chars.get(start..end.max(start)).filter(|_| start <= end);
        if name == "count" {
            let (mut at, mut found) = (0usize, 0usize);
            let Some(within) = within else { return count(0) };
            if part.chars().is_empty() {
                return count(within.len().saturating_add(1));
            }
            while let Some(next) = find(within, part.chars(), at) {
                at = next.saturating_add(part.chars().len());
                found = found.saturating_add(1);
            }
            return count(found);
        }
        let found = within.and_then(|within| {
            if name.starts_with('r') { find_last(within, part.chars()) } else { find(within, part.chars(), 0) }
        });
        match found {
            Some(at) => count(at.saturating_add(start)),
            None if name.ends_with("find") => Ok(Value::Int(-1)),
            None => Err(Error::failed("substring not found")),
        }
    }

    /// Python's `replace`.
    pub fn replaced(
        &mut self,
        text: &[Char],
        old: &[Char],
        new: &[Char],
        most: Option<usize>,
    ) -> Result<Vec<Char>, Error> {
        let mut left = most.unwrap_or(usize::MAX);
        let mut out = Vec::new();
        let mut at = 0usize;
        if old.is_empty() {
            for c in text {
                if left > 0 {
                    self.push(&mut out, new)?;
                    left = left.saturating_sub(1);
                }
                out.push(*c);
            }
            self.push(&mut out, if left > 0 { new } else { &[] })?;
            return Ok(out);
        }
        while let Some(next) = find(text, old, at).filter(|_| left > 0) {
            self.push(&mut out, text.get(at..next).unwrap_or_default())?;
            self.push(&mut out, new)?;
            at = next.saturating_add(old.len());
            left = left.saturating_sub(1);
        }
        self.push(&mut out, text.get(at..).unwrap_or_default())?;
        Ok(out)
    }
}

pub fn count(number: usize) -> Result<Value, Error> {
    i128::try_from(number).map(Value::Int).map_err(|_| Error::failed("a number is too large"))
}

/// Python's `split` and `rsplit`.
fn split<'c>(text: &'c [Char], separator: Option<&[Char]>, most: Option<usize>, from_end: bool) -> Vec<&'c [Char]> {
    let mut left = most.unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut rest = text;
    let Some(separator) = separator else {
        rest = trimmed(rest, None, !from_end, from_end);
        while !rest.is_empty() && left > 0 {
            let is_in_word = |c: &&Char| !c.is_space();
            let word = if from_end {
                rest.iter().rev().take_while(is_in_word).count()
            } else {
                rest.iter().take_while(is_in_word).count()
            };
            let at = if from_end { rest.len().saturating_sub(word) } else { word };
            let (before, after) = rest.split_at_checked(at).unwrap_or_default();
            parts.push(if from_end { after } else { before });
            rest = trimmed(if from_end { before } else { after }, None, !from_end, from_end);
            left = left.saturating_sub(1);
        }
        parts.extend(Some(trimmed(rest, None, from_end, !from_end)).filter(|rest| !rest.is_empty()).map(|_| rest));
        if from_end {
            parts.reverse();
        }
        return parts;
    };
    while left > 0 {
        let found = if from_end { find_last(rest, separator) } else { find(rest, separator, 0) };
        let Some(at) = found else { break };
        let (before, after) =
            (rest.get(..at).unwrap_or_default(), rest.get(at.saturating_add(separator.len())..).unwrap_or_default());
        parts.push(if from_end { after } else { before });
        rest = if from_end { before } else { after };
        left = left.saturating_sub(1);
    }
    parts.push(rest);
    if from_end {
        parts.reverse();
    }
    parts
}

/// Python's `splitlines`.
pub fn lines(text: &[Char], keep: bool) -> Vec<&[Char]> {
    let mut lines = Vec::new();
    let mut rest = text;
    let ends = |c: &Char| {
        matches!(c.get(), '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    while !rest.is_empty() {
        let at = rest.iter().position(ends).unwrap_or(rest.len());
        let is_pair =
            rest.get(at).is_some_and(|c| *c == '\r') && rest.get(at.saturating_add(1)).is_some_and(|c| *c == '\n');
        let behind = at.saturating_add(if is_pair { 2 } else { 1 }).min(rest.len());
        lines.push(rest.get(..if keep { behind } else { at }).unwrap_or_default());
        rest = rest.get(behind..).unwrap_or_default();
    }
    lines
}

/// Python's `ljust`, `rjust` and `center`.
pub fn padded(text: &[Char], width: usize, fill: Char, how: &str) -> Vec<Char> {
    let missing = width.saturating_sub(text.len());
    let half = missing.checked_div(2).unwrap_or(0);
    let before = match how {
        "ljust" => 0,
        "rjust" => missing,
        // The odd one goes to the left where the width is odd.
        _ => half.saturating_add(missing & width & 1),
    };
    let mut out = vec![fill; before];
    out.extend_from_slice(text);
    out.resize(text.len().max(width), fill);
    out
}

fn expanded(text: &[Char], size: usize) -> Vec<Char> {
    let (mut out, mut column) = (Vec::new(), 0usize);
    for c in text {
        match c.get() {
            '\t' => {
                let blanks = column.checked_rem(size).map_or(0, |past| size.saturating_sub(past));
                out.extend(std::iter::repeat_n(c.with(' '), blanks));
                column = column.saturating_add(blanks);
            }
            '\n' | '\r' => {
                out.push(*c);
                column = 0;
            }
            _ => {
                out.push(*c);
                column = column.saturating_add(1);
            }
        }
    }
    out
}

/// Python's methods that change letters.
pub fn cased(text: &[Char], how: &str) -> Vec<Char> {
    let mut out = Vec::with_capacity(text.len());
    let mut in_word = false;
    for (at, c) in text.iter().enumerate() {
        let character = c.get();
        let upper = match how {
            "upper" => true,
            "lower" | "casefold" => false,
            "capitalize" => at == 0,
            "swapcase" => character.is_lowercase(),
            _ => !in_word,
        };
        in_word = character.is_alphabetic() && (character.is_lowercase() || character.is_uppercase());
        match (how, character, upper) {
            ("casefold", 'ß', _) => out.extend([c.with('s'), c.with('s')]),
            ("title" | "capitalize", 'ß', true) => out.extend([c.with('S'), c.with('s')]),
            (_, 'Σ', false) => out.push(c.with(if how != "casefold" && ends_word(text, at) { 'ς' } else { 'σ' })),
            (_, _, true) => out.extend(character.to_uppercase().map(|changed| c.with(changed))),
            (_, _, false) => out.extend(character.to_lowercase().map(|changed| c.with(changed))),
        }
    }
    out
}

/// Whether a letter is the last of its word, behind another one.
fn ends_word(text: &[Char], at: usize) -> bool {
    let is_letter = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(|c| c.get().is_alphabetic());
    is_letter(at.checked_sub(1)) && !is_letter(at.checked_add(1))
}

/// Python's methods that judge a text.
fn is(text: &[Char], name: &str) -> bool {
    let all = |is: fn(char) -> bool| !text.is_empty() && text.iter().all(|c| is(c.get()));
    let is_cased = |c: &Char| c.get().is_lowercase() || c.get().is_uppercase();
    match name {
        "isalnum" => all(char::is_alphanumeric),
        "isalpha" => all(char::is_alphabetic),
        "isascii" => text.iter().all(|c| c.get().is_ascii()),
        "isdecimal" => all(is_decimal),
        "isdigit" => all(|c| is_decimal(c) || is_small_digit(c)),
        "isnumeric" => all(char::is_numeric),
        "isspace" => !text.is_empty() && text.iter().all(|c| c.is_space()),
        "isprintable" => text.iter().all(|c| !c.get().is_control()),
        "islower" => text.iter().any(is_cased) && !text.iter().any(|c| c.get().is_uppercase()),
        "isupper" => text.iter().any(is_cased) && !text.iter().any(|c| c.get().is_lowercase()),
        _ => text.iter().any(is_cased) && cased(text, "title") == text,
    }
}

/// Whether a character is a digit of a decimal number: numbers without fractions, small digits, Roman and circled ones.
fn is_decimal(c: char) -> bool {
    let others = ['\u{bc}'..='\u{be}', '\u{2150}'..='\u{218b}', '\u{2460}'..='\u{24ff}', '\u{2776}'..='\u{2793}'];
    let is_other = others.iter().any(|range| range.contains(&c)) || ('\u{3007}'..='\u{33ff}').contains(&c);
    c.is_numeric() && !is_other && !is_small_digit(c)
}

fn is_small_digit(c: char) -> bool {
    matches!(c, '\u{b2}' | '\u{b3}' | '\u{b9}' | '\u{2070}'..='\u{2079}' | '\u{2080}'..='\u{2089}' | '\u{2460}'..='\u{2468}')
}
