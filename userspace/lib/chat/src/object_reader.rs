//! Parsing an answer whose calls are JSON objects, or names followed by JSON objects.

use capos_call_form::CALL_ID;

use crate::CallForm;
use crate::call_reader::Delta;
use crate::message::Tool;
use crate::nesting::Nesting;
use crate::stop::held_back;
use crate::unmarked::{Beginning, SPACE, Unmarked};

/// The most bytes of one call. An object that is longer is text.
const CALL_BYTES: usize = 1024 * 1024;
/// The most bytes of a name outside of an object, with the call's id. If it is longer, it is text.
const NAME_BYTES: usize = 512;

/// The most bytes of white space that are held back before a call, and removed behind one. Longer white space is text.
const SPACE_BYTES: usize = 4 * 1024;

/// Parses an answer piece by piece. Its input contains the marks.
pub struct ObjectReader {
    form: Option<CallForm>,
    /// Names and handles of the tools.
    tools: Vec<(String, String)>,
    place: Place,
    /// The input that is not parsed yet.
    pending: String,
    /// Calls so far.
    calls: u32,
    /// Whether there was text other than white space.
    said: bool,
    /// Whether the last element was a call. White space behind a call is not part of the answer.
    behind_call: bool,
    /// The parser of calls without a mark, if the form permits them.
    without_mark: Option<Unmarked>,
    /// Whether such a call can begin here: at the start of the answer, or directly behind a call.
    may_begin: bool,
    /// The surroundings of the current or last call, if it has no mark.
    around: Option<Around>,
    /// The state of a list that no mark ends.
    list: List,
    /// Whether an answer that is not a call follows a schema. Such an answer is JSON and contains no calls.
    has_schema: bool,
}

enum Place {
    /// Text, up to a mark.
    Text,
    /// Behind a mark: an object, or the end of the calls.
    Calls,
    /// In an object.
    Object(Scanner),
    /// Behind a mark that a name follows.
    Name,
    /// Behind such a name: the object of its arguments.
    Arguments(Nesting),
}

/// The surroundings of a call without a mark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Nothing,
    /// A fence, which is still open.
    Fence,
}

/// The list behind a mark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    /// One call, or a list of them.
    Either,
    /// The list that was begun.
    Begun,
    /// No list: there was no mark yet, or its calls have ended.
    Ended,
}

impl ObjectReader {
    /// Creates a reader of an answer in this form, whose calls use these tools.
    pub fn new(form: Option<CallForm>, tools: &[Tool]) -> Self {
        let without_mark = form.and_then(|form| Unmarked::of(form, tools));
        let tools = tools.iter().map(|tool| (tool.name.clone(), tool.handle.clone())).collect();
        Self {
            form,
            tools,
            place: Place::Text,
            pending: String::new(),
            calls: 0,
            said: false,
            behind_call: false,
            without_mark,
            may_begin: true,
            around: None,
            list: List::Ended,
            has_schema: false,
        }
    }

    /// Makes this the reader of an answer that follows a schema unless it is a call. Such an answer is a call only if it
    /// begins with the mark.
    pub fn with_schema(self) -> Self {
        Self { without_mark: None, has_schema: true, ..self }
    }

