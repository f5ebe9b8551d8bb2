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
    /// Print a model file's facts.
    Info(info::Args),
    /// Turn text into tokens.
    Tokenize(tokenize::Args),
    /// Turn tokens into text.
    Detokenize(detokenize::Args),
    /// Answer a conversation.
    Chat(chat::Args),
    /// Make vectors of texts.
    Embed(embed::Args),
    /// Measure how well a model uses tools.
    Eval(eval::Args),
    /// Print how likely each token is after the last of some.
    Logits(logits::Args),
    /// Make tokens that follow some tokens.
    Generate(generate::Args),
    /// Measure how fast tokens are taken in and made.
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
