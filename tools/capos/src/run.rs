//! `capos run`: the system in this terminal.

use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use capos_plural::count;

use crate::build::iso::{Limine, Models, limine_dir};
use crate::build::system::{Console, System, Variant};
use crate::data::{self, Choice, DataDisk, Size};
use capos_vm::accel;
use capos_vm::qemu::{Board, Bus, Disk, Firmware, Machine, Medium};

/// The name of a run's log.
const LOG: &str = "capos-run.log";
/// Memory of the machine for other things than the named models, in MiB.
pub(crate) const MEMORY: u32 = 512;
/// Processors that it takes of a computer with more.
const MOST_CPUS: usize = 4;

/// Build and boot the system, its console in this terminal.
#[derive(clap::Args)]
pub struct Args {
    /// Boot this image instead of building one.
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// QEMU's accelerator [default: kvm if it works, otherwise tcg].
    #[arg(long, value_name = "NAME", env = "ACCEL", value_parser = accel::name)]
    accel: Option<String>,
    /// Firmware of the machine.
    #[arg(long, value_enum, default_value = "bios")]
    firmware: Firmware,
    /// Machine type.
    #[arg(long, value_enum, default_value = "q35")]
    board: Board,
    /// How the image is attached.
    #[arg(long, value_enum, default_value = "virtio")]
    medium: Medium,
    /// Memory in MiB, at least 256 [default: 512 plus the size of the models that are named].
    #[arg(long, value_name = "MIB", env = "MEMORY", value_parser = mebibytes)]
    memory: Option<u32>,
    /// Number of processors [default: as many as the host has, at most four].
    #[arg(long, value_name = "NUMBER", env = "CPUS", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Option<u32>,
    /// Boot with the Limine binary release in this folder instead of GRUB.
    #[arg(long, value_name = "DIR", env = "LIMINE_DIR", value_parser = limine_dir)]
    limine: Option<Limine>,
    /// The kernel's command line.
    #[arg(long, value_name = "TEXT", default_value = "")]
    command_line: String,
    /// The program at the console.
    #[arg(long, value_enum, env = "CONSOLE", default_value = "shell")]
    console: Console,
    /// The file of the data disk, created if there is none, or `none`; without it target/data.img.
    #[arg(long, value_name = "FILE", env = "DATA")]
    data: Option<Choice>,
    /// Size of a new data disk, in bytes or with K, M, G or T; 8G if left out.
    #[arg(long, value_name = "SIZE", env = "DATA_SIZE")]
    data_size: Option<Size>,
    /// A file that is attached as a stick, created with an empty FAT volume if there is none.
    #[arg(long, value_name = "FILE", env = "STICK")]
    stick: Option<PathBuf>,
    /// A socket at which a client, such as `capos acp`, reaches the agent; without it the machine has no port for one.
    #[arg(long, value_name = "PATH", env = "CLIENT")]
    client: Option<PathBuf>,
    #[command(flatten)]
    models: Models,
}

/// The data disk and the line about it. Outside the source there is none unless it is named.
fn data_disk(args: &Args, target: Option<&Path>) -> Result<(Option<DataDisk>, String)> {
    let file = match (&args.data, target) {
        (Some(Choice::File(file)), _) => Some(file.clone()),
        (None, Some(target)) => {
            std::fs::create_dir_all(target).with_context(|| format!("making {}", target.display()))?;
            Some(target.join("data.img"))
        }
        (Some(Choice::None), _) | (None, None) => None,
    };
    let Some(file) = file else {
        ensure!(args.data_size.is_none(), "DATA_SIZE is the size of a new data disk, and DATA=none asks for no disk");
        return Ok((None, "No data disk: nothing is kept when the machine is off.".into()));
    };
    let disk = DataDisk::open(&file, args.data_size)?;
    let new = if disk.created { ", new" } else { "" };
    let line = format!("Its data disk: {} ({} MiB{new})", disk.file.display(), disk.bytes >> 20);
    Ok((Some(disk), line))
}

/// Where a run's log goes: one file among what is built, so that runs leave no more than one behind; outside the source
/// one among the temporary files.
pub(crate) fn log_file(target: Option<PathBuf>, name: &str) -> Result<PathBuf> {
    let folder = target.unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder.join(name))
}

/// A disk as the machine has it.
pub(crate) fn attached(file: &Path) -> Disk {
    Disk { file: file.to_owned(), served: None, bus: Bus::Virtio, drive: "discard=unmap".into(), device: String::new() }
}

/// The longest path of a socket that Linux binds, in bytes.
const SOCKET_PATH: usize = 107;

/// Whether a client's socket can be at a path. This is said before anything is built.
pub(crate) fn check_socket(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "CLIENT={}: there is no folder {}; make it first", path.display(), folder.display());
    let length = path.as_os_str().len();
    ensure!(
        length <= SOCKET_PATH,
        "CLIENT={}: a socket's path has at most {SOCKET_PATH} bytes, and this one {length}",
        path.display()
    );
    match std::fs::symlink_metadata(path) {
        Ok(found) => {
            ensure!(
                found.file_type().is_socket(),
                "{} is there, and is no socket: give CLIENT another path",
                path.display()
            );
        }
        Err(why) => ensure!(why.kind() == ErrorKind::NotFound, "looking for {}: {why}", path.display()),
    }
    Ok(())
}

