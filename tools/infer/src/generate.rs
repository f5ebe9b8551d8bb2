//! `generate`: tokens that follow some tokens.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use capos_gguf::Header;
use serde_json::json;

use crate::file::ModelFile;
use crate::run::{Run, RunOptions};

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// Ids of the tokens to begin with, with commas between.
    #[arg(long, value_delimiter = ',', required = true)]
    ids: Vec<u32>,
    /// How many new ones to make at most.
    #[arg(short = 'n', long = "n", default_value_t = 16)]
    count: usize,
    /// Take the likeliest token each time.
    #[arg(long)]
    greedy: bool,
    /// Go on behind a token that ends a text.
    #[arg(long)]
    ignore_eos: bool,
}

/// Metadata entries that name tokens behind which a text has ended.
const ENDS: [&str; 3] = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];

pub fn run(args: &Args, options: &RunOptions, as_json: bool) -> Result<()> {
    ensure!(args.greedy, "only greedy sampling can be asked for; add --greedy");
    let file = ModelFile::open(&args.model)?;
    let ends = if args.ignore_eos { Vec::new() } else { ends(&file.header()?) };
    let mut run = Run::new(&file, options)?;
    let mut new = Vec::new();
    let mut next = match args.count {
        0 => None,
        _ => Some(capos_engine::greedy(run.feed(&args.ids)?)),
    };
    while let Some(id) = next.filter(|id| !ends.contains(id)) {
        new.push(id);
        next = match new.len() < args.count {
            true => Some(capos_engine::greedy(run.feed(&[id])?)),
            false => None,
        };
    }
    match as_json {
        true => println!("{}", json!({ "ids": new })),
        false => println!("{}", new.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
    }
    Ok(())
}

fn ends(header: &Header<'_>) -> Vec<u32> {
    let id = |key: &&str| header.get(key)?.as_u64().and_then(|id| u32::try_from(id).ok());
    ENDS.iter().filter_map(id).collect()
}
