//! The program that runs.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// A path at which the file of this program can be read and started, also after a build has replaced it. The host tests of
/// `make test` build the program that runs them again.
pub fn this_program() -> Result<PathBuf> {
    let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    if running.exists() { Ok(running) } else { std::env::current_exe().context("finding this program") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Runs itself once more, in a copy of this program.
    #[test]
    fn a_program_whose_file_was_removed_reads_and_starts_itself() {
        const COPY: &str = "CAPOS_HOST_REMOVES_ITSELF";
        if let Some(copy) = std::env::var_os(COPY) {
            std::fs::remove_file(&copy).unwrap();
            assert!(!std::fs::read(this_program().unwrap()).unwrap().is_empty());
            assert!(Command::new(this_program().unwrap()).arg("--list").output().unwrap().status.success());
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let name = "program::tests::a_program_whose_file_was_removed_reads_and_starts_itself";
        let said = Command::new(&copy).args(["--exact", name]).env(COPY, &copy).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
        assert!(String::from_utf8_lossy(&said.stdout).contains("1 passed"));
        assert!(!copy.exists());
    }
}
