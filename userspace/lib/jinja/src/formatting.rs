//! Python's `text.format(…)`.

use crate::Error;
use crate::functions::Args;
use crate::machine::Machine;
use crate::methods::padded;
use crate::printf::{integer, real};
use crate::text::{Char, push_own};
use crate::value::Value;

/// How deep fields may lie in the form of a field.
const NESTED: usize = 2;

impl Machine<'_> {
    pub fn format(&mut self, format: &[Char], args: &Args) -> Result<Value, Error> {
        let mut next = 0usize;
        let out = self.formatted(format, args, &mut next, 0)?;
        Ok(Value::Text(out.into()))
    }

    fn formatted(&mut self, format: &[Char], args: &Args, next: &mut usize, depth: usize) -> Result<Vec<Char>, Error> {
        if depth >= NESTED {
            return Err(Error::failed("Max string recursion exceeded"));
        }
        let mut out = Vec::new();
        let mut at = 0usize;
        while let Some(c) = format.get(at).copied() {
            at = at.saturating_add(1);
            let doubled = format.get(at).is_some_and(|next| *next == c);
            match c.get() {
                '{' | '}' if doubled => {
                    out.push(c);
                    at = at.saturating_add(1);
                }
                '}' => return Err(Error::failed("Single '}' encountered in format string")),
                '{' => {
                    let field = field(format.get(at..).unwrap_or_default())?;
                    at = at.saturating_add(field.len()).saturating_add(1);
                    let piece = self.field(field, args, next, depth)?;
                    self.push(&mut out, &piece)?;
                }
                _ => out.push(c),
            }
        }
        self.spend_text(out.len())?;
        Ok(out)
    }

    fn field(&mut self, field: &[Char], args: &Args, next: &mut usize, depth: usize) -> Result<Vec<Char>, Error> {
        let mut brackets = 0usize;
        let end = field.iter().position(|c| {
            match c.get() {
                '[' => brackets = brackets.saturating_add(1),
                ']' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            brackets == 0 && matches!(c.get(), '!' | ':')
        });
        let (name, rest) = field.split_at_checked(end.unwrap_or(field.len())).unwrap_or_default();
        let (conversion, form) = match rest {
            [mark, letter, form @ ..] if *mark == '!' => (Some(letter.get()), form.get(1..).unwrap_or_default()),
            [_, form @ ..] => (None, form),
            [] => (None, rest),
        };
        let value = self.argument(&name.iter().map(|c| c.get()).collect::<String>(), args, next)?;
        let value = match conversion {
            None => value,
            Some('s') => self.str(&value).map(|text| Value::Text(text.into()))?,
            Some(_) => {
                self.spend_value(&value)?;
                let mut out = Vec::new();
                crate::repr::repr(&value, &mut out);
                Value::Text(out.into())
            }
        };
        if form.is_empty() {
            return self.str(&value);
        }
        let form = self.formatted(form, args, next, depth.saturating_add(1))?;
        self.with_form(&value, &form)
    }

    fn argument(&mut self, name: &str, args: &Args, next: &mut usize) -> Result<Value, Error> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut rest) = name.split_at_checked(end).unwrap_or((name, ""));
        let missing = || Error::failed(format!("the format asks for '{first}', which is not given"));
        let place = if first.is_empty() {
            *next = next.saturating_add(1);
            Some(next.saturating_sub(1))
        } else {
            first.parse::<usize>().ok()
        };
        let mut value = match place {
            Some(at) => args.positional.get(at).cloned().ok_or_else(missing)?,
            None => {
                let named = args.named.iter().find(|(name, _)| name.is(first));
                named.map(|(_, value)| value.clone()).ok_or_else(missing)?
            }
        };
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('.') {
                let end = inner.find(['.', '[']).unwrap_or(inner.len());
                let (name, behind) = inner.split_at_checked(end).unwrap_or((inner, ""));
                value = self.attribute(&value, name)?;
                rest = behind;
            } else {
                let inner = rest.strip_prefix('[').unwrap_or(rest);
                let (key, behind) =
                    inner.split_once(']').ok_or_else(|| Error::failed("Missing ']' in format string"))?;
                let key = key.parse().map_or_else(|_| Value::own(key), Value::Int);
                value = self.item(&value, &key)?;
                rest = behind;
            }
        }
        Ok(value)
    }

    /// A value in the form `[[fill]align][sign][#][0][width][,][.precision][letter]`.
    fn with_form(&mut self, value: &Value, form: &[Char]) -> Result<Vec<Char>, Error> {
        let is_align = |c: Option<&Char>| c.is_some_and(|c| matches!(c.get(), '<' | '>' | '^' | '='));
        let (mut fill, mut align, mut rest) = (Char::own(' '), None, form);
        if is_align(form.get(1)) {
            fill = form.first().copied().unwrap_or(fill);
            align = form.get(1).map(|c| c.get());
            rest = form.get(2..).unwrap_or_default();
        } else if is_align(form.first()) {
            align = form.first().map(|c| c.get());
            rest = form.get(1..).unwrap_or_default();
        }
        let text: String = rest.iter().map(|c| c.get()).collect();
        let mut rest = text.as_str();
        let sign = takes(&mut rest, &['+', '-', ' ']);
        let alternate = takes(&mut rest, &['#']).is_some();
        if takes(&mut rest, &['0']).is_some() && align.is_none() {
            (fill, align) = (Char::own('0'), Some('='));
        }
        let width = digits(&mut rest).unwrap_or(0);
        let group = takes(&mut rest, &[',', '_']);
        let precision = if takes(&mut rest, &['.']).is_some() { digits(&mut rest) } else { None };
        let letter = rest.chars().next();
        self.spend_text(width.max(precision.unwrap_or(0)))?;
        let known = rest.chars().count() <= 1;
        let wrong =
            || Error::failed(format!("Invalid format specifier '{text}' for object of type '{}'", value.kind()));
        if !known {
            return Err(wrong());
        }
        let (negative, prefix, digits) = match (value, letter) {
            (Value::Text(text), None | Some('s')) => {
                let shown =
                    text.chars().get(..precision.unwrap_or(usize::MAX).min(text.chars().len())).unwrap_or_default();
                return Ok(padded_as(shown, width, fill, align.unwrap_or('<')));
            }
            (Value::Int(number), None | Some('d' | 'x' | 'X' | 'o' | 'b' | 'n')) if precision.is_none() => {
                let letter = letter.unwrap_or('d');
                let prefix = match (alternate, letter) {
                    (true, 'x' | 'X' | 'o' | 'b') => format!("0{letter}"),
                    _ => String::new(),
                };
                (*number < 0, prefix, integer(number.unsigned_abs(), letter))
            }
            (Value::Int(_) | Value::Float(_) | Value::Bool(_), Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%')) => {
                let number = value.as_float().unwrap_or(0.0);
                let precision = precision.unwrap_or(6);
                let digits = match letter {
                    Some('%') => format!("{}%", real(number.abs() * 100.0, 'f', precision, alternate)),
                    letter => real(number.abs(), letter.unwrap_or('g'), precision, alternate),
                };
                (number < 0.0, String::new(), digits)
            }
            (Value::Float(number), None) => {
                let digits = match precision {
                    None => crate::number::float(number.abs()),
                    Some(precision) => real(number.abs(), 'g', precision, alternate),
                };
                (*number < 0.0, String::new(), digits)
            }
            _ => return Err(wrong()),
        };
        let digits = match group {
            Some(mark) => grouped(&digits, mark),
            None => digits,
        };
        let sign = match (negative, sign) {
            (true, _) => "-",
            (_, Some('+')) => "+",
            (_, Some(' ')) => " ",
            _ => "",
        };
        let mut head = Vec::new();
        push_own(&mut head, &format!("{sign}{prefix}"));
        let mut body = Vec::new();
        push_own(&mut body, &digits);
        match align.unwrap_or('>') {
            '=' => {
                let filled = padded(&body, width.saturating_sub(head.len()), fill, "rjust");
                head.extend(filled);
                Ok(head)
            }
            align => {
                head.extend(body);
                Ok(padded_as(&head, width, fill, align))
            }
        }
    }
}

