//! One response being played: an iterator of events.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::event::{CallDelta, ErrorKind, Event, Finish, Usage};
use crate::request::RequestView;
use crate::schema::Schema;
use crate::tokens::{ArgumentGate, Budget, TextGate, Verdict, count_tokens};
use crate::turn::{Arguments, Step, Turn};

/// Bytes of an answer that is compared with a schema at its end.
const COMPARED_BYTES: usize = 1 << 20;

/// The answer to one request, made event by event: a script may request gigabytes and the memory stays bounded.
/// Exactly one last event ([`Event::is_last`]) is returned, and `None` after it.
#[derive(Debug)]
pub struct Response {
    turn: Arc<Turn>,
    /// The request's values in the turn's steps, in order.
    resolved: Vec<Resolved>,
    prompt_tokens: u64,
    budget: Budget,
    text: TextGate,
    arguments: ArgumentGate,
    /// The schema that the answer is checked against if it ends by itself.
    form: Option<Form>,
    step: usize,
    /// Progress within the step: repetitions done, or bytes sent.
    done: u64,
    called: bool,
    pending: VecDeque<Event>,
    finished: bool,
    /// It reported that it hangs, and has not been cancelled.
    silent: bool,
}

/// The schema that an answer has to conform to, and the answer so far.
#[derive(Debug)]
struct Form {
    schema: Schema,
    said: String,
    /// Why it cannot be compared.
    lost: Option<&'static str>,
}

impl Form {
    fn push(&mut self, text: &str) {
        if self.said.len().saturating_add(text.len()) > COMPARED_BYTES {
            self.lost = Some("it is longer than 1 MiB");
        } else {
            self.said.push_str(text);
        }
    }

    fn check(&self) -> Result<(), String> {
        self.lost.map_or_else(|| self.schema.check(&self.said), |why| Err(String::from(why)))
    }
}

/// A step's text that depends on the request.
#[derive(Clone, Debug, Default)]
struct Resolved {
    handle: Option<String>,
    id: Option<String>,
}

impl Resolved {
    fn of(step: &Step, request: &RequestView<'_>) -> Self {
        let Step::Call { name, handle, id, .. } = step else { return Self::default() };
        Self {
            handle: handle.as_ref().map(|handle| handle.resolve(name.as_deref(), request)),
            id: id.as_ref().map(|id| id.resolve(request)),
        }
    }
}

