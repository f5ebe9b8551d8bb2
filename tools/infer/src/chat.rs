//! `chat`: an answer to a conversation; or the prompt that a model reads, or the parts of an answer.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use capos_chat::{AnswerReader, CallForm, ChatFormat, Decision, Delta, Message, Tool};
use capos_engine::Sampling;
use capos_inference::{Assistant, Event, Finish, Fitting, Grammar, LanguageModel, Loose, Prompts, Reason, Request};
use capos_tokenizer::{Marks, Tokenizer};
use serde_json::{Value, json};

use crate::file::ModelFile;
use crate::run::RunOptions;

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// The conversation: a JSON list of messages with `role`, `content`, `tool_calls` and `tool_call_id`.
    #[arg(long)]
    messages: PathBuf,
    /// The tools: a JSON list of `name`, `description`, `parameters` and, if it is `forbidden`, `permission`.
    #[arg(long)]
    tools: Option<PathBuf>,
    /// JSON Schema for answers without tool calls.
    #[arg(long)]
    schema: Option<PathBuf>,
    /// Maximum tokens of the answer [default: as many as fit].
    #[arg(long)]
    max_tokens: Option<usize>,
    /// Sampling temperature; 0 always selects the most likely token [default: that of the model
    /// file].
    #[arg(long)]
    temperature: Option<f32>,
    /// Random seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// End the answer before this text. Repeatable.
    #[arg(long)]
    stop: Vec<String>,
    /// Do not constrain tool calls to their schemas.
    #[arg(long)]
    no_grammar: bool,
    /// Do not constrain strings in calls of the built-in model to texts of the conversation.
    #[arg(long)]
    no_copy: bool,
    /// Print only the prompt that the model reads.
    #[arg(long, conflicts_with = "answer")]
    prompt_only: bool,
    /// Parse this file as the model's answer, without running the model.
    #[arg(long)]
    answer: Option<PathBuf>,
    /// Current time for templates that state the date, in seconds since 1970 [default: the host's clock].
    #[arg(long)]
    now: Option<i64>,
    /// Pass tool calls and results to the template as text, for templates that reject them.
    #[arg(long)]
    plain: bool,
}

impl Args {
    fn now(&self) -> Option<i64> {
        let passed = || SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs().try_into().ok();
        self.now.or_else(passed)
    }
}

/// An answer, joined from its pieces.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub text: String,
    pub calls: Vec<AnsweredCall>,
}

/// A call of an answer.
#[derive(Clone, Debug, Default)]
pub struct AnsweredCall {
    pub name: String,
    pub handle: String,
    pub arguments: String,
}

impl Answer {
    /// Adds a piece.
    pub fn take(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) => self.text.push_str(&text),
            Delta::Call { index, name, handle, arguments } => {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                if index >= self.calls.len() {
                    self.calls.push(AnsweredCall::default());
                }
                if let Some(call) = self.calls.last_mut() {
                    call.name.push_str(&name);
                    call.handle.push_str(&handle);
                    call.arguments.push_str(&arguments);
                }
            }
        }
    }

    fn to_json(&self) -> Value {
        let calls = self.calls.iter().map(|call| json!({ "name": call.name, "arguments": call.arguments }));
        json!({ "text": self.text, "calls": calls.collect::<Vec<_>>() })
    }

    fn show_calls(&self) {
        for call in &self.calls {
            println!("{} {}", call.name, call.arguments);
        }
    }
}

