//! `capos-infer`, the host's program for model files: the same code as the model worker's, for people and tests.
//!
//! Every command is a module with an `Args` structure and a `run` function; this file only names them. Unsafe code
//! is in `file` (the mapping).
#![deny(unsafe_code)]

mod bench;
mod chat;
mod detokenize;
mod embed;
mod eval;
#[expect(unsafe_code, reason = "the mapping")]
mod file;
mod generate;
mod info;
mod logits;
mod run;
mod tokenize;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::run::RunOptions;

/// Runs model files (GGUF) on the host, as the model worker does on capOS.
#[derive(Parser)]
#[command(name = "capos-infer", version, about)]
struct Cli {
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    options: RunOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the metadata of a model file.
    Info(info::Args),
    /// Turn text into tokens.
    Tokenize(tokenize::Args),
    /// Turn tokens into text.
    Detokenize(detokenize::Args),
    /// Answer a conversation.
    Chat(chat::Args),
    /// Compute embedding vectors of texts.
    Embed(embed::Args),
    /// Measure how well a model uses tools.
    Eval(eval::Args),
    /// Print the logits after a prompt.
    Logits(logits::Args),
    /// Generate tokens after a prompt.
    Generate(generate::Args),
    /// Measure the speed of prefill and decode.
    Bench(bench::Args),
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    match cli.command {
        Command::Info(args) => info::run(&args, cli.json),
        Command::Tokenize(args) => tokenize::run(&args, cli.json),
        Command::Detokenize(args) => detokenize::run(&args, cli.json),
        Command::Chat(args) => chat::run(&args, &cli.options, cli.json),
        Command::Embed(args) => embed::run(&args, &cli.options, cli.json),
        Command::Eval(args) => eval::run(&args, &cli.options, cli.json),
        Command::Logits(args) => logits::run(&args, &cli.options, cli.json),
        Command::Generate(args) => generate::run(&args, &cli.options, cli.json),
        Command::Bench(args) => bench::run(&args, &cli.options, cli.json),
    }
}
