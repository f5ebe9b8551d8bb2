//! Text for prompts: everything in it visible, nothing left out, and no two texts shown alike.

#![deny(clippy::arithmetic_side_effects)]

use alloc::string::String;
use core::fmt::Write;

use unicode_width::UnicodeWidthChar;

use crate::sanitise::{is_hidden, push_visible};

/// A text as it is shown where a person decides about it, such as the arguments of a tool call: on one line, whole,
/// every character visible. Letters of all scripts stay as they are; different texts are shown differently.
#[must_use]
pub fn escape_for_prompt(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        push_escaped(character, &mut out);
    }
    out
}

/// The same for bytes that need not be UTF-8; those that are not are shown as `\x..`.
#[must_use]
pub fn escape_bytes_for_prompt(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&escape_for_prompt(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// [`escape_for_prompt`] between quotes, so that spaces at the ends are seen.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        if character == '"' {
            out.push('\\');
        }
        push_escaped(character, &mut out);
    }
    out.push('"');
    out
}

/// A name between quotes with everything outside printable ASCII written out, so that look-alikes are told apart.
#[must_use]
pub fn quote_ascii(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            ' '..='~' => push_escaped(character, &mut out),
            _ => push_visible(character, &mut out),
        }
    }
    out.push('"');
    out
}

fn push_escaped(character: char, out: &mut String) {
    match character {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        ' '..='~' => out.push(character),
        _ if is_hidden(character) || character.is_whitespace() || character.width().unwrap_or(0) == 0 => {
            push_visible(character, out);
        }
        _ => out.push(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn everything_is_seen() {
        assert_eq!(
            escape_for_prompt("a\\n\n\r\t\u{1b}[2K ü\u{301} \u{202e}x\u{a0}"),
            "a\\\\n\\n\\r\\t\\u{1b}[2K ü\\u{301} \\u{202e}x\\u{a0}"
        );
        assert_eq!(escape_bytes_for_prompt(b"ok\xff\x9b\xc3"), "ok\\xff\\x9b\\xc3");
        assert_eq!(quote(" \"a\" "), "\" \\\"a\\\" \"");
        assert_eq!(quote_ascii("re\u{430}dFile"), "\"re\\u{430}dFile\"");
    }

    proptest! {
        #[test]
        fn different_texts_are_shown_differently(one in "[\\\\u{}0-9ab\\x00-\\x20\"ü\u{202e}\u{301}]{0,6}",
            two in "[\\\\u{}0-9ab\\x00-\\x20\"ü\u{202e}\u{301}]{0,6}") {
            prop_assert_eq!(one == two, escape_for_prompt(&one) == escape_for_prompt(&two));
            prop_assert_eq!(one == two, quote(&one) == quote(&two));
            prop_assert_eq!(one == two, quote_ascii(&one) == quote_ascii(&two));
        }

        #[test]
        fn different_bytes_are_shown_differently(one: Vec<u8>, two: Vec<u8>) {
            prop_assert_eq!(one == two, escape_bytes_for_prompt(&one) == escape_bytes_for_prompt(&two));
        }

        #[test]
        fn the_sanitiser_leaves_it_alone(text: String) {
            let shown = escape_for_prompt(&text);
            prop_assert_eq!(crate::sanitise(shown.as_bytes()).into_string(), shown);
        }
    }
}
