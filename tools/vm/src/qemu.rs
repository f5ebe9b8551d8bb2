//! One virtual machine: how QEMU is called, and a running one that is always ended.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use capos_host::tool;

/// Machine types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Board {
    /// The PC of 1996 with PCI.
    Pc,
    /// The PC of 2009 with PCI Express.
    Q35,
}

/// The firmware that starts the boot loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    /// SeaBIOS.
    Bios,
    /// OVMF.
    Uefi,
}

/// How the image is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// As a virtio disk.
    Virtio,
    /// As a disc in an optical drive: at a SATA controller on the board `q35`, at an IDE one on `pc`.
    Cdrom,
    /// As a SATA disk, on the board `q35`: the other has no controller for it.
    Sata,
}

/// A kernel by Linux's boot protocol, which QEMU starts without firmware.
#[derive(Debug, Clone)]
pub struct DirectKernel {
    /// Its file.
    pub kernel: PathBuf,
    /// The archive of its first files.
    pub initramfs: PathBuf,
    /// Its command line.
    pub command_line: String,
}

/// How a disk besides the medium is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bus {
    /// As a virtio disk.
    Virtio,
    /// At the SATA controller of [`Board::Q35`].
    Sata,
}

/// A disk besides the medium, which the guest may write.
#[derive(Debug, Clone)]
pub struct Disk {
    /// Its content, byte for byte.
    pub file: PathBuf,
    /// The socket of the program that serves it ([`crate::served`]); without it QEMU reads the file.
    pub served: Option<PathBuf>,
    /// How it is attached.
    pub bus: Bus,
    /// Further properties of QEMU's drive: `cache=writethrough`, `throttling.iops-total=10`.
    pub drive: String,
    /// Further properties of its device: `logical_block_size=4096`.
    pub device: String,
}

/// A machine to be started.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its type.
    pub board: Board,
    /// Its firmware.
    pub firmware: Firmware,
    /// Memory, in MiB.
    pub memory: u32,
    /// Processors.
    pub cpus: u32,
    /// QEMU's processor model and features.
    pub cpu: String,
    /// QEMU's accelerator.
    pub accelerator: String,
    /// The image it boots, unless QEMU starts a kernel without firmware.
    pub image: PathBuf,
    /// How the image is attached.
    pub medium: Medium,
    /// A byte of the image in whose sector every read fails.
    pub unreadable: Option<u64>,
    /// Further properties of the medium's device: `bus=…`, `queue-size=…`.
    pub medium_device: String,
    /// QEMU's words for devices that come before the medium's.
    pub devices: Vec<String>,
    /// Another image, as a virtio disk that is not booted.
    pub beside: Option<PathBuf>,
    /// Drives at the SATA controller of [`Board::Q35`] that hold the image, too, and are not booted.
    pub more_drives: Vec<Medium>,
    /// Disks that the guest may write. They come after all others.
    pub disks: Vec<Disk>,
    /// A kernel that QEMU starts in place of the image.
    pub direct: Option<DirectKernel>,
    /// Whether it counts instructions in place of time, one a nanosecond. Wants TCG.
    pub icount: bool,
    /// Whether its clock runs with the host's while all processors wait. Otherwise it jumps to the next timer, and a disk appears to be
    /// as slow as that timer.
    pub icount_waits: bool,
    /// The socket at which a client reaches the machine's COM4; none: the machine has no such port.
    pub client: Option<PathBuf>,
}

/// The byte of Ctrl-], after which QEMU listens in a terminal that it shares with the guest; Ctrl-A and Ctrl-C go to
/// the guest.
pub const ESCAPE: &str = "0x1d";

/// The last line of the SATA controller of [`Board::Q35`].
const LAST_LINE: usize = 5;

/// QEMU's name for the image's drive.
pub const MEDIUM: &str = "medium";

/// Where COM1 leads to.
pub enum Line<'a> {
    /// A socket with a listener, and a path for QEMU's own socket if the machine is to be changed while it runs
    /// ([`crate::monitor`]).
    Socket(&'a Path, Option<&'a Path>),
    /// A terminal, as a person sits at.
    Terminal(OwnedFd),
    /// Nowhere.
    Nowhere,
}

/// Where OVMF is on the distributions.
const OVMF: [&str; 5] = [
    "/usr/share/ovmf/OVMF.fd",
    "/usr/share/edk2/ovmf/OVMF_CODE.fd",
    "/usr/share/edk2/x64/OVMF.4m.fd",
    "/usr/share/edk2-ovmf/x64/OVMF.fd",
    "/usr/share/qemu/ovmf-x86_64.bin",
];

