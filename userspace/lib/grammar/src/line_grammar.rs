//! Holding an answer of the built-in model to the lines of its request, token by token.
//!
//! An answer is a choice between sequences of tokens, over and over: lines, names of parameters, fixed values. Between
//! them lie text, strings and numbers, which have rules of their own. Sequences consist of the tokens that the
//! tokenizer makes of them, so that a text with one continuation is one token at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use capos_tokenizer::{Marks, TokenKind, Tokenizer};
use llguidance::toktrie::SimpleVob;
use serde_json::Value;

use crate::grammar::{Grammar, wrong};
use crate::numbers::{Numbers, is_number, may_follow};
use crate::repetition::{Limits, OfFiles, Repetition, Taken};
use crate::said::Said;
use capos_chat::ChatError;
use capos_chat::lines::{AS, FORBIDDEN, INVOKE, Kind, Line, NONE, SAY};

/// What the names of tools begin with that take something from one place to another.
const TAKES: [&str; 3] = ["copy", "move", "rename"];
/// Parameters of such a tool that never are the same: what is taken somewhere is not there yet.
const DISTINCT: [&str; 2] = ["from", "to"];
/// What the names of tools begin with whose path never is the folder that one is in.
const NOT_OF_ALL: [&str; 4] = ["delete", "remove", "make", "write"];
/// Of these, one whose name is not looked for in this way.
const DELETE: &str = "delete";
/// What tools of files have. What was said once is in one string of their calls.
const PATH: &str = "path";
/// Parameters that are names of things, besides [`DISTINCT`] of a tool that [`TAKES`].
const NAMES: [&str; 3] = [PATH, "service", "program"];
/// Another one, of a tool whose name has [`OF_SERVICES`]. Elsewhere it can be the name of a person, or a pattern.
const NAME: &str = "name";
const OF_SERVICES: &str = "service";
/// What the names of tools have whose path is that of one file.
const OF_FILE: &str = "file";
/// What is added to the logit of a beginning that is of none of the files that the request names.
const UNLIKELY: f32 = -4.0;
/// The parameter of a tool that [`TAKES`] which is a file that exists.
const FROM: &str = "from";

/// Tokens of a vocabulary that these answers are made of.
pub struct LineTokens {
    invoke: u32,
    line_as: u32,
    forbidden: u32,
    say: u32,
    none: u32,
    quote: u32,
    ends: Vec<u32>,
    /// All that is text.
    text: SimpleVob,
    /// All that a string can contain without escapes.
    plain: SimpleVob,
    backslash: Option<u32>,
    /// The tokens that can follow a backslash.
    escapes: Vec<u32>,
    /// The tokens of numbers.
    digits: Vec<(char, u32)>,
}

impl LineTokens {
    /// Finds them in a vocabulary; there are none if it lacks a mark.
    pub fn new(tokenizer: &Tokenizer) -> Option<Self> {
        let vocabulary = tokenizer.vocabulary();
        let mark = |text| vocabulary.find(text).filter(|id| vocabulary.kind(*id) == Some(TokenKind::Control));
        let single = |text: &str| match tokenizer.encode(text, Marks::Foreign)[..] {
            [id] => Some(id),
            _ => None,
        };
        let (mut text, mut plain) = (SimpleVob::alloc(vocabulary.len()), SimpleVob::alloc(vocabulary.len()));
        for id in vocabulary.ids() {
            let kind = vocabulary.kind(id);
            if !matches!(kind, Some(TokenKind::Normal | TokenKind::Byte | TokenKind::UserDefined)) {
                continue;
            }
            let mut bytes = Vec::new();
            tokenizer.append_bytes(id, false, &mut bytes);
            if !bytes.is_empty() {
                text.allow_token(id);
                if bytes.iter().all(|byte| *byte >= b' ' && !matches!(byte, b'"' | b'\\' | 0x7f)) {
                    plain.allow_token(id);
                }
            }
        }
        let digits = "-.0123456789".chars().filter_map(|digit| Some((digit, single(&digit.to_string())?)));
        Some(Self {
            invoke: mark(INVOKE)?,
            line_as: mark(AS)?,
            forbidden: mark(FORBIDDEN)?,
            say: mark(SAY)?,
            none: mark(NONE)?,
            quote: single("\"")?,
            ends: vocabulary.answer_ends().to_vec(),
            text,
            plain,
            backslash: single("\\"),
            escapes: ["\"", "\\", "n", "r", "t"].into_iter().filter_map(single).collect(),
            digits: digits.collect(),
        })
    }
}

