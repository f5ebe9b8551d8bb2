//! Reading an answer token by token: text and calls.

use capos_tokenizer::{Decoder, TokenKind, Tokenizer};

use crate::CallForm;
use crate::call_reader::{CallReader, Decision, Delta};
use crate::message::Tool;
use crate::stop::Stops;

/// Turns the tokens of an answer into text and calls. It returns a character once all bytes of it have arrived, and holds
/// back text that could begin a mark or a stop sequence.
pub struct AnswerReader<'t> {
    tokenizer: &'t Tokenizer,
    decoder: Decoder<'t>,
    form: Option<CallForm>,
    calls: CallReader,
    stops: Stops,
}

impl<'t> AnswerReader<'t> {
    /// Creates a reader of an answer in this form, whose calls use these tools. The text ends before the first stop
    /// sequence; a stop sequence may contain the text of marks. Calls are not searched for stop sequences. If a stop
    /// sequence contains the mark that begins a call, the answer has no calls.
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

    /// Makes this the reader of an answer that follows a schema unless it is a call. Such an answer is a call only if it
    /// begins with the mark.
    pub fn with_schema(self) -> Self {
        Self { calls: self.calls.with_schema(), ..self }
    }

    /// Takes a token that does not end the answer, and returns the text and the calls that are certain now.
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
        let mut deltas = self.end_character();
        if self.form.is_some_and(|form| form.marks().contains(&mark)) {
            deltas.extend(self.calls.push_mark(mark));
            return self.given(deltas);
        }
        // Another mark is not part of the answer, but a stop sequence may contain it. Text that is held back precedes it.
        deltas.extend(self.calls.flush());
        let mut given = self.given(deltas);
        if !self.calls.in_call() {
            given.extend(text_delta(self.stops.push_mark(mark)));
        }
        given
    }

    /// Ends the answer: returns the text that was held back, and the decision.
    pub fn finish(mut self) -> (Vec<Delta>, Decision) {
        let mut deltas = self.end_character();
        let none = CallReader::new(None, &[]);
        let calls = std::mem::replace(&mut self.calls, none);
        let decision = calls.decision();
        deltas.extend(calls.finish());
        let mut given = self.given(deltas);
        given.extend(text_delta(self.stops.take()));
        (given, decision)
    }

    /// Whether a stop sequence was found. After it [`Self::push`] returns nothing.
    pub fn stopped(&self) -> bool {
        self.stops.stopped()
    }

    /// Whether the next token is part of a call.
    pub fn in_call(&self) -> bool {
        self.calls.in_call()
    }

    /// How many calls there were.
    pub fn calls(&self) -> u32 {
        self.calls.calls()
    }

    /// Ends a character that lacks bytes: it becomes U+FFFD.
    fn end_character(&mut self) -> Vec<Delta> {
        let decoder = std::mem::replace(&mut self.decoder, Decoder::within(self.tokenizer));
        self.calls.push(&decoder.finish())
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