impl Machine {
    /// The default machine of `make run` and of scenarios.
    pub fn new(image: &Path, accelerator: &str) -> Self {
        Self {
            board: Board::Q35,
            firmware: Firmware::Bios,
            memory: 512,
            cpus: 1,
            cpu: "max".into(),
            accelerator: accelerator.to_owned(),
            image: image.to_owned(),
            medium: Medium::Virtio,
            medium_device: String::new(),
            devices: Vec::new(),
            unreadable: None,
            beside: None,
            more_drives: Vec::new(),
            disks: Vec::new(),
            direct: None,
            icount: false,
            icount_waits: false,
            client: None,
        }
    }

    /// QEMU's word for a file that is read only, with the sector that cannot be read.
    fn drive(image: &Path, unreadable: Option<u64>) -> Result<String> {
        /// Bytes of a sector, as blkdebug counts.
        const SECTOR: u64 = 512;
        let image = image.to_str().context("the image's path is not UTF-8")?.replace(',', ",,");
        Ok(match unreadable {
            None => format!("format=raw,readonly=on,file={image}"),
            Some(byte) => format!(
                "driver=raw,readonly=on,file.driver=blkdebug,file.inject-error.0.event=read_aio,\
                 file.inject-error.0.sector={},file.image.driver=file,file.image.filename={image}",
                byte / SECTOR
            ),
        })
    }

    /// QEMU's arguments for everything but the serial ports.
    pub fn arguments(&self) -> Result<Vec<OsString>> {
        let board = match self.board {
            Board::Pc => "pc",
            Board::Q35 => "q35",
        };
        let image = Self::drive(&self.image, self.unreadable)?;
        let mut arguments: Vec<String> = vec![
            "-machine".into(),
            format!("{board},accel={}", self.accelerator),
            "-cpu".into(),
            self.cpu.clone(),
            "-m".into(),
            format!("{}M", self.memory),
            "-smp".into(),
            self.cpus.to_string(),
            "-nodefaults".into(),
            "-vga".into(),
            "std".into(),
            "-display".into(),
            "none".into(),
            "-no-reboot".into(),
            "-device".into(),
            "virtio-rng-pci".into(),
            "-device".into(),
            "isa-debug-exit,iobase=0xf4,iosize=4".into(),
        ];
        arguments.extend(self.devices.iter().cloned());
        let more = match self.medium_device.as_str() {
            "" => String::new(),
            properties => format!(",{properties}"),
        };
        match (&self.direct, self.medium) {
            (Some(direct), _) => {
                let file = |path: &Path| path.to_str().map(str::to_owned).context("the kernel's path is not UTF-8");
                arguments.extend(["-kernel".into(), file(&direct.kernel)?]);
                arguments.extend(["-initrd".into(), file(&direct.initramfs)?]);
                arguments.extend(["-append".into(), direct.command_line.clone()]);
            }
            (None, Medium::Virtio) => {
                arguments.push("-drive".into());
                arguments.push(format!("if=none,id={MEDIUM},{image}"));
                arguments.push("-device".into());
                arguments.push(format!("virtio-blk-pci,drive={MEDIUM},bootindex=0{more}"));
            }
            (None, Medium::Cdrom) => {
                ensure!(more.is_empty(), "a disc's drive is at its usual place and has no `medium_device`");
                arguments.push("-drive".into());
                arguments.push(format!("if=ide,index=2,id={MEDIUM},media=cdrom,{image}"));
            }
            (None, Medium::Sata) => {
                arguments.push("-drive".into());
                // QEMU has no SATA disk that cannot be written, so writes go elsewhere.
                let image = image.replace("readonly=on", "snapshot=on");
                arguments.push(format!("if=none,id={MEDIUM},{image}"));
                arguments.push("-device".into());
                let bus = if more.contains(",bus=") { "" } else { ",bus=ide.0" };
                arguments.push(format!("ide-hd,drive={MEDIUM}{bus},bootindex=0{more}"));
            }
        }
        let mut sata = 3_usize.saturating_add(self.more_drives.len());
        // The medium itself is at the first of the controller's lines, or at the third.
        for (drive, line) in self.more_drives.iter().zip(3_usize..) {
            let (device, image) = match drive {
                Medium::Virtio => bail!("more drives are at the SATA controller: `cdrom` or `sata`"),
                Medium::Cdrom => ("ide-cd", image.clone()),
                Medium::Sata => ("ide-hd", image.replace("readonly=on", "snapshot=on")),
            };
            arguments.extend(["-drive".into(), format!("if=none,id=drive{line},{image}")]);
            arguments.extend(["-device".into(), format!("{device},drive=drive{line},bus=ide.{line}")]);
        }
        if let Some(beside) = &self.beside {
            arguments.push("-drive".into());
            arguments.push(format!("if=none,id=beside,{}", Self::drive(beside, None)?));
            arguments.push("-device".into());
            arguments.push("virtio-blk-pci,drive=beside".into());
            // The disc first.
            arguments.extend(["-boot".into(), "order=d".into()]);
        }
        for (number, disk) in self.disks.iter().enumerate() {
            let more = |properties: &str| if properties.is_empty() { String::new() } else { format!(",{properties}") };
            let path = disk.served.as_ref().unwrap_or(&disk.file);
            let path = path.to_str().context("the disk's path is not UTF-8")?.replace(',', ",,");
            let content = match disk.served {
                Some(_) => format!(
                    "driver=raw,werror=report,rerror=report,file.driver=nbd,file.server.type=unix,file.server.path={path}"
                ),
                None => format!("format=raw,file={path}"),
            };
            let (device, bus) = match disk.bus {
                Bus::Virtio => ("virtio-blk-pci", String::new()),
                Bus::Sata => {
                    ensure!(
                        self.board == Board::Q35 && sata <= LAST_LINE,
                        "`{}`: the SATA controller of `q35` has lines to {LAST_LINE} only, and `pc` has none",
                        disk.file.display()
                    );
                    let line = sata;
                    sata = sata.saturating_add(1);
                    ("ide-hd", format!(",bus=ide.{line}"))
                }
            };
            arguments.push("-drive".into());
            arguments.push(format!("if=none,id=disk{number},{content}{}", more(&disk.drive)));
            arguments.push("-device".into());
            arguments.push(format!("{device},drive=disk{number}{bus}{}", more(&disk.device)));
        }
        if self.icount {
            arguments.push("-icount".into());
            let sleep = if self.icount_waits { "on" } else { "off" };
            arguments.push(format!("shift=0,sleep={sleep}"));
        }
        if self.firmware == Firmware::Uefi {
            let found = OVMF.iter().find(|path| Path::new(path).is_file());
            let Some(path) = found else {
                bail!("OVMF, the UEFI firmware for QEMU, is not installed; on Debian: apt-get install ovmf");
            };
            arguments.push("-bios".into());
            arguments.push((*path).into());
        }
        Ok(arguments.into_iter().map(OsString::from).collect())
    }

