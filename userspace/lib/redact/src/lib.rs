//! Takes what looks like a secret out of a text before a model sees it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod brackets;
mod forms;
mod json;
mod names;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::OnceCell;
use core::ops::Range;

use serde_json::Value;

use brackets::Brackets;
use forms::{element, option, shell_word};
use names::{is_harmless, is_secret_name, joined};

/// The text that replaces a secret.
pub const MASK: &str = "[redacted]";

/// A header of HTTP, whose value begins with a scheme.
pub(crate) const AUTHORIZATION: &str = "authorization";
const SCHEMES: [&str; 4] = ["basic", "bearer", "digest", "token"];

/// Beginnings of well-known tokens and how many characters must follow at least.
const TOKENS: [(&str, usize); 22] = [
    ("AKIA", 16),
    ("ASIA", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("sk-", 20),
    ("sk_live_", 16),
    ("rk_live_", 16),
    ("xoxa-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xapp-", 20),
    ("npm_", 30),
    ("pypi-", 40),
    ("hf_", 30),
    ("AIza", 30),
    ("ya29.", 20),
    ("eyJ", 40),
];

/// The text without private keys, well-known tokens, bearer credentials, passwords in URLs and values of names such as
/// `password`, and how many were taken out. A name's value follows `:` or `=`, or is an element's content, or the word
/// after an option. Other forms are not found: a secret that a program reversed, or wrote without its name.
#[must_use]
pub fn redact(text: &str) -> (String, usize) {
    if is_json(text) {
        return json::redact(text);
    }
    let found = secrets(text);
    (masked(text, &found, 0..text.len(), usize::MAX).0, found.len())
}

/// The same with as many lines as the text: a secret of several lines leaves its line ends.
#[must_use]
pub fn redact_lines(text: &str) -> String {
    if is_json(text) {
        return json::redact(text).0;
    }
    let (mut out, mut at) = (String::with_capacity(text.len()), 0_usize);
    for secret in secrets(text) {
        out.push_str(text.get(at..secret.start).unwrap_or_default());
        out.push_str(MASK);
        let lines = text.get(secret.clone()).unwrap_or_default().matches('\n');
        out.extend(lines);
        at = secret.end;
    }
    out.push_str(after(text, at));
    out
}

/// Whether a text is an object or a list of JSON.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<Value>(text).is_ok()
}

/// Returns a part of the text with a mark instead of each secret that overlaps it, and where in the text that part
/// ends. It has at most `most` bytes, but at least one character or mark. `secrets` are those of the whole text, in
/// order.
#[must_use]
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

/// Where the secrets of a text are, in order. The time is linear in the text: what is looked at ahead is either a secret, and
/// skipped, or ends at the next line or word. The brackets of the text are looked for once.
#[must_use]
pub fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut secrets = Vec::new();
    let brackets = OnceCell::new();
    let mut at = 0_usize;
    while let Some(letter) = after(text, at).chars().next() {
        let rest = after(text, at);
        let word = word(rest);
        let found = if word.is_empty() {
            url_password(rest)
        } else {
            private_key(rest, word)
                .or_else(|| token(rest))
                .or_else(|| bearer(rest, word))
                .or_else(|| element(text, at, word))
                .or_else(|| option(text, at, word))
                .or_else(|| assignment(text, at, word, &brackets))
        };
        let found = found.filter(|secret| !secret.is_empty());
        let step = found.as_ref().map_or(word.len().max(letter.len_utf8()), |secret| secret.end);
        if let Some(secret) = found {
            secrets.push(at.saturating_add(secret.start)..at.saturating_add(secret.end));
        }
        at = at.saturating_add(step);
    }
    secrets
}

pub(crate) fn after(text: &str, at: usize) -> &str {
    text.get(at..).unwrap_or_default()
}

pub(crate) fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

/// The word at the beginning.
fn word(text: &str) -> &str {
    text.split(|letter| !is_word(letter)).next().unwrap_or_default()
}

/// Length of the run of token characters at the beginning.
fn run(text: &str) -> usize {
    text.find(|letter: char| !(is_word(letter) || matches!(letter, '.' | '+' | '/' | '=' | '~'))).unwrap_or(text.len())
}

pub(crate) fn blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

/// A private key, behind a word that ends with the dashes of its first line.
fn private_key(text: &str, word: &str) -> Option<Range<usize>> {
    const BEGIN: &str = "-----BEGIN";
    const END: &str = "-----END ";
    let start = word.len().checked_sub(BEGIN.len()).filter(|_| word.ends_with(BEGIN))?;
    let key = after(text, start);
    let name = after(key, BEGIN.len()).split("-----").next()?;
    if !name.contains("PRIVATE KEY") || name.len() > 64 {
        return None;
    }
    let end = key.find(END).map(|at| at.saturating_add(END.len())).and_then(|at| {
        let length = after(key, at).find("-----")?;
        Some(at.saturating_add(length).saturating_add(5))
    });
    Some(start..start.saturating_add(end.unwrap_or(key.len())))
}

