//! The person's word: consent and step-up.

mod choice;
mod limits;
mod shown;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;

use capos_agent::world::{Answer, Ask, Secret};
use capos_agent::{Either, race};
use capos_plural::count;
use capos_policy::{category, matches, may_stand, normalise};
use capos_runner::change::{PATIENCE, PendingWrite};
use capos_schema::annotations::Pattern;
use capos_schema::authority::{ConsentReach, Reply, Span};
use capos_schema::cap::CallError;
use capos_schema::reflection;
use capos_schema::terminal::{LineEnd, Style};
use capos_terminal::{count_spaces, escape_json, quote, wrap};

use self::choice::{Choice, allow};
use crate::background::reminders;
use crate::changed_row;
use crate::command::setup;
use crate::console::Runner;
use crate::escape::{in_quotes, one_line};
use crate::loss;
use crate::screen::Held;

pub use limits::{go_on, more};
pub use shown::Shown;

/// Rows of a screen that are kept free of arguments at least. If a question's own lines need more, it has more.
const AROUND: usize = 10;
/// Rows that a page leaves free: for the question itself, the cursor below it, and a first row that the terminal wraps.
const ASKING: usize = 3;
/// Characters of an argument that the answers name. The arguments say all of it.
const NAMED: usize = 40;
/// Classes of a label that a question names. Of more it says how many.
const CLASSES: usize = 3;
/// Rows of the longest page, on however large a screen: it is one message to the terminal.
const ROWS: usize = 200;
/// Rows of what changes in a file.
const CHANGED: usize = 12;
/// Stands before the arguments. A text that continues in another row has [`CONTINUED`](capos_terminal::CONTINUED) there.
const MARGIN: &str = "  │ ";
/// What a question needs from its person.
const ASKS: &str = "asks for your consent";
const NEEDS: &str = "needs your passphrase";
/// Stands before the question's own lines.
const LEAD: &str = "  ";

/// Spans of what is shown at once.
#[derive(Default)]
struct Page(Vec<(Style, String)>);

impl Page {
    fn add(&mut self, style: Style, text: impl Into<String>) {
        self.0.push((style, text.into()));
    }

    /// Adds a line of the question's own. It may hold words of a service: what has no room in its row continues behind the margin.
    fn line(&mut self, style: Style, text: &str, columns: usize) {
        self.add(style, format!("{LEAD}{}\n", wrap(LEAD, &count_spaces(&one_line(text)), columns)));
    }

    fn rows(&self) -> usize {
        self.0.iter().map(|(_, text)| text.matches('\n').count()).sum()
    }

    /// Its rows, in pages of at most `rows` rows.
    fn split(self, rows: usize) -> Vec<Self> {
        let lines = self.0.iter().flat_map(|(style, text)| text.split_inclusive('\n').map(|row| (*style, row)));
        let mut pages = Vec::new();
        let mut page = Self::default();
        for (style, row) in lines {
            if page.rows() >= rows.max(1) {
                pages.push(core::mem::take(&mut page));
            }
            page.add(style, row);
        }
        pages.push(page);
        pages
    }

    fn spans(&self) -> Vec<(Style, &str)> {
        self.0.iter().map(|(style, text)| (*style, text.as_str())).collect()
    }
}

/// Arguments in the form that is shown, in pages of at most `rows` rows. No row begins where a row of the question's
/// own begins, and none is wrapped by the terminal.
fn pages(arguments: &str, columns: usize, rows: usize) -> Vec<String> {
    let text = format!("{MARGIN}{}", wrap(MARGIN, &escape_json(arguments), columns));
    let lines: Vec<&str> = text.split('\n').collect();
    lines.chunks(rows.max(1)).map(|page| page.iter().map(|line| format!("{line}\n")).collect()).collect()
}

/// What is on the screen at once, and what is asked below it if it is not the last.
#[derive(Default)]
struct Sheet {
    page: Page,
    next: String,
}

