//! An editor at the machine's client port: the published ACP client that `make test` installs, with `capos acp`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use capos_host::program::this_program;
use capos_vm::script::Editor;

use crate::build::system::System;

/// Where `make test-deps` installs it, below the source folder.
const PYTHON: &str = "target/acp-client/bin/python";
/// The program that does an editor's steps.
const CLIENT: &str = "tools/acp/client/client.py";

/// The Python with the client, if it is installed.
pub fn python(root: &Path) -> Option<PathBuf> {
    Some(root.join(PYTHON)).filter(|path| path.is_file())
}

/// Does the editor's steps, whose file is in `folder`, with the machine at `socket`; why they failed, if they did. What the
/// editor saw goes to `out`.
pub fn run(editor: &Editor, folder: &Path, socket: &Path, out: &Path, deadline: Instant) -> Result<Result<(), String>> {
    let system = System::find()?;
    let Some(python) = python(system.root()) else {
        return Ok(Err("the ACP client is not installed: `make test-deps` installs it".into()));
    };
    let output = File::create(out).with_context(|| format!("making {}", out.display()))?;
    let mut child = Command::new(python)
        .arg(system.root().join(CLIENT))
        .arg(folder.join(&editor.steps))
        .arg(this_program()?)
        .args(["acp", "--socket"])
        .arg(socket)
        .env("CAPOS_USER", &editor.user)
        .env("CAPOS_PASSPHRASE", &editor.passphrase)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .context("starting the editor")?;
    // The end of a process has no event that could be waited for with a limit.
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    };
    let said = std::fs::read_to_string(out).unwrap_or_default();
    let last = said.lines().last().unwrap_or_default();
    Ok(match status {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(format!("the editor failed: {last}")),
        None => Err(format!("the editor's steps did not end in time; its last line: {last}")),
    })
}

/// A folder that is removed with this value.
pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