impl Response {
    /// The answer that a turn gives to a request.
    #[must_use]
    pub fn new(turn: Arc<Turn>, request: &RequestView<'_>) -> Self {
        let limit = (turn.obey && request.max_tokens > 0).then(|| u64::from(request.max_tokens));
        let schema = (turn.obey && !request.response_schema.is_empty()).then(|| Schema::parse(request.response_schema));
        // A schema says where an answer ends: a stop sequence inside would cut it in half.
        let stops: &[&str] = if turn.obey && schema.is_none() { &request.stop_sequences } else { &[] };
        let resolved = turn.steps.iter().map(|step| Resolved::of(step, request)).collect();
        let prompt = request.messages.iter().map(|message| count_tokens(message.content)).sum();
        let (form, refused) = match schema {
            Some(Ok(schema)) => (Some(Form { schema, said: String::new(), lost: None }), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let mut response = Self {
            resolved,
            prompt_tokens: turn.prompt_tokens.unwrap_or(prompt),
            budget: Budget::new(limit),
            text: TextGate::new(stops),
            arguments: ArgumentGate::default(),
            form,
            step: 0,
            done: 0,
            called: false,
            pending: VecDeque::new(),
            finished: false,
            silent: false,
            turn,
        };
        if let Some(message) = refused {
            Self::last(&mut response, Event::Error { kind: ErrorKind::InvalidArgument, message });
        }
        response
    }

    /// Line of the script that is played; 0 when no line answers.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.turn.line
    }

    /// Stops the response. The next event is its end, with the output so far counted; a response that has ended stays
    /// ended. One that went silent has not ended.
    pub fn cancel(&mut self) {
        if self.finished && !core::mem::take(&mut self.silent) {
            return;
        }
        self.pending.clear();
        self.end(Finish::Cancelled, false);
    }

    /// Plays the response to its end without waiting, as `complete` does. Delays are added up.
    #[must_use]
    pub fn collect_all(self) -> Collected {
        let mut collected = Collected::default();
        for event in self {
            collected.add(event);
        }
        collected
    }

    /// Ends an answer that came to its own end. One that has to conform to a schema, and calls nothing, does or is an
    /// error.
    fn come_to_an_end(&mut self) {
        let natural = if self.called { Finish::ToolCalls } else { Finish::Stop };
        let reason = self.turn.finish.unwrap_or(natural);
        let whole = matches!(reason, Finish::Stop | Finish::ToolCalls) && !self.called;
        match self.form.as_ref().filter(|_| whole).map_or(Ok(()), Form::check) {
            Ok(()) => self.end(reason, true),
            Err(why) => {
                let line = self.turn.line;
                let message =
                    format!("line {line} of model.jsonl answers with what does not keep to the response schema: {why}");
                self.last(Event::Error { kind: ErrorKind::Failed, message });
            }
        }
    }

    fn end(&mut self, reason: Finish, claims: bool) {
        let counted = self.budget.used();
        let completion_tokens = self.turn.completion_tokens.filter(|_| claims).unwrap_or(counted);
        let usage = Usage { prompt_tokens: self.prompt_tokens, completion_tokens };
        self.last(Event::Finish { reason, usage });
    }

    fn last(&mut self, event: Event) {
        self.pending.push_back(event);
        self.finished = true;
    }

    fn say(&mut self, piece: &str) {
        let (said, verdict) = self.text.push(piece, &mut self.budget);
        self.said(said, verdict);
    }

    /// Lets out held text; false when that ended the response.
    fn flush_text(&mut self) -> bool {
        let (said, verdict) = self.text.flush(&mut self.budget);
        self.said(said, verdict);
        !self.finished
    }

    fn said(&mut self, said: String, verdict: Verdict) {
        if !said.is_empty() {
            if let Some(form) = &mut self.form {
                form.push(&said);
            }
            self.pending.push_back(Event::Text(said));
        }
        match verdict {
            Verdict::Continue => {}
            Verdict::Stopped => self.end(Finish::Stop, false),
            Verdict::Full => self.end(Finish::Length, false),
        }
    }

    fn next_step(&mut self) {
        self.step = self.step.saturating_add(1);
        self.done = 0;
    }

    /// Counts one repetition of the current step; moves on after the last.
    fn repeated(&mut self, times: u64) {
        self.done = self.done.saturating_add(1);
        if self.done >= times {
            self.next_step();
        }
    }

    /// Plays one small part of the script into `pending`.
    fn advance(&mut self) {
        let turn = Arc::clone(&self.turn);
        let Some(step) = turn.steps.get(self.step) else {
            if self.flush_text() {
                self.come_to_an_end();
            }
            return;
        };
        match step {
            Step::Text { text, times } => {
                self.repeated(*times);
                if text.is_empty() {
                    // An empty text is one event, so that repeating it is never a loop without an event.
                    self.pending.push_back(Event::Text(String::new()));
                }
                self.say(text);
                return;
            }
            Step::Words(text) => {
                self.say_word(text);
                return;
            }
            _ => {}
        }
        // Everything else ends a run of text, so text that was held back for a stop sequence is sent first.
        if !self.flush_text() {
            return;
        }
        let of_the_worker = matches!(step, Step::Weights { .. } | Step::Capabilities | Step::Reach);
        if let Some(form) = self.form.as_mut().filter(|_| of_the_worker) {
            form.lost = Some("it says what only the worker knows");
        }
        match step {
            Step::Text { .. } | Step::Words(_) => {}
            Step::TextBytes(bytes) => {
                self.next_step();
                if self.budget.take() {
                    if let Some(form) = &mut self.form {
                        // Characters may be cut between two of these, and are not joined again.
                        match core::str::from_utf8(bytes) {
                            Ok(text) => form.push(text),
                            Err(_) => form.lost = Some("it is no text"),
                        }
                    }
                    self.pending.push_back(Event::TextBytes(bytes.clone()));
                } else {
                    self.end(Finish::Length, false);
                }
            }
            Step::Call { index, id: _, name, handle: _, arguments } => {
                self.call(*index, name.as_ref(), arguments);
            }
            Step::Loose { tool, why } => {
                let (tool, why) = (tool.clone(), why.clone());
                self.next_step();
                self.pending.push_back(Event::Loose { tool, why });
            }
            Step::Delay(milliseconds) => {
                self.next_step();
                self.pending.push_back(Event::Delay(*milliseconds));
            }
            Step::Weights { offset, bytes } => {
                let (offset, bytes) = (*offset, *bytes);
                self.next_step();
                self.pending.push_back(Event::Weights { offset, bytes });
            }
            Step::Capabilities => {
                self.next_step();
                self.pending.push_back(Event::Capabilities);
            }
            Step::Reach => {
                self.next_step();
                self.pending.push_back(Event::Reach);
            }
            Step::Compute(milliseconds) => {
                self.next_step();
                self.pending.push_back(Event::Compute(*milliseconds));
            }
            Step::Error { kind, message } => self.last(Event::Error { kind: *kind, message: message.clone() }),
            Step::Exit(code) => self.last(Event::Exit(*code)),
            Step::Crash(crash) => self.last(Event::Crash(*crash)),
            Step::Hang => {
                self.silent = true;
                self.last(Event::Hang);
            }
            Step::Deaf => self.last(Event::Deaf),
        }
    }

    fn say_word(&mut self, text: &str) {
        let from = usize::try_from(self.done).unwrap_or(usize::MAX);
        let rest = text.get(from..).unwrap_or_default();
        let piece = first_word(rest);
        if piece.len() == rest.len() {
            self.next_step();
        } else {
            self.done = self.done.saturating_add(piece.len() as u64);
        }
        self.say(piece);
    }

    fn call(&mut self, index: u32, name: Option<&String>, arguments: &Arguments) {
        let first = self.done == 0;
        let Resolved { handle, id } = self.resolved.get(self.step).cloned().unwrap_or_default();
        self.repeated(arguments.times);
        let Some((fragment, verdict)) = self.arguments.push(index, &arguments.text, &mut self.budget) else {
            self.end(Finish::Length, false);
            return;
        };
        self.called = true;
        let mut delta = CallDelta { index, arguments: fragment, ..CallDelta::default() };
        if first {
            delta.id = id;
            delta.name = name.cloned();
            delta.handle = handle;
        }
        self.pending.push_back(Event::Call(delta));
        if verdict != Verdict::Continue {
            self.end(Finish::Length, false);
        }
    }
}

impl Iterator for Response {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        while self.pending.is_empty() && !self.finished {
            self.advance();
        }
        self.pending.pop_front()
    }
}