/// Lays a question out on pages of at most `most` rows: what stands before the arguments, their pages, and what stands
/// behind them. If that has no room below the last arguments, it has pages of its own, which begin with `again`: no
/// row of a question scrolls away unseen.
fn lay_out(head: Page, arguments: Vec<String>, behind: Page, again: &Page, most: usize) -> Vec<Sheet> {
    let next = |what: &str, number: usize, count: usize| {
        format!("{what}, page {number} of {count}. Enter: next page, n: reject: ")
    };
    let count = arguments.len();
    let mut sheets: Vec<Sheet> = Vec::new();
    let mut page = head;
    for (number, text) in (1_usize..).zip(arguments) {
        page.add(Style::Bold, text);
        sheets.push(Sheet { page: core::mem::take(&mut page), next: next("Arguments", number, count) });
    }
    match sheets.last_mut() {
        Some(end) if end.page.rows().saturating_add(behind.rows()) <= most => end.page.0.extend(behind.0),
        _ => {
            let parts = behind.split(most.saturating_sub(again.rows()));
            let count = parts.len();
            for (number, part) in (1_usize..).zip(parts) {
                let page = Page(again.0.iter().cloned().chain(part.0).collect());
                sheets.push(Sheet { page, next: next("What the call does", number, count) });
            }
        }
    }
    sheets
}

/// How a question ended.
type Asked = Result<(String, LineEnd), CallError>;

/// What a person is asked in the end.
enum Last<'a> {
    /// How far a consent reaches, with what the answers mean.
    Question(&'a str, &'a str),
    Secret(&'a str),
    /// Nothing: the question is only shown.
    Nothing,
}

/// Questions about calls, at the screen of a session.
struct Questions<'a> {
    runner: &'a Runner,
    /// Of how many results that others wrote the person was told before.
    told: &'a Cell<usize>,
}

impl<'a> Questions<'a> {
    fn of(runner: &'a Runner) -> Self {
        Self { runner, told: &runner.told_of }
    }
}

impl Questions<'_> {
    /// Asks about a call, as [`tell`](Self::tell) does. If the window gets another size meanwhile, the terminal cancels what was laid
    /// out for the old one, and it is asked again from its beginning.
    async fn ask_about(&self, ask: &Ask<'_>, what: &str, style: Style, last: &Last<'_>) -> Asked {
        let screen = &self.runner.screen;
        let held = screen.hold_for_question().await;
        loop {
            let size = screen.size().await;
            let asked = self.tell(&held, ask, (what, style), size, last).await;
            let cancelled = matches!(asked, Ok((_, LineEnd::Cancelled)));
            if !cancelled || screen.size().await == size {
                return asked;
            }
        }
    }

    /// Shows what is asked about, whole: the tool, what it does, every argument, and what it changes. What does not fit on
    /// the screen comes page by page, so that nothing scrolls away unseen. The question stands below the last page; a
    /// person does not get it before they have looked at all of them.
    async fn tell(
        &self,
        held: &Held<'_>,
        ask: &Ask<'_>,
        form: (&str, Style),
        size: (usize, usize),
        last: &Last<'_>,
    ) -> Asked {
        let sheets = self.draw(ask, form, size, last).await;
        let asked = turn_over(held, sheets, last).await;
        // An unanswered question may not have been read.
        if matches!(asked, Ok((_, LineEnd::Entered))) {
            self.told.set(ask.untrusted);
        }
        asked
    }

    /// The pages of a question.
    async fn draw(
        &self,
        ask: &Ask<'_>,
        (what, style): (&str, Style),
        (columns, rows): (usize, usize),
        last: &Last<'_>,
    ) -> Vec<Sheet> {
        let tool = &ask.tool.descriptor;
        let mut page = Page::default();
        let who = shown::who(ask);
        let risk = format!("({}, {} risk; {what})", tool.category, ask.approval.risk.name());
        page.add(Style::Question, format!("{who} {} ", tool.name));
        page.add(Style::Plain, format!("{risk}\n"));
        page.line(Style::Dim, &tool.description.replace('\n', " "), columns);
        let mut behind = self.behind(ask, style, columns).await;
        if let Last::Question(answers, _) = last {
            behind.line(Style::Dim, answers, columns);
        }
        let around = page.rows().saturating_add(ASKING).max(AROUND);
        let arguments = pages(ask.arguments, columns, rows.saturating_sub(around).min(ROWS));
        let mut again = Page::default();
        again.line(Style::Question, &format!("{} {risk}", tool.name), columns);
        lay_out(page, arguments, behind, &again, rows.saturating_sub(ASKING).min(ROWS))
    }

    /// What stands between the arguments and the question.
    async fn behind(&self, ask: &Ask<'_>, style: Style, columns: usize) -> Page {
        let mut page = Page::default();
        let length = count(ask.arguments.chars().count(), "character");
        let tool = &ask.tool.descriptor.name;
        page.line(Style::Plain, &format!("These are all arguments of {tool}: {length}."), columns);
        for fact in ask.note.lines() {
            page.line(style, fact, columns);
        }
        if let Some(note) = setup::note(self.runner, ask.tool).await {
            page.line(Style::Plain, &note, columns);
        }
        if let Some(note) = reminders::note(self.runner, ask) {
            page.line(Style::Plain, &note, columns);
        }
        for fact in loss::facts(self.runner, ask).await {
            page.line(Style::Warning, &fact, columns);
        }
        self.change(&mut page, ask, columns).await;
        if let Some(note) = foreign(self.told.get(), ask.untrusted) {
            page.line(Style::Warning, note, columns);
        }
        if let Some(note) = labelled(&ask.label.classes) {
            page.line(Style::Warning, &note, columns);
        }
        page
    }
}

