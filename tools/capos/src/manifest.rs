//! `capos manifest`: checks, explains and encodes the system manifest.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

/// Check, explain or encode the system manifest.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Check a manifest; errors name the place and what to do.
    Check {
        /// The manifest's TOML file.
        file: PathBuf,
    },
    /// Print the capability graph: who holds what, and whom it may call.
    Print {
        /// The manifest's TOML file.
        file: PathBuf,
    },
    /// Write the manifest as the boot package holds it.
    Encode {
        /// The manifest's TOML file.
        file: PathBuf,
        /// Where to write.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (Action::Check { file } | Action::Print { file } | Action::Encode { file, .. }) = &args.action;
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let manifest = capos_manifest::read(&file.display().to_string(), &text)?;
    match &args.action {
        Action::Check { .. } => {
            println!("{}: {} services, {} programs", file.display(), manifest.services.len(), manifest.programs.len());
        }
        Action::Print { .. } => print!("{}", capos_manifest::describe(&manifest)),
        Action::Encode { out, .. } => {
            std::fs::write(out, capos_manifest::encode(&manifest)?)
                .with_context(|| format!("writing {}", out.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
