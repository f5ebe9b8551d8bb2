//! `logits`: how likely each token is behind the last of some.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use crate::file::ModelFile;
use crate::run::{Run, RunOptions};

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// Ids of the tokens, with commas between.
    #[arg(long, value_delimiter = ',', required = true)]
    ids: Vec<u32>,
    /// How many of the likeliest to show.
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Give all logits, in the order of ids.
    #[arg(long)]
    full: bool,
}

pub fn run(args: &Args, options: &RunOptions, as_json: bool) -> Result<()> {
    let file = ModelFile::open(&args.model)?;
    let mut run = Run::new(&file, options)?;
    let logits = run.feed(&args.ids)?;
    let mut top: Vec<(usize, f32)> = logits.iter().copied().enumerate().collect();
    top.sort_unstable_by(|(one, a), (other, b)| b.total_cmp(a).then(one.cmp(other)));
    top.truncate(args.top);
    if as_json {
        let mut answer = json!({ "top": top });
        if let (true, Some(answer)) = (args.full, answer.as_object_mut()) {
            answer.insert("full".to_owned(), json!(logits));
        }
        println!("{answer}");
        return Ok(());
    }
    let all = logits.iter().copied().enumerate();
    let shown = if args.full { all.collect() } else { top };
    shown.iter().for_each(|(id, logit)| println!("{id} {logit}"));
    Ok(())
}
