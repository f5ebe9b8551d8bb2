//! A program on Linux, in the same kind of machine as capOS: Debian's kernel as packaged, and the program as its first
//! process, which loads the modules that it needs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cpio;
use crate::qemu::{DirectKernel, Disk, End, Line, Machine};
use capos_host::tool;

/// Debian's package that needs the newest kernel for virtual machines.
const PACKAGE: &str = "linux-image-cloud-amd64";
/// Where a package has its kernel.
const KERNEL: &str = "./boot/vmlinuz-";
/// Modules for encrypted virtio disks, each after those that it needs. A package has them in folders below
/// `./lib/modules/VERSION/kernel`.
const MODULES: [&str; 18] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "crc32c-intel",
    "cryptd",
    "crypto_simd",
    "aesni-intel",
    "xts",
    "dm-mod",
    "dm-crypt",
    "dm-bufio",
    "xor",
    "async_tx",
    "async_xor",
    "dm-integrity",
];
/// The kernel writes to COM2, stays at its link address, and applies no mitigations that capOS does not apply either.
/// It reboots when its first process ends, which ends the machine.
const COMMAND_LINE: &str = "console=ttyS1 quiet nokaslr mitigations=off tsc=reliable panic=-1";
/// The kernel's message for a first process that ended well.
const ENDED_WELL: &str = "exitcode=0x00000000";
/// The folder of a program's files.
const HOME: &str = "home";
/// How long all of it may take, of the host's time: QEMU emulates vector arithmetic slowly.
const LIMIT: Duration = Duration::from_secs(1800);

/// Which kernel: options of every command that compares with Linux.
#[derive(clap::Args)]
pub struct KernelArgs {
    /// Linux kernel (vmlinuz) [default: Debian's, downloaded].
    #[arg(long, value_name = "FILE", env = "LINUX_KERNEL")]
    linux_kernel: Option<PathBuf>,
}

impl KernelArgs {
    /// The kernel that is given, or Debian's below `target`; an empty path gives none.
    pub fn kernel(&self, target: &Path) -> Result<PathBuf> {
        match self.linux_kernel.as_deref().filter(|path| !path.as_os_str().is_empty()) {
            Some(given) => Ok(given.to_owned()),
            None => kernel(&target.join("linux-kernel")),
        }
    }
}

/// Downloads Debian's kernel into a folder, unless it is there; the kernel's file. Nothing is installed.
fn kernel(folder: &Path) -> Result<PathBuf> {
    if let Some(kernel) = found(folder)?
        && disk_modules(&kernel).is_ok()
    {
        return Ok(kernel);
    }
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let advice = "with LINUX_KERNEL=FILE, `make` uses an existing kernel";
    let asked = Command::new(tool::find(&["apt-cache"], "apt").context(advice)?).args(["depends", PACKAGE]).output()?;
    let package = dependency(&String::from_utf8_lossy(&asked.stdout));
    let package = package.with_context(|| format!("apt does not know {PACKAGE}; run `apt-get update`; {advice}"))?;
    println!("Downloading {package}, once, into {}", folder.display());
    let mut download = Command::new(tool::find(&["apt-get"], "apt")?);
    tool::run(download.args(["download", &package]).current_dir(folder)).context(advice)?;
    for package in std::fs::read_dir(folder)? {
        let package = package?.path();
        if package.extension().is_some_and(|ending| ending == "deb") {
            unpack(&package, folder)?;
            std::fs::remove_file(&package)?;
        }
    }
    found(folder)?.with_context(|| format!("{package} has no kernel at {KERNEL}*"))
}

/// The kernel in a folder.
fn found(folder: &Path) -> Result<Option<PathBuf>> {
    let boot = folder.join("boot");
    if !boot.is_dir() {
        return Ok(None);
    }
    let mut files = std::fs::read_dir(&boot)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files.pop())
}

/// The package that another one needs, as `apt-cache depends` lists it.
fn dependency(listing: &str) -> Option<String> {
    listing.lines().find_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned)
}

/// Where the modules of a kernel are: as `boot/vmlinuz-VERSION` is to `lib/modules/VERSION`.
fn modules_folder(kernel: &Path) -> Result<PathBuf> {
    let version = kernel.file_name().and_then(|name| name.to_str()?.strip_prefix("vmlinuz-"));
    let top = kernel.parent().and_then(Path::parent);
    let (Some(version), Some(top)) = (version, top) else {
        bail!("{} is not named `boot/vmlinuz-VERSION`, so its modules are not found", kernel.display());
    };
    Ok(top.join("lib/modules").join(version).join("kernel"))
}

/// The files of a folder and of those below it, by their names.
fn files_below(folder: &Path, files: &mut BTreeMap<OsString, PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files_below(&entry.path(), files)?;
        } else {
            files.insert(entry.file_name(), entry.path());
        }
    }
    Ok(())
}

/// The modules of a kernel for encrypted virtio disks, as files for [`Guest::files`]. Loaded in the order of their names,
/// each comes after those that it needs.
pub fn disk_modules(kernel: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let (folder, mut files) = (modules_folder(kernel)?, BTreeMap::new());
    files_below(&folder, &mut files)?;
    let numbered = (10..).zip(MODULES).map(|(number, name)| {
        let file = files.get(OsStr::new(&format!("{name}.ko")));
        let file = file.with_context(|| format!("{} has no {name}.ko", folder.display()))?;
        let content = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        Ok((format!("{HOME}/{number}-{name}.ko"), content))
    });
    numbered.collect()
}

