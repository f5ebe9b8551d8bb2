//! What has no room is refused whole: pasted, typed, typed ahead, yanked, completed. What a restart leaves unknown is dropped.

#![allow(clippy::panic, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use crate::emulator::Session;
use capos_terminal::{Echo, Event, Question, Read, Style, sanitise};

/// The longest line.
const LIMIT: usize = 63 * 1024;

fn pasted(text: &str) -> Vec<u8> {
    [b"\x1b[200~", text.as_bytes(), b"\x1b[201~"].concat()
}

/// Types as a serial port hands bytes over: a few at a time.
fn feed(session: &mut Session, bytes: &[u8]) -> Vec<Event> {
    bytes.chunks(16).flat_map(|piece| session.type_(piece)).collect()
}

fn reading() -> Session {
    let mut session = Session::new(80);
    session.read(Read::line("> "));
    session
}

fn says(session: &mut Session, text: &str) -> bool {
    session.scrollback().into_iter().chain(session.lines()).collect::<String>().contains(text)
}

#[test]
fn a_paste_stands_in_the_line_and_enters_nothing() {
    let rows = vec!["x".repeat(70); 240].join("\n");
    for text in ["日".repeat(1200), "ж".repeat(1600), "ж".repeat(10_000), rows, "e\u{301}".repeat(5000)] {
        let mut session = reading();
        assert_eq!(feed(&mut session, &pasted(&text)), []);
        assert!(session.shown < 8 * text.len() + 10_000, "{} bytes for {}", session.shown, text.len());
        assert_eq!(session.scrollback(), [""; 0], "{text:.10}");
        assert_eq!(session.type_(b"\r"), Some(Event::Line(text)));
    }
}

#[test]
fn output_is_proportional_to_input() {
    // Before a word, where all that follows moves.
    let mut session = reading();
    session.type_(b"word\x01");
    feed(&mut session, &pasted(&"a".repeat(4096)));
    assert!(session.shown < 100_000, "{} bytes", session.shown);
    // One key at a time, in a line of many screens.
    let mut session = reading();
    feed(&mut session, &pasted(&"a".repeat(20_000)));
    session.shown = 0;
    for _ in 0..1000 {
        session.type_(b"b");
    }
    assert!(session.shown < 10_000, "{} bytes", session.shown);
}

#[test]
fn what_comes_at_once_is_drawn_once() {
    let mut session = reading();
    session.type_(&[b"abc".as_slice(), &b"\x1b[D\x1b[C".repeat(500), b"\x7f\x7f\x7f"].concat());
    assert!(session.shown < 100, "{} bytes", session.shown);
    session.shown = 0;
    session.type_(&b"\t\x19\t".repeat(300));
    assert!(session.shown < 20, "one bell, {} bytes", session.shown);
}

/// What waits for a screen that is far behind has a bound, whatever keys come meanwhile: at once, one by one, typed ahead.
#[test]
fn output_that_waits_is_bounded() {
    let completions: Vec<String> = (0..100).map(|number| format!("/a {number}-of-the-names")).collect();
    let read = Read { completions, ..Read::line("> ") };
    let line = "a".repeat(2000);
    let full = pasted(&"a".repeat(LIMIT));
    for (start, again) in [
        (line.as_bytes(), &b"\x0c"[..]),
        (b"/a ", b"\t"),
        (b"/a ", b"\t\x0c"),
        (b"/a ", b"1\t\x7f\t"),
        (&full, b"\x1b[200~b\x1b[201~"),
        (&full, b"\x1b[200~b\x1b[201~\x0c"),
    ] {
        let seen = |start: &[u8]| {
            let mut session = Session::new(80);
            session.read(read.clone());
            session.shown = 0;
            session.type_(start);
            session.shown
        };
        let bound = seen(start) + 4000;
        let keys = again.repeat(4000);
        let mut session = Session::new(80);
        session.read(read.clone());
        session.type_(start);
        for piece in keys.chunks(16) {
            session.console.input(piece);
        }
        let made = session.console.take_output().len();
        assert!(made < bound, "{again:?}: {made} bytes, not {bound}");
        if start.len() < LIMIT {
            let mut session = Session::new(80);
            session.console.input(&[start, &keys].concat());
            session.console.read(read.clone());
            let made = session.console.take_output().len();
            assert!(made < bound, "{again:?} typed ahead: {made} bytes, not {bound}");
        }
    }
}

