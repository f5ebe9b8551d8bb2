//! `capos iso`: build everything and the image.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::build::system::{Console, System, Variant};
use crate::models::packed::PackedModels;

/// Build the system and its image.
#[derive(clap::Args)]
pub struct Args {
    /// Path of the image [default: target/capos.iso].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Boot with the Limine binary release in this folder instead of GRUB.
    #[arg(long, value_name = "DIR", env = "LIMINE_DIR", value_parser = limine_dir)]
    limine: Option<Limine>,
    /// The kernel's command line.
    #[arg(long, value_name = "TEXT", default_value = "")]
    command_line: String,
    /// The program at the console.
    #[arg(long, value_enum, env = "CONSOLE", default_value = "shell")]
    console: Console,
    #[command(flatten)]
    models: Models,
}

/// Models of a person's own.
#[derive(clap::Args)]
pub struct Models {
    /// Sign this model file and put it on the image; MODEL may name several, separated by spaces.
    /// Sessions start with the first.
    #[arg(long = "model", value_name = "FILE", env = "MODEL")]
    named: Vec<PathBuf>,
    /// Declare in the signature of the model with this file name that it can summarise a long conversation; SUMMARISES may
    /// name several, separated by spaces.
    #[arg(long, value_name = "NAME", env = "SUMMARISES", value_delimiter = ' ')]
    summarises: Vec<String>,
}

impl Models {
    /// The files, looked at.
    ///
    /// # Errors
    /// Which one cannot be put on an image, and why.
    pub fn checked(&self) -> Result<PackedModels> {
        let names: Vec<String> = self.summarises.iter().filter(|name| !name.is_empty()).cloned().collect();
        PackedModels::check(self.files())?.summarise(&names)
    }

    /// The files; an empty value, as an empty variable of make gives, names none.
    fn files(&self) -> Vec<PathBuf> {
        self.named.iter().flat_map(|named| named.to_str().map_or_else(|| vec![named.clone()], listed)).collect()
    }
}

/// The files of a list whose separator may also occur in a path. At each position it takes the longest path that is a
/// file; otherwise the text up to the next blank after `.gguf`, the ending of every model's name.
fn listed(list: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        let blanks = rest.match_indices(char::is_whitespace).map(|(at, _)| at);
        let ends: Vec<&str> = blanks.filter_map(|at| rest.get(..at)).chain([rest]).collect();
        let file = ends.iter().rev().find(|path| Path::new(path).is_file());
        let named = file.or_else(|| ends.iter().find(|path| path.ends_with(".gguf"))).unwrap_or(&rest);
        files.push(PathBuf::from(named));
        rest = rest.get(named.len()..).unwrap_or("").trim_start();
    }
    files
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
    let models = args.models.checked()?;
    let parts = system.build(false)?;
    let over = parts.pack(&models)?;
    let (command_line, console) = (args.command_line.clone(), args.console);
    let variant = Variant { limine, over, command_line, console, ..Variant::default() };
    parts.image(&variant, &out)?;
    let size = std::fs::metadata(&out)?.len();
    println!("{}: {:.1} MiB", shown(&out, system.root()).display(), size as f64 / f64::from(1 << 20));
    Ok(ExitCode::SUCCESS)
}

/// A path as a reader in the source folder would write it.
fn shown<'a>(path: &'a Path, root: &Path) -> &'a Path {
    path.strip_prefix(root).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_part_models_and_belong_to_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let [plain, blank, two] = ["plain.gguf", "a model  of mine.gguf", "plain.gguf other.gguf"].map(at);
        for file in [&plain, &blank] {
            std::fs::write(file, "").unwrap();
        }
        let files = |named: &[&str]| {
            let files = Models { named: named.iter().map(PathBuf::from).collect(), summarises: Vec::new() }.files();
            files.iter().map(|file| file.to_str().unwrap().to_owned()).collect::<Vec<String>>()
        };
        assert_eq!(files(&[&blank]), [blank.as_str()]);
        assert_eq!(files(&[&format!(" {plain} {blank}  {plain}")]), [plain.as_str(), &blank, &plain]);
        assert_eq!(files(&[&blank, &plain]), [blank.as_str(), &plain]);
        // A missing file is reported by the name that was given.
        assert_eq!(files(&["my model.gguf other.gguf"]), ["my model.gguf", "other.gguf"]);
        assert_eq!(files(&["no model"]), ["no model"]);
        assert_eq!(files(&[&two]), [plain.as_str(), "other.gguf"]);
        assert_eq!(files(&["", " "]), [""; 0]);
    }
}
