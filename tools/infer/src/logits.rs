//! `logits`: how likely each token is after the last of some.

use std::path::PathBuf;
use std::slice;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::file::{ModelFile, read};
use crate::run::{Run, RunOptions};

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// Token ids of the prompt, separated by commas.
    #[arg(long, value_delimiter = ',', required_unless_present = "prompts")]
    ids: Vec<u32>,
    /// Several prompts instead of one, as a JSON array of arrays of ids; the output is then a list.
    #[arg(long, conflicts_with = "ids")]
    prompts: Option<PathBuf>,
    /// Number of most likely tokens to show.
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Print all logits, in the order of ids.
    #[arg(long)]
    full: bool,
    /// Process the prompt token by token (decode) instead of in batches (prefill).
    #[arg(long)]
    one_by_one: bool,
}

pub fn run(args: &Args, options: &RunOptions, as_json: bool) -> Result<()> {
    let file = ModelFile::open(&args.model)?;
    let mut run = Run::new(&file, options)?;
    let Some(path) = &args.prompts else {
        let logits = behind(&mut run, &args.ids, args.one_by_one)?;
        if as_json {
            println!("{}", answer(logits, args));
        } else {
            show(logits, args);
        }
        return Ok(());
    };
    let text = read(path)?;
    let prompts: Vec<Vec<u32>> = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a JSON array of arrays of ids", path.display()))?;
    let mut answers = Vec::new();
    for ids in &prompts {
        run.reset();
        let logits = behind(&mut run, ids, args.one_by_one)?;
        if as_json {
            answers.push(answer(logits, args));
        } else {
            show(logits, args);
        }
    }
    if as_json {
        println!("{}", Value::Array(answers));
    }
    Ok(())
}

/// The logits after a prompt.
fn behind<'r>(run: &'r mut Run<'_>, ids: &[u32], one_by_one: bool) -> Result<&'r [f32]> {
    let (before, last) = match ids.split_last() {
        Some((last, before)) if one_by_one => (before, slice::from_ref(last)),
        _ => (&[][..], ids),
    };
    before.iter().try_for_each(|id| run.feed(&[*id]).map(drop))?;
    run.feed(last)
}

/// The likeliest tokens, with their logits.
fn likeliest(logits: &[f32], count: usize) -> Vec<(usize, f32)> {
    let mut top: Vec<(usize, f32)> = logits.iter().copied().enumerate().collect();
    top.sort_unstable_by(|(one, a), (other, b)| b.total_cmp(a).then(one.cmp(other)));
    top.truncate(count);
    top
}

fn answer(logits: &[f32], args: &Args) -> Value {
    let mut answer = json!({ "top": likeliest(logits, args.top) });
    if let (true, Some(answer)) = (args.full, answer.as_object_mut()) {
        answer.insert("full".to_owned(), json!(logits));
    }
    answer
}

fn show(logits: &[f32], args: &Args) {
    let all = logits.iter().copied().enumerate();
    let shown = if args.full { all.collect() } else { likeliest(logits, args.top) };
    shown.iter().for_each(|(id, logit)| println!("{id} {logit}"));
}