/// A tool's line in tokens.
struct LineProgram {
    /// The tool's description, and its name with the brace after it; only the description if it is forbidden.
    begin: Vec<u32>,
    forbidden: bool,
    parameters: Vec<Member>,
    /// Whether the strings of a call are taken from different words.
    apart: bool,
}

/// A parameter in tokens.
struct Member {
    /// Its name, with quotes and a colon.
    key: Vec<u32>,
    values: Values,
    required: bool,
    /// Whether it is one of [`DISTINCT`].
    distinct: bool,
    /// What its strings can be.
    limits: Limits,
    /// What its whole numbers can be, if not all.
    numbers: Option<BTreeSet<String>>,
}

impl Member {
    /// Whether it lacks a value that the conversation says.
    fn is_unsaid(&self) -> bool {
        !self.required && self.numbers.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Whether a number can continue so.
    fn number_goes_on(&self, number: &str, character: char, whole: bool) -> bool {
        let said = |among: &BTreeSet<String>| {
            let goes_on = |other: &String| other.strip_prefix(number).is_some_and(|rest| rest.starts_with(character));
            among.is_empty() || among.iter().any(goes_on)
        };
        may_follow(number, character, whole) && self.numbers.as_ref().is_none_or(said)
    }

    /// Whether a number can end so.
    fn number_may_end(&self, number: &str) -> bool {
        is_number(number) && self.numbers.as_ref().is_none_or(|among| among.is_empty() || among.contains(number))
    }
}

/// Values in tokens.
enum Values {
    Text,
    Number { whole: bool },
    Literals(Vec<Vec<u32>>),
    List(Box<Values>),
}

/// Tokens that structure arguments.
struct Punctuation {
    comma: Vec<u32>,
    close: Vec<u32>,
    open_list: Vec<u32>,
    close_list: Vec<u32>,
}

/// The permitted continuation of the built-in model's answer.
pub struct LineGrammar {
    tokens: Arc<LineTokens>,
    punctuation: Punctuation,
    lines: Vec<LineProgram>,
    /// The texts that strings have to repeat, if any.
    said: Option<Arc<Said>>,
    /// The schema's constraint on text.
    schema: Option<Grammar>,
    place: Place,
    /// The call that is being made.
    line: usize,
    /// What its strings were taken from.
    taken: Taken,
    calls: bool,
    /// What is added to the logit of a call, while the answer has not begun.
    call_again: Option<f32>,
}

enum Place {
    /// In one of some sequences, after `taken` of its tokens. The answer may end before the first.
    Choice { branches: Vec<Branch>, taken: usize, may_end: bool },
    /// In text, that is not empty or is.
    Text { begun: bool },
    /// In text that keeps to the schema.
    Schema,
    /// In a string.
    String { state: InString, then: Next },
    /// In a number.
    Number { number: String, whole: bool, then: Next },
}

/// A sequence of tokens, and its continuation.
struct Branch {
    tokens: Vec<u32>,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    /// The choice of a line.
    Lines,
    /// The arguments of this line's tool.
    Arguments(usize),
    Text,
    String(Next),
    /// The rest of a number after this beginning.
    Number {
        first: char,
        whole: bool,
        next: Next,
    },
    /// What follows a value.
    Value(Next),
    /// What follows a call.
    Call,
}

/// What follows a value: the parameter after it, or more of a list.
#[derive(Clone, Copy)]
struct Next {
    member: usize,
    in_list: bool,
}

enum InString {
    Free { escaped: bool },
    Repeated(Repetition),
}

impl LineGrammar {
    /// The grammar of answers with calls of these lines. Strings are constrained to the conversation, if that is given,
    /// and text to the schema.
    pub fn new(
        tokens: &Arc<LineTokens>,
        tokenizer: &Tokenizer,
        lines: &[Line],
        (said, schema): (Option<(Said, Numbers)>, Option<Grammar>),
        call_again: Option<f32>,
    ) -> Self {
        let encode = |text: &str| tokenizer.encode(text, Marks::Foreign);
        let (said, numbers) = said.unzip();
        let mut grammar = Self {
            tokens: Arc::clone(tokens),
            punctuation: Punctuation {
                comma: encode(","),
                close: encode("}"),
                open_list: encode("["),
                close_list: encode("]"),
            },
            lines: lines.iter().map(|line| LineProgram::new(line, tokens, numbers.as_ref(), &encode)).collect(),
            said: said.map(Arc::new),
            schema,
            place: Place::Text { begun: false },
            line: 0,
            taken: Taken::default(),
            calls: false,
            call_again,
        };
        grammar.place = grammar.beginning();
        grammar
    }

