//! `generate`: tokens that follow some tokens.

use std::path::PathBuf;

use anyhow::Result;
use capos_engine::{Event, Finish, Generation, Request, Sampling};
use capos_gguf::Header;
use serde_json::json;

use crate::file::ModelFile;
use crate::run::{Run, RunOptions};

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// Token ids of the prompt, separated by commas.
    #[arg(long, value_delimiter = ',', required = true)]
    ids: Vec<u32>,
    /// Maximum number of new tokens.
    #[arg(short = 'n', long = "n", default_value_t = 16)]
    count: usize,
    #[command(flatten)]
    sampling: SamplingOptions,
    /// Continue after a token that ends a text.
    #[arg(long)]
    ignore_eos: bool,
}

/// How tokens are chosen. The steps are in the order of the options.
#[derive(clap::Args)]
pub struct SamplingOptions {
    /// Always select the most likely token.
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "seed"])]
    greedy: bool,
    /// Penalty for recent tokens: divides positive logits, multiplies negative ones.
    #[arg(long, default_value_t = 1.0)]
    repetition_penalty: f32,
    /// Sampling temperature: all logits are divided by it.
    #[arg(long, default_value_t = 1.0)]
    temperature: f32,
    /// Keep only this many of the most likely tokens; 0 keeps all.
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// Keep only the most likely tokens that together have this probability.
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// Keep only tokens with at least this fraction of the highest probability.
    #[arg(long, default_value_t = 0.0)]
    min_p: f32,
    /// Random seed; the same seed gives the same tokens.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl SamplingOptions {
    /// The same for the engine.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            temperature: if self.greedy { 0.0 } else { self.temperature },
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
        }
    }
}

/// Metadata entries that name tokens after which a text has ended.
const ENDS: [&str; 3] = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];

pub fn run(args: &Args, options: &RunOptions, as_json: bool) -> Result<()> {
    let file = ModelFile::open(&args.model)?;
    let ends = if args.ignore_eos { Vec::new() } else { ends(&file.header()?) };
    let run = Run::new(&file, options)?;
    let mut generation = Generation::new(&run.model, run.computer.machine(), options.generation());
    let request = Request { prompt: args.ids.clone(), limit: args.count, ends, sampling: args.sampling.sampling() };
    generation.submit(request, None)?;
    let (mut new, mut why) = (Vec::new(), "limit");
    while !generation.idle() {
        for (_, event) in generation.step() {
            match event {
                Event::Progress { .. } => {}
                Event::Token(id) => new.push(id),
                Event::Finish { reason: Finish::Failed(error), .. } => return Err(error.into()),
                Event::Finish { reason, .. } => why = name(&reason),
            }
        }
    }
    match as_json {
        true => println!("{}", json!({ "ids": new, "finish": why })),
        false => println!("{}", new.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
    }
    Ok(())
}

/// The JSON name of the end of a request.
fn name(reason: &Finish) -> &'static str {
    match reason {
        Finish::End(_) => "end",
        Finish::Limit => "limit",
        Finish::Full => "full",
        Finish::Cancelled => "cancelled",
        Finish::Failed(_) => "failed",
    }
}

fn ends(header: &Header<'_>) -> Vec<u32> {
    let id = |key: &&str| header.get(key)?.as_u64().and_then(|id| u32::try_from(id).ok());
    ENDS.iter().filter_map(id).collect()
}