    /// A command that runs the machine, without serial ports.
    pub fn command(&self) -> Result<Command> {
        let mut command = Command::new(tool::find(&["qemu-system-x86_64"], "qemu-system-x86")?);
        command.args(self.arguments()?);
        Ok(command)
    }

    /// A command that runs the machine with COM1 in the terminal that the command is started in, which controls QEMU as
    /// well after [`ESCAPE`], COM2 written to a file, and COM4 for its client if it has one.
    pub fn console(&self, log: &Path) -> Result<Command> {
        let mut command = self.screen(log)?;
        if self.client.is_some() {
            // There is no COM3.
            command.args(["-serial", "none"]);
        }
        self.listen(&mut command);
        Ok(command)
    }

    fn screen(&self, log: &Path) -> Result<Command> {
        let mut command = self.command()?;
        command.args(["-echr", ESCAPE, "-serial", "mon:stdio", "-serial"]);
        command.arg(format!("file:{}", log.display()));
        Ok(command)
    }

    /// Attaches COM4 to the socket of the machine's client, behind three other ports.
    pub(crate) fn listen(&self, command: &mut Command) {
        if let Some(socket) = &self.client {
            command.arg("-chardev").arg(format!("socket,id=client,server=on,wait=off,path={}", socket.display()));
            command.args(["-serial", "chardev:client"]);
        }
    }

    /// Starts the machine with COM2 written to a file, and a monitor at a socket: traces requested with `log` there are
    /// written to `trace`.
    pub fn start_traced(&self, log: &Path, monitor: &Path, trace: &Path) -> Result<Running> {
        let mut command = mortal(self.command()?);
        command.args(["-serial", "null", "-serial"]).arg(format!("file:{}", log.display()));
        command.arg("-monitor").arg(format!("unix:{},server=on,wait=off", monitor.display()));
        command.arg("-D").arg(trace);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(Running { child: command.spawn().context("starting QEMU")?, cut: false })
    }