/// Takes the kernel and [`MODULES`] out of a package.
fn unpack(package: &Path, folder: &Path) -> Result<()> {
    let files = folder.join("files.tar");
    let mut list = Command::new(tool::find(&["dpkg-deb"], "dpkg")?);
    let tar = std::fs::File::create(&files)?;
    let status = list.arg("--fsys-tarfile").arg(package).stdout(tar).status().context("starting dpkg-deb")?;
    ensure!(status.success(), "dpkg-deb cannot unpack {} ({status})", package.display());
    let mut tar = Command::new(tool::find(&["tar"], "tar")?);
    tar.arg("-xf").arg(&files).arg("-C").arg(folder).args(["--wildcards", &format!("{KERNEL}*")]);
    tool::run(tar.args(MODULES.map(|name| format!("*/{name}.ko"))))?;
    std::fs::remove_file(&files)?;
    Ok(())
}

/// What runs on Linux, and in which machine.
#[derive(Default)]
pub struct Guest<'a> {
    /// Its files: by their paths, below [`HOME`].
    pub files: &'a [(&'a str, &'a [u8])],
    /// The program's arguments, separated by spaces.
    pub arguments: &'a str,
    /// The machine's disks.
    pub disks: Vec<Disk>,
    /// Whether the machine's clocks are the host's. Otherwise they count instructions.
    pub clock: bool,
}

/// Runs a static program as the first process of Linux; returns the output of it and the kernel. It finds a folder `/home` in
/// memory with its files, and nothing else.
pub fn run(kernel: &Path, program: &Path, guest: Guest<'_>, out: &Path) -> Result<String> {
    std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let program = std::fs::read(program).with_context(|| format!("reading {}", program.display()))?;
    let initramfs = out.join("initramfs.cpio");
    let files: Vec<_> = [("init", program.as_slice())].into_iter().chain(guest.files.iter().copied()).collect();
    std::fs::write(&initramfs, cpio::archive(&[HOME], &files)?)?;
    let command_line = format!("{COMMAND_LINE} -- {}", guest.arguments);
    let direct = DirectKernel { kernel: kernel.to_owned(), initramfs, command_line };
    let (disks, icount) = (guest.disks, !guest.clock);
    let mut machine = Machine { direct: Some(direct), disks, icount, ..Machine::new(Path::new(""), "tcg") };
    if icount && !machine.disks.is_empty() {
        // Copies of much data count: with ERMS Linux makes them by `rep movsb`, and each byte is an instruction.
        (machine.icount_waits, machine.cpu) = (true, "max,-erms".into());
    }
    let log = out.join("serial.log");
    let mut running = machine.start(Line::Nowhere, &log, &out.join("unused.log"))?;
    let end = running.wait(Instant::now() + LIMIT)?;
    let said = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    match end {
        Some(End::PoweredOff) if said.contains(ENDED_WELL) => Ok(said),
        Some(End::PoweredOff) => bail!("the program failed on Linux; see {}", log.display()),
        Some(_) => bail!("QEMU failed: {}", running.complaint()),
        None => bail!("Linux did not end within {} s; see {}", LIMIT.as_secs(), log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_needed_package_is_found_in_the_listing() {
        let listing = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n  Conflicts: x\n";
        assert_eq!(dependency(listing).as_deref(), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(dependency("N: Unable to locate package\n"), None);
    }

    #[test]
    fn the_newest_kernel_of_a_folder_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(found(folder.path()).unwrap(), None);
        std::fs::create_dir(folder.path().join("boot")).unwrap();
        for name in ["vmlinuz-6.1.0-55-cloud-amd64", "vmlinuz-6.1.0-56-cloud-amd64"] {
            std::fs::write(folder.path().join("boot").join(name), b"").unwrap();
        }
        let kernel = found(folder.path()).unwrap().unwrap();
        assert!(kernel.ends_with("boot/vmlinuz-6.1.0-56-cloud-amd64"));
    }
    #[test]
    fn modules_lie_where_the_kernel_does_and_are_numbered() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("boot/vmlinuz-6.1");
        assert!(disk_modules(&kernel).is_err() && disk_modules(Path::new("Image")).is_err());
        let modules = folder.path().join("lib/modules/6.1/kernel/drivers/all");
        std::fs::create_dir_all(&modules).unwrap();
        MODULES.iter().for_each(|name| std::fs::write(modules.join(format!("{name}.ko")), name).unwrap());
        let found = disk_modules(&kernel).unwrap();
        assert_eq!(found.len(), MODULES.len());
        assert!(found.is_sorted() && found.iter().zip(MODULES).all(|(found, name)| found.1 == name.as_bytes()));
        assert_eq!(found[0].0, "home/10-virtio_ring.ko");
        std::fs::remove_file(modules.join("xts.ko")).unwrap();
        assert!(format!("{:#}", disk_modules(&kernel).unwrap_err()).contains("has no xts.ko"));
    }
}
