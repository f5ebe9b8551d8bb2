//! Results of tools as a person reads them: by the schema of the tool, in rows that fit the screen.
//!
//! The model is sent its own form. What does not have the form of the tool's results is shown unchanged, as text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::{count, noun};
use capos_reflect::{Shown, Table};
use capos_schema::reflection::tool;
use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::escape::{escape, first_line, shorten};
use crate::more::margined;
use crate::readable::date_of;
use crate::render::WIDTH;
use capos_terminal::log_line;

/// Rows of a result that a turn shows.
const ROWS: usize = 12;
/// Columns that a cell keeps, however narrow the screen is.
const LEAST: usize = 6;
/// What precedes a result that the runner has cut, as `capos_agent::truncate` writes it.
const CUT: &str = "\n[cut: ";

/// A result that has its tool's form.
pub struct Result {
    shown: Shown,
    /// What the runner says is missing.
    cut: String,
}

/// The result of a call, if its text has the form of the tool's results. `name` may have the name of a helper before it.
pub fn result(name: &str, arguments: &str, text: &str) -> Option<Result> {
    let method = tool(name.rsplit(' ').next()?)?;
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let whole = |text: &str| capos_reflect::show(method, (&arguments, text), &date_of);
    if let Some(shown) = whole(text) {
        return Some(Result { shown, cut: String::new() });
    }
    let (kept, mark) = text.rsplit_once(CUT)?;
    let shown = whole(&closed(kept)?)?;
    Some(Result { shown, cut: format!("{}{mark}", CUT.trim_start()) })
}

impl Result {
    /// What stands in the line of the call's end: what follows `ok`, and the rest of the line.
    pub fn headline(&self, bytes: usize) -> (String, String) {
        match &self.shown {
            Shown::Done(text) => (": ".to_string(), first_line(text, WIDTH)),
            Shown::Text(text) => (format!(", {}: ", count(bytes, "byte")), first_line(text, WIDTH)),
            Shown::Fields(_) => (String::new(), String::new()),
            Shown::Table(table) => (": ".to_string(), summary(table)),
        }
    }

    /// The first rows behind the margin, and what remains. A text has none: its first line is in the headline.
    pub fn preview(&self, columns: usize) -> String {
        if matches!(self.shown, Shown::Done(_) | Shown::Text(_)) {
            return String::new();
        }
        // What precedes a row is its margin, and the last column stays free.
        let rows = self.rows(Some(columns.saturating_sub(5)));
        let first: Vec<String> = rows.iter().take(ROWS).map(|row| shorten(row, WIDTH)).collect();
        let mut shown = margined(&first.join("\n"), columns);
        match rows.len().saturating_sub(first.len()) {
            0 if first == self.rows(None) => {}
            0 => shown.push_str("  … /more shows all\n"),
            more => shown.push_str(&format!("  … {more} more {}; /more shows all\n", noun(more, "row"))),
        }
        shown
    }

    /// The whole, for `/more`.
    pub fn whole(&self) -> String {
        if let Shown::Table(table) = &self.shown
            && table.rows.is_empty()
        {
            return summary(table);
        }
        self.rows(None).join("\n")
    }

    fn rows(&self, room: Option<usize>) -> Vec<String> {
        let mut rows = rows(&self.shown, room);
        if !self.cut.is_empty() {
            rows.push(escape(self.cut.trim()));
        }
        rows
    }
}

/// How many things there are, and how many of them need attention.
fn summary(table: &Table) -> String {
    let things = &table.things;
    if table.rows.is_empty() {
        return format!("no {things}");
    }
    let mut text = match table.rows.len() {
        1 => format!("1 {}", singular(things)),
        rows => format!("{rows} {things}"),
    };
    let mut left = table.concerns.as_slice();
    while let Some(state) = left.first() {
        let same = left.iter().take_while(|other| *other == state).count();
        text.push_str(&format!(", {same} {state}"));
        left = left.get(same..).unwrap_or_default();
    }
    text
}

