//! Example: a key-value store. The values are in a redb database in the home directory that the program was granted,
//! and stay there between its runs.
//!
//! ```text
//! kv set fern "every three days"
//! kv get fern
//! kv list
//! ```
#![forbid(unsafe_code)]

mod store;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use store::{Error, Store};

/// Keeps values under names.
#[derive(Parser)]
#[command(name = "kv")]
struct Arguments {
    /// The file that holds them; it is made if it is missing.
    #[arg(long, value_name = "FILE", default_value = "/home/kv.redb")]
    file: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Store a value under a name, replacing an earlier one.
    Set { name: String, value: String },
    /// Print the value of a name.
    Get { name: String },
    /// Forget a name and its value.
    Remove { name: String },
    /// Print all names that begin with a text, and their values.
    List {
        #[arg(default_value = "")]
        start: String,
    },
}

fn run(arguments: Arguments) -> Result<(), Error> {
    let store = Store::open(&arguments.file)?;
    match arguments.command {
        Command::Set { name, value } => store.set(&name, &value)?,
        Command::Get { name } => println!("{}", store.get(&name)?),
        Command::Remove { name } => store.remove(&name)?,
        Command::List { start } => {
            for (name, value) in store.list(&start)? {
                println!("{name} = {value}");
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kv: {error}");
            ExitCode::FAILURE
        }
    }
}
