//! Tests of typing, pasting, the history and completion on windows of any size. The screen shows prompt and line
//! exactly once, with the cursor at its place, and moving adds nothing to what has scrolled away.

#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use crate::emulator::Session;
use capos_terminal::{Event, Read, Style, sanitise};
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthChar;

const PROMPT: &str = "> ";

/// What a text looks like, cell by cell: what each holds and how many columns it has. Written without regard to how the
/// editor does it.
fn cells(text: &str) -> Vec<(String, usize)> {
    let mut cells: Vec<(String, usize)> = Vec::new();
    for grapheme in text.graphemes(true) {
        let mut has_base = false;
        for character in grapheme.chars() {
            match character {
                '\n' => cells.push(("\u{21b5}".into(), 1)),
                '\u{200d}' | '\u{200b}' => {
                    cells.extend(character.escape_unicode().map(|letter| (letter.to_string(), 1)));
                    has_base = false;
                    continue;
                }
                _ if character.width() == Some(0) && has_base => {
                    let (cell, width) = cells.last_mut().unwrap();
                    cell.push(character);
                    *width = if character == '\u{fe0f}' { 2 } else { *width };
                }
                _ if character.width() == Some(0) => {
                    cells.extend(character.escape_unicode().map(|letter| (letter.to_string(), 1)));
                    continue;
                }
                _ => cells.push((character.to_string(), character.width().unwrap())),
            }
            has_base = true;
        }
    }
    cells
}

/// What a row shows, by columns.
type Row = Vec<(usize, String)>;

/// The rows that prompt and line fill, each with its cells by their columns, and where the cursor is before this byte.
fn layout(line: &str, cursor: usize, columns: usize) -> (Vec<Row>, (usize, usize)) {
    let mut rows: Vec<Row> = vec![vec![]];
    let mut column = 0;
    let mut place = |cell: &str, width: usize| {
        if column + width > columns {
            rows.push(vec![]);
            column = 0;
        }
        let at = (rows.len() - 1, column);
        if !cell.is_empty() {
            rows.last_mut().unwrap().push((column, cell.to_owned()));
        }
        column += width;
        at
    };
    for letter in PROMPT.chars() {
        place(&letter.to_string(), 1);
    }
    let mut cursor_at = None;
    // Within what is drawn as one it is behind that.
    let cursor = line.grapheme_indices(true).map(|(at, _)| at).find(|at| *at >= cursor).unwrap_or(line.len());
    let before = cells(&line[..cursor]).len();
    for (number, (cell, width)) in cells(line).iter().enumerate() {
        let at = place(cell, *width);
        if number == before {
            cursor_at = Some(at);
        }
    }
    let end = place("", 1);
    (rows, cursor_at.unwrap_or(end))
}

/// What the line is, and which of its bytes the cursor is before. Ends it.
fn line_of(session: &mut Session) -> (String, usize) {
    const MARK: &str = "\u{25c6}";
    let Some(Event::Line(marked)) = session.type_(&[MARK.as_bytes(), b"\r"].concat()) else { panic!("no line") };
    let cursor = marked.find(MARK).unwrap();
    (marked.replace(MARK, ""), cursor)
}

/// The cells of the screen, blank ones left out.
fn grid(session: &Session) -> Vec<Row> {
    let screen = session.terminal.screen();
    let (rows, columns) = screen.size();
    let cell = |row, column: u16| {
        let contents = screen.cell(row, column).map(|cell| cell.contents().to_owned()).unwrap_or_default();
        (!contents.trim().is_empty()).then_some((usize::from(column), contents))
    };
    (0..rows.get()).map(|row| (0..columns.get()).filter_map(|column| cell(row, column)).collect()).collect()
}

/// What stands above the prompt: rows of this letter and a number.
const ABOVE: &str = "#";
/// What there is to choose from behind a `/`, which stands there, too.
const COMMANDS: &str = "/run  /status";

fn is_above(row: &[(usize, String)]) -> bool {
    row.first().is_none_or(|(_, first)| first == ABOVE)
}

/// Whether this row, or one that was longer, had left the screen because the window became lower. Blanks aside, which wide
/// characters differ in.
fn was_pushed(session: &Session, row: &str) -> bool {
    let dense = |row: &str| row.split_whitespace().collect::<String>();
    session.pushed.iter().any(|pushed| dense(pushed).starts_with(&dense(row)))
}

fn text_of(row: &[(usize, String)]) -> String {
    row.iter().map(|(_, cell)| cell.as_str()).collect()
}

/// Holds the screen against what it has to show.
fn check(session: &mut Session) -> Result<(), TestCaseError> {
    check_with(session, false)
}