/// A regular plural in the singular, as `capos_plural` makes it.
fn singular(things: &str) -> String {
    if let Some(stem) = things
        .strip_suffix("es")
        .filter(|stem| stem.ends_with(['x', 's']) || stem.ends_with("ch") || stem.ends_with("sh"))
    {
        return stem.to_string();
    }
    match (things.strip_suffix("ies"), things.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, Some(stem)) => stem.to_string(),
        (None, None) => things.to_string(),
    }
}

fn rows(shown: &Shown, room: Option<usize>) -> Vec<String> {
    match shown {
        Shown::Done(text) | Shown::Text(text) => text.lines().map(|line| log_line(line).into_string()).collect(),
        Shown::Table(table) => of_table(table, room),
        Shown::Fields(fields) => of_fields(fields, room),
    }
}

fn of_fields(fields: &[(String, Shown)], room: Option<usize>) -> Vec<String> {
    let width = fields.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let mut all = Vec::new();
    for (name, value) in fields {
        let inner = room.map(|room| room.saturating_sub(2));
        match value {
            Shown::Table(table) if table.rows.is_empty() => all.push(format!("{}  none", padded(name, width, false))),
            Shown::Text(text) if text.trim_end().lines().count() < 2 => {
                all.push(format!("{}  {}", padded(name, width, false), escape(text.trim_end())).trim_end().to_string());
            }
            other => {
                all.push(format!("{name}:"));
                all.extend(rows(other, inner).iter().map(|row| format!("  {row}")));
            }
        }
    }
    all
}

fn of_table(table: &Table, room: Option<usize>) -> Vec<String> {
    let cells: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
    let mut widths: Vec<usize> = table.columns.iter().map(|(heading, _)| heading.width()).collect();
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    if let Some(room) = room {
        fit(&mut widths, room);
    }
    let heading: Vec<String> = table.columns.iter().map(|(heading, _)| heading.clone()).collect();
    let has_heading = heading.iter().any(|heading| !heading.is_empty());
    let all = has_heading.then_some(&heading).into_iter().chain(&cells);
    let laid_out = |row: &Vec<String>| {
        let parts = row.iter().zip(&widths).zip(&table.columns);
        let parts: Vec<String> =
            parts.map(|((cell, width), (_, is_number))| padded(&cut(cell, *width), *width, *is_number)).collect();
        parts.join("  ").trim_end().to_string()
    };
    all.map(laid_out).collect()
}

/// Makes the widest columns narrower, until all have room.
fn fit(widths: &mut [usize], room: usize) {
    let gaps = widths.len().saturating_sub(1).saturating_mul(2);
    let mut over = widths.iter().sum::<usize>().saturating_add(gaps).saturating_sub(room);
    while over > 0 {
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > LEAST) else { return };
        *widest = widest.saturating_sub(1);
        over = over.saturating_sub(1);
    }
}

/// A text in at most this number of columns, with a mark where that is not all.
fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_string();
    }
    let mut short = String::new();
    let mut room = columns.saturating_sub(1);
    for letter in text.chars() {
        let Some(left) = room.checked_sub(letter.width().unwrap_or(0)) else { break };
        room = left;
        short.push(letter);
    }
    short.push('…');
    short
}

fn padded(text: &str, columns: usize, right: bool) -> String {
    let pad = " ".repeat(columns.saturating_sub(text.width()));
    if right { format!("{pad}{text}") } else { format!("{text}{pad}") }
}

