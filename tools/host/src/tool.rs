//! Running the host's programs: finding them, and reporting why one failed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The first of `names` that is on the search path; otherwise the error names Debian's `package`.
pub fn find(names: &[&str], package: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let candidates = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.into_iter().find(|path| path.is_file()).with_context(|| {
        format!("`{}` is not installed; on Debian: apt-get install {package}", names.first().copied().unwrap_or(""))
    })
}

/// Runs a command to its end; when it fails, its output is the error.
pub fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{program} failed ({}):\n{}", output.status, String::from_utf8_lossy(&said).trim_end());
    }
    Ok(())
}
