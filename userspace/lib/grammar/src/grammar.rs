//! Holding an answer to the schemas of the turn, token by token.
//!
//! Text stays free. After the mark of a call, only a continuation of a call can follow: the name of a tool of this
//! turn, and arguments that conform to its schema. The same is so from the arguments on of a call that has no mark
//! ([`capos_chat::unmarked`]). If the answer itself has a schema, it is a call with its mark or conforms to that. For
//! the form without JSON, [`crate::line_grammar`] does so.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use capos_tokenizer::{TokenKind, Tokenizer};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::Value;

use crate::held_tool::{Closeness, HeldTool, answer_schema};
use crate::line_grammar::{LineGrammar, LineTokens};
use crate::numbers::Numbers;
use crate::said::Said;
use capos_chat::lines::Line;
use capos_chat::unmarked;
use capos_chat::{CALL_ID, CallForm, ChatError, SaidText, Tool};

/// How much more a grammar may cost than the library has it: if calls may lack a mark, each tool's schema is in it
/// twice.
const COSTS: u32 = 2;
/// States of the lexer that one answer may need, of some kilobytes each.
const LEXER_STATES: usize = 20_000;
/// Bytes of the longest token in a constrained answer: the library's limit.
const LONGEST: usize = 1024;

/// Makes grammars for answers in a model's vocabulary.
pub struct Grammars {
    factory: ParserFactory,
    /// How each mark of each form is written in a grammar: as a token or as text.
    marks: Vec<(&'static str, String)>,
    /// For the form without JSON.
    lines: Option<Arc<LineTokens>>,
}

/// The constraints of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules<'a> {
    /// The form of its calls.
    pub form: Option<CallForm>,
    /// The tools that can be called.
    pub tools: &'a [Tool],
    /// The schema of an answer without calls.
    pub schema: Option<&'a Value>,
    /// Texts that strings in calls have to repeat, for [`CallForm::Lines`]. Each string is found there from the
    /// beginning of a word to the end of one, or is two such with a slash between. Or it is empty, a dot or one of an
    /// enumeration's values. Whole numbers are said there as well, and a parameter whose name ends in "seconds" takes
    /// the times. Names are one word, unless they are in quotes or follow "called". If the latest text that is no result names
    /// files by their paths, others are less likely in calls.
    pub said: Option<&'a [SaidText]>,
    /// Words that alone are the name of nothing, in small letters.
    pub function_words: &'a [String],
    /// What is added to the logit of a call as the beginning of the answer, for [`CallForm::Lines`].
    pub call_again: Option<f32>,
}