/// JSON that was cut off, up to the last whole item of a list, and closed there.
fn closed(text: &str) -> Option<String> {
    let mut open = Vec::new();
    let (mut is_text, mut is_escaped) = (false, false);
    let mut last = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' => open.push('}'),
            b'[' => open.push(']'),
            b'}' | b']' => {
                open.pop();
                if open.last() == Some(&']') {
                    last = Some((at.saturating_add(1), open.clone()));
                }
            }
            b',' if open.last() == Some(&']') => last = Some((at, open.clone())),
            _ => {}
        }
    }
    let (end, open) = last?;
    let ends: String = open.iter().rev().collect();
    Some(format!("{}{ends}", text.get(..end)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SERVICES: &str = r#"{"services":[{"description":"Files","frames":304,"lastExit":"","maxRestarts":3,"name":"files","restarts":0,"state":"running"},{"description":"Sends","frames":8,"lastExit":"killed","maxRestarts":3,"name":"exporter","restarts":3,"state":"failed"}]}"#;

    fn shown(name: &str, arguments: &str, text: &str) -> (String, String) {
        let result = result(name, arguments, text).expect("it has the form");
        let (mark, line) = result.headline(text.len());
        (format!("{mark}{line}"), result.preview(80))
    }

    #[test]
    fn one_thing_has_its_singular() {
        for (things, thing) in
            [("matches", "match"), ("services", "service"), ("entries", "entry"), ("boxes", "box"), ("data", "data")]
        {
            assert_eq!(singular(things), thing);
        }
    }

    #[test]
    fn control_characters_of_a_text_are_written_out() {
        assert_eq!(log_line("A\u{1b}[31mB\rC\tD").into_string(), "A\\u{1b}[31mB\\u{d}C\tD");
    }

    #[test]
    fn a_list_is_a_table_with_what_failed_first() {
        let (line, rows) = shown("list_services", "{}", SERVICES);
        assert_eq!(line, ": 2 services, 1 failed");
        assert_eq!(
            rows,
            "  │ name      state    restarts  last exit   memory  description\n  \
               │ exporter  failed          3  killed      32 KiB  Sends\n  \
               │ files     running         0             1.1 MiB  Files\n"
        );
    }

    #[test]
    fn an_empty_list_says_what_is_empty() {
        assert_eq!(shown("list_services", "{}", "{\"services\":[]}"), (": no services".into(), String::new()));
        let none = "{\"entries\":[],\"leftOut\":0}";
        assert_eq!(shown("list_directory", "{\"path\":\".\"}", none), (": no entries".into(), String::new()));
        assert_eq!(result("list_programs", "{}", "{\"names\":[]}").unwrap().whole(), "no programs");
    }

    #[test]
    fn sizes_times_and_spans_have_units() {
        let entries = r#"{"entries":[{"bytes":2886,"kind":"file","modifiedUnix":1795251907,"name":"a.txt"},{"bytes":0,"kind":"directory","modifiedUnix":0,"name":"b"}],"leftOut":3}"#;
        let (line, rows) = shown("list_directory", "{\"path\":\".\"}", entries);
        assert_eq!(line, "");
        assert_eq!(
            rows,
            "  │ entries:\n  \
               │   name   kind          size  modified\n  \
               │   a.txt  file       2.8 KiB  2026-11-21 09:05:07 UTC\n  \
               │   b      directory  0 bytes  unknown\n  \
               │ left out  3\n"
        );
        let status = r#"{"freeBytes":104857600,"memoryBytes":536870912,"processes":30,"processors":1,"services":20,"timeUnix":1795251907,"uptimeSeconds":185}"#;
        let (_, rows) = shown("system_status", "{}", status);
        assert!(
            rows.starts_with("  │ time        2026-11-21 09:05:07 UTC\n  │ up for      3 min 5 s\n  │ memory      512 MiB\n  │ free        100 MiB\n"),
            "{rows}"
        );
        let log = r#"{"entries":[{"level":"warning","nanoseconds":12340000000,"sequence":7,"service":"files","text":"a\tb\u001b[2J"}]}"#;
        let (line, rows) = shown("read_log", "{}", log);
        assert_eq!(line, ": 1 entry");
        assert_eq!(rows, "  │ since boot  level    service  text\n  │     12.3 s  warning  files    a\\tb\\u{1b}[2J\n");
    }

    #[test]
    fn a_text_is_a_text_and_nothing_is_a_sentence() {
        let file = "{\"services\":[]}";
        assert_eq!(shown("read_file", "{}", file).0, ", 15 bytes: {\"services\":[]}");
        assert_eq!(result("read_file", "{}", "one\n\"two\"\n").unwrap().whole(), "one\n\"two\"");
        let (line, rows) = shown("delete_file", r#"{"path":"a\u001b.txt"}"#, "done");
        assert_eq!((line.as_str(), rows.as_str()), (": a\\u{1b}.txt is deleted.", ""));
        assert_eq!(shown("helper 1: stop_service", r#"{"name":"hello"}"#, "done").0, ": hello is stopped.");
        let run = r#"{"result":{"code":0,"output":"Hello,\n\tworld!\n","report":"it ended by itself"}}"#;
        let (_, rows) = shown("run_program", "{}", run);
        assert_eq!(
            rows,
            "  │ exit code     0\n  │ how it ended  it ended by itself\n  │ output:\n  │   Hello,\n  │           world!\n"
        );
        let (_, rows) = shown("run_program", "{}", &run.replace("Hello,\\n\\tworld!\\n", ""));
        assert!(rows.ends_with("  │ output        no output\n"), "{rows}");
    }

    #[test]
    fn what_has_another_form_is_not_shown_by_the_schema() {
        for (name, text) in [
            ("no_tool", "{}"),
            ("delete_file", "there is no such file"),
            ("list_services", "done"),
            ("list_services", "{\"services\":5}x"),
            ("list_services", "[]"),
        ] {
            assert!(result(name, "{}", text).is_none(), "{name} {text}");
        }
    }

    #[test]
    fn of_a_result_that_was_cut_the_whole_items_are_shown() {
        let at = SERVICES.find("\"killed\"").unwrap();
        let text = capos_agent::truncate(SERVICES, at);
        let (line, rows) = shown("list_services", "{}", &text);
        assert_eq!(line, ": 1 service");
        assert!(rows.contains("│ files  running"), "{rows}");
        assert!(rows.ends_with("bytes are not shown]\n"), "{rows}");
        assert_eq!(closed("{\"names\":[\"a\",\"b]\\\"").as_deref(), Some("{\"names\":[\"a\"]}"));
        assert_eq!(closed("{\"names\":[\"a"), None);
    }

    #[test]
    fn long_lists_are_shown_in_part() {
        let names: Vec<String> = (0..30).map(|number| format!("\"program-{number}\"")).collect();
        let text = format!("{{\"names\":[{}]}}", names.join(","));
        let (line, rows) = shown("list_programs", "{}", &text);
        assert_eq!(line, ": 30 programs");
        assert_eq!(rows.lines().count(), ROWS + 1);
        assert!(rows.ends_with("  … 18 more rows; /more shows all\n"), "{rows}");
        assert_eq!(result("list_programs", "{}", &text).unwrap().whole().lines().count(), 30);
    }

    proptest! {
        /// Whatever a service answers, each row stays behind its margin and on the screen, and nothing in it is a control
        /// character.
        #[test]
        fn no_row_leaves_its_place(text in "(\\PC|\u{1b}\\[2J|\n|\r|日|\u{301}){0,60}", columns in 24_usize..140, failed: bool) {
            let text = serde_json::Value::String(text).to_string();
            let state = if failed { "failed" } else { "running" };
            let one = format!("{{\"description\":{text},\"frames\":1,\"lastExit\":{text},\"maxRestarts\":1,\"name\":{text},\"restarts\":1,\"state\":\"{state}\"}}");
            let all = format!("{{\"services\":[{one},{one}]}}");
            let result = result("list_services", "{}", &all).unwrap();
            for row in result.preview(columns).lines() {
                prop_assert!(row.starts_with("  │ ") || row.starts_with(capos_terminal::CONTINUED) || row == "  … /more shows all", "{:?}", row);
                prop_assert!(row.width() < columns.max(60), "{:?}", row);
                prop_assert!(!row.contains(char::is_control));
            }
        }
    }
}
