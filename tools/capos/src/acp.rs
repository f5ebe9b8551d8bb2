//! `capos acp`: the agent of a machine in an editor.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use capos_acp::{End, Login, serve};
use capos_client_protocol::{Secret, limits};

/// The environment variable with a passphrase.
const VARIABLE: &str = "CAPOS_PASSPHRASE";

/// Connect an editor to a machine: the Agent Client Protocol on standard input and output.
///
/// An editor starts this command as its agent. It works with one machine, which has one session at a time. What is to be
/// told besides goes to standard error. See docs/clients.md for how editors are configured.
#[derive(clap::Args)]
pub struct Args {
    /// The client socket of a running machine: the PATH of `make run CLIENT=PATH`.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The user to log in as; leave it out if the machine has no users.
    #[arg(long, value_name = "NAME", env = "CAPOS_USER")]
    user: Option<String>,
    /// A file with the user's passphrase, which only you can read; without it CAPOS_PASSPHRASE has it.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

/// Reads a passphrase: the file's first line, or the variable.
fn passphrase(file: Option<&Path>, variable: Option<String>) -> Result<Option<Secret>, String> {
    let Some(path) = file else { return Ok(variable.filter(|text| !text.is_empty()).map(Secret::new)) };
    let failed = |why: std::io::Error| {
        format!(
            "the passphrase cannot be read from {}: {why}. Write it into that file, or name another",
            path.display()
        )
    };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
        return Err(format!(
            "others can read the passphrase in {0}: make it yours alone with `chmod 600 {0}`",
            path.display()
        ));
    }
    let most = u64::try_from(limits::PASSPHRASE).unwrap_or(u64::MAX);
    let mut text = String::new();
    file.take(most.saturating_add(3)).read_to_string(&mut text).map_err(failed)?;
    let line = text.lines().next().unwrap_or_default().to_owned();
    if line.is_empty() || line.len() > limits::PASSPHRASE {
        return Err(format!(
            "the first line of {} is no passphrase: it has 1 to {} bytes",
            path.display(),
            limits::PASSPHRASE
        ));
    }
    Ok(Some(Secret::new(line)))
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<ExitCode> {
    let machine = UnixStream::connect(&args.socket).with_context(|| {
        format!(
            "no machine listens at {0}: start one with `make run CLIENT={0}`, or name the socket of one that runs",
            args.socket.display()
        )
    })?;
    let file = args.passphrase_file;
    let passphrase = Box::new(move || passphrase(file.as_deref(), std::env::var(VARIABLE).ok()));
    let login = Login { user: args.user, passphrase };
    let (from, to) = (machine.try_clone()?, machine.try_clone()?);
    let editor = (std::io::stdin(), std::io::stdout());
    let end = serve(editor, (from, to), login, |line| {
        // An editor may have closed it.
        let _ = writeln!(std::io::stderr(), "capos acp: {line}");
    });
    let _ = machine.shutdown(Shutdown::Both);
    Ok(match end {
        End::Done => ExitCode::SUCCESS,
        End::Lost(_) => ExitCode::FAILURE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_passphrase_comes_from_a_file_that_others_cannot_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passphrase");
        let read = || passphrase(Some(&path), Some("other".into())).map(|secret| secret.unwrap().reveal().to_owned());
        assert!(read().unwrap_err().contains("Write it into that file"));
        fs::write(&path, "correct horse\nand more\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read().unwrap_err().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read().unwrap(), "correct horse");
        for text in [String::new(), "\n".into(), "x".repeat(1025)] {
            fs::write(&path, text).unwrap();
            assert!(read().unwrap_err().contains("1 to 1024 bytes"));
        }
    }

    #[test]
    fn a_passphrase_comes_from_the_environment_without_a_file() {
        let read = |text: Option<&str>| passphrase(None, text.map(String::from)).unwrap();
        assert_eq!(read(Some("x")).unwrap().reveal(), "x");
        assert_eq!(read(Some("")), None);
        assert_eq!(read(None), None);
    }
}
