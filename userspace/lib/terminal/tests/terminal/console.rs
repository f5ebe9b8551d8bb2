//! The console on an emulated terminal: what a person sees and where the cursor is.

#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use capos_terminal::{CONTINUED, Console, Echo, Event, Read, Settings, Style, sanitise, wrap};
use proptest::prelude::*;

use crate::emulator::Session;

#[test]
fn editing_keys_do_what_they_do_everywhere() {
    for (typed, line) in [
        (&b"abc\r"[..], "abc"),
        (b"abc\x1b[D\x1b[DX\r", "aXbc"),
        (b"abc\x01X\x05Y\r", "XabcY"),
        (b"abc\x1b[HX\x1b[FY\r", "XabcY"),
        (b"abc\x7f\x7fX\r", "aX"),
        (b"abc\x01\x1b[3~\x04X\r", "Xc"),
        (b"one two three\x17X\r", "one two X"),
        (b"one two\x15X\r", "X"),
        (b"one two\x01\x1bf\x0bX\r", "oneX"),
        (b"one two\x17\x19\x19\r", "one twotwo"),
        (b"one two\x1bb\x1b\x7fX\r", "Xtwo"),
        (b"one two\x1b[1;5D\x1bdX\r", "one X"),
        (b"a\xc3\xbc\xe6\x97\xa5\x7f\x7fX\r", "aX"),
        (b"ae\xcc\x81\x7fX\r", "aX"),
        (b"ae\xcc\x81b\x1b[D\x1b[DX\r", "aXe\u{301}b"),
        (b"\x7f\x1b[D\x1b[C\x1b[3~\x17\x15\x0b\x1b[A\x1b[B\x19\r", ""),
        (b"\x1b[200~two\r\nlines\x1b[201~\r", "two\nlines"),
        (b"a\x0cb\r", "ab"),
    ] {
        assert_eq!(Session::new(80).line(typed), line, "{typed:?}");
    }
}

#[test]
fn a_choice_keeps_words_in_one_piece() {
    let mut session = Session::new(16);
    let completions = ["/a launcher", "/a list_services", "/a of_more_letters_than_columns", "/a power"];
    session.read(Read { completions: completions.map(Into::into).into(), ..Read::line("> ") });
    session.type_(b"/a \t");
    let expected = ["launcher", "list_services", "of_more_letters_", "than_columns", "power", "> /a "];
    let lines: Vec<String> = session.lines().iter().map(|line| line.to_string()).collect();
    assert_eq!(lines, expected.map(|line| line.trim_end()), "{lines:?}");
}

#[test]
fn tab_goes_on_with_a_line_or_tells_the_choice() {
    let mut session = Session::new(20);
    let completions: Vec<String> = ["/run cat ", "/run cksum ", "/status"].map(Into::into).into();
    let read = Read { completions, ..Read::line("> ") };
    session.read(read.clone());
    session.type_(b"/r\t");
    assert_eq!((session.lines().last(), session.cursor().1), (Some(&"> /run".into()), 7));
    session.type_(b"c\t");
    assert_eq!(session.lines(), ["cat  cksum", "> /run c"]);
    session.type_(b"\x7fca\tx\t");
    assert_eq!(session.lines(), ["cat  cksum", "> /run cat x"]);
    assert_eq!(session.type_(b"\r"), Some(Event::Line("/run cat x".into())));
    // Not within a line, if nothing matches, in text for the model, and in a secret.
    session.read(read.clone());
    assert_eq!(session.type_(b"/s\x1b[D\tX\t\r"), Some(Event::Line("/Xs".into())));
    session.read(read.clone());
    assert_eq!(session.type_(b"\trun\t\r"), Some(Event::Line("run".into())));
    session.read(Read { echo: Echo::Off, ..read });
    assert_eq!(session.type_(b"/s\t\r"), Some(Event::Line("/s".into())));
}

#[test]
fn characters_are_joined_across_reads() {
    let mut session = Session::new(80);
    session.read(Read::line("> "));
    for byte in "日ü\u{1f600}\x1b[DX".bytes() {
        assert_eq!(session.type_(&[byte]), None);
    }
    assert_eq!(session.lines(), ["> 日üX\u{1f600}"]);
    assert_eq!(session.type_(b"\n"), Some(Event::Line("日üX\u{1f600}".into())));
}