/// What was to be shown above the line is there with the next drawing, however late that is.
#[test]
fn what_is_shown_late_is_shown_whole() {
    let completions: Vec<String> = ["/a one", "/a two", "/b three", "/b four"].map(Into::into).into();
    let read = Read { completions, ..Read::line("> ") };
    let mut session = Session::new(80);
    session.read(read.clone());
    session.console.write(Style::Plain, &sanitise(b"before"));
    for keys in [&b"/a \t"[..], b"\x15/b \t", b"x"] {
        session.console.input(keys);
    }
    session.console.write(Style::Plain, &sanitise(b"meanwhile"));
    session.look();
    assert_eq!(session.lines(), ["before", "meanwhile", "four  three", "> /b x"], "the last choice, once");
    // A line that ends has its choice above it, and a cleared screen none.
    session.console.input(b"\x15/a \t\r");
    session.look();
    assert_eq!(session.lines(), ["before", "meanwhile", "four  three", "one  two", "> /a", ""]);
    session.console.next_event();
    session.read(read.clone());
    session.console.input(b"/a \t\x0c\x0cx");
    session.look();
    assert_eq!(session.lines(), ["> /a x"]);
    // What was refused is said, if not now then before the next prompt.
    session.type_(b"\x15");
    feed(&mut session, &pasted(&"a".repeat(LIMIT)));
    session.console.input(&pasted("b"));
    session.console.cancel_read();
    session.read(read);
    assert!(says(&mut session, "The paste does not fit"));
}

#[test]
fn a_paste_without_room_is_refused_whole() {
    for text in ["a".repeat(70_000), "ж".repeat(35_000), "日\n".repeat(30_000)] {
        let mut session = reading();
        session.type_(b"before after\x1bb");
        assert_eq!(feed(&mut session, &pasted(&text)), []);
        assert!(says(&mut session, "The paste does not fit"));
        assert_eq!(session.lines().last().map(String::as_str), Some("> before after"));
        assert_eq!(session.type_(b"X\r"), Some(Event::Line("before Xafter".into())));
    }
    // Only that paste: the one before it stays.
    let mut session = reading();
    feed(&mut session, &pasted(&"a".repeat(LIMIT - 1)));
    feed(&mut session, &pasted("bc"));
    feed(&mut session, &pasted("d"));
    assert_eq!(session.type_(b"\r"), Some(Event::Line("a".repeat(LIMIT - 1) + "d")));
}

#[test]
fn a_typed_line_without_room_is_refused_with_what_came_with_it() {
    let mut session = reading();
    let lines = "a".repeat(70_000) + "\rsecond\rthird\r";
    assert_eq!(feed(&mut session, lines.as_bytes()), []);
    assert!(says(&mut session, "A line has at most 63 KiB"));
    session.console.pause();
    assert_eq!(session.type_(b"fourth\r"), Some(Event::Line("fourth".into())));
}

#[test]
fn type_ahead_is_taken_whole_or_not_at_all() {
    let mut session = Session::new(80);
    let text = "y".repeat(6000);
    assert_eq!(feed(&mut session, text.as_bytes()), []);
    assert_eq!(session.type_(b"\r"), None);
    assert_eq!(session.shown, 0, "no bell");
    assert_eq!(session.read(Read::line("> ")), Some(Event::Line(text)));

    let mut session = Session::new(80);
    assert_eq!(feed(&mut session, &[b'y'; 70_000]), []);
    assert_eq!(session.type_(b"\rand\rthis\r"), None);
    assert_eq!(session.shown, 1, "one bell");
    session.console.pause();
    assert_eq!(session.read(Read::line("> ")), None);
    assert!(says(&mut session, "typed ahead"));
    assert_eq!(session.type_(b"\r"), Some(Event::Line(String::new())));
}