    /// Starts the machine for a program at its screen, with COM2 and COM3 written to files, and COM4 for its client.
    pub fn start(&self, line: Line<'_>, log: &Path, export: &Path) -> Result<Running> {
        let qemu = match &line {
            Line::Socket(..) | Line::Nowhere => self.command()?,
            Line::Terminal(_) => self.screen(log)?,
        };
        let mut command = mortal(qemu);
        match line {
            Line::Socket(path, monitor) => {
                if let Some(monitor) = monitor {
                    command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", monitor.display()));
                }
                command.arg("-chardev").arg(format!("socket,id=terminal,server=off,path={}", path.display()));
                command.args(["-serial", "chardev:terminal"]);
                // A machine that is started again continues the log.
                command.arg("-chardev").arg(format!("file,id=log,append=on,path={}", log.display()));
                command.args(["-serial", "chardev:log"]);
                command.args(["-monitor", "none"]);
                command.stdin(Stdio::null()).stdout(Stdio::null());
            }
            Line::Terminal(terminal) => {
                command.stdin(terminal.try_clone().context("sharing the terminal")?).stdout(terminal);
            }
            Line::Nowhere => {
                command.args(["-serial", "null", "-serial"]).arg(format!("file:{}", log.display()));
                command.args(["-monitor", "none"]).stdin(Stdio::null()).stdout(Stdio::null());
            }
        }
        command.arg("-serial").arg(format!("file:{}", export.display()));
        self.listen(&mut command);
        command.stderr(Stdio::piped());
        let child = command.spawn().context("starting QEMU")?;
        Ok(Running { child, cut: false })
    }
}

/// QEMU, to be killed should this program die: `setpriv`, if it is there, asks for that and becomes QEMU.
pub(crate) fn mortal(qemu: Command) -> Command {
    let Ok(setpriv) = tool::find(&["setpriv"], "util-linux") else { return qemu };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL"]).arg(qemu.get_program()).args(qemu.get_args());
    command
}

/// A running machine; dropping it ends it.
pub struct Running {
    pub(crate) child: Child,
    pub(crate) cut: bool,
}

/// How a machine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It switched itself off.
    PoweredOff,
    /// A value was written to the debug-exit device.
    DebugExit(u32),
    /// [`Running::kill`] ended it.
    Cut,
    /// QEMU failed or was killed by somebody else.
    Failed,
}

impl End {
    fn from_status(status: ExitStatus) -> Self {
        match status.code() {
            Some(0) => Self::PoweredOff,
            // QEMU exits with twice the value plus one; 1 is also what its own errors give.
            Some(code @ 3..=255) if code % 2 == 1 => Self::DebugExit(code.unsigned_abs() / 2),
            _ => Self::Failed,
        }
    }
}

impl Running {
    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<End>> {
        let cut = self.cut;
        Ok(self.child.try_wait()?.map(|status| if cut { End::Cut } else { End::from_status(status) }))
    }

    /// Ends the machine at once, as a power failure does: the guest and QEMU do nothing more.
    pub fn kill(&mut self) -> Result<()> {
        if self.ended()?.is_none() {
            self.cut = true;
            self.child.kill().context("killing QEMU")?;
            self.child.wait().context("waiting for QEMU to end")?;
        }
        Ok(())
    }

