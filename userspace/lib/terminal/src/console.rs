//! The whole terminal: keyboard bytes in, events out, and every byte for the screen.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use crate::editor::{LineEditor, Outcome, in_rows};
use crate::history::History;
use crate::keys::{Key, KeyDecoder};
use crate::probe::{Answer, Probe};
use crate::sanitise::{Clean, sanitise};
use crate::style::{Painter, Style};
use crate::view::{PROMPT_LIMIT, Size};

/// What the screen is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub columns: u16,
    pub rows: u16,
    /// Off for `NO_COLOR` and screens without it: no style is emitted, labels remain.
    pub colour: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { columns: 80, rows: 24, colour: true }
    }
}

/// A line to be read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Stands before the line. What comes before its last newline is shown once, above.
    pub prompt: Vec<(Style, Clean)>,
    pub echo: Echo,
    /// Whether the line joins the history. Answers to questions do not.
    pub keep: bool,
    /// Whether what was typed before counts. Off where a person decides about something: they cannot have meant a
    /// question that they had not seen.
    pub typeahead: bool,
    /// Whether what is pasted while it is read counts. Off where a person decides about something: a paste answers no
    /// question.
    pub pastes: bool,
    /// The columns and rows that the lines above the prompt's last were laid out for. On a screen of another size they are not
    /// shown, and where it gets another size they are read no more: [`Event::Resized`].
    pub laid_out: Option<(u16, u16)>,
    /// What lines may begin with, whole: Tab completes to them.
    pub completions: Vec<String>,
}

impl Read {
    /// An ordinary line with history and type-ahead.
    #[must_use]
    pub fn line(prompt: &str) -> Self {
        Self {
            prompt: prompt_of(Style::Prompt, prompt),
            echo: Echo::On,
            keep: true,
            typeahead: true,
            pastes: true,
            laid_out: None,
            completions: Vec::new(),
        }
    }

    /// The answer to a question: what was typed before does not count, nor does a paste, and it stays out of the history.
    #[must_use]
    pub fn question(prompt: &str) -> Self {
        let prompt = prompt_of(Style::Question, prompt);
        Self { prompt, keep: false, typeahead: false, pastes: false, ..Self::line("") }
    }

    /// A secret: a question whose answer is not shown. It may be pasted, once the question is there.
    #[must_use]
    pub fn secret(prompt: &str) -> Self {
        Self { echo: Echo::Off, pastes: true, ..Self::question(prompt) }
    }
}

fn prompt_of(style: Style, text: &str) -> Vec<(Style, Clean)> {
    Vec::from([(style, sanitise(text.as_bytes()))])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    On,
    /// Nothing of the line appears, not even its length.
    Off,
}

/// What the person did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A line was entered. Pasted lines are joined by newlines.
    Line(String),
    /// Ctrl-C. A line that was being read is gone, and so is the type-ahead.
    Interrupt,
    /// Ctrl-D on an empty line. The read is over.
    End,
    /// The screen has another size than the read was laid out for. The read is over.
    Resized,
    /// The terminal told its size.
    Size { columns: u16, rows: u16 },
}

/// Names one question, among all that a console ever reads the answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question(u64);