    /// The tokens that can come next.
    pub fn allowed(&mut self) -> Result<SimpleVob, ChatError> {
        let tokens = &*self.tokens;
        let mut allowed = match (&self.place, &mut self.schema) {
            (Place::Schema, Some(schema)) => return schema.allowed().map(|allowed| allowed.0),
            (Place::Text { .. }, _) => tokens.text.clone(),
            (Place::String { state: InString::Free { escaped: false }, .. }, _) => tokens.plain.clone(),
            _ => SimpleVob::alloc(tokens.text.len()),
        };
        let mut allow = |ids: &mut dyn Iterator<Item = u32>| ids.for_each(|id| allowed.allow_token(id));
        let ends = || tokens.ends.iter().copied();
        match &self.place {
            Place::Choice { branches, taken, may_end } => {
                allow(&mut branches.iter().filter_map(|branch| branch.tokens.get(*taken).copied()));
                allow(&mut ends().filter(|_| *may_end));
            }
            Place::Text { begun } => allow(&mut ends().filter(|_| *begun)),
            Place::String { state: InString::Free { escaped: true }, .. } => {
                allow(&mut tokens.escapes.iter().copied());
            }
            Place::String { state: InString::Free { escaped: false }, .. } => {
                allow(&mut tokens.backslash.into_iter().chain([tokens.quote]));
            }
            Place::String { state: InString::Repeated(repetition), .. } => {
                allow(&mut repetition.tokens());
                allow(&mut [tokens.quote].into_iter().filter(|_| repetition.may_end()));
            }
            Place::Number { number, whole, then } => {
                let member = self.member(*then);
                let goes_on = |digit| member.is_some_and(|member| member.number_goes_on(number, digit, *whole));
                let digits = tokens.digits.iter().filter(|(digit, _)| goes_on(*digit));
                allow(&mut digits.map(|(_, id)| *id));
                if member.is_some_and(|member| member.number_may_end(number)) {
                    allow(&mut self.after_value(*then).iter().filter_map(|branch| branch.tokens.first().copied()));
                }
            }
            Place::Schema => {}
        }
        Ok(allowed)
    }

    /// What is to be added to the logits of tokens that can come next.
    pub fn biases(&self) -> Vec<(u32, f32)> {
        match &self.place {
            Place::String { state: InString::Repeated(repetition), .. } => {
                repetition.unlikely().into_iter().map(|id| (id, UNLIKELY)).collect()
            }
            _ => self.call_again.map(|bias| (self.tokens.invoke, bias)).into_iter().collect(),
        }
    }

    /// Takes the token that came.
    pub fn accept(&mut self, id: u32) -> Result<(), ChatError> {
        let tokens = Arc::clone(&self.tokens);
        self.call_again = None;
        let known = match &mut self.place {
            Place::Schema => return self.schema.as_mut().map_or(Ok(()), |schema| schema.accept(id)),
            Place::Text { begun } => {
                *begun = true;
                tokens.text.is_allowed(id)
            }
            Place::Choice { .. } => self.choose(id),
            Place::String { state, then } => {
                let then = *then;
                match state {
                    InString::Repeated(repetition) if id == tokens.quote && repetition.may_end() => {
                        let string = repetition.take_tokens();
                        self.take(then, &string);
                        self.go_on(Then::Value(then));
                        true
                    }
                    InString::Repeated(repetition) => repetition.accept(id),
                    InString::Free { escaped: false } if id == tokens.quote => {
                        self.go_on(Then::Value(then));
                        true
                    }
                    InString::Free { escaped } => {
                        let known = match *escaped {
                            true => tokens.escapes.contains(&id),
                            false => tokens.plain.is_allowed(id) || tokens.backslash == Some(id),
                        };
                        *escaped = !*escaped && tokens.backslash == Some(id);
                        known
                    }
                }
            }
            Place::Number { number, whole, then } => {
                let then = *then;
                let member = self.lines.get(self.line).and_then(|line| line.parameters.get(then.member));
                let digit = tokens.digits.iter().find(|(_, digit)| *digit == id);
                let goes_on = |digit| member.is_some_and(|member| member.number_goes_on(number, digit, *whole));
                match digit.filter(|(digit, _)| goes_on(*digit)) {
                    Some((digit, _)) => {
                        number.push(*digit);
                        true
                    }
                    None if member.is_some_and(|member| member.number_may_end(number)) => {
                        self.go_on(Then::Value(then));
                        self.choose(id)
                    }
                    None => false,
                }
            }
        };
        known.then_some(()).ok_or_else(|| wrong(&format!("token {id} cannot follow here")))
    }

