//! Numbers as Python writes and rounds them.

/// Python's `repr` of a float.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    format!("{digits}e{}", written_exponent(exponent))
}

/// An exponent with its sign and at least two digits.
pub fn written_exponent(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{:02}", exponent.unsigned_abs())
}

/// The float of a text, as Python's `float` takes it.
pub fn read_float(text: &str) -> Option<f64> {
    let text = without_underscores(text.trim())?;
    let is_number = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E'));
    match text.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str() {
        "inf" | "infinity" | "nan" => text.parse().ok(),
        _ if is_number => text.parse().ok(),
        _ => None,
    }
}

/// The whole number of a text, as Python's `int` takes it.
pub fn read_int(text: &str, base: u32) -> Option<i128> {
    let text = without_underscores(text.trim())?.to_ascii_lowercase();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(&text)),
    };
    let prefixed = |prefix: &str| digits.strip_prefix(prefix);
    let (base, digits) = match base {
        16 => (16, prefixed("0x").unwrap_or(digits)),
        8 => (8, prefixed("0o").unwrap_or(digits)),
        2 => (2, prefixed("0b").unwrap_or(digits)),
        0 => match (prefixed("0x"), prefixed("0o"), prefixed("0b")) {
            (Some(digits), _, _) => (16, digits),
            (_, Some(digits), _) => (8, digits),
            (_, _, Some(digits)) => (2, digits),
            _ => (10, digits),
        },
        base => (base, digits),
    };
    if digits.starts_with(['+', '-']) || !(2..=36).contains(&base) {
        return None;
    }
    let number = i128::from_str_radix(digits, base).ok()?;
    if negative { number.checked_neg() } else { Some(number) }
}

/// Python takes single underscores between digits.
fn without_underscores(text: &str) -> Option<String> {
    let wrong = text.starts_with('_') || text.ends_with('_') || text.contains("__");
    (!wrong).then(|| text.replace('_', ""))
}

/// Python's `round` of a float to this many decimals: halves go to the even neighbour, by the exact value.
pub fn round(value: f64, decimals: i32) -> f64 {
    if !value.is_finite() {
        return value;
    }
    if let Ok(decimals) = usize::try_from(decimals) {
        // No float has more than 1,074 decimals.
        return format!("{value:.*}", decimals.min(1100)).parse().unwrap_or(value);
    }
    let unit = 10f64.powi(decimals.saturating_neg());
    if unit.is_finite() { (value / unit).round_ties_even() * unit } else { 0.0 }
}

/// Python's `round` of a whole number to tens, hundreds and so on.
pub fn round_int(value: i128, decimals: i32) -> i128 {
    if decimals >= 0 {
        return value;
    }
    let Some(unit) = 10i128.checked_pow(decimals.unsigned_abs()) else { return 0 };
    let rest = value.checked_rem_euclid(unit).unwrap_or(0);
    let down = value.saturating_sub(rest);
    let double = rest.saturating_mul(2);
    let is_odd = down.checked_div(unit).is_some_and(|tens| tens.checked_rem(2) != Some(0));
    if double > unit || double == unit && is_odd { down.saturating_add(unit) } else { down }
}

/// A float without its fraction, if it is a number that `i128` holds. Python's whole numbers have no bound.
#[allow(clippy::cast_possible_truncation)]
pub fn truncated(value: f64) -> Option<i128> {
    let whole = value.trunc();
    (whole.abs() < 1.7e38).then_some(whole as i128)
}

/// Python's `%` of floats: the sign is the divisor's.
pub fn float_modulo(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

/// Python's `//` and `%` of whole numbers.
pub fn int_division(a: i128, b: i128) -> Option<(i128, i128)> {
    let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    if rest != 0 && (rest < 0) != (b < 0) {
        return Some((quotient.checked_sub(1)?, rest.checked_add(b)?));
    }
    Some((quotient, rest))
}
