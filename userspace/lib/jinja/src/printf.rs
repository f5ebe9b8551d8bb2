//! Python's `format % values`.

use crate::Error;
use crate::machine::Machine;
use crate::methods::padded;
use crate::number;
use crate::text::{Char, Text, push_own};
use crate::value::Value;

/// What stands between `%` and the letter.
#[derive(Default)]
struct Form {
    left: bool,
    plus: bool,
    space: bool,
    zero: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// What is filled in, in order.
struct Values<'v> {
    whole: &'v Value,
    next: usize,
}

impl<'v> Values<'v> {
    fn next(&mut self) -> Result<&'v Value, Error> {
        let value = match self.whole {
            Value::Tuple(values) => values.items().get(self.next),
            single => Some(single).filter(|_| self.next == 0),
        };
        self.next = self.next.saturating_add(1);
        value.ok_or_else(|| Error::failed("not enough arguments for format string"))
    }
}

impl Machine<'_> {
    pub fn printf(&mut self, format: &[Char], values: &Value) -> Result<Value, Error> {
        let mut filled = Values { whole: values, next: 0 };
        let mut by_name = false;
        let mut out = Vec::new();
        let mut rest = format.iter().copied().peekable();
        while let Some(c) = rest.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut named = None;
            if rest.next_if(|c| *c == '(').is_some() {
                let mut key = Vec::new();
                loop {
                    match rest.next() {
                        Some(c) if c == ')' => break,
                        Some(c) => key.push(c),
                        None => return Err(Error::failed("incomplete format key")),
                    }
                }
                let Value::Dict(dict) = values else { return Err(Error::failed("format requires a mapping")) };
                by_name = true;
                let found = dict.get(&Value::Text(Text::from(key))).cloned();
                named = Some(found.ok_or_else(|| Error::failed("a key of the format is not in the mapping"))?);
            }
            let mut form = Form::default();
            while let Some(flag) = rest.next_if(|c| matches!(c.get(), '-' | '+' | ' ' | '0' | '#')) {
                match flag.get() {
                    '-' => form.left = true,
                    '+' => form.plus = true,
                    ' ' => form.space = true,
                    '0' => form.zero = true,
                    _ => form.alternate = true,
                }
            }
            let mut numbers = [None, None];
            for (at, number) in numbers.iter_mut().enumerate() {
                if at == 1 && rest.next_if(|c| *c == '.').is_none() {
                    break;
                }
                if rest.next_if(|c| *c == '*').is_some() {
                    let value = filled.next()?.as_int().ok_or_else(|| Error::failed("* wants int"))?;
                    form.left |= value < 0 && at == 0;
                    *number = Some(usize::try_from(value.unsigned_abs()).unwrap_or(usize::MAX));
                    continue;
                }
                while let Some(digit) = rest.next_if(|c| c.get().is_ascii_digit()) {
                    let digit = usize::try_from(digit.get().to_digit(10).unwrap_or(0)).unwrap_or(0);
                    *number = Some(number.unwrap_or(0usize).saturating_mul(10).saturating_add(digit));
                }
                if at == 1 {
                    number.get_or_insert(0);
                }
            }
            let [width, precision] = numbers;
            (form.width, form.precision) = (width.unwrap_or(0), precision);
            self.spend_text(form.width.max(form.precision.unwrap_or(0)))?;
            while rest.next_if(|c| matches!(c.get(), 'h' | 'l' | 'L')).is_some() {}
            let kind = rest.next().ok_or_else(|| Error::failed("incomplete format"))?;
            let letter = kind.get();
            if letter == '%' {
                out.push(kind);
                continue;
            }
            let value = match named {
                Some(value) => value,
                None => filled.next()?.clone(),
            };
            let piece = self.printed(&form, letter, &value)?;
            self.push(&mut out, &piece)?;
        }
        let all_used = match values {
            Value::Tuple(values) => filled.next >= values.items().len(),
            Value::Dict(_) | Value::List(_) => true,
            _ => by_name || filled.next > 0,
        };
        if !all_used {
            return Err(Error::failed("not all arguments converted during string formatting"));
        }
        Ok(Value::Text(out.into()))
    }

    fn printed(&mut self, form: &Form, letter: char, value: &Value) -> Result<Vec<Char>, Error> {
        let wrong =
            |wanted: &str| Error::failed(format!("%{letter} format: {wanted} is required, not {}", value.kind()));
        if let Value::Undefined(what) = value
            && !matches!(letter, 's' | 'r' | 'a')
        {
            return Err(Error::failed(&**what));
        }
        match letter {
            's' | 'r' | 'a' | 'c' => {
                let mut text = match letter {
                    's' => self.str(value)?,
                    'c' => match value {
                        Value::Text(text) if text.chars().len() == 1 => text.chars().to_vec(),
                        other => {
                            let code = other.as_int().and_then(|code| char::from_u32(u32::try_from(code).ok()?));
                            // A number may be anybody's.
                            vec![Char::foreign(code.ok_or_else(|| wrong("int or char"))?)]
                        }
                    },
                    _ => {
                        self.spend_value(value)?;
                        let mut out = Vec::new();
                        crate::repr::repr(value, &mut out);
                        out
                    }
                };
                if let Some(precision) = form.precision.filter(|_| letter != 'c') {
                    text.truncate(precision);
                }
                Ok(padded(&text, form.width, Char::own(' '), if form.left { "ljust" } else { "rjust" }))
            }
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
                let whole = match value {
                    Value::Float(number) if !matches!(letter, 'x' | 'X' | 'o') => number::truncated(*number),
                    other => other.as_int(),
                };
                let whole = whole.ok_or_else(|| wrong("a real number"))?;
                let digits = integer(whole.unsigned_abs(), letter);
                let least = form.precision.unwrap_or(0);
                let zeros = "0".repeat(least.saturating_sub(digits.len()));
                let prefix = match (form.alternate, letter) {
                    (true, 'x') => "0x",
                    (true, 'X') => "0X",
                    (true, 'o') => "0o",
                    _ => "",
                };
                Ok(numeric(form, whole < 0, prefix, &format!("{zeros}{digits}")))
            }
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                let number = value.as_float().ok_or_else(|| wrong("a real number"))?;
                let digits = real(number.abs(), letter, form.precision.unwrap_or(6), form.alternate);
                Ok(numeric(form, number.is_sign_negative() && !number.is_nan(), "", &digits))
            }
            _ => Err(Error::failed(format!("unsupported format character '{letter}'"))),
        }
    }
}