    /// Takes more of the answer, and returns the text and the calls that are certain now.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        let mut deltas = Vec::new();
        self.pending.push_str(text);
        while self.step(&mut deltas, false) {}
        deltas
    }

    /// Returns the text that is held back outside of calls. A call may still follow white space without its mark.
    pub fn flush(&mut self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        if self.in_call() {
            return deltas;
        }
        if is_space(&self.pending) {
            let space = std::mem::take(&mut self.pending);
            if !self.behind_call {
                self.say(&space, &mut deltas);
            }
        } else {
            while self.step(&mut deltas, true) {}
        }
        deltas
    }

    /// Ends the answer: returns the text that was held back. A call that was cut off keeps the arguments that it had.
    pub fn finish(mut self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        while self.step(&mut deltas, true) {}
        if let Place::Object(scanner) = &self.place
            && scanner.name.is_none()
        {
            let text = scanner.text.clone();
            self.say(&text, &mut deltas);
        }
        deltas
    }

    /// How many calls there were.
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// Whether the next character is part of a call, or of a list of calls.
    pub fn in_call(&self) -> bool {
        !matches!(self.place, Place::Text)
    }

    /// Parses the next element of the pending input. Returns whether another step can follow.
    fn step(&mut self, deltas: &mut Vec<Delta>, at_end: bool) -> bool {
        match &mut self.place {
            Place::Text => self.read_text(deltas, at_end),
            Place::Calls => self.read_between(at_end),
            Place::Object(_) => self.read_object(deltas),
            Place::Name => self.read_name(deltas, at_end),
            Place::Arguments(_) => self.read_arguments(deltas),
        }
    }

    fn read_text(&mut self, deltas: &mut Vec<Delta>, at_end: bool) -> bool {
        let Some(form) = self.form else {
            return self.say_all(deltas);
        };
        if let Some(without_mark) = self.without_mark.as_ref().filter(|_| self.may_begin) {
            let fenced = self.around == Some(Around::Fence);
            match without_mark.beginning(&self.pending, self.calls == 0, fenced) {
                Beginning::Call { at, fenced } => {
                    self.pending.drain(..at);
                    self.around = Some(if fenced { Around::Fence } else { Around::Nothing });
                    self.place = Place::Object(Scanner::new());
                    return true;
                }
                Beginning::Open if !at_end => return false,
                Beginning::Open | Beginning::Text => {
                    if self.around.is_some() {
                        self.pending = without_mark.behind_end(&self.pending, fenced).to_string();
                    }
                    (self.may_begin, self.around) = (false, None);
                }
            }
        }
        let starts = self.pending.trim_start_matches(SPACE);
        let little_space = self.pending.len().saturating_sub(starts.len()) <= SPACE_BYTES;
        // With a schema, only white space can precede a mark.
        if self.has_schema && (self.said || !little_space || !starts.starts_with(form.open())) {
            if !self.said && little_space && !at_end && form.open().starts_with(starts) {
                return false;
            }
            if self.behind_call && little_space && starts.is_empty() {
                self.pending.clear();
            }
            self.said |= !little_space;
            return self.say_all(deltas);
        }
        if form.is_bare() && !self.said && little_space && starts.starts_with('{') {
            (self.pending, self.place) = (starts.to_string(), Place::Calls);
            return true;
        }
        if let Some((before, after)) = self.pending.split_once(form.open()) {
            let (before, after) = (before.to_string(), after.to_string());
            if !self.behind_call || !little_space || !is_space(&before) {
                self.say(&before, deltas);
            }
            self.place = if form.separator().is_some() { Place::Name } else { Place::Calls };
            self.pending = after;
            (self.may_begin, self.around, self.list) = (false, None, List::Either);
            return true;
        }
        let kept = if at_end { 0 } else { held_back(&self.pending, form.open()) };
        let given = self.pending.len().saturating_sub(kept);
        let white_space = self.pending.get(..given).is_none_or(is_space);
        if white_space && little_space && !at_end && (self.behind_call || form.is_bare() && !self.said) {
            return false;
        }
        let text: String = self.pending.drain(..given).collect();
        if !(white_space && little_space && self.behind_call) {
            self.said |= !little_space;
            self.say(&text, deltas);
        }
        false
    }

    /// Parses the input between calls. Anything unexpected is text.
    fn read_between(&mut self, at_end: bool) -> bool {
        let form = self.form;
        let close = form.and_then(CallForm::close);
        if close.is_none() && form.is_some_and(CallForm::is_list) {
            return self.read_in_list();
        }
        let rest = match form.and_then(CallForm::separator) {
            Some(_) => self.pending.trim_start(),
            None => self.pending.trim_start_matches([' ', '\t', '\r', '\n', '[', ']', ',', ';']),
        };
        if let Some(after) = close.and_then(|close| rest.strip_prefix(close)) {
            (self.pending, self.place) = (after.to_string(), Place::Text);
            return true;
        }
        let may_close = close.is_some_and(|close| close.starts_with(rest));
        if rest.is_empty() || may_close && !at_end {
            self.pending = rest.to_string();
            return false;
        }
        let is_object = rest.starts_with('{') && form.and_then(CallForm::separator).is_none();
        self.place = if is_object { Place::Object(Scanner::new()) } else { Place::Text };
        self.pending = rest.to_string();
        true
    }

    /// Parses the input between calls if the mark is followed by one call or a list, and no mark ends them.
    fn read_in_list(&mut self) -> bool {
        let rest = self.pending.trim_start_matches(SPACE);
        let Some(first) = rest.chars().next() else {
            self.pending.clear();
            return false;
        };
        let behind = rest.get(first.len_utf8()..).unwrap_or_default();
        (self.pending, self.place) = match (first, self.list) {
            ('[', List::Either) => {
                self.list = List::Begun;
                (behind.to_string(), Place::Calls)
            }
            (',' | ';', List::Begun) => (behind.to_string(), Place::Calls),
            ('{', List::Begun | List::Either) => (rest.to_string(), Place::Object(Scanner::new())),
            (']', List::Begun) => {
                self.list = List::Ended;
                (behind.to_string(), Place::Text)
            }
            _ => (rest.to_string(), Place::Text),
        };
        true
    }

    fn read_object(&mut self, deltas: &mut Vec<Delta>) -> bool {
        let Place::Object(scanner) = &mut self.place else {
            return false;
        };
        if self.pending.is_empty() {
            return false;
        }
        let read = scanner.read(&self.pending);
        self.pending.drain(..read);
        let fresh = scanner.name.is_some() && !scanner.named;
        let name = scanner.name.clone().unwrap_or_default();
        let tool = self.tools.iter().find(|(other, _)| *other == name);
        // An object without a mark is a call only if it names a tool of the request.
        let bare = self.form.is_some_and(CallForm::is_bare);
        let is_text = scanner.text.len() > CALL_BYTES && scanner.name.is_none()
            || scanner.done && scanner.name.is_none()
            || bare && fresh && tool.is_none();
        if is_text {
            let text = std::mem::take(&mut scanner.text);
            self.place = Place::Text;
            self.say(&text, deltas);
            return true;
        }
        if scanner.name.is_none() {
            return false;
        }
        let mut arguments = scanner.fresh_arguments();
        if self.around.is_some() {
            // Calls without a mark are often indented. White space outside of strings is removed.
            arguments.retain(|character| !(scanner.outside.take(character) && SPACE.contains(&character)));
        }
        let done = scanner.done;
        if done && scanner.sent == 0 {
            arguments.push_str("{}");
        }
        scanner.named = true;
        if fresh || !arguments.is_empty() {
            let handle = tool.filter(|_| fresh).map_or(String::new(), |(_, handle)| handle.clone());
            let name = if fresh { name } else { String::new() };
            deltas.push(Delta::Call { index: self.calls, name, handle, arguments });
        }
        if done {
            self.end_call();
        }
        done
    }

    /// Parses a name up to its separator. If it is not a name, the mark and the input are text.
    fn read_name(&mut self, deltas: &mut Vec<Delta>, at_end: bool) -> bool {
        let form = self.form;
        let separator = form.and_then(CallForm::separator).unwrap_or_default();
        let read = self.pending.split_once(separator).map(|(name, after)| (name_of(name), after));
        if let Some((Some(name), after)) = read {
            let tool = self.tools.iter().find(|(other, _)| other == name);
            let handle = tool.map_or(String::new(), |(_, handle)| handle.clone());
            let name = name.to_string();
            deltas.push(Delta::Call { index: self.calls, name, handle, arguments: String::new() });
            (self.pending, self.place) = (after.to_string(), Place::Arguments(Nesting::default()));
            return true;
        }
        if read.is_none() && !at_end && may_be_name(&self.pending, separator) {
            return false;
        }
        self.place = Place::Text;
        self.say(form.map_or("", CallForm::open), deltas);
        true
    }

    /// Parses the object of a call whose name has been parsed. Without an object, the call has no arguments.
    fn read_arguments(&mut self, deltas: &mut Vec<Delta>) -> bool {
        let Place::Arguments(nesting) = &mut self.place else {
            return false;
        };
        if nesting.depth() == 0 {
            self.pending = self.pending.trim_start().to_string();
        }
        let Some(first) = self.pending.chars().next() else {
            return false;
        };
        let mut read = 0;
        let mut done = nesting.depth() == 0 && first != '{';
        for (at, character) in self.pending.char_indices() {
            if done {
                break;
            }
            nesting.take(character);
            read = at.saturating_add(character.len_utf8());
            done = nesting.depth() == 0;
        }
        let arguments: String = self.pending.drain(..read).collect();
        if !arguments.is_empty() {
            let (name, handle) = (String::new(), String::new());
            deltas.push(Delta::Call { index: self.calls, name, handle, arguments });
        }
        if done {
            self.end_call();
        }
        done
    }

    /// Ends a call.
    fn end_call(&mut self) {
        self.calls = self.calls.saturating_add(1);
        (self.behind_call, self.may_begin) = (true, true);
        if self.list == List::Either {
            self.list = List::Ended;
        }
        self.place = if self.around.is_some() { Place::Text } else { Place::Calls };
    }

    /// Returns the pending input as text. No step can follow.
    fn say_all(&mut self, deltas: &mut Vec<Delta>) -> bool {
        let text = std::mem::take(&mut self.pending);
        self.say(&text, deltas);
        false
    }

    fn say(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        if !text.is_empty() {
            self.said |= !is_space(text);
            self.behind_call = false;
            deltas.push(Delta::Text(text.into()));
        }
    }
}

