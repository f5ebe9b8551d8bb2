//! The sanitiser lets nothing through that a terminal would obey, however the input is cut.

#![allow(clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use capos_terminal::{Sanitiser, log_line, sanitise};
use proptest::prelude::*;

fn clean(bytes: &[u8]) -> String {
    sanitise(bytes).into_string()
}

fn in_pieces(bytes: &[u8], cuts: &[usize]) -> String {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    let mut sanitiser = Sanitiser::default();
    let mut out = String::new();
    for pair in cuts.windows(2) {
        out.push_str(sanitiser.push(&bytes[pair[0]..pair[1]]).as_str());
    }
    out.push_str(sanitiser.finish().as_str());
    out
}

fn is_harmless(text: &str) -> bool {
    text.chars().all(|character| match character {
        '\n' | '\t' => true,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => false,
        '\u{e0000}'..='\u{e0fff}' => false,
        _ => !character.is_control(),
    }) && text.bytes().all(|byte| byte >= 0x20 && byte != 0x7f || byte == b'\n' || byte == b'\t')
}

#[test]
fn sequences_are_removed_and_controls_are_shown() {
    for (input, output) in [
        (&b"plain \xc3\xbc \xe6\x97\xa5\n\ttext"[..], "plain ü 日\n\ttext"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b[?25l\x1b[2J\x1b[1;1Hx", "x"),
        (b"\x1b]0;title\x07x", "x"),
        (b"\x1b]0;title\x1b\\x", "x"),
        (b"\x1b]52;c;cm0gLXJm\x1b\\x", "x"),
        (b"\x1bP$q\"p\x1b\\x\x1b_apc\x1b\\y\x1b^pm\x1b\\z\x1bXsos\x1b\\", "xyz"),
        (b"\x1bc\x1b7\x1b8\x1b(B\x1b#8x", "x"),
        (b"a\x07b\x08c\x7fd\x00", "a\\u{7}b\\u{8}c\\u{7f}d\\u{0}"),
        (b"a\r\nb\rc\r", "a\nb\\u{d}c\\u{d}"),
        (b"\r\x1b[Kx", "\\u{d}x"),
        // C1, as one byte and in UTF-8.
        (b"\x9b31mx", "\u{fffd}31mx"),
        (b"\xc2\x9b31mx", "x"),
        (b"\xc2\x9d0;title\xc2\x9cx\xc2\x85y", "x\\u{85}y"),
        // Broken UTF-8.
        (b"\xff\xc0\xaf\xed\xa0\x80\xe6\x97", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        // What cannot be seen, and what turns text round.
        ("a\u{202e}b\u{2066}c\u{200e}d\u{61c}".as_bytes(), "a\\u{202e}b\\u{2066}c\\u{200e}d\\u{61c}"),
        ("a\u{200b}b\u{feff}c\u{ad}d\u{e0041}".as_bytes(), "a\\u{200b}b\\u{feff}c\\u{ad}d\\u{e0041}"),
        ("\u{2764}\u{fe0f}\u{fe0f}\u{fe01}x\u{e0101}".as_bytes(), "\u{2764}\u{fe0f}\\u{fe0f}\\u{fe01}x\\u{e0101}"),
        // Unfinished and interrupted sequences.
        (b"\x1b", "\\u{1b}"),
        (b"\x1b[31", ""),
        (b"\x1b\x1b[mx", "\\u{1b}x"),
        (b"\x1b[3\x1b[mx", "x"),
        (b"\x1b[3\nx", "\nx"),
        (b"\x1b]0;never ends\nnext line", "\nnext line"),
        (b"\x1b]0;one\x1b]0;two\x07x", "x"),
        (b"\x1bP\x18x", "x"),
    ] {
        assert_eq!(clean(input), output, "{input:?}");
    }
}

#[test]
fn an_unfinished_string_cannot_swallow_everything() {
    let mut input = b"\x1b]0;".to_vec();
    input.extend(vec![b'a'; 10_000]);
    let output = clean(&input);
    assert!(output.len() > 5_000 && output.bytes().all(|byte| byte == b'a'), "{}", output.len());
    let output = clean(format!("\x1b[{}m", "1;".repeat(500)).as_bytes());
    assert!(output.len() > 900, "an endless sequence is text");
}

#[test]
fn marks_do_not_pile_up() {
    let text = format!("e{}x", "\u{301}".repeat(100));
    let output = clean(text.as_bytes());
    let longest = output.split(|character| character != '\u{301}').map(str::len).max().unwrap_or(0);
    assert_eq!(longest, 8 * '\u{301}'.len_utf8());
    assert!(output.contains("\\u{301}"));
}

#[test]
fn every_single_and_every_second_byte_is_harmless() {
    for first in 0..=0xff_u8 {
        for second in 0..=0xff_u8 {
            for input in [&[first, second][..], &[0x1b, first, second], &[0xc2, first, second]] {
                let output = clean(input);
                assert!(is_harmless(&output), "{input:x?} gives {output:?}");
                for cut in 0..=input.len() {
                    assert_eq!(in_pieces(input, &[cut]), output);
                }
            }
        }
    }
}

#[test]
fn every_character_is_harmless() {
    for character in (0..=0x10_ffff).filter_map(char::from_u32) {
        let output = clean(format!("a{character}b").as_bytes());
        assert!(is_harmless(&output), "{character:?} gives {output:?}");
        assert_eq!(clean(output.as_bytes()), output);
    }
}

/// Bytes that are rich in what matters.
const PIECES: &[&[u8]] = &[
    b"\x1b",
    b"\x1b[",
    b"\x1b]",
    b"\x1bP",
    b"\x1b\\",
    b"\x9b",
    b"\xc2\x9b",
    b"\xc2\x9d",
    b"\xc2\x9c",
    b"\x07",
    b"\r",
    b"\n",
    b"31m",
    b"\xe2\x80\xae",
    b"\xef\xb8\x8f",
    b"\xcc\x81",
    b"\xf3\xa0\x81\x81",
    b"text",
    b"\\u{7}",
];

fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece =
        prop_oneof![any::<u8>().prop_map(|byte| vec![byte]), prop::sample::select(PIECES).prop_map(<[u8]>::to_vec),];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_comes_in_nothing_harmful_goes_out(bytes in hostile(), cuts in prop::collection::vec(any::<usize>(), 0..8)) {
        let output = clean(&bytes);
        prop_assert!(is_harmless(&output), "{:?}", output);
        prop_assert_eq!(in_pieces(&bytes, &cuts), output.clone());
        prop_assert_eq!(clean(output.as_bytes()), output);
    }

    #[test]
    fn printable_text_is_left_alone(text in "[ -~äöüßéñ日本語кириллица\n\t]{0,60}") {
        prop_assert_eq!(clean(text.as_bytes()), text);
    }
}

#[test]
fn a_line_of_a_log_hides_nothing() {
    let line = |text: &str| log_line(text).into_string();
    assert_eq!(line("a\x1b[2Jb\nc\td\r"), "a\\u{1b}[2Jb c\td\\u{d}");
    // A control string without an end, of both forms, would swallow the reason.
    assert_eq!(line("left out `x\x1b]` and \u{9d}: too long"), "left out `x\\u{1b}]` and \\u{9d}: too long");
    assert_eq!(line("ж 日 é"), "ж 日 é");
    assert!(!line("\u{202e}\u{200b}\x07").contains(['\u{202e}', '\u{200b}', '\x07']));
}