fn padded_as(text: &[Char], width: usize, fill: Char, align: char) -> Vec<Char> {
    match align {
        '<' => padded(text, width, fill, "ljust"),
        '^' => {
            // Here the odd one goes to the right.
            let before = width.saturating_sub(text.len()).checked_div(2).unwrap_or(0);
            let left = padded(text, text.len().saturating_add(before), fill, "rjust");
            padded(&left, width, fill, "ljust")
        }
        _ => padded(text, width, fill, "rjust"),
    }
}

/// Takes one of these marks off the beginning of a format.
fn takes(rest: &mut &str, marks: &[char]) -> Option<char> {
    let found = rest.chars().next().filter(|c| marks.contains(c))?;
    *rest = rest.strip_prefix(found).unwrap_or(rest);
    Some(found)
}

/// The number that a text begins with.
fn digits(rest: &mut &str) -> Option<usize> {
    let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = rest.get(..rest.len().saturating_sub(behind.len()))?;
    *rest = behind;
    if number.is_empty() { None } else { Some(number.parse().unwrap_or(usize::MAX)) }
}

/// Thousands with a mark between them.
fn grouped(digits: &str, mark: char) -> String {
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (whole, rest) = digits.split_at_checked(end).unwrap_or((digits, ""));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let left = whole.len().saturating_sub(at);
        if at > 0 && left.is_multiple_of(3) {
            out.push(mark);
        }
        out.push(digit);
    }
    out + rest
}

/// What is between `{` and its `}`.
fn field(rest: &[Char]) -> Result<&[Char], Error> {
    let mut open = 1usize;
    for (at, c) in rest.iter().enumerate() {
        match c.get() {
            '{' => open = open.saturating_add(1),
            '}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open == 0 {
            return Ok(rest.get(..at).unwrap_or_default());
        }
    }
    Err(Error::failed("expected '}' before end of string"))
}
