//! Text for prompts: everything in it visible, nothing left out, and no two texts shown alike.

#![deny(clippy::arithmetic_side_effects)]

use alloc::string::String;
use core::fmt::Write;

use crate::sanitise::push_visible;

/// Whether a character can stand for itself where a person decides: printable ASCII, and Latin letters with a mark of
/// their own that look like no other. Everything else could be invisible, move its neighbours, or pass for another
/// character. That holds for letters of other scripts (many look like Latin ones, some run from right to left),
/// combining marks, variation selectors, tags, and spaces and dashes of other widths. A character that is not known to
/// be clear is written out.
#[must_use]
pub fn is_clear(character: char) -> bool {
    match character {
        ' '..='~' => true,
        // Signs, ligatures and letters that are drawn as ASCII ones.
        '\u{d7}' | '\u{f7}' | '\u{131}'..='\u{133}' | '\u{138}' | '\u{149}' => false,
        '\u{c0}'..='\u{17e}' => true,
        _ => false,
    }
}

/// A text with each run of two or more spaces as `\u{20}` and their number in braces: spaces move what stands behind them
/// anywhere on the screen, and no person counts them. In a text without backslashes, or with only those of JSON or of the
/// functions here, nothing else looks like that.
#[must_use]
pub fn count_spaces(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut spaces = 0_usize;
    for character in text.chars().chain([char::MAX]) {
        if character == ' ' {
            spaces = spaces.saturating_add(1);
            continue;
        }
        match core::mem::take(&mut spaces) {
            0 => {}
            1 => out.push(' '),
            // Writing to a String cannot fail.
            many => drop(write!(out, "\\u{{20}}{{{many}}}")),
        }
        out.push(character);
    }
    out.pop();
    out
}

/// JSON in the form that is shown to a person who decides about it. It is on one line and complete, with every
/// character that is not [clear](is_clear) as `\u{...}` and runs of spaces [counted](count_spaces). Backslashes stay as
/// they are: none of JSON's own escapes looks like that.
#[must_use]
pub fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\\' => out.push(character),
            _ => push_escaped(character, &mut out),
        }
    }
    count_spaces(&out)
}

/// A text in the form that is shown to a person who decides about it. It is on one line and complete, with every
/// character that is not [clear](is_clear) written out and runs of spaces [counted](count_spaces). Different texts are
/// shown differently.
#[must_use]
pub fn escape_for_prompt(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        push_escaped(character, &mut out);
    }
    count_spaces(&out)
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
    count_spaces(&out)
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
    count_spaces(&out)
}

fn push_escaped(character: char, out: &mut String) {
    match character {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ if is_clear(character) => out.push(character),
        _ => push_visible(character, out),
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

    #[test]
    fn spaces_are_counted_where_there_are_several() {
        assert_eq!(escape_json("{\"a\":\" b  c   \"}"), "{\"a\":\" b\\u{20}{2}c\\u{20}{3}\"}");
        assert_eq!(escape_for_prompt(&" ".repeat(80)), "\\u{20}{80}");
        assert_eq!(quote("  "), "\"\\u{20}{2}\"");
        // What spells it is shown as another.
        assert_eq!(escape_for_prompt("\\u{20}{2}"), "\\\\u{20}{2}");
    }

    #[test]
    fn nothing_unclear_stands_for_itself() {
        assert_eq!(escape_json("{\"path\":\"a b/é\\n\"}"), "{\"path\":\"a b/é\\n\"}");
        let unclear = [
            '\u{430}',
            '\u{3bf}',
            '\u{5d0}',
            '\u{627}',
            '\u{7c0}',
            '\u{301}',
            '\u{200b}',
            '\u{200d}',
            '\u{2060}',
            '\u{feff}',
            '\u{202e}',
            '\u{2066}',
            '\u{115f}',
            '\u{3164}',
            '\u{ffa0}',
            '\u{fe0f}',
            '\u{e0041}',
            '\u{e0101}',
            '\u{a0}',
            '\u{ad}',
            '\u{2010}',
            '\u{2215}',
            '\u{ff41}',
            '\u{1d41a}',
            '\u{131}',
            '\u{17f}',
            '\u{2800}',
            '\u{1f600}',
            '\u{7f}',
            '\u{85}',
        ];
        for character in unclear {
            let written = format!("a\\u{{{:x}}}b", u32::from(character));
            assert_eq!(escape_json(&format!("a{character}b")), written);
            assert_eq!(escape_for_prompt(&format!("a{character}b")), written);
        }
    }

    #[test]
    fn what_is_clear_takes_one_column_and_runs_from_left_to_right() {
        use unicode_width::UnicodeWidthChar;
        for character in (0..=0x10_ffff).filter_map(char::from_u32).filter(|character| is_clear(*character)) {
            assert_eq!(character.width(), Some(1), "{character:?}");
            assert!(character.is_ascii() || character.is_alphabetic(), "{character:?}");
        }
    }

    proptest! {
        #[test]
        fn different_texts_are_shown_differently(one in "(  |[\\\\u{}0-9ab\\x00-\\x20\"ü\u{202e}\u{301}]){0,6}",
            two in "(  |[\\\\u{}0-9ab\\x00-\\x20\"ü\u{202e}\u{301}]){0,6}") {
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
