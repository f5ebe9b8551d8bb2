//! `capos-infer chat`: what a model reads of a conversation.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use capos_chat::{CallForm, CallReader, Conversation, Delta, Message, Template, Tool};
use serde_json::{Value, json};

use crate::file::ModelFile;

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// The conversation: a JSON list of messages with `role`, `content`, `tool_calls` and `tool_call_id`.
    #[arg(long)]
    messages: PathBuf,
    /// The tools: a JSON list of `name`, `description` and `parameters`.
    #[arg(long)]
    tools: Option<PathBuf>,
    /// Take this text apart as the model's answer, instead of showing what the model reads.
    #[arg(long)]
    answer: Option<PathBuf>,
    /// Seconds since 1970 that count as now, for templates that tell the date.
    #[arg(long)]
    now: Option<i64>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let file = ModelFile::open(&args.model)?;
    let tokenizer = file.tokenizer()?;
    let header = file.header()?;
    let source = header.get("tokenizer.chat_template").and_then(|value| value.as_text()).unwrap_or("");
    let template = Template::new(source, &tokenizer).with_context(|| file.name().to_string())?;
    let messages = Message::list(&read(&args.messages)?)?;
    let tools = args.tools.as_deref().map(read).transpose()?.map_or(Ok(Vec::new()), |list| Tool::list(&list))?;
    if let Some(path) = &args.answer {
        let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        show_answer(&text, CallForm::of(source), &tools, json);
        return Ok(());
    }
    let conversation = Conversation { messages: &messages, tools: &tools, answer: true, now: args.now };
    let prompt = template.render(&conversation)?;
    if json {
        println!("{}", json!({ "text": prompt.text(), "ids": prompt.encode(&tokenizer) }));
    } else {
        print!("{}", prompt.text());
    }
    Ok(())
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))
}

fn show_answer(text: &str, form: Option<CallForm>, tools: &[Tool], as_json: bool) {
    let mut reader = CallReader::new(form, tools);
    let mut deltas = reader.push(text);
    deltas.extend(reader.finish());
    let (mut said, mut calls) = (String::new(), Vec::<(String, String)>::new());
    for delta in deltas {
        match delta {
            Delta::Text(text) => said.push_str(&text),
            Delta::Call { name, arguments, .. } if !name.is_empty() => calls.push((name, arguments)),
            Delta::Call { arguments, .. } => {
                if let Some((_, all)) = calls.last_mut() {
                    all.push_str(&arguments);
                }
            }
        }
    }
    if as_json {
        let calls: Vec<Value> =
            calls.into_iter().map(|(name, arguments)| json!({ "name": name, "arguments": arguments })).collect();
        println!("{}", json!({ "text": said, "calls": calls }));
    } else {
        println!("{said}");
        for (name, arguments) in calls {
            println!("{name} {arguments}");
        }
    }
}
