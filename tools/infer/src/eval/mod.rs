//! `eval`: how well a model uses tools, by an evaluation set (`docs/built-in-model.md`).

mod score;
mod set;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use capos_chat::{Decision, Message, Role};
use capos_engine::Sampling;
use capos_engine::generation::Options;
use capos_inference::{Assistant, Event, Family, Grammar, LanguageModel, Request};
use serde_json::json;

use crate::chat::Answer;
use crate::file::ModelFile;
use crate::run::RunOptions;
use score::Scores;
use set::{Conversation, Turn};

/// Requests that are answered together.
const TOGETHER: usize = 16;

/// Bytes of keys and values that are kept of requests that were answered, for those that begin alike.
const KEPT: usize = 256 << 20;

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// Folder of the evaluation set, with `set.json` and `conversations.jsonl`.
    #[arg(long)]
    set: PathBuf,
    /// File with the system message of each conversation; the built-in model is sent none.
    #[arg(long)]
    system: Option<PathBuf>,
    /// File with what the model reads besides conversations, in place of its family's (userspace/lib/inference/families)
    #[arg(long, conflicts_with = "no_family")]
    family: Option<PathBuf>,
    /// The model reads nothing besides conversations.
    #[arg(long)]
    no_family: bool,
    /// Do not constrain answers to their schemas.
    #[arg(long)]
    no_grammar: bool,
    /// Do not constrain strings in calls to texts of the conversation.
    #[arg(long)]
    no_copy: bool,
    /// Answer only the first conversations, this many.
    #[arg(long)]
    limit: Option<usize>,
    /// Write the model's answers to this file, one conversation per line.
    #[arg(long)]
    produced: Option<PathBuf>,
    /// Maximum tokens of an answer.
    #[arg(long, default_value_t = 512)]
    max_tokens: usize,
}

pub fn run(args: &Args, options: &RunOptions, as_json: bool) -> Result<()> {
    let file = ModelFile::open(&args.model)?;
    let mut model = LanguageModel::open(file.bytes(), options.context()).with_context(|| file.name().to_owned())?;
    if args.no_family {
        model.set_family(None);
    }
    if let Some(path) = &args.family {
        model.set_family(Some(family(path)?));
    }
    ensure!(model.supports_tools(), "{}: its chat template does not list tools for the model", file.name());
    let mut conversations = set::read(&args.set)?;
    conversations.truncate(args.limit.unwrap_or(usize::MAX));
    let computer = options.computer()?;
    let options = Options { sequences: TOGETHER, kept: KEPT, ..options.generation() };
    let assistant = Assistant::new(&model, computer.machine(), options);
    let system = args.system.as_deref().map(system_message).transpose()?;
    let produced = answer(assistant, &conversations, system.as_ref(), args)?;
    if let Some(path) = &args.produced {
        write(path, &produced).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let scores = Scores::of(&conversations, &produced);
    match as_json {
        true => println!("{}", scores.to_json()),
        false => print!("{}", scores.table()),
    }
    Ok(())
}

/// The system's message that a file has.
fn system_message(path: &Path) -> Result<Message> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(Message::new(Role::System, text.trim_end()))
}

/// The wording of a family that a file has.
fn family(path: &Path) -> Result<Family> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Family::read(&text).with_context(|| path.display().to_string())
}

/// The request for a model that is to give the message at `at`.
fn messages(conversation: &Conversation, at: usize, system: Option<&Message>) -> Vec<Message> {
    system.into_iter().chain(conversation.messages.iter().take(at)).cloned().collect()
}

/// The model's answer in each of its turns, each after the correct messages before it.
fn answer(
    mut assistant: Assistant<'_>,
    conversations: &[Conversation],
    system: Option<&Message>,
    args: &Args,
) -> Result<Vec<Vec<Turn>>> {
    let grammar = match (args.no_grammar, args.no_copy) {
        (true, _) => Grammar::Free,
        (false, true) => Grammar::Schemas,
        (false, false) => Grammar::Repetition,
    };
    let mut produced: Vec<Vec<Turn>> =
        conversations.iter().map(|conversation| vec![Turn::default(); conversation.turns.len()]).collect();
    let all = conversations.iter().enumerate().flat_map(|(number, conversation)| {
        conversation.turns.iter().enumerate().map(move |(turn, (at, _))| (number, turn, conversation, *at))
    });
    let mut waiting = all.peekable();
    let mut asked = HashMap::new();
    while waiting.peek().is_some() || !assistant.idle() {
        while assistant.requests() < TOGETHER
            && let Some((number, turn, conversation, at)) = waiting.next()
        {
            let request = Request {
                messages: messages(conversation, at, system),
                tools: conversation.tools.clone(),
                limit: Some(args.max_tokens),
                sampling: Some(Sampling::default()),
                grammar,
                ..Request::default()
            };
            let id = assistant.request(request).with_context(|| format!("conversation {number}, turn {turn}"))?;
            asked.insert(id, (number, turn, Answer::default()));
        }
        for (id, event) in assistant.step() {
            let Some((number, turn, answer)) = asked.get_mut(&id) else { continue };
            match event {
                Event::Progress { .. } | Event::Loose(_) | Event::Removed(_) => {}
                Event::Delta(delta) => answer.take(delta),
                Event::Finish(finish) => {
                    if let Some(error) = finish.error {
                        bail!("conversation {number}, turn {turn}: {error}");
                    }
                    let given = turn_of(std::mem::take(answer), finish.decision);
                    if let Some(place) = produced.get_mut(*number).and_then(|turns| turns.get_mut(*turn)) {
                        *place = given;
                    }
                    asked.remove(&id);
                }
            }
        }
    }
    Ok(produced)
}

fn turn_of(answer: Answer, decision: Decision) -> Turn {
    let (decision, tool) = match decision {
        Decision::Call => ("call", String::new()),
        Decision::Say => ("say", String::new()),
        Decision::None => ("none", String::new()),
        Decision::Forbidden { tool } => ("forbidden", tool),
    };
    let calls = answer.calls.into_iter().map(|call| {
        // Invalid JSON stays text, which no tool takes as its arguments.
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
        (call.name, arguments)
    });
    Turn { decision: decision.into(), tool, content: answer.text, calls: calls.collect() }
}

fn write(path: &Path, produced: &[Vec<Turn>]) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for turns in produced {
        let turns: Vec<_> = turns.iter().map(Turn::to_json).collect();
        writeln!(file, "{}", json!({ "turns": turns }))?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_asked_with_all_that_came_before() {
        let said = ["What is there?", "Nothing.", "Look again."].map(|text| Message::new(Role::User, text));
        let conversation = Conversation { messages: said.to_vec(), ..Conversation::default() };
        let words = |messages: Vec<Message>| messages.into_iter().map(|message| message.content).collect::<Vec<_>>();
        assert_eq!(words(messages(&conversation, 1, None)), ["What is there?"]);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("system.txt");
        let missing = system_message(&path).unwrap_err().to_string();
        assert!(missing.contains("system.txt cannot be read"), "{missing}");
        std::fs::write(&path, "You help.\n").unwrap();
        let system = system_message(&path).unwrap();
        assert_eq!(system.role, Role::System);
        assert_eq!(words(messages(&conversation, 2, Some(&system))), ["You help.", "What is there?", "Nothing."]);
    }
}
