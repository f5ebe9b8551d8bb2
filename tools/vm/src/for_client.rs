//! A machine that is started for its client.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::qemu::{Machine, Running, mortal};

/// Where COM1 of a machine leads to that is started for its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Console {
    /// A socket that QEMU makes.
    Socket(PathBuf),
    /// A file.
    File(PathBuf),
}

impl Machine {
    /// Starts the machine for its client: COM1 at a socket that a person may connect to, or written to a file; COM2 written
    /// to a file; COM4 for the client.
    pub fn start_for_client(&self, console: &Console, log: &Path) -> Result<Running> {
        let mut command = mortal(self.command()?);
        match console {
            Console::Socket(path) => {
                command.arg("-chardev").arg(format!("socket,id=console,server=on,wait=off,path={}", path.display()));
                command.args(["-serial", "chardev:console"]);
            }
            Console::File(path) => {
                command.arg("-serial").arg(format!("file:{}", path.display()));
            }
        }
        command.arg("-serial").arg(format!("file:{}", log.display()));
        // There is no COM3.
        command.args(["-serial", "none"]);
        self.listen(&mut command);
        command.args(["-monitor", "none"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(Running { child: command.spawn().context("starting QEMU")?, cut: false })
    }
}
