//! QEMU's side of a running machine: changes that a person would make to the hardware.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::qemu::MEDIUM;

/// A connection to QEMU, by its machine protocol: a line of JSON for each command, answer and event.
pub struct Monitor {
    lines: BufReader<UnixStream>,
}

impl Monitor {
    /// Connects to the socket that QEMU has made.
    pub fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).context("reaching QEMU's monitor")?;
        let mut monitor = Self { lines: BufReader::new(stream) };
        monitor.command(&json!({"execute": "qmp_capabilities"}))?;
        Ok(monitor)
    }

    /// Takes the image's disc out of its drive, whether the system has locked that or not.
    pub fn eject(&mut self) -> Result<()> {
        self.command(&json!({"execute": "eject", "arguments": {"device": MEDIUM, "force": true}}))
    }

    /// Sends a command and waits for its answer; greeting and events are passed by.
    fn command(&mut self, command: &Value) -> Result<()> {
        let mut line = command.to_string();
        line.push('\n');
        self.lines.get_mut().write_all(line.as_bytes()).context("telling QEMU")?;
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).context("hearing QEMU")? == 0 {
                bail!("QEMU ended before it answered {command}");
            }
            let answer: Value = serde_json::from_str(&line).context("hearing QEMU")?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refuses {command}: {error}");
            }
            if answer.get("return").is_some() {
                return Ok(());
            }
        }
    }
}