fn token(text: &str) -> Option<Range<usize>> {
    TOKENS.iter().find_map(|(prefix, least)| {
        let length = run(text.strip_prefix(prefix)?);
        (length >= *least).then(|| 0..prefix.len().saturating_add(length))
    })
}

fn bearer(text: &str, word: &str) -> Option<Range<usize>> {
    let rest = after(text, word.len());
    let value = blanks(rest);
    let length = run(value);
    let start = text.len().saturating_sub(value.len());
    (word.eq_ignore_ascii_case("bearer") && value.len() < rest.len() && length >= 16)
        .then(|| start..start.saturating_add(length))
}

/// The password of `://user:password@host`.
fn url_password(text: &str) -> Option<Range<usize>> {
    let rest = text.strip_prefix("://")?.split("://").next()?;
    let rest = rest.split(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '<' | '>')).next()?;
    let (user, rest) = rest.split_once(':')?;
    if user.contains(['/', '?', '#', '@']) {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let length = match authority.rfind('@') {
        Some(length) => length,
        // What is no port is a password, with characters that a URL would have encoded.
        None if authority.bytes().any(|byte| !byte.is_ascii_digit()) => rest.rfind('@')?,
        None => return None,
    };
    let start = user.len().saturating_add(4);
    Some(start..start.saturating_add(length))
}

/// The value of a name that [`is_secret_name`], behind `:` or `=`. The range is relative to `at`, where the name begins.
fn assignment(text: &str, at: usize, name: &str, brackets: &OnceCell<Brackets>) -> Option<Range<usize>> {
    if !is_secret_name(name) {
        return None;
    }
    let rest = after(after(text, at), name.len());
    // A quoted name ends with its quote, plain or escaped; one in brackets with a bracket.
    let rest = rest.trim_start_matches('\\');
    let rest = rest.strip_prefix(['"', '\'', '`']).unwrap_or(rest);
    let rest = blanks(rest.strip_prefix(']').unwrap_or(rest));
    let (separator, value) = if let Some(value) = rest.strip_prefix(':') {
        // `a::b` is a path of a program.
        if value.starts_with(':') {
            return None;
        }
        (':', value.strip_prefix('=').unwrap_or(value))
    } else {
        let value = rest.strip_prefix('=')?;
        ('=', value.strip_prefix(['=', '>']).unwrap_or(value))
    };
    let mut value = blanks(value);
    if is_harmless(name, value) {
        return None;
    }
    if joined(name).contains(AUTHORIZATION) {
        let scheme = word(value);
        if SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
            value = blanks(after(value, scheme.len()));
        }
    }
    let start = text.len().saturating_sub(value.len()).saturating_sub(at);
    let found = if let Some(quoted) = quoted(value) {
        quoted
    } else if name.starts_with('-') {
        // An option's value is a word of its command.
        0..shell_word(value)
    } else {
        let found = unquoted(value, separator, || column(text, at));
        let end = bracketed(text, value, &found, brackets);
        // A bracket on the next line begins the value, if nothing else does.
        let start = if found.is_empty() && end > 0 {
            value.len().saturating_sub(value.trim_start().len())
        } else {
            found.start
        };
        start..end.max(found.end)
    };
    Some(start.saturating_add(found.start)..start.saturating_add(found.end))
}

/// Where the bracket closes that a value begins with, on its line or the next one, or that its first line ends with; 0 without
/// such a bracket. `value` is the end of `text`, and `found` what its lines say of it.
fn bracketed(text: &str, value: &str, found: &Range<usize>, brackets: &OnceCell<Brackets>) -> usize {
    let opens = value.strip_prefix("\r\n").or_else(|| value.strip_prefix('\n')).map_or(value, blanks);
    let first = line(value);
    let last = value.get(found.start..first).and_then(|line| line.char_indices().next_back());
    let is_bracket = |letter: char| matches!(letter, '[' | '{' | '(');
    let begins = opens.starts_with(is_bracket).then(|| value.len().saturating_sub(opens.len()));
    let ends = last.filter(|(_, letter)| is_bracket(*letter)).map(|(place, _)| found.start.saturating_add(place));
    let offset = text.len().saturating_sub(value.len());
    let mut end = 0_usize;
    for place in [begins, ends].into_iter().flatten() {
        let all = brackets.get_or_init(|| Brackets::of(text));
        let Some(held) = all.at(offset.saturating_add(place)) else { continue };
        let tail = after(text, held.end);
        let rest = if tail.starts_with([',', ';', ']', '}', ')']) { 0 } else { line(tail) };
        end = end.max(held.end.saturating_add(rest).saturating_sub(offset));
    }
    end
}