/// Whether a text is empty or consists of JSON's white space.
fn is_space(text: &str) -> bool {
    text.trim_matches(SPACE).is_empty()
}

/// The name in the text before the arguments. The call's id can follow the name.
fn name_of(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let (name, _) = text.split_once(CALL_ID).unwrap_or((text, ""));
    (!name.is_empty() && text.len() <= NAME_BYTES && !text.contains(is_no_part)).then_some(name)
}

/// Whether this text can be the start of a name and its separator.
fn may_be_name(text: &str, separator: &str) -> bool {
    let text = text.trim_start();
    text.len() <= NAME_BYTES.saturating_add(separator.len()) && !text.contains(is_no_part)
}

/// Whether no tool's name contains this character.
fn is_no_part(character: char) -> bool {
    character.is_whitespace() || matches!(character, '<' | '>' | '{' | '}' | '"')
}

/// Parses the JSON object of a call piece by piece.
struct Scanner {
    text: String,
    nesting: Nesting,
    /// The start of the current member's key or value.
    member: usize,
    key: Option<String>,
    name: Option<String>,
    named: bool,
    /// The start of the arguments, and their end if it is known.
    arguments: Option<(usize, Option<usize>)>,
    /// The nesting at the end of the arguments that were returned.
    outside: Nesting,
    /// The arguments, if they are written as a string.
    inner: Option<String>,
    /// The bytes of the arguments that were returned.
    sent: usize,
    done: bool,
}