/// The socket of a client, which QEMU makes in place of one that an earlier machine has left. The disks of this machine are locked
/// by now, so that a second run of the same one has ended before.
pub(crate) fn socket(path: &Path) -> Result<PathBuf> {
    check_socket(path)?;
    if path.exists() {
        std::fs::remove_file(path).with_context(|| format!("removing the old socket {}", path.display()))?;
    }
    Ok(path.to_owned())
}

/// Default number of processors.
pub(crate) fn processors() -> u32 {
    let there = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    u32::try_from(there.min(MOST_CPUS)).unwrap_or(1)
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    // Said before anything is built, and before a disk is created.
    if let Some(image) = &args.image {
        ensure!(image.is_file(), "{}: there is no such image; `make iso` makes one", image.display());
    }
    args.client.as_deref().map(check_socket).transpose()?;
    let target = System::find().ok().map(|system| system.target());
    let (data, about_data) = data_disk(args, target.as_deref())?;
    let stick = args.stick.as_deref().map(data::stick).transpose()?;
    let about_stick = stick.as_ref().map(|stick| format!("\nIts stick: {}", stick.file.display())).unwrap_or_default();
    let mut memory = MEMORY;
    let image = match &args.image {
        Some(image) => image.clone(),
        None => {
            let system = System::find()?;
            let limine = Limine::folder(args.limine.as_ref())?;
            let out = system.target().join("capos.iso");
            let models = args.models.checked()?;
            memory = memory.saturating_add(models.mebibytes()?);
            let parts = system.build(false)?;
            let over = parts.pack(&models)?;
            let (command_line, console) = (args.command_line.clone(), args.console);
            let variant = Variant { limine, over, command_line, console, ..Variant::default() };
            parts.image(&variant, &out)?;
            out
        }
    };
    let memory = args.memory.unwrap_or(memory);
    let accelerator = accel::choose(args.accel.as_deref())?;
    let cpus = args.cpus.unwrap_or_else(processors);
    let machine = Machine {
        board: args.board,
        firmware: args.firmware,
        memory,
        cpus,
        medium: args.medium,
        disks: data.iter().chain(&stick).map(|disk| attached(&disk.file)).collect(),
        client: args.client.as_deref().map(socket).transpose()?,
        ..Machine::new(&image, &accelerator)
    };
    let log = log_file(target, LOG)?;
    println!(
        "Starting capOS ({accelerator}, {memory} MiB, {}). To stop the machine: Ctrl-] and then x.\nLog: {} (the next run overwrites it)\n{about_data}{about_stick}",
        count(cpus, "processor"),
        log.display()
    );
    let status = machine.console(&log)?.status().context("starting QEMU")?;
    // The disks stay locked until here.
    drop((data, stick));
    println!();
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The machine's memory, as `MEMORY` or `--memory` gives it.
fn mebibytes(text: &str) -> Result<u32, String> {
    const LEAST: u32 = 256;
    text.parse().ok().filter(|number| *number >= LEAST).ok_or_else(|| {
        format!("the machine's memory is a number of MiB, at least {LEAST}; for example MEMORY=512, or --memory 512")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_rejected_with_an_example() {
        assert_eq!(mebibytes("256"), Ok(256));
        for wrong in ["255", "10", "1G", "-1", "99999999999", ""] {
            assert!(mebibytes(wrong).unwrap_err().contains("at least 256; for example MEMORY=512"), "{wrong}");
        }
    }

    #[test]
    fn a_socket_that_cannot_be_made_is_rejected_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| format!("{:#}", socket(path).unwrap_err());
        assert!(error(&folder.path().join("none/c.sock")).contains("there is no folder"));
        assert!(error(&folder.path().join("c".repeat(120))).contains("at most 107 bytes"));
        std::fs::write(folder.path().join("file"), "x").unwrap();
        assert!(error(&folder.path().join("file")).contains("is no socket"));
        assert_eq!(socket(Path::new("capos-none.sock")).unwrap(), Path::new("capos-none.sock"));
        // A check leaves the socket of a machine that runs.
        let live = folder.path().join("live");
        let _listener = std::os::unix::net::UnixListener::bind(&live).unwrap();
        check_socket(&live).unwrap();
        assert!(live.exists());
        socket(&live).unwrap();
        assert!(!live.exists());
    }

    #[test]
    fn every_run_has_the_same_log() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        assert_eq!(log_file(Some(target.clone()), LOG).unwrap(), target.join("capos-run.log"));
        assert!(target.is_dir());
        assert_eq!(log_file(None, LOG).unwrap(), std::env::temp_dir().join("capos-run.log"));
    }
}
