//! An answer as its tokens come: text and calls.

use capos_tokenizer::{Decoder, TokenKind, Tokenizer};

use crate::CallForm;
use crate::call_reader::{CallReader, Decision, Delta};
use crate::message::Tool;
use crate::stop::Stops;

/// Turns the tokens of an answer into text and calls. Characters come when all their bytes are there, and nothing comes
/// that could be the beginning of a mark or of a stop sequence.
pub struct AnswerReader<'t> {
    tokenizer: &'t Tokenizer,
    decoder: Decoder<'t>,
    form: Option<CallForm>,
    calls: CallReader,
    stops: Stops,
}

impl<'t> AnswerReader<'t> {
    /// A reader of an answer in this form, where calls are of these tools. Its text ends where one of the stop
    /// sequences would begin, of the text of marks, too; they are not looked for in calls. Where one has the mark in it that
    /// calls begin with, there are no calls.
    pub fn new(tokenizer: &'t Tokenizer, form: Option<CallForm>, tools: &[Tool], stop_sequences: &[String]) -> Self {
        let form = form.filter(|form| !stop_sequences.iter().any(|sequence| sequence.contains(form.open())));
        Self {
            tokenizer,
            decoder: Decoder::within(tokenizer),
            form,
            calls: CallReader::new(form, tools),
            stops: Stops::new(stop_sequences),
        }
    }

    /// The same, of an answer that keeps to a schema where it is no call: it is one only where it begins with a mark.
    pub fn with_schema(self) -> Self {
        Self { calls: self.calls.with_schema(), ..self }
    }

    /// Takes a token that does not end the answer, and gives what is known of it now.
    pub fn push(&mut self, id: u32) -> Vec<Delta> {
        if self.stops.stopped() {
            return Vec::new();
        }
        let vocabulary = self.tokenizer.vocabulary();
        let mark = vocabulary.text(id).filter(|_| vocabulary.kind(id) == Some(TokenKind::Control));
        let Some(mark) = mark else {
            let text = self.decoder.push(id);
            let deltas = self.calls.push(&text);
            return self.given(deltas);
        };
        // Other marks are no part of what was said, but may end it.
        if !self.form.is_some_and(|form| form.marks().contains(&mark)) {
            let may_end = !self.calls.in_call();
            return may_end.then(|| text_delta(self.stops.push_mark(mark))).flatten().into_iter().collect();
        }
        let text = std::mem::replace(&mut self.decoder, Decoder::within(self.tokenizer)).finish();
        let mut deltas = self.calls.push(&text);
        deltas.extend(self.calls.push_mark(mark));
        self.given(deltas)
    }

    /// Ends the answer: gives what was held back, and what the answer came down to.
    pub fn finish(mut self) -> (Vec<Delta>, Decision) {
        let text = std::mem::replace(&mut self.decoder, Decoder::within(self.tokenizer)).finish();
        let mut deltas = self.calls.push(&text);
        let none = CallReader::new(None, &[]);
        let calls = std::mem::replace(&mut self.calls, none);
        let decision = calls.decision();
        deltas.extend(calls.finish());
        let mut given = self.given(deltas);
        given.extend(text_delta(self.stops.take()));
        (given, decision)
    }

    /// Whether a stop sequence was found. Nothing comes from then on.
    pub fn stopped(&self) -> bool {
        self.stops.stopped()
    }

    /// Whether what comes next is part of a call.
    pub fn in_call(&self) -> bool {
        self.calls.in_call()
    }

    /// How many calls there were.
    pub fn calls(&self) -> u32 {
        self.calls.calls()
    }

    /// The deltas up to a stop sequence.
    fn given(&mut self, deltas: Vec<Delta>) -> Vec<Delta> {
        let mut given = Vec::with_capacity(deltas.len());
        for delta in deltas {
            if self.stops.stopped() {
                break;
            }
            match delta {
                Delta::Text(text) => given.extend(text_delta(self.stops.push(&text))),
                call @ Delta::Call { .. } => {
                    given.extend(text_delta(self.stops.take()));
                    given.push(call);
                }
            }
        }
        given
    }
}

fn text_delta(text: String) -> Option<Delta> {
    (!text.is_empty()).then_some(Delta::Text(text))
}
