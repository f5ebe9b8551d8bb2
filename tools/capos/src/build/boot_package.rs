//! `capos boot-package`: the one boot module, a ustar archive of the few files the system starts from.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use capos_host::files::write_whole;
use capos_image::ustar::Writer;

/// Pack the boot package.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write the archive.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// File of the package: its name in the package and its path on the host.
    #[arg(value_name = "NAME=PATH", required = true, value_parser = parse_item)]
    files: Vec<(String, PathBuf)>,
}

fn parse_item(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err(format!("`{text}` is not NAME=PATH")),
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let bytes = pack(&args.files)?;
    write_whole(&args.out, |file| Ok(file.write_all(&bytes)?))?;
    Ok(ExitCode::SUCCESS)
}

/// The archive of `files`, in the order given.
pub fn pack(files: &[(String, PathBuf)]) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new());
    for (name, path) in files {
        let content = std::fs::read(path).with_context(|| format!("reading {} for `{name}`", path.display()))?;
        writer.file(name, &content)?;
    }
    Ok(writer.finish()?)
}