/// As many keys as may wait can be more bytes than a line has. Who types after that is heard at once.
#[test]
fn a_line_typed_ahead_has_the_limit_of_a_line() {
    for text in ["ж".repeat(40_000).into_bytes(), pasted(&"ж".repeat(40_000))] {
        let mut session = Session::new(80);
        feed(&mut session, &text);
        session.console.pause();
        assert_eq!(session.read(Read::line("> ")), None);
        assert!(says(&mut session, "has at most 63 KiB"));
        assert_eq!(session.type_(b"x\r"), Some(Event::Line("x".into())));
    }
}

#[test]
fn a_yank_and_a_completion_hold_the_limit_too() {
    let mut session = reading();
    feed(&mut session, &[b'a'; 5000]);
    for _ in 0..7 {
        session.type_(b"\x15\x19\x19");
    }
    let Some(Event::Line(line)) = session.type_(b"\r") else { panic!("no line") };
    assert_eq!(line.len(), 40_000, "the yank that would have made 80,000 is refused whole");

    let mut session = Session::new(80);
    let completions = vec!["/".to_owned() + &"a".repeat(LIMIT)];
    session.read(Read { completions, ..Read::line("> ") });
    session.type_(b"/\t");
    assert_eq!(session.type_(b"\r"), Some(Event::Line("/".into())));
}

#[test]
fn a_secret_has_the_same_limit() {
    let mut session = Session::new(80);
    session.read(Read { echo: Echo::Off, ..Read::line("> ") });
    feed(&mut session, &pasted(&"a".repeat(LIMIT)));
    feed(&mut session, &pasted("b"));
    let Some(Event::Line(line)) = session.type_(b"\r") else { panic!("no line") };
    assert_eq!(line, "a".repeat(LIMIT));
}

#[test]
fn after_a_restart_input_is_dropped_until_a_pause() {
    let stale = b"xxxx\r/run seq 3\ry\ry\r";
    for end in [&b"\x1b[201~"[..], b"\x9b201~", b""] {
        let mut session = Session::new(80);
        session.console.restart();
        session.read(Read::line("> "));
        // The end of a paste may be text of it, and comes twice then.
        assert_eq!(feed(&mut session, &[stale, end, stale, end].concat()), []);
        assert!(session.console.is_unsettled());
        session.console.pause();
        assert!(!session.console.is_dropping());
        assert_eq!(session.type_(b"typed\r"), Some(Event::Line("typed".into())));
        session.read(Read::line("> "));
        assert!(says(&mut session, "The terminal was restarted"));
    }
    // A paste that begins meanwhile is dropped to its end, a pause or not.
    let mut session = Session::new(80);
    session.console.restart();
    session.read(Read::line("> "));
    session.type_(b"\x1b[200~one\r");
    session.console.pause();
    assert_eq!(session.type_(b"two\r\x1b[201~"), None);
    assert_eq!(session.type_(b"typed\r"), Some(Event::Line("typed".into())));
    // Ctrl-C works all the while, and nothing is said where nothing was lost.
    let mut session = Session::new(80);
    session.console.restart();
    session.read(Read::line("> "));
    assert_eq!(session.type_(b"\x03"), Some(Event::Interrupt));
    session.console.pause();
    session.read(Read::line("> "));
    assert!(!says(&mut session, "restarted"));
}