    /// Waits for the end until `deadline`. The end of a process has no event that could be waited for with a limit,
    /// so this checks every few milliseconds. The result does not depend on the time of the check.
    pub fn wait(&mut self, deadline: Instant) -> Result<Option<End>> {
        loop {
            if let Some(end) = self.ended()? {
                return Ok(Some(end));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// QEMU's error output; call it after the end.
    pub fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut output) = self.child.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut output, &mut text);
        }
        text.trim().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(machine: &Machine) -> String {
        let words = machine.arguments().unwrap();
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_image_is_attached_read_only_and_booted() {
        let mut machine = Machine::new(Path::new("a,b.iso"), "tcg");
        assert!(
            text(&machine)
                .contains("format=raw,readonly=on,file=a,,b.iso -device virtio-blk-pci,drive=medium,bootindex=0")
        );
        machine.medium = Medium::Cdrom;
        assert!(text(&machine).contains("media=cdrom,format=raw,readonly=on,file=a,,b.iso"));
        assert!(!text(&machine).contains("virtio-blk"));
        machine.unreadable = Some(4096);
        machine.beside = Some("c.iso".into());
        let text = text(&machine);
        assert!(text.contains("inject-error.0.sector=8,file.image.driver=file,file.image.filename=a,,b.iso"), "{text}");
        assert!(text.contains("id=beside,format=raw,readonly=on,file=c.iso -device virtio-blk-pci,drive=beside"));
    }

    #[test]
    fn more_drives_are_at_lines_of_their_own() {
        let mut machine = Machine::new(Path::new("a.iso"), "tcg");
        machine.more_drives = vec![Medium::Cdrom, Medium::Sata];
        let words = text(&machine);
        let disc = "-drive if=none,id=drive3,format=raw,readonly=on,file=a.iso -device ide-cd,drive=drive3,bus=ide.3";
        let disk = "-drive if=none,id=drive4,format=raw,snapshot=on,file=a.iso -device ide-hd,drive=drive4,bus=ide.4";
        assert!(words.contains(disc) && words.contains(disk), "{words}");
        machine.more_drives = vec![Medium::Virtio];
        assert!(machine.arguments().is_err());
    }

    #[test]
    fn devices_come_before_the_medium_which_has_properties_of_its_own() {
        let mut machine = Machine::new(Path::new("a.iso"), "tcg");
        machine.devices = ["-device", "virtio-blk-pci,drive=empty"].map(String::from).into();
        machine.medium_device = "queue-size=64".into();
        let words = text(&machine);
        let (empty, medium) = (words.find("drive=empty"), words.find("drive=medium,bootindex=0,queue-size=64"));
        assert!(empty.is_some() && empty < medium, "{words}");
        machine.medium = Medium::Sata;
        machine.medium_device = "bus=third.0".into();
        assert!(text(&machine).ends_with("-device ide-hd,drive=medium,bootindex=0,bus=third.0"));
        machine.medium = Medium::Cdrom;
        assert!(machine.arguments().is_err());
    }

    #[test]
    fn disks_come_last_and_can_be_written() {
        let mut machine = Machine::new(Path::new("a.iso"), "tcg");
        machine.more_drives = vec![Medium::Sata];
        let disk = |file: &str, bus| Disk {
            file: file.into(),
            served: None,
            bus,
            drive: String::new(),
            device: String::new(),
        };
        let through =
            Disk { drive: "cache=writethrough".into(), device: "serial=x".into(), ..disk("v,w", Bus::Virtio) };
        machine.disks = vec![through, disk("s", Bus::Sata)];
        let words = text(&machine);
        let virtio = "-drive if=none,id=disk0,format=raw,file=v,,w,cache=writethrough -device virtio-blk-pci,drive=disk0,serial=x";
        let sata = "-drive if=none,id=disk1,format=raw,file=s -device ide-hd,drive=disk1,bus=ide.4";
        assert!(words.ends_with(&format!("{virtio} {sata}")), "{words}");
        machine.disks.push(disk("t", Bus::Sata));
        assert!(machine.arguments().is_ok());
        machine.disks.push(disk("u", Bus::Sata));
        assert!(format!("{:#}", machine.arguments().unwrap_err()).contains("lines to 5"));
        machine.disks = vec![disk("s", Bus::Sata)];
        machine.more_drives.clear();
        machine.board = Board::Pc;
        assert!(machine.arguments().is_err());
    }

    #[test]
    fn a_kernel_is_started_in_place_of_the_image() {
        let mut machine = Machine::new(Path::new("a.iso"), "tcg");
        machine.direct =
            Some(DirectKernel { kernel: "k".into(), initramfs: "i".into(), command_line: "quiet panic=-1".into() });
        let text = text(&machine);
        assert!(text.contains("-kernel k -initrd i -append quiet panic=-1"), "{text}");
        assert!(!text.contains("a.iso"), "{text}");
    }

    #[test]
    fn exit_codes_tell_the_end() {
        let end = |code: i32| End::from_status(std::os::unix::process::ExitStatusExt::from_raw(code << 8));
        assert_eq!(end(0), End::PoweredOff);
        assert_eq!(end(1), End::Failed);
        assert_eq!(end(33), End::DebugExit(16));
        assert_eq!(end(137), End::DebugExit(68));
        let killed: ExitStatus = std::os::unix::process::ExitStatusExt::from_raw(9);
        assert_eq!(End::from_status(killed), End::Failed);
    }
}
