//! Takes what looks like a secret out of a result before a model sees it.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

const MASK: &str = "[redacted]";

/// Words before a `:` or `=` after which a secret stands.
const KEYS: [&str; 9] =
    ["password", "passwd", "passphrase", "secret", "token", "api_key", "apikey", "api-key", "private_key"];

/// Beginnings of well-known tokens and how many characters must follow at least.
const TOKENS: [(&str, usize); 7] =
    [("AKIA", 16), ("ghp_", 30), ("github_pat_", 30), ("sk-", 20), ("xoxb-", 20), ("glpat-", 16), ("eyJ", 40)];

/// The text without private keys, well-known tokens, bearer credentials and values given to names such as `password`;
/// and how many were taken out. What has another form is not found: a secret that a program turned round, or wrote without
/// its name.
#[must_use]
pub fn redact(text: &str) -> (String, usize) {
    let found = secrets(text);
    (masked(text, &found, 0..text.len(), usize::MAX).0, found.len())
}

/// Returns a part of the text with a mark instead of each secret that overlaps it, and where in the text that part
/// ends. It has at most `most` bytes, but at least one character or mark. `secrets` are those of the whole text, in
/// order.
pub fn masked(text: &str, secrets: &[Range<usize>], part: Range<usize>, most: usize) -> (String, usize) {
    let mut out = String::new();
    let mut at = part.start;
    for secret in secrets.iter().filter(|secret| secret.start < part.end && secret.end > part.start) {
        let plain = text.get(at..secret.start.max(at)).unwrap_or_default();
        let kept = fitting(plain, most, &mut out);
        at = at.saturating_add(kept);
        if kept < plain.len() || (!out.is_empty() && out.len().saturating_add(MASK.len()) > most) {
            return (out, at);
        }
        out.push_str(MASK);
        at = secret.end.min(part.end);
    }
    let plain = text.get(at..part.end).unwrap_or_default();
    let kept = fitting(plain, most, &mut out);
    (out, at.saturating_add(kept))
}

/// Appends as many characters as fit, and one to what is empty; how many bytes.
fn fitting(text: &str, most: usize, out: &mut String) -> usize {
    let least = if out.is_empty() { text.chars().next().map_or(0, char::len_utf8) } else { 0 };
    let end = text.floor_char_boundary(most.saturating_sub(out.len()).max(least));
    out.push_str(text.get(..end).unwrap_or_default());
    end
}

/// Where the secrets of a text are, in order.
pub fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut secrets = Vec::new();
    let mut rest = text;
    let mut before = None;
    while let Some(letter) = rest.chars().next() {
        let at_word = !before.is_some_and(is_word);
        let found = private_key(rest)
            .map(|length| (0, length))
            .or_else(|| token(rest).filter(|_| at_word).map(|length| (0, length)))
            .or_else(|| if at_word { bearer(rest) } else { None })
            .or_else(|| assignment(rest));
        if let Some((keep, length)) = found
            && let Some(after) = rest.get(keep.saturating_add(length)..)
        {
            let end = text.len().saturating_sub(after.len());
            secrets.push(end.saturating_sub(length)..end);
            before = None;
            rest = after;
            continue;
        }
        before = Some(letter);
        rest = rest.get(letter.len_utf8()..).unwrap_or_default();
    }
    secrets
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

/// Length of the run of token characters at the beginning.
fn run(text: &str) -> usize {
    text.find(|letter: char| !(is_word(letter) || matches!(letter, '.' | '+' | '/' | '=' | '~'))).unwrap_or(text.len())
}

fn private_key(text: &str) -> Option<usize> {
    let body = text.strip_prefix("-----BEGIN ")?;
    let name = body.get(..body.find("-----")?)?;
    if !name.ends_with("PRIVATE KEY") || name.len() > 64 {
        return None;
    }
    let end = text.find("-----END ").and_then(|at| {
        let tail = text.get(at.saturating_add(9)..)?;
        Some(at.saturating_add(9).saturating_add(tail.find("-----")?).saturating_add(5))
    });
    Some(end.unwrap_or(text.len()))
}

fn token(text: &str) -> Option<usize> {
    TOKENS.iter().find_map(|(prefix, least)| {
        let body = text.strip_prefix(prefix)?;
        let length = run(body);
        (length >= *least).then(|| prefix.len().saturating_add(length))
    })
}

fn bearer(text: &str) -> Option<(usize, usize)> {
    let scheme = text.get(..7)?;
    if !scheme.eq_ignore_ascii_case("bearer ") {
        return None;
    }
    let length = run(text.get(7..)?);
    (length >= 16).then_some((7, length))
}

/// A name from [`KEYS`], `:` or `=`, and a value: what is kept, and the length of the value.
fn assignment(text: &str) -> Option<(usize, usize)> {
    let key = KEYS.iter().find(|key| text.get(..key.len()).is_some_and(|start| start.eq_ignore_ascii_case(key)))?;
    let mut keep = key.len();
    let mut rest = text.get(keep..)?;
    // A JSON name ends with a quote, plain or escaped.
    for part in ["\\", "\""] {
        if let Some(after) = rest.strip_prefix(part) {
            keep = keep.saturating_add(part.len());
            rest = after;
        }
    }
    let spaced = rest.trim_start_matches([' ', '\t']);
    let value = spaced.strip_prefix(':').or_else(|| spaced.strip_prefix('='))?;
    let value = value.trim_start_matches([' ', '\t', '\\', '"', '\'']);
    keep = text.len().checked_sub(value.len())?;
    let length = value
        .find(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '\\' | ',' | ';' | '}'))
        .unwrap_or(value.len());
    (length > 0).then_some((keep, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_taken_out() {
        let cases = [
            ("password=hunter2 next", "password=[redacted] next", 1),
            ("password\t:\thunter2\tnext", "password\t:\t[redacted]\tnext", 1),
            (r#"{"output":"a\npassword: hunter2\nb"}"#, r#"{"output":"a\npassword: [redacted]\nb"}"#, 1),
            ("DB_PASSWORD: \"hunter2\", x", "DB_PASSWORD: \"[redacted]\", x", 1),
            (r#"{"api_key":"abc","n":1}"#, r#"{"api_key":"[redacted]","n":1}"#, 1),
            (r#"{\"token\": \"abc\"}"#, r#"{\"token\": \"[redacted]\"}"#, 1),
            ("id AKIAIOSFODNN7EXAMPLE.", "id [redacted]", 1),
            ("Authorization: Bearer abcdefghijklmnopqr\n", "Authorization: Bearer [redacted]\n", 1),
            ("a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b", "a [redacted] b", 1),
            ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted]", 1),
            ("-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----", 0),
            ("the password is not here; tokens are counted", "the password is not here; tokens are counted", 0),
            ("password=", "password=", 0),
            ("task-force, sky", "task-force, sky", 0),
        ];
        for (text, wanted, count) in cases {
            assert_eq!(redact(text), (wanted.into(), count), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_handled(text in "(password|[=:\" -]|sk-|.|-----BEGIN |PRIVATE KEY-----){0,40}") {
            let (out, count) = redact(&text);
            prop_assert_eq!(out.matches(MASK).count() >= count, true);
        }

        #[test]
        fn a_password_never_survives(before in "[a-z \n]{0,20}", value in "[A-Z0-9]{8,20}") {
            let (out, _) = redact(&format!("{before} password = {value} end"));
            prop_assert!(!out.contains(&value));
        }
    }
}