impl Questions<'_> {
    /// What a write changes in its file, line by line. The arguments above say all that it writes; this says what is new.
    async fn change(&self, page: &mut Page, ask: &Ask<'_>, columns: usize) {
        let runner = self.runner;
        let looking = async { Some(PendingWrite::of(runner, ask.tool, ask.arguments).await?.look().await) };
        let Either::Left(Some(Ok(change))) = race(looking, runner.clock.sleep(PATIENCE)).await else { return };
        runner.writes.shown((ask.call_id, ask.arguments), &change);
        match change.rows(CHANGED) {
            Ok(rows) => {
                // The last column of the screen stays free.
                let room = columns.saturating_sub(LEAD.len()).saturating_sub(1);
                for row in rows {
                    let (style, text) = changed_row::laid_out(&row, room);
                    // Its spaces are counted already: with the sign before them they would be others.
                    page.add(style, format!("{LEAD}{}\n", wrap(LEAD, &text, columns)));
                }
            }
            Err(why) => page.line(Style::Dim, &format!("The change is not shown: {why}."), columns),
        }
    }
}

/// Shows the pages of a question one after the other, and asks in the end.
async fn turn_over(held: &Held<'_>, mut sheets: Vec<Sheet>, last: &Last<'_>) -> Asked {
    let end = sheets.pop().unwrap_or_default();
    for Sheet { page, next } in sheets {
        loop {
            match held.ask(&page.spans(), &next).await? {
                (line, LineEnd::Entered) if line.is_empty() => break,
                (line, LineEnd::Entered) if Choice::of(&line, false) == Some(Choice::No) => {
                    return Ok((String::new(), LineEnd::EndOfInput));
                }
                // What else was entered is no answer to the question, which is not out yet. The page is shown again.
                (_, LineEnd::Entered) => {}
                ended => return Ok(ended),
            }
        }
    }
    match last {
        Last::Question(_, question) => held.ask(&end.page.spans(), question).await,
        Last::Secret(question) => held.secret(&end.page.spans(), question).await,
        Last::Nothing => {
            held.fresh_line().await;
            held.show(&end.page.spans()).await;
            Ok((String::new(), LineEnd::Entered))
        }
    }
}