/// The same. If `came_back`, rows that had left a window when it became lower may be above the line again.
fn check_with(session: &mut Session, came_back: bool) -> Result<(), TestCaseError> {
    let (seen, cursor, scrollback) = (grid(session), session.cursor(), session.scrollback());
    let (rows, columns) = session.terminal.screen().size();
    let (line, at) = line_of(session);
    let (wanted, (cursor_row, cursor_column)) = layout(&line, at, columns.get().into());
    let wanted: Vec<Row> =
        wanted.iter().map(|row| row.iter().filter(|(_, cell)| !cell.trim().is_empty()).cloned().collect()).collect();
    prop_assert_eq!(usize::from(cursor.1), cursor_column, "{:?} {}\n{:?}", line, at, &seen);
    for row in &scrollback {
        prop_assert!(
            row.is_empty() || row.starts_with(ABOVE) || row == COMMANDS || was_pushed(session, row),
            "scrolled away: {:?}",
            row
        );
    }
    // Which row of the line is the first on the screen: with one that fits, the prompt's.
    let height = usize::from(rows.get());
    let tops = if wanted.len() <= height { 0..1 } else { 0..wanted.len() };
    let shows = |top: usize| {
        let Some(first) = (usize::from(cursor.0) + top).checked_sub(cursor_row) else { return false };
        let window = &wanted[top..wanted.len().min(top + height)];
        let shown = seen.len().min(first + window.len());
        // A window of a long line may be shorter than the screen, by half of it at most.
        seen[..first].iter().all(|row| is_above(row) || (came_back && was_pushed(session, &text_of(row))))
            && seen[first..shown] == window[..shown - first]
            && shown - first >= window.len().min(height / 2)
            && seen[shown..].iter().all(Vec::is_empty)
    };
    prop_assert!(tops.clone().any(shows), "{:?} {}\nwanted {:?}\nseen {:?}", line, at, wanted, seen);
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Type(&'static str),
    Paste(Vec<&'static str>),
    /// A key this many times.
    Many(&'static str, usize),
    Say,
    /// Another size of the window: columns and rows.
    Window(u16, u16),
}

const TEXTS: [&str; 14] = [
    "a",
    "b ",
    "日",
    "ж",
    "e\u{301}",
    "\u{301}",
    "\u{200b}",
    "\u{1f44d}\u{1f3fd}",
    "\u{2764}\u{fe0f}",
    "\u{1f468}\u{200d}\u{1f469}",
    "\u{1f1e9}\u{1f1ea}",
    "한",
    "some words here ",
    "\u{1112}\u{1161}\u{11ab}",
];
const KEYS: [&str; 18] = [
    "\x1b[D", "\x1b[C", "\x01", "\x05", "\x7f", "\x1b[3~", "\x17", "\x0b", "\x15", "\x19", "\x1b[A", "\x1b[B", "\x1bb",
    "\x1bf", "\t", "\x0c", "/r\t", "\x15/\t",
];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::sample::select(&TEXTS[..]).prop_map(Step::Type),
        4 => prop::sample::select(&KEYS[..]).prop_map(Step::Type),
        1 => prop::collection::vec(prop::sample::select(&TEXTS[..]), 0..60).prop_map(Step::Paste),
        2 => (prop::sample::select(&KEYS[..6]), 2..40_usize).prop_map(|(key, times)| Step::Many(key, times)),
        1 => Just(Step::Say),
    ]
}

fn session(columns: u16, rows: u16) -> Session {
    let mut session = Session::of(columns, rows);
    session.console.history_mut().add("an older line that is rather long, and then longer than that");
    session.console.history_mut().add("日本語 of the history");
    for number in 0..rows {
        session.console.write(Style::Plain, &sanitise(format!("{ABOVE}{number}\n").as_bytes()));
    }
    let completions = ["/run #cat ", "/run #cksum ", "/status"].map(|line| line.to_owned());
    // Words to choose from are output like any other.
    session.read(Read { completions: completions.into(), ..Read::line(PROMPT) });
    session
}

fn act(session: &mut Session, step: &Step) {
    match step {
        Step::Type(text) => session.type_(text.as_bytes()),
        Step::Paste(texts) => {
            let text = ["\x1b[200~", &texts.concat(), "\n\x1b[201~"].concat();
            text.as_bytes().chunks(16).find_map(|piece| session.type_(piece))
        }
        Step::Many(key, times) => session.type_(key.repeat(*times).as_bytes()),
        Step::Say => {
            session.console.write(Style::Plain, &sanitise(format!("{ABOVE}\n").as_bytes()));
            session.look();
            None
        }
        Step::Window(columns, rows) => {
            session.resize(*columns, *rows);
            session.console.pause();
            session.type_(b"\x1b[C")
        }
    };
}

/// Words to choose from are told above the line; here they are made to look like everything else there.
fn without_choices(mut steps: Vec<Step>) -> Vec<Step> {
    steps.retain(|step| !matches!(step, Step::Type("\t" | "\x15/\t" | "/r\t") | Step::Many("\t", _)));
    steps
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_screen_shows_the_line_once(steps in prop::collection::vec(step(), 0..25), columns in 8u16..40, rows in 2u16..12) {
        let mut session = session(columns, rows);
        for step in &without_choices(steps) {
            act(&mut session, step);
        }
        check(&mut session)?;
    }

    #[test]
    fn a_completion_changes_nothing_but_the_line(before in prop::sample::select(&["/", "/r", "/run #c", "/run #ca", "x", ""][..]),
        more in prop::collection::vec(step(), 0..6)) {
        let mut session = session(40, 12);
        session.type_(before.as_bytes());
        session.type_(b"\t");
        for step in &without_choices(more) {
            act(&mut session, step);
        }
        // The words that were told are above the line, once.
        let told = session.lines().iter().filter(|line| line.starts_with("#cat  #cksum")).count();
        prop_assert!(told <= 1);
        session.type_(b"\x0c");
        check(&mut session)?;
    }

    #[test]
    fn a_window_of_another_size_shows_the_line_once(steps in prop::collection::vec(prop_oneof![
        3 => step(),
        1 => (8u16..60, 2u16..30).prop_map(|(columns, rows)| Step::Window(columns, rows)),
    ], 0..20), columns in 8u16..60, rows in 2u16..30, last in (8u16..60, 2u16..30), pulls: bool) {
        let mut session = session(columns, rows);
        session.pulls = pulls;
        session.answers = true;
        session.console.ask_size();
        session.look();
        let steps = without_choices(steps);
        for step in &steps {
            act(&mut session, step);
        }
        act(&mut session, &Step::Window(last.0, last.1));
        // What other output stands below is not taken off the screen again when it comes back.
        let others = steps.iter().any(|step| matches!(step, Step::Say | Step::Type("\x0c")));
        check_with(&mut session, others)?;
    }

    /// The same on a terminal that wraps rows which no longer fit.
    #[test]
    fn a_window_that_wraps_shows_the_line_once(length in 0..300_usize, left in 0..300_usize, columns in 20u16..60,
        widths in prop::collection::vec(10u16..60, 1..4)) {
        let mut session = session(columns, 80);
        session.answers = true;
        session.console.ask_size();
        session.look();
        session.type_(&vec![b'x'; length]);
        session.type_(&b"\x1b[D".repeat(left));
        for width in widths {
            session.wrap(width);
            session.console.pause();
            session.type_(b"\x1b[C");
        }
        check(&mut session)?;
    }
}

/// A cursor before a mark, which is drawn with what is before it, is behind both.
#[test]
fn a_cursor_within_the_last_cell_of_a_row_is_in_the_next_row() {
    let mut session = session(9, 5);
    session.type_("\x1b[200~\u{301}\n\x1b[201~\x01some words here ".as_bytes());
    assert_eq!(session.cursor(), (4, 0));
    check(&mut session).unwrap();
}

#[test]
fn moving_in_a_line_taller_than_the_screen_adds_nothing_to_the_scrollback() {
    let mut session = session(80, 24);
    session.type_(&[b'x'; 3000]);
    let before = session.scrollback();
    for key in [&b"\x1b[D"[..]; 20].into_iter().chain([&b"\x01"[..], b"\x05", b"\x1b[D", b"\x1bb", b"\x1bf", b"\x01"]) {
        session.type_(key);
        assert_eq!(session.scrollback(), before, "{key:?}");
    }
    session.type_(b"here");
    assert_eq!(session.lines()[usize::from(session.cursor().0)][..10], *"> herexxxx");
    assert_eq!(session.cursor().1, 6);
    assert_eq!(session.scrollback(), before);
}

/// A key after a pause asks for the size before anything is drawn, and a terminal that does not answer is not waited for.
#[test]
fn the_size_is_asked_again_after_a_pause() {
    let mut session = session(80, 24);
    session.answers = true;
    session.console.ask_size();
    session.look();
    session.type_(&[b'x'; 100]);
    session.resize(50, 24);
    session.console.pause();
    session.answers = false;
    session.console.input(b"y");
    let asked = session.console.take_output();
    assert_eq!(asked, b"\x1b[6n\x1b7\x1b[999;999H\x1b[6n\x1b8");
    assert!(session.console.is_held());
    session.console.late();
    assert_eq!(session.console.take_output(), b"y");
    // It has not answered, so it is asked with the next prompt only.
    session.console.pause();
    session.console.input(b"z");
    assert_eq!(session.console.take_output(), b"z");
    session.type_(b"\r");
    session.answers = true;
    session.read(Read::line(PROMPT));
    session.type_(&[b'x'; 60]);
    assert_eq!(session.lines().iter().rev().take(2).map(String::len).collect::<Vec<_>>(), [12, 50]);
}
