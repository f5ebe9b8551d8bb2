//! `capos gguf`: a well-formed model file of any size, without meaning.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use capos_gguf::Synthetic;
use capos_model::SCRIPTED;

use crate::sign::parse_size;
use capos_host::files::write_whole;

/// Make a well-formed GGUF model file of any size, filled with repeatable numbers that mean nothing.
#[derive(clap::Args)]
pub struct Args {
    /// Exact size of the file, for example 64MiB or 1GiB; a multiple of 32 bytes.
    #[arg(long, value_parser = parse_size, default_value = "64MiB")]
    size: u64,
    /// Where to write the file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Seed of the contents; the same seed and size give the same bytes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Select the scripted backend in the file, instead of the inference engine.
    #[arg(long)]
    scripted: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    create(&args.out, args.size, args.seed, args.scripted)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a model file of `size` bytes whose content depends on `seed` alone, for the scripted backend or the engine.
pub fn create(path: &Path, size: u64, seed: u64, scripted: bool) -> Result<()> {
    let entries: &[_] = if scripted { &[SCRIPTED] } else { &[] };
    let synthetic = Synthetic::with_entries(size, seed, entries).with_context(|| format!("a file of {size} bytes"))?;
    write_whole(path, |file| {
        let mut out = std::io::BufWriter::with_capacity(4 << 20, file);
        synthetic
            .write(|piece| out.write_all(piece))
            .and_then(|()| out.flush())
            .with_context(|| format!("writing {}", path.display()))
    })
}