    /// Whether the answer may end here.
    pub fn may_end(&mut self) -> bool {
        match &self.place {
            Place::Choice { may_end, .. } => *may_end,
            Place::Text { begun } => *begun,
            Place::Schema => self.schema.as_mut().is_none_or(Grammar::may_end),
            Place::String { .. } | Place::Number { .. } => false,
        }
    }

    /// Keeps the sequences that continue with a token; returns whether there are any.
    fn choose(&mut self, id: u32) -> bool {
        let Place::Choice { branches, taken, may_end } = &mut self.place else { return false };
        branches.retain(|branch| branch.tokens.get(*taken) == Some(&id));
        *taken = taken.saturating_add(1);
        *may_end = false;
        let any = !branches.is_empty();
        let done = branches.iter().find(|branch| branch.tokens.len() == *taken).map(|branch| branch.then);
        if let Some(then) = done {
            self.go_on(then);
        }
        any
    }

    /// Continues after a sequence.
    fn go_on(&mut self, then: Then) {
        self.place = match then {
            Then::Lines => choice(self.line_choice()),
            Then::Text if self.schema.is_some() => Place::Schema,
            Then::Text => Place::Text { begun: false },
            Then::Arguments(line) => {
                (self.line, self.taken) = (line, Taken::default());
                choice(self.members(0, true))
            }
            Then::String(then) => {
                let free = InString::Free { escaped: false };
                let limits = self.member(then).map_or_else(Limits::default, |member| member.limits);
                let repeated = |said| InString::Repeated(Repetition::new(said, &self.taken, limits));
                let state = self.said.as_ref().map_or(free, repeated);
                Place::String { state, then }
            }
            Then::Number { first, whole, next } => Place::Number { number: first.into(), whole, then: next },
            Then::Value(next) => choice(self.after_value(next)),
            Then::Call => {
                self.calls = true;
                let branches = vec![Branch { tokens: vec![self.tokens.invoke], then: Then::Lines }];
                Place::Choice { branches, taken: 0, may_end: true }
            }
        };
    }

    /// Notes a string of the call that is being made.
    fn take(&mut self, place: Next, string: &[u32]) {
        let line = self.lines.get(self.line).filter(|line| line.apart || place.in_list);
        let member = line.and_then(|line| line.parameters.get(place.member));
        if let Some(said) = self.said.as_ref().filter(|_| line.is_some()) {
            self.taken.push(said, string, member.is_some_and(|member| member.distinct));
        }
    }

    /// How an answer begins.
    fn beginning(&self) -> Place {
        let mut branches = vec![Branch { tokens: vec![self.tokens.say], then: Then::Text }];
        if self.schema.is_none() {
            branches.push(Branch { tokens: vec![self.tokens.none], then: Then::Text });
        }
        if !self.line_choice().is_empty() {
            branches.push(Branch { tokens: vec![self.tokens.invoke], then: Then::Lines });
        }
        choice(branches)
    }

    /// The lines that a call can be of; or, if the answer has neither calls nor a schema, a refusal.
    fn line_choice(&self) -> Vec<Branch> {
        let refusals = !self.calls && self.schema.is_none();
        let lines = self.lines.iter().enumerate().filter(|(_, line)| refusals || !line.forbidden);
        let branches = lines.map(|(at, line)| {
            let then = if line.forbidden { Then::Text } else { Then::Arguments(at) };
            Branch { tokens: line.begin.clone(), then }
        });
        branches.collect()
    }

    /// The parameter that a place is in.
    fn member(&self, place: Next) -> Option<&Member> {
        self.lines.get(self.line)?.parameters.get(place.member)
    }

    /// The parameters from `first` on that can be given next, or the end of the arguments.
    fn members(&self, first: usize, is_first: bool) -> Vec<Branch> {
        let mut branches = Vec::new();
        let members = self.lines.get(self.line).map_or(&[][..], |line| &line.parameters);
        let members = members.iter().enumerate().skip(first).filter(|(_, member)| !member.is_unsaid());
        for (at, member) in members {
            let comma = if is_first { &[][..] } else { &self.punctuation.comma };
            let next = Next { member: at, in_list: false };
            self.values(&[comma, &member.key].concat(), &member.values, next, &mut branches);
            if member.required {
                return branches;
            }
        }
        branches.push(Branch { tokens: self.punctuation.close.clone(), then: Then::Call });
        branches
    }