pub fn run(args: &Args, options: &RunOptions, as_json: bool) -> Result<()> {
    let file = ModelFile::open(&args.model)?;
    let messages = Message::list(&read(&args.messages)?)?;
    let tools = args.tools.as_deref().map(read).transpose()?.map_or(Ok(Vec::new()), |list| Tool::list(&list))?;
    if let Some(path) = &args.answer {
        let (header, tokenizer) = (file.header()?, file.tokenizer()?);
        let format = ChatFormat::of(&header, &tokenizer).with_context(|| file.name().to_string())?;
        return take_apart(path, &tokenizer, format.form(), &tools, as_json);
    }
    let sampling = args.temperature.map(|temperature| Sampling { temperature, seed: args.seed, ..Sampling::default() });
    let grammar = match (args.no_grammar, args.no_copy) {
        (true, _) => Grammar::Free,
        (false, true) => Grammar::Schemas,
        (false, false) => Grammar::Repetition,
    };
    let request = Request {
        messages,
        tools,
        limit: args.max_tokens,
        sampling,
        stop_sequences: args.stop.clone(),
        schema: args.schema.as_deref().map(read).transpose()?,
        grammar,
        end_repetition: false,
        now: args.now(),
        plain: args.plain,
        goal: None,
    };
    if args.prompt_only {
        let prompts = Prompts::of(&file.header()?, options.context()).with_context(|| file.name().to_string())?;
        return show_prompt(&prompts, &request, as_json);
    }
    let model = LanguageModel::open(file.bytes(), options.context()).with_context(|| file.name().to_owned())?;
    let computer = options.computer()?;
    let mut assistant = Assistant::new(&model, computer.machine(), options.generation());
    assistant.request(request)?;
    let (answer, finish) = answer(&mut assistant, as_json)?;
    if let Some(error) = finish.error {
        bail!(error);
    }
    let reason = match finish.reason {
        Reason::Stop => "stop",
        Reason::ToolCalls => "toolCalls",
        Reason::Length => "length",
        Reason::Cancelled => "cancelled",
        Reason::Repetition => "repetition",
        Reason::Error => "error",
    };
    if as_json {
        let mut value = answer.to_json();
        let usage = json!({ "promptTokens": finish.usage.prompt, "completionTokens": finish.usage.new });
        let decision = match finish.decision {
            Decision::Call => "call",
            Decision::Say => "say",
            Decision::None => "none",
            Decision::Forbidden { .. } => "forbidden",
        };
        if let Some(members) = value.as_object_mut() {
            members.insert("decision".into(), decision.into());
            members.insert("finishReason".into(), reason.into());
            members.insert("usage".into(), usage);
        }
        println!("{value}");
    } else {
        if !answer.text.is_empty() {
            println!();
        }
        answer.show_calls();
        if finish.reason == Reason::Length {
            eprintln!("The answer was cut off: it has reached its token limit.");
        }
    }
    Ok(())
}

/// The whole answer to the one request. Its text is printed as it arrives, unless JSON follows.
fn answer(assistant: &mut Assistant<'_>, as_json: bool) -> Result<(Answer, Finish)> {
    let mut answer = Answer::default();
    loop {
        for (_, event) in assistant.step() {
            match event {
                Event::Progress { .. } => {}
                Event::Removed(messages) => tell_removed(messages),
                Event::Loose(Loose { tool, why }) => {
                    eprintln!(
                        "Calls of '{tool}' are not constrained to all of its schema; check their arguments: {why}"
                    );
                }
                Event::Delta(delta) => {
                    if let Delta::Text(text) = &delta
                        && !as_json
                    {
                        print!("{text}");
                        std::io::stdout().flush().context("standard output cannot be written to")?;
                    }
                    answer.take(delta);
                }
                Event::Finish(finish) => return Ok((answer, finish)),
            }
        }
    }
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))
}

fn show_prompt(prompts: &Prompts, request: &Request, as_json: bool) -> Result<()> {
    let Fitting { prompt, ids, removed } = prompts.fitting(request)?;
    tell_removed(removed);
    if as_json {
        println!("{}", json!({ "text": prompt.text(), "ids": ids }));
    } else {
        print!("{}", prompt.text());
    }
    Ok(())
}

fn tell_removed(messages: usize) {
    if messages > 0 {
        eprintln!("The conversation is too long: the model does not see {messages} of its messages.");
    }
}

fn take_apart(path: &Path, tokenizer: &Tokenizer, form: Option<CallForm>, tools: &[Tool], as_json: bool) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut reader = AnswerReader::new(tokenizer, form, tools, &[]);
    let mut deltas = Vec::new();
    for id in tokenizer.encode(&text, Marks::All) {
        deltas.extend(reader.push(id));
    }
    deltas.extend(reader.finish().0);
    let mut answer = Answer::default();
    deltas.into_iter().for_each(|delta| answer.take(delta));
    if as_json {
        println!("{}", answer.to_json());
    } else {
        println!("{}", answer.text);
        answer.show_calls();
    }
    Ok(())
}
