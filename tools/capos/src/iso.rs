//! `capos iso`: build everything and the image.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::system::{System, Variant};

/// Build the system and its image.
#[derive(clap::Args)]
pub struct Args {
    /// Where to put the image; `target/capos.iso` when left out.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Boot with the Limine binary release in this folder.
    #[arg(long, value_name = "DIR", env = "LIMINE_DIR", value_parser = limine_dir)]
    limine: Option<Limine>,
    /// The kernel's command line.
    #[arg(long, value_name = "TEXT", default_value = "")]
    command_line: String,
    #[command(flatten)]
    models: Models,
}

/// Models of a person's own.
#[derive(clap::Args)]
pub struct Models {
    /// Put this model file on the image, signed; several are separated by spaces. Sessions begin with the first.
    #[arg(long = "model", value_name = "FILE", env = "MODEL", value_delimiter = ' ')]
    files: Vec<PathBuf>,
}

impl Models {
    /// The files; what is empty, as an empty variable of make is, names none.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.iter().filter(|file| !file.as_os_str().is_empty()).cloned().collect()
    }
}

/// A Limine release's folder; an empty value asks for none, as an empty variable of make does.
#[derive(Debug, Clone)]
pub struct Limine(Option<PathBuf>);

/// Reads the value of `--limine` and `LIMINE_DIR`.
pub fn limine_dir(text: &str) -> Result<Limine, String> {
    Ok(Limine((!text.is_empty()).then(|| text.into())))
}

impl Limine {
    /// The folder, made absolute.
    pub fn folder(wish: Option<&Self>) -> Result<Option<PathBuf>> {
        let folder = wish.and_then(|wish| wish.0.as_deref());
        Ok(folder.map(std::path::absolute).transpose()?)
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let out = args.out.clone().unwrap_or_else(|| system.target().join("capos.iso"));
    let limine = Limine::folder(args.limine.as_ref())?;
    let parts = system.build(false)?;
    let over = parts.pack(&args.models.files())?;
    let variant = Variant { limine, over, command_line: args.command_line.clone(), ..Variant::default() };
    parts.image(&variant, &out)?;
    let size = std::fs::metadata(&out)?.len();
    println!("{}: {:.1} MiB", shown(&out, system.root()).display(), size as f64 / f64::from(1 << 20));
    Ok(ExitCode::SUCCESS)
}

/// A path as a reader in the source folder would write it.
fn shown<'a>(path: &'a Path, root: &Path) -> &'a Path {
    path.strip_prefix(root).unwrap_or(path)
}