/// What the question says of results with text that others wrote. It says only what was not said before, so that a
/// person does not learn to skip the line.
fn foreign(told: usize, read: usize) -> Option<&'static str> {
    match told {
        _ if read <= told => None,
        0 => Some("The model has read files, logs or output that others may have written."),
        _ => Some("Since the last question the model has read more text of others."),
    }
}

/// What a person is told of the label of what the model has seen.
fn labelled(classes: &[String]) -> Option<String> {
    let named = classes.get(..CLASSES).unwrap_or(classes).join(", ");
    let others = classes.len().saturating_sub(CLASSES);
    match (classes.is_empty(), others) {
        (true, _) => None,
        (false, 0) => Some(format!("The model has read data labelled {named}.")),
        (false, _) => {
            Some(format!("The model has read data labelled {named} and {others} more (/inspect conversation)."))
        }
    }
}

impl Questions<'_> {
    /// Asks for the directory in which calls of a tool are agreed to. It has to hold the path of the call that is asked about.
    async fn directory(&self, tool: &str, path: &str) -> Result<ConsentReach, Reply> {
        let parent = path.rsplit_once('/').map_or(".", |(parent, _)| if parent.is_empty() { "/" } else { parent });
        let mut told = format!(
            "{tool} will not ask again in this session for paths in the directory that you type and below it, nor before it \
             replaces files there. The path of this call is in {}.",
            quote(parent)
        );
        let mut is_warned = false;
        loop {
            let held = self.runner.screen.hold_for_question().await;
            let asked = held.ask(&[(Style::Plain, &format!("{LEAD}{told}\n"))], "Directory (Enter: reject): ").await;
            let pattern = match asked {
                Ok((line, LineEnd::Entered)) if !line.trim().is_empty() => line.trim().to_string(),
                asked => return Err(refused(asked)),
            };
            let is_all = normalise(&pattern).is_ok_and(|parts| parts.is_empty());
            if is_all && !core::mem::replace(&mut is_warned, true) {
                told = "That is all of the home directory. Type it again to agree.".to_string();
                continue;
            }
            if matches(Pattern::Directory, &pattern, path) {
                return Ok(ConsentReach { span: Span::Session, pattern });
            }
            told = format!("The path of this call, {}, is not in that directory.", quote(path));
        }
    }
}

/// The argument of a call by which further calls may be agreed to, and how it selects them.
fn selector(ask: &Ask<'_>) -> Option<(Pattern, String)> {
    let tool = &ask.tool.descriptor;
    let (name, kind) = reflection::interface(tool.interface_id)?.method(&tool.method_name)?.pattern?;
    let arguments: serde_json::Map<String, serde_json::Value> = serde_json::from_str(ask.arguments).ok()?;
    let argument = arguments.get(name)?.as_str()?.to_string();
    may_stand(category(&tool.category)).then_some((kind, argument))
}

/// Asks whether a call may run, and how far that consent reaches.
///
/// # Errors
/// What the person replied instead.
pub async fn consent(runner: &Runner, ask: &Ask<'_>) -> Result<ConsentReach, Reply> {
    let selector = selector(ask);
    let pattern = match &selector {
        Some((Pattern::Directory, _)) => ", p: a whole directory".to_string(),
        Some((Pattern::Same, argument)) => format!(", p: all of {}", in_quotes(argument, NAMED)),
        None => String::new(),
    };
    let answers = format!("y: once, t: again this turn, s: this session{pattern}, Enter: no");
    let mut told = answers.clone();
    let (choice, asked) = loop {
        let last = Last::Question(&told, allow(selector.is_some()));
        let asked = Questions::of(runner).ask_about(ask, ASKS, Style::Plain, &last).await;
        let Ok((line, LineEnd::Entered)) = &asked else { break (Choice::No, asked) };
        match Choice::of(line, selector.is_some()) {
            Some(choice) => break (choice, asked),
            // The person may not have seen the question, and typed the next request.
            None => told = format!("{} is no answer. {answers}", in_quotes(line.trim(), NAMED)),
        }
    };
    match (choice, selector) {
        (Choice::Reach(span), _) => Ok(ConsentReach { span, pattern: String::new() }),
        (Choice::Pattern, Some((Pattern::Directory, path))) => {
            Questions::of(runner).directory(&ask.tool.descriptor.name, &path).await
        }
        (Choice::Pattern, Some((Pattern::Same, pattern))) => Ok(ConsentReach { span: Span::Session, pattern }),
        (Choice::Pattern | Choice::No, _) => Err(refused(asked)),
    }
}

