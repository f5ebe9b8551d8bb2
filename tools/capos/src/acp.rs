//! `capos acp`: the agent of a machine in an editor.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use capos_acp::{End, Login, serve};
use capos_client_protocol::{Secret, limits};
use capos_vm::accel;
use capos_vm::for_client::Console;
use capos_vm::qemu::{Machine, Running};

use crate::build::system::System;
use crate::data::DataDisk;
use crate::run;

/// How long QEMU may take to make the client's socket.
const SOCKET: Duration = Duration::from_secs(10);
/// The environment variable with a passphrase.
const VARIABLE: &str = "CAPOS_PASSPHRASE";

/// Connect an editor to a machine: the Agent Client Protocol on standard input and output.
///
/// An editor starts this command as its agent. It works with a machine that runs (--socket), or with one of its own, which
/// is turned off when the editor is done (--iso). A machine has one session at a time. What is to be told besides goes to
/// standard error. docs/clients.md says how editors are configured.
#[derive(clap::Args)]
#[group(id = "machine", required = true, multiple = false, args = ["socket", "iso"])]
pub struct Args {
    /// The client socket of a running machine: the PATH of `make run CLIENT=PATH`.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Boot this image: target/capos.iso after `make iso`.
    #[arg(long, value_name = "FILE")]
    iso: Option<PathBuf>,
    /// The user to log in as; leave it out if the machine has no users.
    #[arg(long, value_name = "NAME", env = "CAPOS_USER")]
    user: Option<String>,
    /// A file with the user's passphrase, which only you can read; without it CAPOS_PASSPHRASE has it.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    own: Own,
}

/// A machine of its own.
#[derive(clap::Args)]
struct Own {
    /// With --iso: the file of the data disk, created if there is none; without it nothing is kept.
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    data: Option<PathBuf>,
    /// With --iso: a socket to make for the console; without it the console's output goes to a file.
    #[arg(long, value_name = "PATH", conflicts_with = "socket")]
    console: Option<PathBuf>,
    /// With --iso: QEMU's accelerator [default: kvm if it works, otherwise tcg].
    #[arg(long, value_name = "NAME", env = "ACCEL", value_parser = accel::name)]
    accel: Option<String>,
    /// With --iso: memory in MiB.
    #[arg(long, value_name = "MIB", default_value_t = run::MEMORY)]
    memory: u32,
}

/// A machine that this program has started. Dropping it turns it off.
struct Started {
    running: Running,
    /// The disk stays locked until here.
    _disk: Option<DataDisk>,
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.running.kill();
    }
}

/// Boots a machine and connects to its client port.
fn boot(image: &Path, own: &Own, log: impl Fn(&str)) -> Result<(UnixStream, Started)> {
    ensure!(image.is_file(), "there is no image {}: build one with `make iso`, or name another", image.display());
    let target = System::find().ok().map(|system| system.target());
    let disk = own.data.as_deref().map(|file| DataDisk::open(file, None)).transpose()?;
    let accelerator = accel::choose(own.accel.as_deref())?;
    // A socket's path must be short, and nobody else may open it.
    let folder = tempfile::Builder::new().prefix("capos-acp-").permissions(Permissions::from_mode(0o700)).tempdir()?;
    let client = folder.path().join("client");
    let machine = Machine {
        memory: own.memory,
        cpus: run::processors(),
        disks: disk.iter().map(|disk| run::attached(&disk.file)).collect(),
        client: Some(client.clone()),
        ..Machine::new(image, &accelerator)
    };
    let console = match &own.console {
        Some(path) => Console::Socket(run::socket(path)?),
        None => Console::File(run::log_file(target.clone(), "capos-acp-console.txt")?),
    };
    let (Console::Socket(shown) | Console::File(shown)) = &console;
    let system = run::log_file(target, "capos-acp.log")?;
    log(&format!(
        "starting {} ({accelerator}); console: {}, log: {}",
        image.display(),
        shown.display(),
        system.display()
    ));
    let running = machine.start_for_client(&console, &system)?;
    let mut started = Started { running, _disk: disk };
    let deadline = Instant::now() + SOCKET;
    loop {
        match UnixStream::connect(&client) {
            Ok(stream) => {
                // No other process is to connect, and nothing is left behind if the editor kills this process.
                folder.close()?;
                return Ok((stream, started));
            }
            Err(why) => {
                if started.running.ended()?.is_some() {
                    bail!("QEMU ended at once: {}", started.running.complaint());
                }
                ensure!(Instant::now() < deadline, "QEMU made no socket for its client: {why}");
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
    }
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

/// Writes a line to standard error, which an editor may have closed.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "capos acp: {line}");
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<ExitCode> {
    let (machine, started) = match (&args.socket, &args.iso) {
        (_, Some(image)) => boot(image, &args.own, tell).map(|(machine, started)| (machine, Some(started)))?,
        (socket, None) => {
            let socket = socket.as_deref().context("name a machine: --socket PATH or --iso FILE")?;
            let machine = UnixStream::connect(socket).with_context(|| {
                format!(
                    "no machine listens at {0}: start one with `make run CLIENT={0}`, or name the socket of one that runs",
                    socket.display()
                )
            })?;
            (machine, None)
        }
    };
    let file = args.passphrase_file;
    let passphrase = Box::new(move || passphrase(file.as_deref(), std::env::var(VARIABLE).ok()));
    let login = Login { user: args.user, passphrase };
    let (from, to) = (machine.try_clone()?, machine.try_clone()?);
    let end = serve((std::io::stdin(), std::io::stdout()), (from, to), login, tell);
    let _ = machine.shutdown(Shutdown::Both);
    drop(started);
    Ok(match end {
        End::Done => ExitCode::SUCCESS,
        End::Lost(_) => ExitCode::FAILURE,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