#[test]
fn a_paste_answers_no_question() {
    // Before it, across it, in it.
    for (before, after) in [
        (&b"\x1b[200~y\ry\r\x1b[201~y\r"[..], &b""[..]),
        (b"\x1b[200~y\r", b"y\ry\r\x1b[201~"),
        (b"", b"\x1b[200~y\ry\r\x1b[201~"),
    ] {
        for chunk in [1, 3, 100] {
            let mut session = Session::new(80);
            session.console.input(before);
            assert_eq!(session.read(Read::question("Allow it? ")), None);
            for piece in after.chunks(chunk) {
                assert_eq!(session.type_(piece), None);
            }
            assert_eq!(session.lines().last().map(String::as_str), Some("Allow it?"));
            session.console.pause();
            assert_eq!(session.type_(b"\r"), Some(Event::Line(String::new())));
        }
    }
    // A passphrase may be pasted, but not before it is asked for.
    let mut session = Session::new(80);
    session.console.input(b"\x1b[200~old");
    session.read(Read::secret("Passphrase: "));
    session.type_(b"er\x1b[201~\x1b[200~new\x1b[201~");
    assert_eq!(session.type_(b"\r"), Some(Event::Line("new".into())));
}

/// The clipboard can hold whatever ends a paste somewhere, the end itself included: terminals should take that out, and some do
/// not. None of it answers a question, and that is said.
#[test]
fn no_clipboard_answers_a_question() {
    for end in [&b"\xc2\x9b201~"[..], b"\x9b201~", b"\xff\x9b201~", b"\x1b[0201~", b"\x1b[201;1~", b"\x1b[201~"] {
        for begun in [false, true] {
            for chunk in [1, 3, 100] {
                let mut session = Session::new(80);
                let paste = [b"\x1b[200~", end, b"y\r"].concat();
                if begun {
                    session.console.input(&paste);
                }
                assert_eq!(session.read(Read::question("Allow it? ")), None);
                let rest = if begun { b"y\r".to_vec() } else { paste };
                for piece in [rest.as_slice(), b"\x1b[201~"].concat().chunks(chunk) {
                    assert_eq!(session.type_(piece), None, "{end:?}");
                }
                session.console.pause();
                session.look();
                assert!(says(&mut session, "What is pasted answers no question."), "{end:?}");
                assert_eq!(session.type_(b"n\r"), Some(Event::Line("n".into())));
            }
        }
    }
}

/// What a secret is copied from mostly ends in a newline.
#[test]
fn a_pasted_secret_ends_before_its_newlines() {
    for text in ["open sesame\n", "open sesame\r\n", "open sesame\r\n\r\n", "open sesame"] {
        let mut session = Session::new(80);
        session.read(Read::secret("Passphrase: "));
        session.type_(&pasted(text));
        assert_eq!(session.type_(b"\r"), Some(Event::Line("open sesame".into())), "{text:?}");
    }
    let mut session = reading();
    session.type_(&pasted("a line\n"));
    assert_eq!(session.type_(b"\r"), Some(Event::Line("a line\n".into())), "a line keeps its own");
}

/// A secret of several lines could not be typed, and nobody sees where it was cut.
#[test]
fn a_pasted_secret_has_one_line() {
    let mut session = Session::new(80);
    session.read(Read::secret("Passphrase: "));
    session.type_(&pasted("open\nsesame\n"));
    assert_eq!(session.type_(b"\r"), None);
    session.console.pause();
    session.look();
    assert!(says(&mut session, "What was pasted has several lines."));
    session.type_(b"open sesame");
    assert_eq!(session.type_(b"\r"), Some(Event::Line("open sesame".into())));
}

/// The link can stall anywhere, in the bracket of a paste as well.
#[test]
fn a_paste_that_stalls_in_its_bracket_answers_no_question() {
    let mut session = Session::new(80);
    session.read(Read::question("Allow it? "));
    assert_eq!(session.type_(b"\x1b[20"), None);
    session.console.pause();
    assert_eq!(session.type_(b"0~y\r\x1b[20"), None);
    session.console.pause();
    assert_eq!(session.type_(b"1~n\r"), None);
    session.console.pause();
    assert_eq!(session.type_(b"n\r"), Some(Event::Line("n".into())));
}