/// A word and the white space after it.
fn first_word(text: &str) -> &str {
    let mut seen_word = false;
    let mut seen_space = false;
    for (at, character) in text.char_indices() {
        if character.is_whitespace() {
            seen_space = seen_word;
        } else if seen_space {
            return text.get(..at).unwrap_or(text);
        } else {
            seen_word = true;
        }
    }
    text
}

/// A response joined from its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub text: Vec<u8>,
    /// In the order in which they began.
    pub calls: Vec<CollectedCall>,
    /// Sum of the delays in milliseconds.
    pub delay: u64,
    /// How it ended; `None` until the last event has been added.
    pub end: Option<Event>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedCall {
    pub index: u32,
    pub id: String,
    pub name: String,
    pub handle: String,
    pub arguments: String,
}

impl Collected {
    /// Adds the next event.
    pub fn add(&mut self, event: Event) {
        match event {
            Event::Text(text) => self.text.extend_from_slice(text.as_bytes()),
            Event::TextBytes(bytes) => self.text.extend_from_slice(&bytes),
            Event::Delay(milliseconds) => self.delay = self.delay.saturating_add(u64::from(milliseconds)),
            Event::Call(delta) => self.add_call(delta),
            Event::Loose { .. } => {}
            last => self.end = Some(last),
        }
    }

    fn add_call(&mut self, delta: CallDelta) {
        let known = self.calls.iter().position(|call| call.index == delta.index);
        let call = match known.and_then(|at| self.calls.get_mut(at)) {
            Some(call) => call,
            None => {
                self.calls.push(CollectedCall { index: delta.index, ..CollectedCall::default() });
                let Some(call) = self.calls.last_mut() else {
                    return;
                };
                call
            }
        };
        call.id.push_str(delta.id.as_deref().unwrap_or_default());
        call.name.push_str(delta.name.as_deref().unwrap_or_default());
        call.handle.push_str(delta.handle.as_deref().unwrap_or_default());
        call.arguments.push_str(&delta.arguments);
    }
}