/// A terminal: one screen, one keyboard, at most one line being read.
///
/// Input changes the line, and [`Self::take_output`] draws what has changed since the last call: however much comes at once,
/// it is drawn once, and what waits for that call has a bound. What does not fit anywhere is refused whole, with a message.
#[derive(Debug)]
pub struct Console {
    painter: Painter,
    size: Size,
    decoder: KeyDecoder,
    /// Keys that have not been read yet.
    keys: VecDeque<Key>,
    editor: Option<LineEditor>,
    history: History,
    events: VecDeque<Event>,
    out: Vec<u8>,
    /// Bytes for the screen that were taken.
    taken: u64,
    probe: Probe,
    /// The line differs from what is drawn.
    changed: bool,
    bell: bool,
    /// To be shown above the line when it is next drawn: what there is to choose from.
    choice: Option<Vec<String>>,
    /// The same: what was refused.
    refused: Option<&'static str>,
    /// The cursor is behind a status line.
    has_status: bool,
    dropping: Dropping,
    /// The question that is read has not been heard of yet: [`Self::hear`].
    deaf: bool,
    /// How many lines were begun to be read: names the one that is read.
    reads: u64,
    /// What is dropped was meant for a terminal that has restarted.
    restarted: bool,
    /// What is to be said before the next prompt.
    notice: Option<&'static str>,
    /// What has come since [`Self::pause`].
    since: Since,
    /// The end of a paste has come since then.
    pasted: bool,
    /// Before that, the rest of a paste was dropped.
    stuck: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Nothing,
    /// Ctrl-C alone.
    Interrupts,
    Input,
}

/// Until when all input but Ctrl-C is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropping {
    Nothing,
    /// Until the line is quiet.
    UntilPause,
    UntilPasteEnd,
}

/// How many keys may wait; where more come, none is kept.
const TYPEAHEAD_LIMIT: usize = 64 * 1024;
/// The narrowest and the widest screen that is edited on, and the lowest and the highest.
const COLUMNS: core::ops::RangeInclusive<u16> = 8..=512;
const ROWS: core::ops::RangeInclusive<u16> = 2..=128;

const INTERRUPT: u8 = 3;
const BELL: u8 = 7;
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";
/// What a person is told whose type-ahead does not count.
const DROPPED: &[u8] = b"(what you typed before this was not read)";

const PASTE_TOO_LONG: &str = "The paste does not fit: a line has at most 63 KiB. Nothing of it was taken.";
const LINE_TOO_LONG: &str = "A line has at most 63 KiB. It was dropped, with all that came at once with it.";
const SEVERAL_LINES: &str = "What was pasted has several lines. It was dropped: a secret has one line.";
const AHEAD_TOO_LONG: &str = "More than 65,536 characters were typed ahead. All of them were dropped.";
const PASTE_IS_NO_ANSWER: &str = "What is pasted answers no question. Type the answer.";
const RESTARTED: &str = "The terminal was restarted. What was typed or pasted meanwhile was dropped.";

fn sized(columns: u16, rows: u16) -> Size {
    let within = |number: u16, range: core::ops::RangeInclusive<u16>| number.clamp(*range.start(), *range.end());
    Size { columns: within(columns, COLUMNS).into(), rows: within(rows, ROWS).into() }
}

