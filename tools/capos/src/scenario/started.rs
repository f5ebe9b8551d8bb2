//! A machine that is started for a scenario, and what leads to it.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::checks::screen;
use super::editor;
use capos_vm::expect::{Stripper, Terminal};
use capos_vm::monitor::Monitor;
use capos_vm::qemu::{self, Machine, Running};

/// The name of a client's socket.
pub const CLIENT: &str = "client";

/// What a machine is to have in addition to its terminal.
#[derive(Clone, Copy)]
pub struct Wants {
    /// QEMU's monitor, since the machine is changed while it runs.
    pub monitor: bool,
    pub client: bool,
}

/// What it has.
#[derive(Default)]
pub struct More {
    pub monitor: Option<Monitor>,
    /// The line of its client.
    pub client: Option<Terminal>,
    /// Where its socket is.
    pub folder: Option<editor::Folder>,
}

/// A started machine: the line of its terminal, QEMU, and what else there is.
pub type Started = (UnixStream, Running, More);

/// Starts the machine.
pub fn start(machine: &Machine, log: &Path, stream: &Path, wants: Wants, deadline: Instant) -> Result<Started> {
    // A socket's path must be short, so it is not in the output folder.
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("capos-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let kept = editor::Folder(folder.clone());
    let socket = folder.join("terminal");
    let listener = UnixListener::bind(&socket).context("making the terminal's socket")?;
    let monitor = wants.monitor.then(|| folder.join("monitor"));
    let client = wants.client.then(|| folder.join(CLIENT));
    let machine = Machine { client: client.clone(), ..machine.clone() };
    let mut running = machine.start(qemu::Line::Socket(&socket, monitor.as_deref()), log, stream)?;
    let line = accept(&listener, &mut running, deadline)?;
    // QEMU makes its own socket before it connects to this one.
    let monitor = monitor.map(|socket| Monitor::connect(&socket)).transpose()?;
    let client = client.map(|socket| connect(&socket, &mut running, deadline)).transpose()?;
    let client = client.map(|line| Terminal::new(line, Stripper::default())).transpose()?;
    // An editor connects later.
    let folder = client.is_some().then_some(kept);
    Ok((line, running, More { monitor, client, folder }))
}

/// Starts the machine in a new terminal and takes the other side of that.
pub fn start_in_terminal(machine: &Machine, log: &Path, stream: &Path) -> Result<(Terminal, Running)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context("making a terminal")?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).context("opening a terminal")?;
    let running = machine.start(qemu::Line::Terminal(theirs), log, stream)?;
    Ok((Terminal::new(ours, Stripper::joining(screen::ROW_MARK))?, running))
}

/// Connects to a socket that QEMU makes.
pub fn connect(socket: &Path, running: &mut Running, deadline: Instant) -> Result<UnixStream> {
    loop {
        match UnixStream::connect(socket) {
            Ok(line) => return Ok(line),
            Err(error) => {
                let missing = || format!("QEMU made no socket for its client: {error}");
                ensure!(running.ended()?.is_none() && Instant::now() < deadline, missing());
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
    }
}

/// Waits for QEMU to connect; an early end of QEMU is an error with its output.
fn accept(listener: &UnixListener, running: &mut Running, deadline: Instant) -> Result<UnixStream> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((line, _)) => {
                line.set_nonblocking(false)?;
                return Ok(line);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if running.ended()?.is_some() {
                    bail!("QEMU ended at once: {}", running.complaint());
                }
                ensure!(Instant::now() < deadline, "QEMU did not connect to its terminal");
                std::thread::park_timeout(Duration::from_millis(5));
            }
            Err(error) => return Err(error).context("waiting for QEMU"),
        }
    }
}
