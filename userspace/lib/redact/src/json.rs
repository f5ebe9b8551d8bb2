//! Takes secrets out of JSON: each string is searched as the text that it stands for.

use alloc::string::{String, ToString};

use serde_json::Value;

use super::names::{is_harmless, is_secret_name, is_secret_option};
use crate::{MASK, redact as redact_text};

/// Valid JSON without secrets, and how many were taken out.
pub fn redact(text: &str) -> (String, usize) {
    let mut out = String::with_capacity(text.len());
    let mut count = 0_usize;
    let mut rest = text;
    while let Some(at) = rest.find('"') {
        let (before, found) = split(rest, at);
        out.push_str(before);
        let (string, behind) = split(found, string(found));
        rest = behind;
        let Ok(plain) = serde_json::from_str::<String>(string) else {
            out.push_str(string);
            continue;
        };
        let (clean, secrets) = redact_text(&plain);
        count = count.saturating_add(secrets);
        if secrets == 0 {
            out.push_str(string);
        } else {
            out.push_str(&Value::String(clean).to_string());
        }
        // The value of a name, or the word after an option in a list.
        let separator = if is_secret_option(&plain) { ',' } else { ':' };
        let Some(value) = rest.trim_start().strip_prefix(separator).map(str::trim_start) else { continue };
        if is_secret_name(&plain) && !is_harmless(&plain, value) {
            out.push_str(split(rest, rest.len().saturating_sub(value.len())).0);
            let (value, behind) = split(value, length(value));
            rest = behind;
            if value == "\"\"" {
                out.push_str(value);
            } else {
                out.push_str(&Value::from(MASK).to_string());
                count = count.saturating_add(1);
            }
        }
    }
    out.push_str(rest);
    (out, count)
}

fn split(text: &str, at: usize) -> (&str, &str) {
    text.split_at_checked(at).unwrap_or((text, ""))
}

/// Length of the string at the beginning, with its quotes.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        if letter == '"' && !escaped {
            return at.saturating_add(1);
        }
        escaped = letter == '\\' && !escaped;
    }
    text.len()
}

/// Length of the value at the beginning.
fn length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0_usize;
    while let Some(letter) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let mut step = letter.len_utf8();
        match letter {
            '[' | '{' => depth = depth.saturating_add(1),
            ']' | '}' | ',' if depth == 0 => return at,
            ']' | '}' => depth = depth.saturating_sub(1),
            '"' => step = string(text.get(at..).unwrap_or_default()),
            letter if depth == 0 && letter.is_whitespace() => return at,
            _ => {}
        }
        at = at.saturating_add(step);
        if depth == 0 && matches!(letter, ']' | '}' | '"') {
            return at;
        }
    }
    at
}
