//! Text from a model, as people can trust what they see of it.

use alloc::format;
use alloc::string::String;

use capos_schema::cap::ExceptionKind;
use capos_terminal::{count_spaces, quote};

/// The text on one line: letters, digits and printable ASCII as they are; everything that moves the cursor, hides, or
/// turns the direction of writing as an escape.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == ' ' || letter.is_ascii_graphic() || letter.is_alphanumeric() {
            out.push(letter);
        } else {
            out.extend(letter.escape_default());
        }
    }
    out
}

/// A name that a file brought along, within a line of the shell's: escaped, and without spaces that would move what follows.
pub fn name(text: &str) -> String {
    count_spaces(&escape(text.trim()))
}

/// A record on one line, unchanged except for characters that would end the line or move the cursor. Whatever else does
/// not belong on a screen is for the terminal to write out, as with all that it shows.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            out.extend(letter.escape_default());
        } else {
            out.push(letter);
        }
    }
    out
}

/// What is wrong, without the words for its kind that services answer each other with and that say nothing to a person.
pub fn plain(why: &str) -> String {
    let mut plain = String::from(why);
    for kind in [ExceptionKind::InvalidArgument, ExceptionKind::Failed, ExceptionKind::Overloaded] {
        let word = format!("{}: ", kind.words());
        if let Some(rest) = plain.strip_prefix(&word) {
            plain = String::from(rest);
        }
        plain = plain.replace(&format!(": {word}"), ": ");
    }
    plain
}

/// The first line of a text, escaped, at most `most` characters of it, with a mark where that is not all.
pub fn first_line(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short = shorten(&escape(line), most);
    if line.len() < text.trim_end().len() && !short.ends_with('…') {
        short.push('…');
    }
    short
}

/// A text, at most `most` characters of it, with a mark where that is not all.
pub fn shorten(text: &str, most: usize) -> String {
    let mut letters = text.chars();
    let mut short: String = letters.by_ref().take(most).collect();
    if letters.next().is_some() {
        short.push('…');
    }
    short
}

/// A text in quotes, at most `most` characters of it, with a mark behind the quotes where that is not all, or where the text
/// ends with one itself.
pub fn in_quotes(text: &str, most: usize) -> String {
    let whole = text.strip_suffix('…').unwrap_or(text);
    let short: String = whole.chars().take(most).collect();
    let mark = if short.len() < text.len() { "…" } else { "" };
    format!("{}{mark}", quote(if mark.is_empty() { &short } else { short.trim_end() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_marked_behind_the_quotes() {
        assert_eq!(in_quotes("a \"b\"", 9), "\"a \\\"b\\\"\"");
        assert_eq!(in_quotes("äbc", 3), "\"äbc\"");
        assert_eq!(in_quotes("äbc", 2), "\"äb\"…");
        assert_eq!(in_quotes("ä bc", 2), "\"ä\"…");
        assert_eq!(in_quotes("äbc…", 9), "\"äbc\"…");
    }

    #[test]
    fn nothing_hides_in_arguments() {
        assert_eq!(escape("{\"path\":\"a b/é\"}"), "{\"path\":\"a b/é\"}");
        assert_eq!(escape("a\u{202e}b\u{200b}\u{1b}[2J\n\r"), "a\\u{202e}b\\u{200b}\\u{1b}[2J\\n\\r");
    }

    #[test]
    fn a_name_stays_in_its_line() {
        assert_eq!(name("second         "), "second");
        assert_eq!(name("a\ncapos>  b\u{1b}[2J\t"), "a\\ncapos>\\u{20}{2}b\\u{1b}[2J");
        assert_eq!(name("модель 日本"), "модель 日本");
    }

    #[test]
    fn records_are_shown_as_they_are_on_one_line() {
        assert_eq!(one_line("{\"a\":\"xx… (3000 bytes in all)é日\\n"), "{\"a\":\"xx… (3000 bytes in all)é日\\n");
        assert_eq!(one_line("a\nb\r\t\u{1b}[2J\u{9b}"), "a\\nb\\r\\t\\u{1b}[2J\\u{9b}");
    }

    #[test]
    fn errors_are_told_without_their_kind() {
        assert_eq!(plain("invalid argument: there is no `x`"), "there is no `x`");
        assert_eq!(plain("login rejected: invalid argument: no"), "login rejected: no");
        assert_eq!(plain("failed: too few: failed: why"), "too few: why");
        assert_eq!(plain("the service has failed: why"), "the service has failed: why");
        assert_eq!(plain("it is an invalid argument"), "it is an invalid argument");
    }

    #[test]
    fn first_lines_are_short() {
        assert_eq!(first_line("one\ntwo", 10), "one…");
        assert_eq!(first_line("one\n", 10), "one");
        assert_eq!(first_line("one", 2), "on…");
        assert_eq!(first_line("one", 3), "one");
        assert_eq!(first_line("\u{1b}[2J", 20), "\\u{1b}[2J");
    }
}