    /// The ways in which values begin, after the text before them.
    fn values(&self, before: &[u32], values: &Values, next: Next, branches: &mut Vec<Branch>) {
        let punctuation = &self.punctuation;
        let mut add = |more: &[u32], then| branches.push(Branch { tokens: [before, more].concat(), then });
        match values {
            Values::Text => add(&[self.tokens.quote], Then::String(next)),
            Values::Number { whole } => {
                let member = self.member(next);
                let goes_on = |digit| member.is_some_and(|member| member.number_goes_on("", digit, *whole));
                for (first, id) in self.tokens.digits.iter().filter(|(digit, _)| goes_on(*digit)) {
                    add(&[*id], Then::Number { first: *first, whole: *whole, next });
                }
            }
            Values::Literals(literals) => literals.iter().for_each(|literal| add(literal, Then::Value(next))),
            Values::List(items) => {
                add(&[&*punctuation.open_list, &*punctuation.close_list].concat(), Then::Value(next));
                // Lists in lists are empty.
                if !next.in_list {
                    let before = [before, &*punctuation.open_list].concat();
                    self.values(&before, items, Next { in_list: true, ..next }, branches);
                }
            }
        }
    }

    /// The tokens that can follow a value.
    fn after_value(&self, next: Next) -> Vec<Branch> {
        if !next.in_list {
            return self.members(next.member.saturating_add(1), false);
        }
        let list_ends = Then::Value(Next { in_list: false, ..next });
        let mut branches = vec![Branch { tokens: self.punctuation.close_list.clone(), then: list_ends }];
        if let Some(Member { values: Values::List(items), .. }) = self.member(next) {
            self.values(&self.punctuation.comma, items, next, &mut branches);
        }
        branches
    }
}

fn choice(branches: Vec<Branch>) -> Place {
    Place::Choice { branches, taken: 0, may_end: false }
}

/// Whether values are whole numbers, or lists of them.
fn is_whole(kind: &Kind) -> bool {
    match kind {
        Kind::List(items) => is_whole(items),
        kind => *kind == Kind::Integer,
    }
}

impl LineProgram {
    fn new(line: &Line, tokens: &LineTokens, numbers: Option<&Numbers>, encode: &dyn Fn(&str) -> Vec<u32>) -> Self {
        let mut begin = encode(&line.head);
        if line.forbidden {
            begin.push(tokens.forbidden);
        } else {
            begin.push(tokens.line_as);
            begin.extend(encode(&line.name));
            begin.extend(encode("{"));
        }
        let verb = line.name.split('_').next().unwrap_or_default();
        let takes = TAKES.contains(&verb);
        let has_path = line.parameters.iter().any(|parameter| parameter.name == PATH);
        let of_file = line.name.split('_').any(|part| part == OF_FILE);
        let is_name = |parameter: &str| {
            NAMES.contains(&parameter)
                || takes && DISTINCT.contains(&parameter)
                || parameter == NAME && line.name.contains(OF_SERVICES)
        };
        let is_file = |parameter: &str| match parameter {
            // What is deleted is gone: "delete draft, keep draft.txt".
            PATH if of_file && verb != DELETE => OfFiles::Any,
            FROM if takes => OfFiles::Source,
            _ => OfFiles::None,
        };
        let parameters = line.parameters.iter().map(|parameter| Member {
            key: [encode(&Value::from(parameter.name.as_str()).to_string()), encode(":")].concat(),
            values: Values::new(&parameter.kind, encode),
            required: parameter.required,
            distinct: takes && DISTINCT.contains(&parameter.name.as_str()),
            limits: Limits {
                is_name: is_name(&parameter.name),
                is_word: is_name(&parameter.name) || matches!(parameter.kind, Kind::List(_)),
                is_file: is_file(&parameter.name),
                is_below: parameter.name == PATH && NOT_OF_ALL.contains(&verb),
            },
            numbers: numbers.filter(|_| is_whole(&parameter.kind)).and_then(|all| all.of(&parameter.name).cloned()),
        });
        let parameters = parameters.collect();
        Self { begin, forbidden: line.forbidden, parameters, apart: takes || has_path }
    }
}

impl Values {
    fn new(kind: &Kind, encode: &dyn Fn(&str) -> Vec<u32>) -> Self {
        match kind {
            Kind::Text => Self::Text,
            Kind::Integer => Self::Number { whole: true },
            Kind::Number => Self::Number { whole: false },
            Kind::Literals(literals) => Self::Literals(literals.iter().map(|literal| encode(literal)).collect()),
            Kind::List(items) => Self::List(Box::new(Self::new(items, encode))),
        }
    }
}