/// Asks for the passphrase for one call.
pub async fn passphrase(runner: &Runner, ask: &Ask<'_>) -> Secret {
    passphrase_of(&Questions::of(runner), ask).await
}

async fn passphrase_of(questions: &Questions<'_>, ask: &Ask<'_>) -> Secret {
    let last = Last::Secret("Passphrase to allow this call once (Enter: reject): ");
    match questions.ask_about(ask, NEEDS, Style::Warning, &last).await {
        Ok((_, LineEnd::Interrupted)) => Secret::Interrupted,
        Ok((line, LineEnd::Entered)) if !line.is_empty() => Secret::Given(line),
        Ok(_) => Secret::Declined,
        Err(_) => Secret::Lost,
    }
}

/// The reply of a person without consent.
fn refused<E>(asked: Result<(String, LineEnd), E>) -> Reply {
    match asked {
        Ok((_, LineEnd::Interrupted)) => Reply::Interrupted,
        // Enter alone and the end of input are a no.
        Ok(_) => Reply::Declined,
        Err(_) => Reply::Lost,
    }
}

/// What a line answers to a question of yes or no.
fn answer<E>(asked: Result<(String, LineEnd), E>) -> Answer {
    match asked {
        Ok((_, LineEnd::Interrupted)) => Answer::Interrupted,
        Ok((line, LineEnd::Entered)) if says_yes(&line) => Answer::Yes,
        // Enter alone and the end of input are a no.
        Ok(_) => Answer::No,
        Err(_) => Answer::Lost,
    }
}

