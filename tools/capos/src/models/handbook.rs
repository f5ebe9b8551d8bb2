//! `capos handbook`: a model file that answers from a text.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use capos_retrieval::{Handbook, Title};

use capos_host::files::write_whole;

/// Make a model file that answers from a handbook: questions with their answers and tool calls.
#[derive(clap::Args)]
pub struct Args {
    /// Text file of the handbook.
    file: PathBuf,
    /// Where to write the model file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Name of the model.
    #[arg(long)]
    name: String,
    /// License of the text.
    #[arg(long, default_value = "")]
    license: String,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("reading {}", args.file.display()))?;
    let title = Title { name: &args.name, license: &args.license };
    create(&args.out, &text, title).with_context(|| args.file.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the model file of a handbook.
pub fn create(path: &Path, text: &str, title: Title<'_>) -> Result<()> {
    let file = Handbook::parse(text)?.to_file(title);
    write_whole(path, |out| Ok(out.write_all(&file)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handbook_becomes_a_model_file_or_its_fault_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (text, out) = (folder.path().join("desk.txt"), folder.path().join("desk.gguf"));
        let args = Args { file: text.clone(), out: out.clone(), name: "desk".into(), license: String::new() };
        std::fs::write(&text, "? Who are you?\nThe help desk.\n").unwrap();
        run(&args).unwrap();
        let file = std::fs::read(&out).unwrap();
        let header = capos_gguf::Header::parse(&file, file.len() as u64).unwrap();
        assert_eq!(header.facts().name, Some("desk"));
        assert_eq!(Handbook::from_file(&header).unwrap().entries().len(), 1);
        std::fs::write(&text, "? Who are you?\n").unwrap();
        let error = format!("{:#}", run(&args).unwrap_err());
        assert!(error.contains("desk.txt") && error.contains("line 1: this question has no answer"), "{error}");
    }
}