/// A number with its sign, filled up.
fn numeric(form: &Form, negative: bool, prefix: &str, digits: &str) -> Vec<Char> {
    let sign = match (negative, form.plus, form.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    let before = format!("{sign}{prefix}");
    let zeros =
        if form.zero && !form.left { form.width.saturating_sub(before.len()).saturating_sub(digits.len()) } else { 0 };
    let mut out = Vec::new();
    push_own(&mut out, &before);
    out.extend(std::iter::repeat_n(Char::own('0'), zeros));
    push_own(&mut out, digits);
    padded(&out, form.width, Char::own(' '), if form.left { "ljust" } else { "rjust" })
}

/// The digits of a whole number.
pub fn integer(number: u128, letter: char) -> String {
    match letter {
        'x' => format!("{number:x}"),
        'X' => format!("{number:X}"),
        'o' => format!("{number:o}"),
        'b' => format!("{number:b}"),
        _ => number.to_string(),
    }
}

/// The digits of a number that is not negative.
pub fn real(number: f64, letter: char, precision: usize, alternate: bool) -> String {
    let precision = precision.min(1100);
    let upper = letter.is_ascii_uppercase();
    let text = if !number.is_finite() {
        if number.is_nan() { "nan".into() } else { "inf".into() }
    } else {
        match letter.to_ascii_lowercase() {
            'f' => format!("{number:.precision$}"),
            'e' => scientific(number, precision),
            _ => general(number, precision.max(1), alternate),
        }
    };
    if upper { text.to_uppercase() } else { text }
}

fn scientific(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    match text.split_once('e') {
        Some((digits, exponent)) => format!("{digits}e{}", number::written_exponent(exponent.parse().unwrap_or(0))),
        None => text,
    }
}

/// `%g`: the shorter of both forms, without zeros at the end.
fn general(number: f64, precision: usize, alternate: bool) -> String {
    let rounded = scientific(number, precision.saturating_sub(1));
    let Some((digits, exponent)) = rounded.split_once('e') else { return rounded };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let shortened = |text: &str| match (alternate, text.contains('.')) {
        (false, true) => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        _ => text.to_string(),
    };
    let places = i32::try_from(precision).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= places {
        return format!("{}e{}", shortened(digits), number::written_exponent(exponent));
    }
    let decimals = usize::try_from(places.saturating_sub(1).saturating_sub(exponent)).unwrap_or(0);
    shortened(&format!("{number:.decimals$}"))
}