impl Console {
    /// A terminal whose cursor is at the left edge.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let size = sized(settings.columns, settings.rows);
        Self {
            painter: Painter::new(size.columns, settings.colour),
            size,
            decoder: KeyDecoder::default(),
            keys: VecDeque::new(),
            editor: None,
            history: History::default(),
            events: VecDeque::new(),
            out: Vec::new(),
            taken: 0,
            probe: Probe::default(),
            changed: false,
            bell: false,
            choice: None,
            refused: None,
            has_status: false,
            dropping: Dropping::Nothing,
            deaf: false,
            reads: 0,
            restarted: false,
            notice: None,
            since: Since::Nothing,
            pasted: false,
            stuck: false,
        }
    }

    /// Takes the bytes for the screen that have been made since the last time, and those that draw what has changed.
    #[must_use]
    pub fn take_output(&mut self) -> Vec<u8> {
        if !self.probe.holds() {
            self.draw();
        }
        if core::mem::take(&mut self.bell) {
            self.out.push(BELL);
        }
        self.taken = self.made();
        core::mem::take(&mut self.out)
    }

    /// Whether there would be output.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.out.is_empty() || self.bell || (self.changed && !self.probe.holds())
    }

    /// Bytes for the screen that were ever made.
    fn made(&self) -> u64 {
        self.taken.saturating_add(self.out.len() as u64)
    }

    /// The next thing the person did.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Makes the terminal mark what is pasted.
    pub fn start(&mut self) {
        self.out.extend_from_slice(b"\x1b[?2004h");
    }

    /// The same on a terminal that was used before, by a service whose state is lost. It is unknown whether a paste is
    /// in progress, and input that arrives was meant for the lost state. Input is dropped until the line is quiet: the
    /// end of a paste may be text of it.
    pub fn restart(&mut self) {
        self.start();
        self.out.extend_from_slice(b"\r\n");
        self.dropping = Dropping::UntilPause;
        self.restarted = true;
        self.since = Since::Input;
    }

    /// Leaves the terminal as it was before [`Self::start`].
    pub fn stop(&mut self) {
        self.out.extend_from_slice(b"\x1b[?2004l");
    }

    /// Asks the terminal for its size; the answer comes as [`Event::Size`] where it is another than before, or not at all.
    pub fn ask_size(&mut self) {
        if self.decoder.is_pasting() {
            // The answer could not be told from what is pasted.
            return;
        }
        self.probe.ask(&mut self.out);
        self.probe.asked_at(self.made());
    }

    /// Asks a terminal that has told its size before, and waits for that: [`Self::is_held`].
    pub fn check_size(&mut self) {
        if self.probe.is_answered() && !self.decoder.is_pasting() {
            self.ask_size();
            self.probe.hold();
        }
    }

    /// Whether what has changed waits for the terminal to tell its size: [`Self::late`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.probe.holds()
    }

    /// The terminal has not told its size in time.
    pub fn late(&mut self) {
        self.probe.give_up();
        self.resume();
    }

    /// Whether input is dropped.
    #[must_use]
    pub fn is_dropping(&self) -> bool {
        self.dropping != Dropping::Nothing
    }

    /// Whether input is dropped until the line is quiet, for which no prompt should be shown: what is typed does not count.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        self.dropping == Dropping::UntilPause
    }

    /// Nothing has come from the keyboard for a while: what comes next is typed by a person who sees the screen.
    pub fn pause(&mut self) {
        for key in self.decoder.pause() {
            self.key(key);
        }
        if self.decoder.is_pasting() && self.stuck && self.since == Since::Interrupts {
            // The rest of a paste does not stop, send this and stop again: its end does not come any more.
            self.decoder.give_up_paste();
            self.dropping = Dropping::UntilPause;
        }
        self.since = Since::Nothing;
        let pasted = core::mem::take(&mut self.pasted);
        if self.dropping == Dropping::UntilPause {
            if self.decoder.is_pasting() {
                // It has stalled, and continues.
                self.dropping = Dropping::UntilPasteEnd;
            } else {
                self.heed();
                if pasted && self.refuses_pastes() {
                    self.refused = Some(PASTE_IS_NO_ANSWER);
                    self.changed = true;
                }
            }
        }
        self.stuck = self.dropping == Dropping::UntilPasteEnd;
    }

    /// Drops no more input.
    fn heed(&mut self) {
        self.dropping = Dropping::Nothing;
        self.restarted = false;
    }

    /// Takes bytes from the keyboard.
    pub fn input(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.since == Since::Nothing && self.editor.is_some() && !self.changed {
            // The window may have another size by now, so that is asked before anything is drawn.
            self.check_size();
        }
        let interrupts = self.since != Since::Input && bytes.iter().all(|&byte| byte == INTERRUPT);
        self.since = if interrupts { Since::Interrupts } else { Since::Input };
        for &byte in bytes {
            for key in self.decoder.push(byte) {
                if key == Key::Control('c') && self.decoder.is_pasting() {
                    // The rest of the paste is still to come.
                    self.dropping = Dropping::UntilPasteEnd;
                }
                self.key(key);
            }
        }
    }

    /// Begins to read a line. A read that is under way is given up, and its line is lost. Where type-ahead does not count,
    /// the line is a question, which is returned: all input is dropped until [`Self::hear`]. Where the read was laid out for
    /// another screen, it is over at once.
    pub fn read(&mut self, mut read: Read) -> Option<Question> {
        self.cancel_read();
        if read.laid_out.is_some_and(|(columns, rows)| sized(columns, rows) != self.size) {
            self.events.push_back(Event::Resized);
            return None;
        }
        self.reads = self.reads.wrapping_add(1);
        let question = (!read.typeahead).then_some(Question(self.reads));
        self.deaf = !read.typeahead;
        let dropped = self.deaf && !self.keys.is_empty();
        if self.deaf {
            self.flush_typeahead();
        }
        self.take_status();
        self.painter.fresh_line(&mut self.out);
        let mut prompt = Vec::new();
        let mut length = 0_usize;
        for (style, text) in read.prompt {
            let (above, last) = text.split_last_line();
            if !above.is_empty() {
                self.paint_all(&mut prompt);
                self.painter.paint(style, &above, &mut self.out);
                length = 0;
            }
            length = length.saturating_add(last.as_str().len());
            prompt.push((style, last));
        }
        if let Some(notice) = self.notice.take() {
            self.painter.line(Style::Warning, &sanitise(notice.as_bytes()), &mut self.out);
        } else if dropped {
            self.painter.line(Style::Dim, &sanitise(DROPPED), &mut self.out);
        }
        if length > PROMPT_LIMIT {
            // Too long to be drawn again and again: it stands above the line.
            self.paint_all(&mut prompt);
            self.painter.fresh_line(&mut self.out);
        }
        read.prompt = prompt;
        // Asked before the prompt, whose last byte then is the last that a person waits for.
        self.ask_size();
        self.editor = Some(LineEditor::new(read, self.size));
        self.changed = true;
        self.draw();
        while self.editor.is_some()
            && let Some(key) = self.keys.pop_front()
        {
            self.edit(key);
        }
        question
    }

    fn paint_all(&mut self, texts: &mut Vec<(Style, Clean)>) {
        for (style, text) in texts.drain(..) {
            self.painter.paint(style, &text, &mut self.out);
        }
    }

    /// Whether the answer to that question is being read.
    #[must_use]
    pub fn is_asking(&self, question: Question) -> bool {
        self.editor.is_some() && question == Question(self.reads)
    }

    /// That question has been shown: from here on what is typed answers it. A paste that has begun before does not, nor does
    /// what comes at once with the end of one. Nothing where the question is over.
    pub fn hear(&mut self, question: Question) {
        if self.is_asking(question) && core::mem::take(&mut self.deaf) {
            if self.decoder.is_pasting() {
                self.dropping = Dropping::UntilPasteEnd;
            } else if self.pasted && self.refuses_pastes() {
                self.dropping = Dropping::UntilPause;
            }
        }
    }

    /// Whether a question is open that nothing pasted answers.
    fn refuses_pastes(&self) -> bool {
        self.editor.as_ref().is_some_and(|editor| !editor.pastes)
    }

    /// Whether a line is being read.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.editor.is_some()
    }

    /// Gives up the line that is being read, and takes it off the screen.
    pub fn cancel_read(&mut self) {
        if let Some(mut editor) = self.editor.take() {
            editor.view.hide(&mut self.out);
            self.history.leave();
            if let Some(why) = self.refused.take() {
                self.notice = Some(why);
            }
            self.ended();
        }
    }

    fn ended(&mut self) {
        self.deaf = false;
        self.changed = false;
        self.choice = None;
        self.probe.release();
    }

    /// Forgets what was typed and not yet read.
    pub fn flush_typeahead(&mut self) {
        self.keys = VecDeque::new();
    }

    /// Shows text where the cursor is. While a line is being read the text appears above it, on lines of its own.
    pub fn write(&mut self, style: Style, text: &Clean) {
        if text.is_empty() {
            return;
        }
        self.above(|painter, out| painter.paint(style, text, out));
    }

    /// Shows text as lines of their own, with the style's label before the first.
    pub fn write_line(&mut self, style: Style, text: &Clean) {
        self.above(|painter, out| painter.line(style, text, out));
    }

    /// Shows a line below all else, of one row at most, which goes when anything else is shown. While a line is being read there is
    /// no place for it.
    pub fn status(&mut self, style: Style, text: &Clean) {
        if self.editor.is_some() {
            return;
        }
        self.take_status();
        self.painter.fresh_line(&mut self.out);
        // In the last column some terminals continue in the next row.
        let row = text.first_row(self.size.columns.saturating_sub(1));
        self.painter.paint(style, &row, &mut self.out);
        self.has_status = !row.is_empty();
    }

    /// Takes the status line off the screen.
    fn take_status(&mut self) {
        if core::mem::take(&mut self.has_status) {
            self.painter.at_left();
            self.out.extend_from_slice(b"\r\x1b[K");
        }
    }

    /// Goes to a new line unless the cursor is at the left edge.
    pub fn fresh_line(&mut self) {
        self.take_status();
        if self.editor.is_none() {
            self.painter.fresh_line(&mut self.out);
        }
    }

    /// Clears the screen.
    pub fn clear(&mut self) {
        self.choice = None;
        if self.out.ends_with(CLEAR) {
            // Nothing was shown since.
            return;
        }
        self.above(|painter, out| {
            painter.at_left();
            out.extend_from_slice(CLEAR);
        });
    }

    /// Sounds the bell.
    pub fn bell(&mut self) {
        self.bell = true;
    }

    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The history, to fill it at the beginning of a session or to forget it at the end.
    pub fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    /// Shows something above the line, which is drawn again with the next output.
    fn above(&mut self, write: impl FnOnce(&mut Painter, &mut Vec<u8>)) {
        self.take_status();
        if let Some(editor) = &mut self.editor {
            editor.view.hide(&mut self.out);
        }
        write(&mut self.painter, &mut self.out);
        if self.editor.is_some() {
            self.painter.fresh_line(&mut self.out);
            self.changed = true;
        }
    }

    /// Draws what has changed of the line, and above it what was to be shown there.
    fn draw(&mut self) {
        if !self.changed {
            return;
        }
        if let Some(why) = self.refused.take() {
            self.write_line(Style::Warning, &sanitise(why.as_bytes()));
        }
        if let Some(words) = self.choice.take() {
            self.write(Style::Plain, &sanitise(in_rows(&words, self.size.columns).as_bytes()));
        }
        self.changed = false;
        if let Some(editor) = &mut self.editor {
            editor.draw(&self.painter, &mut self.out);
        }
    }

    fn key(&mut self, key: Key) {
        match key {
            Key::CursorAt { row, column } => {
                self.answered(row, column);
                self.resume();
            }
            Key::Control('c') if self.editor.is_none() => {
                self.flush_typeahead();
                self.events.push_back(Event::Interrupt);
            }
            Key::Control('c') => self.edit(key),
            Key::PasteEnd if self.paste_ended() => {}
            _ if self.dropping != Dropping::Nothing => {
                if core::mem::take(&mut self.restarted) {
                    self.notice = Some(RESTARTED);
                }
            }
            _ if self.deaf => {}
            // It answers what is on the screen, unless that has another size than it was laid out for.
            _ if self.editor.as_ref().is_some_and(|editor| editor.laid_out) && self.probe.holds() => self.hold(key),
            _ if self.editor.is_some() => self.edit(key),
            _ => self.hold(key),
        }
    }

    /// Keeps a key for later.
    fn hold(&mut self, key: Key) {
        if self.keys.len() >= TYPEAHEAD_LIMIT {
            self.flush_typeahead();
            self.notice = Some(AHEAD_TOO_LONG);
            self.drop_rest();
        } else {
            self.keys.push_back(key);
        }
    }

    /// Takes the keys that have waited for the terminal to tell its size.
    fn resume(&mut self) {
        while !self.probe.holds()
            && self.editor.is_some()
            && let Some(key) = self.keys.pop_front()
        {
            self.edit(key);
        }
    }

    /// The end of a paste has come; says whether that means nothing to a line. The clipboard can hold an end as well, so a
    /// question takes what comes next only if the line was quiet before.
    fn paste_ended(&mut self) -> bool {
        self.pasted = true;
        let dropped = self.dropping != Dropping::Nothing;
        if self.refuses_pastes() && !self.deaf {
            self.dropping = Dropping::UntilPause;
            return true;
        }
        if self.dropping == Dropping::UntilPasteEnd {
            self.heed();
        }
        dropped
    }

    /// Drops what belongs to what was refused.
    fn drop_rest(&mut self) {
        self.bell = true;
        self.flush_typeahead();
        self.dropping = match self.since {
            _ if self.decoder.is_pasting() => Dropping::UntilPasteEnd,
            // It was typed ahead, and all of it has come.
            Since::Nothing => Dropping::Nothing,
            Since::Interrupts | Since::Input => Dropping::UntilPause,
        };
    }

    fn edit(&mut self, key: Key) {
        if self.editor.as_ref().is_some_and(|editor| editor.ends_with(key)) {
            // The line stays on the screen in its current state.
            self.changed = true;
            self.draw();
        }
        let Some(editor) = &mut self.editor else { return };
        match editor.key(key, &mut self.history) {
            Outcome::Edited => self.changed = true,
            Outcome::Refused => self.bell = true,
            Outcome::PasteTooLong => self.refuse(PASTE_TOO_LONG),
            Outcome::LineTooLong => self.refuse(LINE_TOO_LONG),
            Outcome::SeveralLines => self.refuse(SEVERAL_LINES),
            Outcome::Clear => self.clear(),
            Outcome::Choice(words) => {
                self.choice = Some(words);
                self.changed = true;
            }
            Outcome::Ended(event) => {
                editor.view.leave(if event == Event::Interrupt { b"^C" } else { b"" }, &mut self.out);
                self.editor = None;
                self.ended();
                if event == Event::Interrupt {
                    self.flush_typeahead();
                }
                self.events.push_back(event);
            }
        }
    }

    fn refuse(&mut self, why: &'static str) {
        self.drop_rest();
        self.refused = Some(why);
        self.changed = true;
    }

    /// The terminal has told where its cursor is.
    fn answered(&mut self, row: u16, column: u16) {
        let Some(Answer { cursor, columns, rows, asked_at }) = self.probe.answer(row, column) else { return };
        let size = sized(columns, rows);
        if size == self.size {
            return;
        }
        if self.editor.is_some() && asked_at != self.made() {
            // Something was shown since, so the cursor is elsewhere by now.
            self.ask_size();
            self.probe.hold();
            return;
        }
        self.events.push_back(Event::Size { columns, rows });
        self.painter.resize(size.columns);
        let narrower = size.columns < self.size.columns;
        self.size = size;
        if core::mem::take(&mut self.has_status) {
            // How many rows it has by now only the terminal knows, so it is left where it is.
            self.painter.fresh_line(&mut self.out);
        }
        if let Some(editor) = &mut self.editor {
            let above = match narrower {
                true => self.probe.rows_above(&editor.view, cursor, size.columns),
                false => editor.view.cursor().row,
            };
            editor.view.hide_moved(above, usize::from(cursor.0.saturating_sub(1)), &mut self.out);
            editor.view.resize(size);
            self.changed = true;
            if editor.laid_out {
                // What stands above it is not as it was any more, so it has to be shown again, whole.
                self.flush_typeahead();
                self.cancel_read();
                self.events.push_back(Event::Resized);
            }
        }
    }
}
