//! Secrets that follow their names without `:` or `=`: elements of XML, and options of a command.
//!
//! Each look ahead is bounded, or ends at the next `<`, line or word, so that the time is linear in the text.

use alloc::format;
use core::ops::Range;

use super::names::{is_about, is_harmless, is_secret_name, is_secret_option};
use crate::{after, blanks, is_word, quoted};

/// Bytes in which the end of a tag, and the end of an element with elements in it, are looked for.
const LOOK: usize = 512;

/// Words that stand behind an option in a sentence about it.
const PROSE: [&str; 42] = [
    "a", "an", "and", "are", "argument", "as", "at", "but", "can", "does", "expects", "flag", "for", "from", "given",
    "has", "if", "in", "instead", "is", "it", "may", "must", "needs", "not", "on", "option", "options", "or", "reads",
    "requires", "sets", "should", "so", "takes", "the", "to", "was", "when", "which", "will", "with",
];

/// Words for a value that is still to be put in.
const PLACEHOLDERS: [&str; 6] = ["FILE", "VALUE", "STRING", "TEXT", "PASS", "KEY"];

/// The text up to this many bytes.
fn window(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LOOK)).unwrap_or(text)
}

/// Where `part` lies in `text`, of which it is a piece, without the blanks around it. `None` if nothing is left.
fn place(text: &str, part: &str) -> Option<Range<usize>> {
    let start = part.trim_start();
    let offset = (start.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let length = start.trim_end().len();
    (length > 0).then(|| offset..offset.saturating_add(length))
}

/// What an element holds whose name, or whose attribute `name` or `key`, [`is_secret_name`]: its content, or its attribute
/// `value`. The range is relative to `at`, where the name begins.
pub(crate) fn element(text: &str, at: usize, name: &str) -> Option<Range<usize>> {
    if !is_secret_name(name) || is_about(name) {
        return None;
    }
    let before = text.get(text.ceil_char_boundary(at.saturating_sub(64))..at).unwrap_or_default();
    let opening = before.trim_end_matches(|letter| is_word(letter) || matches!(letter, '.' | ':'));
    let prefix = after(before, opening.len());
    let here = after(text, at);
    let rest = after(here, name.len());
    if let Some(before) = opening.strip_suffix('<') {
        return of_element(here, rest, prefix, name, before.ends_with(is_word));
    }
    if opening.ends_with("<key>") {
        let string = rest.strip_prefix("</key>")?.trim_start().strip_prefix("<string>")?;
        return simple(here, name, window(string), "</");
    }
    let attribute = opening.strip_suffix(['"', '\''])?.strip_suffix('=')?;
    let is_key = [" name", " key"].iter().any(|known| {
        let start = attribute.len().checked_sub(known.len()).and_then(|start| attribute.get(start..));
        start.is_some_and(|end| end.eq_ignore_ascii_case(known))
    });
    let (tag, content) = tag(rest.strip_prefix(['"', '\'']).filter(|_| is_key)?)?;
    let of_page = ["<a ", "<button ", "<input ", "<meta "].iter().any(|known| opening.contains(known));
    value(here, name, tag).or_else(|| simple(here, name, window(content), "</").filter(|_| !of_page))
}

/// What an element of this name holds. `rest` is what follows the name in its first tag.
fn of_element(here: &str, rest: &str, prefix: &str, name: &str, joined: bool) -> Option<Range<usize>> {
    if !rest.starts_with(|letter: char| matches!(letter, '>' | '/') || letter.is_whitespace()) {
        return None;
    }
    let (tag, content) = tag(rest)?;
    if let Some(found) = value(here, name, tag) {
        return Some(found);
    }
    if tag.ends_with('/') {
        return None;
    }
    let end = format!("</{prefix}{name}");
    // `Vec<Token>` is no element.
    if joined || !content.trim_start().starts_with('<') {
        let found = simple(here, name, content, &end);
        if joined || found.is_some() {
            return found;
        }
    }
    if let Some(data) = content.trim_start().strip_prefix("<![CDATA[") {
        return place(here, data.split("]]>").next()?);
    }
    let content = window(content);
    place(here, content.get(..content.find(&end)?)?)
}

/// The rest of a tag, and what follows it.
fn tag(rest: &str) -> Option<(&str, &str)> {
    let end = window(rest).find(['<', '>']).filter(|end| after(rest, *end).starts_with('>'))?;
    Some((rest.get(..end)?, rest.get(end.saturating_add(1)..)?))
}

/// The attribute `value` of a tag.
fn value(here: &str, name: &str, tag: &str) -> Option<Range<usize>> {
    let attribute = [" value=", " Value="].iter().find_map(|known| tag.split_once(known))?.1;
    let found = attribute.get(quoted(attribute)?)?;
    place(here, found).filter(|_| !is_harmless(name, found))
}

/// Content without elements, up to this end.
fn simple(here: &str, name: &str, content: &str, end: &str) -> Option<Range<usize>> {
    let length = content.find('<').filter(|length| after(content, *length).starts_with(end))?;
    let found = content.get(..length)?;
    place(here, found).filter(|_| !is_harmless(name, found.trim_start()))
}

/// The word after an option that takes a secret, as `--password x` or `"--password", "x"`, or the next item of a list. What
/// stands for a value, is another option or continues a sentence, is none. The range is relative to `at`, where the name begins.
pub(crate) fn option(whole: &str, at: usize, name: &str) -> Option<Range<usize>> {
    if !is_secret_option(name) {
        return None;
    }
    let text = after(whole, at);
    let rest = after(text, name.len());
    let unquoted = rest.strip_prefix(['"', '\'', '`']);
    if let Some(list) = unquoted.and_then(|list| blanks(list).strip_prefix(',')) {
        let value = list.trim_start();
        return place(text, value.get(quoted(value)?)?).filter(|found| !after(text, found.start).starts_with('-'));
    }
    let before = whole.get(..at).unwrap_or_default().trim_end_matches(['"', '\'', '`']);
    if let Some(item) = before.strip_suffix("- ").and_then(|_| next_item(unquoted.unwrap_or(rest))) {
        let found = item.get(quoted(item).unwrap_or(0..item.find('\n').unwrap_or(item.len())))?;
        let is_word = !found.starts_with(['-', '$', '<', '{']) && !found.trim().contains(' ');
        return place(text, found).filter(|_| is_word);
    }
    let value = rest.strip_prefix([' ', '\t'])?;
    let stands_for = value.strip_prefix('"').unwrap_or(value).starts_with(['$', '%', '<', '[', '{', '(']);
    let ends = value.starts_with(|letter: char| letter.is_whitespace() || "-|&>;,.)\\`".contains(letter));
    if stands_for || ends || is_harmless(name, value) {
        return None;
    }
    if let Some(found) = quoted(value) {
        return place(text, value.get(found)?);
    }
    let word = value.get(..shell_word(value))?;
    let plain = word.trim_end_matches([',', '.', ':', ';', ')']);
    let is_capitals = plain.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let put_in = is_capitals && (is_secret_name(plain) || PLACEHOLDERS.contains(&plain));
    place(text, word).filter(|_| !put_in && !PROSE.contains(&plain))
}

/// What the next line holds, if it is the next item of a list in YAML.
fn next_item(rest: &str) -> Option<&str> {
    let next = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    blanks(next).strip_prefix("- ")
}

/// Length of the word of a command at the beginning. A quote that its line does not end is not a part of it.
pub(crate) fn shell_word(text: &str) -> usize {
    let mut quote: Option<(char, usize)> = None;
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            _ if core::mem::take(&mut escaped) => {}
            ('\\', _) => escaped = true,
            ('\n', Some((_, from))) => return from,
            (letter, Some((mark, _))) => quote = quote.filter(|_| letter != mark),
            ('"' | '\'', None) => quote = Some((letter, at)),
            (letter, None) if letter.is_whitespace() || "`;|&<>)".contains(letter) => return at,
            _ => {}
        }
    }
    quote.map_or(text.len(), |(_, from)| from)
}
