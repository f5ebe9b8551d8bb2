//! Which names have a secret as their value.

use alloc::string::String;
use alloc::vec::Vec;

use crate::AUTHORIZATION;

/// Words in a name whose value is a secret, without `_` and `-`.
const NAMES: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    AUTHORIZATION,
];

/// Last parts of a name that says something about a secret: where it is, or of which kind.
const ABOUT: [&str; 8] = ["file", "path", "dir", "type", "url", "uri", "stdin", "name"];

/// Parts of a name whose value, if it is a number, is a measure. `tokens` are counted; `token` is not.
const MEASURES: [&str; 37] = [
    "tokens",
    "max",
    "min",
    "maximum",
    "minimum",
    "count",
    "limit",
    "length",
    "len",
    "size",
    "bytes",
    "bits",
    "number",
    "total",
    "used",
    "left",
    "remaining",
    "ttl",
    "timeout",
    "ms",
    "secs",
    "seconds",
    "minutes",
    "hours",
    "days",
    "age",
    "expiry",
    "expires",
    "expire",
    "attempts",
    "retries",
    "tries",
    "budget",
    "quota",
    "rate",
    "window",
    "version",
];

/// Values that no secret has.
const CONSTANTS: [&str; 7] = ["null", "none", "nil", "None", "true", "false", "undefined"];

/// Whether a name holds a word of [`NAMES`], in any case and however its parts are joined.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = joined(name);
    NAMES.iter().any(|known| name.contains(known))
}

/// Whether the word after this option of a command is a secret.
pub(crate) fn is_secret_option(name: &str) -> bool {
    name.starts_with('-') && is_secret_name(name) && !is_about(name)
}

pub(crate) fn joined(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, '_' | '-')).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether a name says something about a secret, and does not have one as its value.
pub(crate) fn is_about(name: &str) -> bool {
    parts(name).last().is_some_and(|last| ABOUT.contains(&last.as_str()))
}

/// Whether the value at the beginning of a text cannot be the secret of a name that [`is_secret_name`].
pub(crate) fn is_harmless(name: &str, value: &str) -> bool {
    if is_about(name) {
        return true;
    }
    let ends = |rest: &str| {
        rest.trim_start_matches([' ', '\t']).chars().next().is_none_or(|letter| {
            matches!(letter, '\r' | '\n' | ',' | ';' | '}' | ']' | ')' | '#' | '<' | '&' | '"' | '\'' | '\\')
        })
    };
    if CONSTANTS.iter().any(|known| value.strip_prefix(known).is_some_and(ends)) {
        return true;
    }
    let value = value.trim_start_matches(['\\', '"', '\'', '`']);
    let rest = value.trim_start_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, '_' | '.' | ','));
    let digits = value.len().saturating_sub(rest.len());
    // A unit has at most two letters.
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = value.len().saturating_sub(rest.len()).saturating_sub(digits);
    let is_number = value.starts_with(|letter: char| letter.is_ascii_digit()) && digits <= 12 && unit <= 2;
    let bounded = rest.chars().next().is_none_or(|letter| letter.is_whitespace() || ends(rest));
    is_number && bounded && parts(name).iter().any(|part| MEASURES.contains(&part.as_str()))
}

/// The parts of a name, in lower case: `maxTokens` and `MAX_TOKENS` have two.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut part = String::new();
    let mut after_small = false;
    for letter in name.chars() {
        let joins = matches!(letter, '_' | '-' | '.');
        if (joins || (letter.is_uppercase() && after_small)) && !part.is_empty() {
            parts.push(core::mem::take(&mut part));
        }
        if !joins {
            part.push(letter.to_ascii_lowercase());
        }
        after_small = letter.is_lowercase();
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