fn says_yes(line: &str) -> bool {
    let word: String = line.trim().to_lowercase();
    word == "y" || word == "yes"
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_terminal::CONTINUED;
    use proptest::prelude::*;

    #[test]
    fn a_page_has_so_many_rows_and_a_margin() {
        let text = format!("{{\"text\":\"{}\"}}", "0123456789".repeat(5));
        assert_eq!(pages("{}", 80, 12), ["  │ {}\n"]);
        let found = pages(&text, 25, 2);
        assert_eq!(
            found,
            ["  │ {\"text\":\"01234567890\n  ┆ 12345678901234567890\n", "  ┆ 1234567890123456789\"\n  ┆ }\n",]
        );
    }

    proptest! {
        /// For any arguments and any size of the screen, all of the arguments are shown. No row is wider than the
        /// screen or begins in its first columns, and no page is longer than the screen.
        #[test]
        fn pages_leave_nothing_out(
            text in "( {1,100}|[a-zé日]{0,50}|\\n|\\[y/N\\] ){0,12}",
            columns in 20_usize..140,
            rows in 1_usize..40,
        ) {
            let json = serde_json::to_string(&text).unwrap();
            let pages = pages(&json, columns, rows);
            let joined = pages.concat().replace(&format!("\n{CONTINUED}"), "");
            prop_assert_eq!(joined, format!("{MARGIN}{}\n", escape_json(&json)));
            for page in &pages {
                prop_assert!(page.lines().count() <= rows);
                for row in page.lines() {
                    prop_assert!(row.starts_with(MARGIN) || row.starts_with(CONTINUED), "{:?}", row);
                    prop_assert!(row.chars().count() < columns, "{:?}", row);
                }
            }
        }
    }

    #[test]
    fn lines_of_a_question_keep_to_their_rows() {
        let mut page = Page::default();
        page.line(Style::Warning, &format!("x.\n  That is all.{}[y/N] {}", " ".repeat(60), "w".repeat(200)), 80);
        for row in page.0.iter().flat_map(|(_, text)| text.lines()) {
            assert!(row.chars().count() < 80 && (row.starts_with(LEAD)), "{row:?}");
        }
        let text = &page.0[0].1;
        assert!(text.starts_with("  x.\\n\\u{20}{2}That is all.\\u{20}{60}[y/N] w"), "{text}");
        assert!(text.lines().skip(1).all(|row| row.starts_with(CONTINUED)), "{text}");
        assert_eq!(page.rows(), text.lines().count());
    }

    proptest! {
        /// Whatever stands behind the arguments and however small the screen: all of it is shown, in order, and no page
        /// scrolls. The last page has what the call is and what it does, with the question.
        #[test]
        fn no_row_of_a_question_scrolls_away(arguments in 1_usize..5, behind in 1_usize..60, most in 8_usize..50) {
            let rows = |what: &str, count: usize| -> Vec<String> {
                (0..count).map(|number| format!("{what}{number}\n")).collect()
            };
            let page = |rows: &[String]| Page(rows.iter().map(|row| (Style::Plain, row.clone())).collect());
            let behind = rows("behind", behind);
            let shown = lay_out(page(&rows("head", 3)), rows("argument", arguments), page(&behind), &page(&rows("again", 1)), most);
            for sheet in &shown {
                prop_assert!(sheet.page.rows() <= most);
            }
            let text = |sheet: &Sheet| -> String { sheet.page.0.iter().map(|(_, text)| text.as_str()).collect() };
            let all: String = shown.iter().map(text).collect();
            let wanted = [rows("head", 3), rows("argument", arguments), behind].concat().concat();
            prop_assert_eq!(all.replace("again0\n", ""), wanted);
            let end = shown.last().map(text).unwrap();
            prop_assert!(end.starts_with("again0") || end.contains("argument"), "{}", end);
        }
    }

    #[test]
    fn a_long_change_takes_no_room_from_the_arguments() {
        let page = |rows: usize| Page(vec![(Style::Plain, "row\n".repeat(rows))]);
        let told = |behind| -> Vec<String> {
            let shown = lay_out(page(3), vec!["a\n".repeat(14), "b\n".to_string()], page(behind), &page(1), 21);
            shown.into_iter().map(|sheet| sheet.next).collect()
        };
        let arguments = [1, 2].map(|page| format!("Arguments, page {page} of 2. Enter: next page, n: reject: "));
        assert_eq!(told(20), arguments);
        let more = [1, 2].map(|page| format!("What the call does, page {page} of 2. Enter: next page, n: reject: "));
        assert_eq!(told(21), [arguments, more].concat());
    }

    #[test]
    fn a_question_names_a_few_classes_of_a_label() {
        let classes = ["pii.a", "pii.b", "pii.c", "pii.d", "pii.e"].map(String::from);
        assert_eq!(labelled(&[]), None);
        assert_eq!(labelled(&classes[..1]).unwrap(), "The model has read data labelled pii.a.");
        assert_eq!(
            labelled(&classes).unwrap(),
            "The model has read data labelled pii.a, pii.b, pii.c and 2 more (/inspect conversation)."
        );
    }

    #[test]
    fn what_others_wrote_is_told_of_once() {
        assert_eq!(foreign(0, 0), None);
        assert!(foreign(0, 1).is_some_and(|note| note.contains("The model has read files")));
        assert_eq!(foreign(1, 1), None);
        assert!(foreign(1, 3).is_some_and(|note| note.contains("has read more")));
        // Another conversation begins without.
        assert_eq!(foreign(3, 0), None);
    }

    #[test]
    fn only_yes_is_yes() {
        for yes in ["y", "Y", "yes", " yes "] {
            assert!(says_yes(yes));
        }
        for no in ["", " ", "n", "no", "yy", "ye", "ok", "1", "да"] {
            assert!(!says_yes(no));
        }
    }
}
