//! Requests that one model answers.

use std::collections::BTreeMap;

use capos_chat::{AnswerReader, CallForm, Prompt};
use capos_engine::generation::Options;
use capos_engine::{self as engine, Constraint, Generation, Machine, RequestId};
use capos_grammar::Rules;

use crate::constraint::Held;
use crate::repetition::Repetition;
use crate::{Event, Finish, Fitting, Grammar, InferenceError, LanguageModel, Reason, Request};

/// Answers conversations with one model, several at once.
pub struct Assistant<'m> {
    model: &'m LanguageModel<'m>,
    generation: Generation<'m>,
    answers: BTreeMap<RequestId, Answer<'m>>,
    /// The reports of the next step.
    untold: Vec<(RequestId, Event)>,
}

/// An answer that is being made.
struct Answer<'m> {
    reader: AnswerReader<'m>,
    /// Checks for repetition in its text, if it then has to end.
    repetition: Option<Repetition>,
    /// Whether it has ended for that.
    endless: bool,
}

impl<'m> Assistant<'m> {
    /// Without requests.
    pub fn new(model: &'m LanguageModel<'m>, machine: Machine<'m>, options: Options<'m>) -> Self {
        let generation = Generation::new(model.model(), machine, options);
        Self { model, generation, answers: BTreeMap::new(), untold: Vec::new() }
    }

    /// Takes a conversation. Tools that the model cannot be shown are left out. If the conversation is too long, the examples of
    /// the model's family are, and then its oldest messages, as [`capos_compaction`] says.
    ///
    /// # Errors
    /// [`InferenceError`] if the model's template rejects the conversation, what has to stay of it is too long, the answer's
    /// schema cannot be enforced, or a setting of the sampler is out of range.
    pub fn request(&mut self, mut request: Request) -> Result<RequestId, InferenceError> {
        let model = self.model;
        if !model.supports_tools() {
            request.tools.clear();
        }
        let Fitting { prompt, ids, removed } = model.prompts().fitting(&request)?;
        let grammar = self.grammar(&request, &prompt)?;
        let most = model.model().context().saturating_sub(ids.len()).saturating_add(1);
        let wanted = engine::Request {
            prompt: ids,
            limit: request.limit.unwrap_or(most),
            ends: model.tokenizer().vocabulary().answer_ends().to_vec(),
            sampling: request.sampling.unwrap_or_else(|| model.sampling()),
        };
        let loose = grammar.as_ref().map_or(Vec::new(), |grammar| grammar.loose().to_vec());
        let constraint = grammar.map(|grammar| Box::new(Held(grammar)) as Box<dyn Constraint>);
        let id = self.generation.submit(wanted, constraint)?;
        self.untold.extend((removed > 0).then_some((id, Event::Removed(removed))));
        self.untold.extend(loose.into_iter().map(|loose| (id, Event::Loose(loose))));
        // A schema that describes an answer also says where it ends: a stop sequence inside would cut it in half.
        let stops: Vec<String> = match request.schema {
            Some(_) => Vec::new(),
            None => request.stop_sequences.iter().cloned().chain(model.stops()).collect(),
        };
        let reader = AnswerReader::new(model.tokenizer(), model.form(), &request.tools, &stops);
        let reader = if request.schema.is_some() { reader.with_schema() } else { reader };
        let repetition = request.end_repetition.then(Repetition::default);
        self.answers.insert(id, Answer { reader, repetition, endless: false });
        Ok(id)
    }