impl Scanner {
    fn new() -> Self {
        Self {
            text: String::new(),
            nesting: Nesting::default(),
            member: 0,
            key: None,
            name: None,
            named: false,
            arguments: None,
            outside: Nesting::default(),
            inner: None,
            sent: 0,
            done: false,
        }
    }

    /// Takes characters up to the object's end. Returns how many bytes they have.
    fn read(&mut self, text: &str) -> usize {
        for (at, character) in text.char_indices() {
            self.take(character);
            if self.done {
                return at.saturating_add(character.len_utf8());
            }
        }
        text.len()
    }

    fn take(&mut self, character: char) {
        let at = self.text.len();
        self.text.push(character);
        if !self.nesting.take(character) {
            return;
        }
        let depth = self.nesting.depth();
        match character {
            '{' | '[' if depth == 1 => self.member = self.text.len(),
            '{' | '[' if depth == 2 && self.is_arguments() && self.arguments.is_none() && self.inner.is_none() => {
                self.arguments = Some((at, None));
            }
            '}' | ']' if depth == 0 => {
                self.end_member(at);
                self.done = true;
            }
            '}' | ']' if depth == 1 && self.is_arguments() => {
                if let Some((_, end @ None)) = &mut self.arguments {
                    *end = Some(self.text.len());
                }
            }
            ':' if depth == 1 && self.key.is_none() => {
                self.key = self.member_text(at).and_then(|text| serde_json::from_str(text).ok());
                self.member = self.text.len();
            }
            ',' if depth == 1 => self.end_member(at),
            _ => {}
        }
    }

    fn is_arguments(&self) -> bool {
        matches!(self.key.as_deref(), Some("arguments" | "parameters"))
    }

    fn member_text(&self, end: usize) -> Option<&str> {
        self.text.get(self.member..end)
    }

    /// Ends the member whose value ends at `end`.
    fn end_member(&mut self, end: usize) {
        if self.key.as_deref() == Some("name") && self.name.is_none() {
            self.name = self.member_text(end).and_then(|text| serde_json::from_str(text).ok());
        }
        if self.is_arguments() {
            let value = self.member_text(end).unwrap_or("");
            let stop = self.member.saturating_add(value.trim_end().len());
            // Some models write the arguments as a string.
            let inner = serde_json::from_str::<String>(value).ok();
            match &mut self.arguments {
                Some((_, end @ None)) => *end = Some(stop),
                None if self.inner.is_none() => self.inner = inner,
                _ => {}
            }
        }
        self.key = None;
        self.member = self.text.len();
    }

    /// The part of the arguments that was not returned yet.
    fn fresh_arguments(&mut self) -> String {
        let whole = match (&self.inner, self.arguments) {
            (Some(inner), _) => inner.as_str(),
            (None, Some((start, end))) => self.text.get(start..end.unwrap_or(self.text.len())).unwrap_or_default(),
            (None, None) => "",
        };
        let fresh = whole.get(self.sent..).unwrap_or_default().to_string();
        self.sent = whole.len();
        fresh
    }
}