impl Grammars {
    /// Prepares the vocabulary; done once for a model.
    ///
    /// # Errors
    /// [`ChatError::Grammar`] if no token ends an answer.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, ChatError> {
        let vocabulary = tokenizer.vocabulary();
        let ends = vocabulary.answer_ends();
        let end = ends.first().ok_or_else(|| wrong("the vocabulary has no token that ends an answer"))?;
        let words: Vec<Vec<u8>> = vocabulary.ids().map(|id| word(tokenizer, id)).collect();
        let count = u32::try_from(words.len()).map_err(|_| wrong("the vocabulary is too large"))?;
        // The library panics at vocabularies that its numbers are too small for.
        let made = catch_unwind(|| {
            let trie = TokTrie::from(&TokRxInfo::new(count, *end), &words).with_eos_tokens(ends);
            let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            let slices = llguidance::earley::SlicedBiasComputer::json_slices();
            ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
        });
        let made = made.map_err(|_| wrong("the vocabulary is too large for a grammar"))?;
        let mut factory = made.map_err(|error| wrong(&error.to_string()))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.max_lexer_states = LEXER_STATES;
        limits.initial_lexer_fuel = limits.initial_lexer_fuel.saturating_mul(COSTS.into());
        limits.max_grammar_size = limits.max_grammar_size.saturating_mul(COSTS as usize);
        let forms = [CallForm::Hermes, CallForm::Llama3, CallForm::MistralArgs, CallForm::Function, CallForm::Phi];
        let texts = forms.into_iter().flat_map(CallForm::marks);
        let marks = texts.filter_map(|text| {
            let id = vocabulary.find(text).filter(|id| vocabulary.kind(*id) == Some(TokenKind::Control))?;
            Some((text, format!("<[{id}]>")))
        });
        let marks = marks.collect();
        Ok(Self { factory, marks, lines: LineTokens::new(tokenizer).map(Arc::new) })
    }

    /// The grammar of an answer. None if the answer is unconstrained. The tokenizer is the one that these are for. A
    /// tool whose schema no grammar can hold calls to is held less closely ([`Grammar::loose`]).
    ///
    /// # Errors
    /// [`ChatError::Grammar`] if grammars cannot enforce the answer's own schema.
    pub fn answer(&self, tokenizer: &Tokenizer, rules: Rules<'_>) -> Result<Option<Grammar>, ChatError> {
        let Rules { form, tools, schema, said, function_words, call_again } = rules;
        if form == Some(CallForm::Lines) {
            let why = "the vocabulary has no token for a mark of the template, which uses <|invoke|>";
            let tokens = self.lines.as_ref().ok_or_else(|| wrong(why))?;
            let schema = self.answer(tokenizer, Rules { schema, ..Rules::default() })?;
            let lines: Vec<Line> = tools.iter().map(Line::of).collect();
            let said = said.map(|texts| {
                let numbers = Numbers::said(texts.iter().map(|said| said.text.as_str()));
                (Said::new(texts, function_words, tokenizer), numbers)
            });
            let grammar = LineGrammar::new(tokens, tokenizer, &lines, (said, schema), call_again);
            return Ok(Some(Grammar { held: Held::Lines(Box::new(grammar)), loose: Vec::new() }));
        }
        let form = form.filter(|_| !tools.is_empty());
        if form.is_none() && schema.is_none() {
            return Ok(None);
        }
        let schema = schema.map(answer_schema).transpose().map_err(|why| wrong(&why))?;
        let objects = |matcher, loose| Ok(Some(Grammar { held: Held::Objects(Box::new(matcher)), loose }));
        let strict: Vec<_> = tools.iter().map(|tool| HeldTool::new(tool, Closeness::Schema)).collect();
        if let Ok(strict) = strict.into_iter().collect::<Result<Vec<HeldTool<'_>>, String>>()
            && let Ok(matcher) = self.matcher(form, &strict, schema.as_ref())
        {
            return objects(matcher, Vec::new());
        }
        // The schema of the answer itself is never relaxed.
        if schema.is_some() || form.is_none() {
            self.matcher(None, &[], schema.as_ref()).map_err(|why| wrong(&why))?;
        }
        let form = form.ok_or_else(|| wrong("the chat template shows no form of a tool call"))?;
        let mut loose = Vec::new();
        let held: Vec<HeldTool<'_>> = tools.iter().map(|tool| self.held(form, tool, &mut loose)).collect();
        if !loose.is_empty()
            && let Ok(matcher) = self.matcher(Some(form), &held, schema.as_ref())
        {
            return objects(matcher, loose);
        }
        // Each can be held, and not all of them together.
        let held: Vec<HeldTool<'_>> = tools.iter().map(HeldTool::loose).collect();
        let matcher = self.matcher(Some(form), &held, schema.as_ref()).map_err(|why| wrong(&why))?;
        let why = "the schemas of all tools together are too large; offer fewer tools";
        objects(matcher, tools.iter().map(|tool| Loose { tool: tool.name.clone(), why: why.into() }).collect())
    }

    /// A tool, constrained as closely as possible on its own. Constraints that cannot be enforced are reported.
    fn held<'t>(&self, form: CallForm, tool: &'t Tool, loose: &mut Vec<Loose>) -> HeldTool<'t> {
        let try_to = |closeness| {
            let held = HeldTool::new(tool, closeness)?;
            self.matcher(Some(form), std::slice::from_ref(&held), None).map(|_| held)
        };
        try_to(Closeness::Schema)
            .or_else(|why| {
                loose.push(Loose { tool: tool.name.clone(), why });
                try_to(Closeness::Parts)
            })
            .unwrap_or_else(|_| HeldTool::loose(tool))
    }

    /// The library's form of a grammar, or the error.
    fn matcher(
        &self,
        form: Option<CallForm>,
        tools: &[HeldTool<'_>],
        schema: Option<&Value>,
    ) -> Result<Matcher, String> {
        let text = self.text(form, tools, schema);
        // The library panics at some values of a wrong type for their keyword.
        let parser = catch_unwind(AssertUnwindSafe(|| self.factory.create_parser(TopLevelGrammar::from_lark(text))));
        let mut matcher = Matcher::new(parser.map_err(|_| "it cannot be read")?);
        match matcher.get_error() {
            Some(why) => Err(in_short(&why)),
            // Schemas that contradict themselves are detected when the first token is requested.
            None => matcher.compute_mask().map(|_| matcher).map_err(|error| in_short(&error.to_string())),
        }
    }

    /// The grammar in the library's notation.
    fn text(&self, form: Option<CallForm>, tools: &[HeldTool<'_>], schema: Option<&Value>) -> String {
        let mut out = String::new();
        let calls = form.map(|form| self.calls(form, &mut out, tools, schema.is_none()));
        let free = match (&calls, form) {
            (Some(Calls { mark, unmarked, .. }), Some(form)) => Some(free(form, mark, unmarked.as_deref())),
            _ => None,
        };
        let start = match (calls, free, schema) {
            (Some(calls), _, Some(_)) => format!("answer | {}", calls.alone),
            (Some(calls), Some(free), None) => {
                out.push_str(&free);
                calls.within_text
            }
            _ => "answer".into(),
        };
        if let Some(schema) = schema {
            let _ = writeln!(out, "answer: %json {schema}");
        }
        let _ = writeln!(out, "start: {start}");
        out
    }

    /// Writes the rules of calls, and returns how answers are made of them. In text calls may lack their mark.
    fn calls(&self, form: CallForm, out: &mut String, tools: &[HeldTool<'_>], in_text: bool) -> Calls {
        let names: Vec<String> = (0..tools.len()).map(|at| format!("call_{at}")).collect();
        for (tool, name) in tools.iter().zip(&names) {
            let _ = match form.separator() {
                Some(separator) => {
                    let (called, separator) = (self.mark(tool.name), self.mark(separator));
                    // Some models give calls names of their own.
                    let id = if form == CallForm::MistralArgs { "id? " } else { "" };
                    writeln!(
                        out,
                        "{name}: {called} {id}{separator} {name}_arguments\n{name}_arguments: %json {}",
                        tool.arguments()
                    )
                }
                None => writeln!(out, "{name}: %json {}", tool.call(form)),
            };
        }
        if form == CallForm::MistralArgs {
            let _ = writeln!(out, "id: {} /[a-zA-Z0-9]{{9}}/", self.mark(CALL_ID));
        }
        let _ = writeln!(out, "call: {}", names.join(" | "));
        let mark = self.mark(form.open());
        let body = match (form.is_list(), form.close()) {
            (_, Some(close)) if form.separator().is_some() => format!("call {}", self.mark(close)),
            (true, None) => "\"[\" call (\",\" \" \"? call)* \"]\"".to_string(),
            (true, Some(close)) => format!("\"[\" call (\",\" \" \"? call)* \"]\" {}", self.mark(close)),
            (false, Some(close)) => format!("\"\\n\"? call \"\\n\"? {}", self.mark(close)),
            (false, None) => "call".into(),
        };
        let _ = writeln!(out, "body: {body}");
        let may_lack_mark = in_text && unmarked::are_found(form, tools.iter().map(|tool| tool.name));
        let unmarked = may_lack_mark.then(|| without_mark(form, out, tools));
        let (within_text, alone) = match form {
            CallForm::Llama3 => (format!("{mark}? body | TEXT"), format!("{mark} body")),
            _ => {
                let lead = if mark.starts_with('<') { format!("TEXT? {mark}") } else { "lead".into() };
                let or_unmarked = if unmarked.is_some() { " | unmarked" } else { "" };
                let or_alone = if unmarked.as_ref().is_some_and(|unmarked| unmarked.alone) { "ALONE? " } else { "" };
                (format!("{or_alone}({lead} body{or_unmarked})* TEXT?"), format!("({mark} body \"\\n\"?)+"))
            }
        };
        Calls { mark, within_text, alone, unmarked: unmarked.map(|unmarked| unmarked.beginnings) }
    }

    /// A mark: the token that it is, or its text.
    fn mark(&self, text: &str) -> String {
        let token = self.marks.iter().find(|(mark, _)| *mark == text).map(|(_, token)| token.clone());
        token.unwrap_or_else(|| Value::from(text).to_string())
    }
}

/// The library's message about a grammar, without the grammar and the place in it.
fn in_short(why: &str) -> String {
    let line = why.lines().next().unwrap_or("");
    match line.split_once("failed to compile JSON schema: ") {
        _ if line.starts_with("panic: ") => {
            "the schema is too large, or has a value that cannot be counted with".into()
        }
        Some((_, of_schema)) => of_schema.into(),
        None => line.into(),
    }
}

/// How answers are made of calls.
struct Calls {
    mark: String,
    /// With text before, between and after them.
    within_text: String,
    /// Without any.
    alone: String,
    /// The pattern of the beginning of one without a mark, up to its arguments or to its end if it has none.
    unmarked: Option<String>,
}

/// What there is of calls without a mark.
struct Unmarked {
    /// The pattern of their beginnings, up to the arguments or to the end of a call without these. It matches at least all that
    /// [`capos_chat::unmarked`] finds.
    beginnings: String,
    /// Whether the first may be just a name, by the rule `ALONE`.
    alone: bool,
}

/// The rules of text that is not a call. `unmarked` is the pattern of the beginning of one without a mark.
fn free(form: CallForm, mark: &str, unmarked: Option<&str>) -> String {
    let any = r"(.|\n)";
    let or_unmarked = unmarked.map_or(String::new(), |pattern| format!(" & ~/{pattern}{any}*/"));
    // A mark that is a token may also be spelled, and the reader finds it so.
    let spelled = literally(form.open());
    let text = format!("TEXT: /{any}+/ & ~/{any}*{spelled}{any}*/{or_unmarked}");
    if form.is_bare() {
        return format!("{text} & ~/[ \\t\\r\\n]*\\{{{any}*/\n");
    }
    if mark.starts_with('<') {
        return format!("{text}\n");
    }
    format!("lead[lazy]: /{any}*{spelled}/{or_unmarked}\n{text}\n")
}

/// Writes the rules of calls without a mark, where text begins and after a call. White space is as the model likes it, within
/// bounds.
fn without_mark(form: CallForm, out: &mut String, tools: &[HeldTool<'_>]) -> Unmarked {
    let (space, any) = (r"[ \t\r\n]{0,40}", r"[ \t\r\n]*");
    let close = literally(form.close().unwrap_or_default());
    // The marks that end a call, separate calls, and begin one. Counted spaces would be states for each tool here.
    let lead = format!(r"[ \t\r\n\]}}]*(```{any}({close}{any})?|{close}{any})?[ \t\r\n,;]*(```(json)?{any})?");
    let name_of = format!(r#"\{{{any}(\{{{any})?"name"{any}:{any}"#);
    let before = format!(r"{lead}(\[{any})?{name_of}");
    let arguments = format!(r#"{any},{any}"{}"{any}:"#, form.arguments());
    let _ = writeln!(out, "END: /{space}}}/");
    let without_arguments = format!(r"{any}\}}");
    let (mut names, mut bare, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for (at, tool) in tools.iter().enumerate() {
        let name = literally(&Value::from(tool.name).to_string());
        let _ = writeln!(
            out,
            "UNMARKED_{at}: /{before}{name}{arguments}/\nunmarked_{at}: UNMARKED_{at} SPACE? unmarked_arguments_{at} END\n\
             unmarked_arguments_{at}: %json {}",
            tool.arguments_with_space(space)
        );
        calls.push(format!("unmarked_{at}"));
        bare.extend(tool.may_lack_arguments.then(|| name.clone()));
        names.push(name);
    }
    let mut beginnings = format!("{before}({}){arguments}", names.join("|"));
    if !bare.is_empty() {
        let alone = format!("{lead}{name_of}({}){without_arguments}", bare.join("|"));
        let _ = writeln!(out, "ALONE: /{alone}/");
        beginnings = format!("({beginnings}|{alone})");
    }
    let _ = writeln!(out, "SPACE: /[ \\t\\r\\n]{{1,40}}/\nunmarked: {}", calls.join(" | "));
    Unmarked { beginnings, alone: !bare.is_empty() }
}

/// A pattern of this text.
fn literally(text: &str) -> String {
    text.chars().fold(String::new(), |mut pattern, character| {
        let _ = write!(pattern, "\\x{{{:x}}}", u32::from(character));
        pattern
    })
}

/// A token's bytes, as the library wants them: a byte that no text has identifies marks.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let mut word = Vec::new();
    match tokenizer.vocabulary().kind(id) {
        Some(TokenKind::Control) => {
            word.push(TokTrie::SPECIAL_TOKEN_MARKER);
            tokenizer.append_bytes(id, true, &mut word);
        }
        Some(TokenKind::Normal | TokenKind::UserDefined | TokenKind::Byte) => {
            tokenizer.append_bytes(id, false, &mut word);
        }
        // Nothing that an answer has in it.
        Some(TokenKind::Unknown | TokenKind::Unused) | None => {}
    }
    if word.len() > LONGEST {
        word.clear();
    }
    word
}

pub fn wrong(why: &str) -> ChatError {
    ChatError::Grammar { why: why.into() }
}

/// The permitted continuation of an answer, step by step.
pub struct Grammar {
    held: Held,
    loose: Vec<Loose>,
}

/// A tool whose calls are constrained less than its schema asks: to the enforceable part, or to some object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loose {
    /// Its name.
    pub tool: String,
    /// Constraints of calls that cannot be enforced.
    pub why: String,
}

enum Held {
    Objects(Box<Matcher>),
    Lines(Box<LineGrammar>),
}

impl Grammar {
    /// The tools whose calls are constrained less than their schemas ask.
    pub fn loose(&self) -> &[Loose] {
        &self.loose
    }

    /// The tokens that can come next; those that end the answer, if it is complete.
    ///
    /// # Errors
    /// [`ChatError::Grammar`] if the work would go past its bounds.
    pub fn allowed(&mut self) -> Result<Allowed, ChatError> {
        match &mut self.held {
            Held::Objects(matcher) => {
                matcher.compute_mask_or_eos().map(Allowed).map_err(|error| wrong(&error.to_string()))
            }
            Held::Lines(grammar) => grammar.allowed().map(Allowed),
        }
    }

    /// Takes the token that came.
    ///
    /// # Errors
    /// [`ChatError::Grammar`] for one that was not allowed.
    pub fn accept(&mut self, id: u32) -> Result<(), ChatError> {
        match &mut self.held {
            Held::Objects(matcher) => matcher.consume_token(id).map_err(|error| wrong(&error.to_string())),
            Held::Lines(grammar) => grammar.accept(id),
        }
    }

    /// What is to be added to the logits of tokens that can come next.
    pub fn biases(&self) -> Vec<(u32, f32)> {
        match &self.held {
            Held::Objects(_) => Vec::new(),
            Held::Lines(grammar) => grammar.biases(),
        }
    }

    /// Whether the answer may end here.
    pub fn may_end(&mut self) -> bool {
        match &mut self.held {
            Held::Objects(matcher) => matcher.is_stopped() || matcher.is_accepting().unwrap_or(false),
            Held::Lines(grammar) => grammar.may_end(),
        }
    }
}

/// A set of tokens.
pub struct Allowed(pub(crate) SimpleVob);

impl Allowed {
    /// Whether a token is one of them.
    pub fn contains(&self, id: u32) -> bool {
        usize::try_from(id).is_ok_and(|at| at < self.0.len() && self.0.get(at))
    }

    /// A bit for each token, the lowest bit of the first word for the first.
    pub fn words(&self) -> &[u32] {
        self.0.as_slice()
    }
}