#[test]
fn history_goes_back_and_comes_forward_to_the_draft() {
    let mut session = Session::new(80);
    for line in [&b"one\r"[..], b"two\r", b"two\r", b"\r"] {
        session.line(line);
    }
    assert_eq!(session.console.history().iter().collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(session.line(b"\x1b[A\r"), "two");
    assert_eq!(session.line(b"\x1b[A\x1b[A\x1b[A!\r"), "one!");
    assert_eq!(session.line(b"draft\x1b[A\x1b[A\x1b[B\x1b[B\x1b[B+\r"), "draft+");
}

#[test]
fn a_secret_is_not_shown_and_not_kept() {
    let mut session = Session::new(80);
    session.console.history_mut().add("old");
    session.read(Read::secret("Passphrase: "));
    assert_eq!(session.type_(b"hun\x7fter\x1b[A2"), None);
    assert_eq!(session.lines(), ["Passphrase:"]);
    assert_eq!(usize::from(session.cursor().1), "Passphrase: ".len());
    assert_eq!(session.type_(b"\r"), Some(Event::Line("huter2".into())));
    assert_eq!(session.lines(), ["Passphrase:", ""]);
    assert_eq!(session.console.history().iter().count(), 1);
}

#[test]
fn a_question_does_not_take_what_was_typed_before_it() {
    let mut session = Session::new(80);
    assert_eq!(session.type_(b"y\r"), None);
    assert_eq!(session.read(Read::question("Allow? [y/N] ")), None);
    assert_eq!(session.type_(b"\r"), Some(Event::Line(String::new())));
    assert_eq!(session.console.history().iter().count(), 0);
    assert_eq!(session.type_(b"next\rafter\r"), None);
    assert_eq!(session.read(Read::line("> ")), Some(Event::Line("next".into())));
    assert_eq!(session.read(Read::line("> ")), Some(Event::Line("after".into())));
}

#[test]
fn a_question_brings_back_no_line_of_the_prompt() {
    let mut session = Session::new(80);
    for line in ["rm all", "yes"] {
        session.console.history_mut().add(line);
    }
    for key in ["\x1b[A", "\x10", "\x1b[B", "\x0e"] {
        session.read(Read::question("Allow? [y/N] "));
        session.type_(key.as_bytes());
        assert_eq!(session.type_(b"\r"), Some(Event::Line(String::new())), "{key:?}");
    }
    assert_eq!(session.line(b"\x1b[A\r"), "yes");
}

#[test]
fn what_stands_above_the_prompt_is_shown_once() {
    let mut session = Session::new(20);
    let prompt = [(Style::Tool, "deleteFile\npath: \"a\"\nAll"), (Style::Question, "ow? ")];
    let prompt = prompt.map(|(style, text)| (style, sanitise(text.as_bytes()))).to_vec();
    session.read(Read { prompt, ..Read::question("") });
    session.type_(b"n\x1b[DX");
    assert_eq!(session.lines(), ["deleteFile", "path: \"a\"", "Allow? Xn"]);
}

#[test]
fn interrupt_and_end() {
    let mut session = Session::new(80);
    assert_eq!(session.type_(b"ahead\x03"), Some(Event::Interrupt), "while nothing is read");
    assert_eq!(session.read(Read::line("> ")), None, "the type-ahead is gone");
    assert_eq!(session.type_(b"half\x1b[D\x03"), Some(Event::Interrupt));
    assert_eq!(session.lines(), ["> hal^C", ""]);
    assert!(!session.console.is_reading());
    session.read(Read::line("> "));
    assert_eq!(session.type_(b"x\x04\x7f\x04"), Some(Event::End), "only an empty line ends");
}

#[test]
fn a_line_longer_than_the_screen_wraps_and_can_be_edited() {
    let mut session = Session::new(10);
    session.read(Read::line("> "));
    session.type_(b"abcdefghijklmnopqrstuvwxyz");
    assert_eq!(session.lines(), ["> abcdefgh", "ijklmnopqr", "stuvwxyz"]);
    assert_eq!((session.cursor().0, session.cursor().1), (2, 8));
    session.type_(b"\x01X");
    assert_eq!(session.lines(), ["> Xabcdefg", "hijklmnopq", "rstuvwxyz"]);
    assert_eq!((session.cursor().0, session.cursor().1), (0, 3));
    assert_eq!(session.type_(b"\r"), Some(Event::Line("Xabcdefghijklmnopqrstuvwxyz".into())));
    assert_eq!((session.cursor().0, session.cursor().1), (3, 0));
}

#[test]
fn a_wide_character_does_not_straddle_the_edge() {
    let mut session = Session::new(8);
    session.read(Read::line("> "));
    session.type_("abcde日本x".as_bytes());
    assert_eq!(session.lines(), ["> abcde", "日本x"]);
    session.type_(b"\x1b[D\x1b[D\x1b[D");
    assert_eq!((session.cursor().0, session.cursor().1), (1, 0));
    session.type_(b"\x1b[D");
    assert_eq!((session.cursor().0, session.cursor().1), (0, 6));
}

#[test]
fn what_is_typed_cannot_play_tricks_either() {
    let mut session = Session::new(80);
    session.read(Read::line("> "));
    session.type_("a\u{202e}b\u{200b}".as_bytes());
    session.type_(b"\x1b[200~\nc\x07\x1b[2Jd\x1b[201~");
    assert_eq!(session.lines(), ["> a\\u{202e}b\\u{200b}\u{21b5}cd"]);
    assert_eq!(session.type_(b"\r"), Some(Event::Line("a\u{202e}b\u{200b}\ncd".into())));
}

#[test]
fn output_appears_above_the_line_being_read() {
    let mut session = Session::new(10);
    session.console.write(Style::Model, &sanitise(b"no newline"));
    session.read(Read::line("> "));
    session.type_(b"abcdefghijk\x1b[D");
    session.console.write(Style::Plain, &sanitise(b"done"));
    session.console.write_line(Style::Warning, &sanitise(b"x"));
    session.look();
    assert_eq!(session.lines(), ["no newline", "done", "warning: x", "> abcdefgh", "ijk"]);
    assert_eq!((session.cursor().0, session.cursor().1), (4, 2));
    session.console.cancel_read();
    session.look();
    assert_eq!(session.lines(), ["no newline", "done", "warning: x", ""]);
}

#[test]
fn the_size_is_asked_for_and_only_then_believed() {
    let mut session = Session::new(80);
    assert_eq!(session.type_(b"\x1b[10;20R"), None);
    session.console.ask_size();
    assert_eq!(session.console.take_output(), b"\x1b[6n\x1b7\x1b[999;999H\x1b[6n\x1b8");
    assert_eq!(session.type_(b"\x1b[1;1R"), None, "where the cursor is");
    assert_eq!(session.type_(b"\x1b[30;100R"), Some(Event::Size { columns: 100, rows: 30 }));
    assert_eq!(session.type_(b"\x1b[10;20R\x1b[10;20R"), None);
    session.resize(100, 30);
    session.read(Read::line("> "));
    session.type_(&[b'x'; 97]);
    assert_eq!(session.lines().len(), 1);
}

#[test]
fn without_colour_no_style_is_emitted() {
    let mut console = Console::new(Settings { colour: false, ..Settings::default() });
    console.write_line(Style::Error, &sanitise(b"bad"));
    console.read(Read { echo: Echo::Off, ..Read::line("> ") });
    let output = String::from_utf8_lossy(&console.take_output()).into_owned();
    assert!(output.starts_with("error: bad\r\n"), "{output:?}");
    assert!(!output.contains('m'), "{output:?}");
}

/// Asks about arguments as they are laid out for the size that the console has told, until they are shown. Returns how often
/// they were laid out.
fn ask_about(session: &mut Session, size: &mut (u16, u16)) -> usize {
    let arguments = format!("  │ {}", "Allow this call? [y/t/s/N] ".repeat(12));
    for tries in 1..4 {
        session.console.check_size();
        session.look();
        while session.console.next_event().is_some() {}
        let lines = wrap("", &arguments, size.0.into()) + "\nAllow this call? [y/t/s/N] ";
        let read = Read { laid_out: Some(*size), ..Read::question(&lines) };
        match session.read(read) {
            None => return tries,
            Some(Event::Resized) => *size = window(session),
            other => panic!("{other:?}"),
        }
    }
    panic!("it is never shown");
}

/// Columns and rows of the window.
fn window(session: &Session) -> (u16, u16) {
    let (rows, columns) = session.terminal.screen().size();
    (columns.get(), rows.get())
}

/// Rows of arguments begin behind their margin, also if the window became narrower before the question. If it becomes narrower
/// while the question is open, the question is asked again, and keys that were typed for the old one do not answer it.
#[test]
fn a_question_is_laid_out_for_the_window_as_it_is() {
    let mut session = Session::new(80);
    session.answers = true;
    session.console.ask_size();
    session.look();
    let mut size = (80, 24);
    session.resize(40, 24);
    let margins = |session: &Session| {
        let lines = session.lines();
        let (last, above) = lines.split_last().expect("a prompt");
        assert_eq!(last, "Allow this call? [y/t/s/N]");
        let from = above.iter().rposition(|row| row.starts_with("  │ ")).expect("arguments");
        assert!(above[from..].iter().skip(1).all(|row| row.starts_with(CONTINUED)), "{lines:#?}");
    };
    assert_eq!(ask_about(&mut session, &mut size), 2);
    assert_eq!(size, (40, 24));
    margins(&session);
    // Two keys at once, before the terminal has told anything.
    session.wrap(30);
    session.console.pause();
    session.console.input(b"y\r");
    session.look();
    assert_eq!(session.console.next_event(), Some(Event::Size { columns: 30, rows: 24 }));
    assert_eq!(session.console.next_event(), Some(Event::Resized));
    assert_eq!(session.console.next_event(), None);
    ask_about(&mut session, &mut size);
    assert_eq!(size, (30, 24));
    margins(&session);
    // Without a change, or an answer of the terminal, they count.
    session.console.pause();
    assert_eq!(session.type_(b"y\r"), Some(Event::Line("y".into())));
    ask_about(&mut session, &mut size);
    session.console.pause();
    session.answers = false;
    assert_eq!(session.type_(b"y\r"), None);
    session.console.late();
    assert_eq!(session.console.next_event(), Some(Event::Line("y".into())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever is typed, the screen shows what a fresh drawing of the same line would show.
    #[test]
    fn the_screen_is_always_right(keys in prop::collection::vec(prop::sample::select(&[
        "a", "b ", "日", "e", "\u{301}", "\u{200b}", "\x1b[D", "\x1b[C", "\x01", "\x05", "\x7f", "\x1b[3~", "\x17", "\x0b",
        "\x15", "\x19", "\x1b[A", "\x1b[B", "\x1bb", "\x1bf", "\x1b[200~p\nq\x1b[201~", "some words here",
    ][..]), 0..40), columns in 8u16..30) {
        let mut session = Session::new(columns);
        session.console.history_mut().add("an older line that is rather long");
        session.read(Read::line("> "));
        for key in &keys {
            prop_assert_eq!(session.type_(key.as_bytes()), None);
        }
        let seen = (session.lines(), session.cursor().0, session.cursor().1);
        session.console.write(Style::Plain, &sanitise(b"x\n"));
        session.look();
        let mut fresh = session.lines();
        if seen.0.len() == fresh.len() {
            // The line fills the window, so the new row has left it.
            prop_assert_eq!(&seen.0, &fresh);
            return Ok(());
        }
        prop_assert_eq!(fresh.remove(0), "x");
        prop_assert_eq!(&seen.0, &fresh);
        prop_assert_eq!((seen.1 + 1, seen.2), (session.cursor().0, session.cursor().1));
    }

    #[test]
    fn no_input_breaks_it(bytes in prop::collection::vec(any::<u8>(), 0..300), columns in 0u16..20) {
        let mut console = Console::new(Settings { columns, ..Settings::default() });
        console.read(Read::line("> "));
        for chunk in bytes.chunks(7) {
            console.input(chunk);
            if !console.is_reading() {
                console.read(Read::line("> "));
            }
        }
        prop_assert!(std::str::from_utf8(&console.take_output()).is_ok());
    }
}

#[test]
fn c10_a_status_line_goes_when_anything_else_is_shown() {
    let mut session = Session::new(20);
    let shown = |session: &mut Session| {
        session.look();
        session.lines()
    };
    let text = |text: &str| sanitise(text.as_bytes());
    session.console.write(Style::Plain, &text("ab"));
    session.console.status(Style::Dim, &text("one"));
    assert_eq!(shown(&mut session), ["ab", "one"]);
    // One row, and not the last column of it.
    session.console.status(Style::Dim, &text("two is longer than a\u{65e5} row\nand more"));
    assert_eq!(shown(&mut session), ["ab", "two is longer than"]);
    session.console.write(Style::Plain, &text("c"));
    session.console.write(Style::Plain, &text("d"));
    assert_eq!(shown(&mut session), ["ab", "cd"]);
    session.console.status(Style::Dim, &text("three"));
    session.console.fresh_line();
    session.console.status(Style::Dim, &text("four"));
    session.read(Read::line("> "));
    assert_eq!(shown(&mut session), ["ab", "cd", ">"]);
    // There is no place for it while a line is being read.
    session.console.status(Style::Dim, &text("five"));
    session.type_(b"x");
    assert_eq!(shown(&mut session), ["ab", "cd", "> x"]);
    session.type_(b"\r");
    // After a change of the screen its position is unknown.
    session.console.status(Style::Dim, &text("six"));
    session.resize(10, 24);
    session.answers = true;
    session.console.ask_size();
    session.look();
    session.console.write(Style::Plain, &text("end"));
    assert_eq!(shown(&mut session), ["ab", "cd", "> x", "six", "end"]);
}