/// What a value in quotes holds: up to the same quote, unescaped. If text follows that quote at once, the value continues
/// with it: YAML doubles quotes, and a shell joins quoted pieces to a word. Without a second quote it is all that follows.
pub(crate) fn quoted(value: &str) -> Option<Range<usize>> {
    let body = value.trim_start_matches('\\');
    let slashes = value.len().saturating_sub(body.len());
    let quote = body.chars().next().filter(|letter| matches!(letter, '"' | '\'' | '`'))?;
    let one = body.get(..1)?;
    let three = one.repeat(3);
    let mark = if body.starts_with(&three) { three.as_str() } else { one };
    let start = slashes.saturating_add(mark.len());
    let mut escapes = 0_usize;
    for (place, letter) in after(value, start).char_indices() {
        if letter == '\\' {
            escapes = escapes.saturating_add(1);
            continue;
        }
        let at = start.saturating_add(place);
        if letter == quote && ends(slashes, escapes) && after(value, at).starts_with(mark) {
            let next = at.saturating_add(mark.len());
            let tail = after(value, next);
            let goes_on = tail.chars().next().is_some_and(|letter| {
                !(letter.is_whitespace()
                    || matches!(letter, ',' | ';' | '}' | ']' | ')' | '<' | '>')
                    || (letter == '\\' && slashes > 0))
            });
            let end = if goes_on { next.saturating_add(line(tail)) } else { at.saturating_sub(escapes.min(slashes)) };
            return Some(start..end);
        }
        escapes = 0;
    }
    Some(start..value.len())
}

/// Whether a quote behind `escapes` backslashes ends a string that began with a quote behind `opening` of them. Each level of
/// strings around it escapes it once.
fn ends(mut opening: usize, mut escapes: usize) -> bool {
    while opening > 0 && !escapes.is_multiple_of(2) {
        opening = opening.saturating_sub(1) / 2;
        escapes = escapes.saturating_sub(1) / 2;
    }
    escapes.is_multiple_of(2)
}

/// Length of the line at the beginning, with those that a backslash at its end joins to it, without blanks at the end.
fn line(text: &str) -> usize {
    let mut length = 0_usize;
    for line in text.split_inclusive('\n') {
        length = length.saturating_add(line.len());
        if !line.trim_end_matches(['\r', '\n']).ends_with('\\') {
            break;
        }
    }
    text.get(..length).unwrap_or_default().trim_end().len()
}

/// A value without quotes: the rest of its line. Where that only opens a value, also the lines that are indented below the
/// name; where it is empty, the next line, unless that gives a value to another name.
fn unquoted(value: &str, separator: char, column: impl FnOnce() -> usize) -> Range<usize> {
    let first = line(value);
    let words = value.get(..first).unwrap_or_default().split_whitespace();
    let mut words = words.take_while(|word| !word.starts_with('#') && !word.starts_with("//"));
    let opening = words.find(|word| !word.starts_with(['!', '&'])).unwrap_or_default();
    let alone = words.next().is_none();
    let folded = opening.starts_with(['|', '>'])
        && opening.chars().skip(1).all(|letter| letter.is_ascii_digit() || matches!(letter, '+' | '-'));
    if !(folded || alone && matches!(opening, "" | "[" | "{" | "(")) {
        return 0..first;
    }
    let lines = after(value, first).find('\n').map_or(value.len(), |end| first.saturating_add(end).saturating_add(1));
    let rest = after(value, lines);
    let mut length = block(rest, column());
    let next = rest.split('\n').next().unwrap_or_default();
    if length == 0 && opening.is_empty() && !gives_a_value(next, separator) {
        length = next.trim_end().len();
    }
    if length == 0 {
        return 0..first;
    }
    let end = lines.saturating_add(length);
    let blank = value.get(..end).unwrap_or_default().trim_start().len();
    end.saturating_sub(blank)..end
}

/// Length of the lines that are indented by more than `column`, or are items of a list at it.
fn block(text: &str, column: usize) -> usize {
    let (mut at, mut end) = (0_usize, 0_usize);
    for line in text.split_inclusive('\n') {
        let content = line.trim_start();
        let indent = line.len().saturating_sub(content.len());
        if !content.is_empty() {
            if indent < column || (indent == column && !content.starts_with("- ")) {
                break;
            }
            end = at.saturating_add(line.trim_end().len());
        }
        at = at.saturating_add(line.len());
    }
    end
}

/// The column of a name that only marks of a list stand before, or that of its line.
fn column(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
    let before = before.trim_end_matches(['"', '\'', '`']);
    let marks = before.trim_start_matches([' ', '\t', '-']);
    if marks.is_empty() { before.len() } else { before.len().saturating_sub(blanks(before).len()) }
}

/// Whether a line gives a value to a name in this way.
fn gives_a_value(line: &str, separator: char) -> bool {
    let line = line.trim_start_matches([' ', '\t', '-', '"', '\'']);
    let name = word(line);
    let rest = after(line, name.len()).trim_start_matches(['"', '\'', ' ', '\t']);
    let Some(value) = rest.strip_prefix(separator).filter(|_| !name.is_empty()) else { return false };
    match separator {
        ':' => value.is_empty() || value.starts_with(char::is_whitespace),
        // Equals signs at the end fill a number in base 64 up.
        _ => !value.trim_end().is_empty() && !value.starts_with('='),
    }
}