/// Ctrl-C may be a byte of the clipboard. What is still to come of the paste is neither typed nor an answer.
#[test]
fn the_rest_of_an_interrupted_paste_is_dropped() {
    for stalls in [false, true] {
        let mut session = reading();
        assert_eq!(session.type_(b"\x1b[200~one\x03"), Some(Event::Interrupt));
        if stalls {
            session.console.pause();
        }
        session.read(Read::line("> "));
        assert_eq!(session.type_(b"/run evil\r\x03/run evil\r"), Some(Event::Interrupt));
        if stalls {
            session.console.pause();
        }
        session.read(Read::question("Allow it? "));
        assert_eq!(session.type_(b"y\ry\r\x1b[201~"), None);
        session.console.pause();
        assert_eq!(session.type_(b"n\r"), Some(Event::Line("n".into())));
    }
}

/// The end of a paste never comes. A Ctrl-C that stands alone, after one that was in it, ends it.
#[test]
fn a_person_gets_out_of_a_paste_without_an_end() {
    let mut session = Session::new(80);
    session.answers = true;
    session.console.ask_size();
    session.read(Read::line("> "));
    assert_eq!(session.type_(b"\x1b[200~one"), None);
    for pressed in [&b"\x03"[..], b"\x03\x03"] {
        session.console.pause();
        assert_eq!(session.type_(pressed), Some(Event::Interrupt));
        while session.console.next_event().is_some() {}
        session.read(Read::line("> "));
        assert!(session.console.is_dropping());
    }
    session.console.pause();
    assert!(!session.console.is_dropping());
    assert_eq!(session.type_(b"typed\r"), Some(Event::Line("typed".into())));
}

/// Asks and shows the question; it is not reported as seen yet.
fn ask(session: &mut Session) -> Question {
    let Some(question) = session.console.read(Read::question("Allow it? ")) else { panic!("no question") };
    session.look();
    question
}

/// The line stops in a question's last bytes, and continues when that question is over and another is read.
#[test]
fn what_becomes_of_a_question_does_not_touch_the_next() {
    let mut session = Session::new(80);
    let first = ask(&mut session);
    assert!(session.console.is_asking(first));
    assert_eq!(session.type_(b"\x03"), Some(Event::Interrupt));
    assert!(!session.console.is_asking(first));
    let second = ask(&mut session);
    assert_ne!(first, second);
    session.console.hear(first);
    assert_eq!(session.type_(b"y\r"), None, "the second has not been seen");
    session.console.hear(second);
    assert_eq!(session.type_(b"n"), None);
    session.console.hear(first);
    assert_eq!(session.type_(b"o\r"), Some(Event::Line("no".into())));
}

/// Before the question has left the machine, no person can have read it.
#[test]
fn a_question_is_answered_by_what_comes_after_it_was_shown() {
    let mut session = Session::new(80);
    let question = ask(&mut session);
    assert_eq!(session.type_(b"y\r"), None);
    session.console.hear(question);
    assert_eq!(session.type_(b"n\r"), Some(Event::Line("n".into())));
    ask(&mut session);
    assert_eq!(session.type_(b"\x03"), Some(Event::Interrupt), "Ctrl-C works at once");
    session.read(Read::line("> "));
    assert_eq!(session.type_(b"x\r"), Some(Event::Line("x".into())));
}

#[test]
fn a_long_prompt_stands_above_the_line() {
    let mut session = Session::new(80);
    session.read(Read::line(&"p".repeat(2000)));
    session.type_(b"abc");
    session.console.write(Style::Plain, &sanitise(b"x"));
    session.look();
    assert_eq!(session.lines().last().map(String::as_str), Some("abc"));
    assert_eq!(session.cursor().1, 3);
}
