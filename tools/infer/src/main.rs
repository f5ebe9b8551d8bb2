//! `capos-infer`, the host's program for model files: the same code as the model worker's, for people and tests.
//!
//! Every command is a module with an `Args` structure and a `run` function; this file only names them.
#![forbid(unsafe_code)]

mod detokenize;
mod metadata;
mod tokenize;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Runs model files (GGUF) on the host, as the model worker does on capOS.
#[derive(Parser)]
#[command(name = "capos-infer", version, about)]
struct Cli {
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Turn text into tokens.
    Tokenize(tokenize::Args),
    /// Turn tokens into text.
    Detokenize(detokenize::Args),
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    match cli.command {
        Command::Tokenize(args) => tokenize::run(&args, cli.json),
        Command::Detokenize(args) => detokenize::run(&args, cli.json),
    }
}