    /// The constraints of an answer.
    fn grammar(&self, request: &Request, prompt: &Prompt) -> Result<Option<capos_grammar::Grammar>, InferenceError> {
        let (model, schema) = (self.model, request.schema.as_ref());
        // An answer of the built-in model has a form without calls, too. Others are free if there are no tools, and
        // then no grammar is made.
        let has_form = |form: &CallForm| *form == CallForm::Lines || !request.tools.is_empty();
        let form = model.form().filter(|form| request.grammar != Grammar::Free && has_form(form));
        if form.is_none() && schema.is_none() {
            return Ok(None);
        }
        let repeats = form == Some(CallForm::Lines) && request.grammar == Grammar::Repetition;
        let said = repeats.then(|| prompt.said(model.tokenizer()));
        let callable = repeats.then(|| model.format().callable(&request.tools, &request.messages));
        let tools = callable.as_deref().unwrap_or(&request.tools);
        let function_words = model.format().function_words();
        let call_again = if repeats { model.format().call_again(&request.messages) } else { None };
        let rules = Rules { form, tools, schema, said: said.as_deref(), function_words, call_again };
        Ok(model.grammars()?.answer(model.tokenizer(), rules)?)
    }

    /// Ends a request. A step reports that; a request that has ended already is unchanged.
    pub fn cancel(&mut self, id: RequestId) {
        self.generation.cancel(id);
    }

    /// Whether there is nothing to do: every request has ended, and that has been reported.
    pub fn idle(&self) -> bool {
        self.generation.idle()
    }

    /// Requests that have not ended.
    pub fn requests(&self) -> usize {
        self.generation.requests()
    }

    /// Forgets the kept data of ended requests, and frees their memory.
    pub fn forget(&mut self) {
        self.generation.forget();
    }

    /// The model that answers.
    pub(crate) fn model(&self) -> &'m LanguageModel<'m> {
        self.model
    }

    /// Takes over one beginning of conversations.
    pub(crate) fn preload_one(&mut self, tokens: Vec<u32>, bytes: &[u8]) -> Result<(), InferenceError> {
        Ok(self.generation.preload(tokens, bytes)?)
    }

    /// Does a bounded piece of work, if there is something to do, and returns what happened.
    pub fn step(&mut self) -> Vec<(RequestId, Event)> {
        let mut events = std::mem::take(&mut self.untold);
        for (id, event) in self.generation.step() {
            match event {
                engine::Event::Progress { done, total } => events.push((id, Event::Progress { done, total })),
                engine::Event::Token(token) => self.take(id, token, &mut events),
                engine::Event::Finish { reason, usage } => {
                    let Some(Answer { reader, endless, .. }) = self.answers.remove(&id) else { continue };
                    let (stopped, calls) = (reader.stopped(), reader.calls() > 0);
                    let (deltas, decision) = reader.finish();
                    events.extend(deltas.into_iter().map(|delta| (id, Event::Delta(delta))));
                    let (reason, error) = match reason {
                        engine::Finish::Cancelled if endless => (Reason::Repetition, None),
                        reason => why(reason, stopped, calls),
                    };
                    events.push((id, Event::Finish(Finish { reason, error, decision, usage })));
                }
            }
        }
        events
    }

    fn take(&mut self, id: RequestId, token: u32, events: &mut Vec<(RequestId, Event)>) {
        let Some(Answer { reader, repetition, endless }) = self.answers.get_mut(&id) else { return };
        // The arguments of a call may repeat themselves because a person wants it so. A call starts a new text.
        if reader.in_call() {
            *repetition = repetition.take().map(|_| Repetition::default());
        } else if let Some(repetition) = repetition {
            *endless = *endless || repetition.push(token);
        }
        events.extend(reader.push(token).into_iter().map(|delta| (id, Event::Delta(delta))));
        if reader.stopped() || *endless {
            self.generation.cancel(id);
        }
    }
}

/// Why an answer ended, by why its tokens did.
fn why(finish: engine::Finish, stopped: bool, calls: bool) -> (Reason, Option<InferenceError>) {
    let ended = if calls { Reason::ToolCalls } else { Reason::Stop };
    match finish {
        engine::Finish::Failed(error) => (Reason::Error, Some(error.into())),
        _ if stopped => (ended, None),
        engine::Finish::End(_) => (ended, None),
        engine::Finish::Limit | engine::Finish::Full => (Reason::Length, None),
        engine::Finish::Cancelled => (Reason::Cancelled, None),
    }
}
