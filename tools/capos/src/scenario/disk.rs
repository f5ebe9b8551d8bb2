//! Disks of a scenario, which keep what the guest writes from one boot of the scenario to the next.

use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use capos_host::tool;
use capos_vm::disk_step::DiskStep;
use capos_vm::qemu::{Bus, Disk};
use capos_vm::served::{Seed, Served};
use serde::Deserialize;

use crate::data::{Size, create_blank};

/// `[[runner.disk]]` of `config.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSettings {
    /// Its file among the results is `NAME.img`.
    pub name: String,
    /// How it is attached.
    pub bus: Bus,
    /// Its size; left out: the file's.
    pub size: Option<Size>,
    /// Its first bytes at the first boot, by the file's path from the scenario's folder; left out: zeros. A file whose name ends in
    /// `.gz` is decompressed, and needs a size.
    pub file: Option<PathBuf>,
    /// Whether the runner is the disk: it can fail, and a power cut loses what was not flushed.
    #[serde(default)]
    pub served: bool,
    /// Further properties of QEMU's drive.
    #[serde(default)]
    pub drive: String,
    /// Further properties of its device.
    #[serde(default)]
    pub device: String,
}

/// Checks the disks of a scenario.
///
/// # Errors
/// Which of them cannot be made, and why.
pub fn check(disks: &[DiskSettings], folder: &Path) -> Result<()> {
    for (index, disk) in disks.iter().enumerate() {
        let name = &disk.name;
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        ensure!(
            !name.is_empty() && name.chars().all(plain),
            "the disk `{name}`: a name has letters, digits, `-` and `_`"
        );
        let earlier = disks.iter().take(index).any(|other| other.name == *name);
        ensure!(!earlier, "there are two disks `{name}`");
        match (&disk.file, disk.size) {
            (None, None) => anyhow::bail!("the disk `{name}` needs a `size`, a `file`, or both"),
            (None, Some(_)) => {}
            (Some(file), size) => {
                let file = folder.join(file);
                ensure!(
                    size.is_some() || !is_compressed(&file),
                    "the disk `{name}`: a compressed `file` needs a `size`"
                );
                let bytes = file.metadata().with_context(|| format!("the disk `{name}`: {}", file.display()))?.len();
                let size = size.map_or(bytes, |size| size.0);
                ensure!(bytes <= size, "the disk `{name}`: {} has {bytes} bytes, more than its size", file.display());
                ensure!(size > 0 && size % 512 == 0, "the disk `{name}` has {size} bytes, no multiple of 512");
            }
        }
    }
    Ok(())
}

/// The disks of a running scenario.
#[derive(Default)]
pub struct Made {
    /// As the machine has them.
    pub disks: Vec<Disk>,
    /// Their names, and what serves those that the runner serves.
    means: Vec<(String, Option<Served>)>,
    /// Those that stop at a request, before the next power cut.
    stopping: RefCell<Vec<String>>,
}

impl Made {
    /// What serves a disk.
    ///
    /// # Errors
    /// There is no such disk, or QEMU reads its file.
    pub fn served(&self, name: &str) -> Result<&Served> {
        let (_, served) =
            self.means.iter().find(|(known, _)| known == name).with_context(|| format!("there is no disk `{name}`"))?;
        served.as_ref().with_context(|| format!("the disk `{name}` needs `served = true`"))
    }

    /// Takes a step of the script.
    ///
    /// # Errors
    /// There is no such disk, or it cannot be changed so.
    pub fn step(&self, name: &str, step: &DiskStep, runs: bool) -> Result<()> {
        if let DiskStep::Mood(mood) = step {
            self.served(name)?.set_mood(*mood);
            return Ok(());
        }
        if let DiskStep::Stop(requests) = step {
            self.served(name)?.stop_before(*requests);
            self.stopping.borrow_mut().push(name.to_owned());
            return Ok(());
        }
        ensure!(!runs, "a disk's content is changed while no machine runs, after `power-cut`");
        let at = self.means.iter().position(|(known, _)| known == name);
        let disk = at.and_then(|at| self.disks.get(at)).with_context(|| format!("there is no disk `{name}`"))?;
        step.change(&disk.file)
    }

    /// Waits until those disks have stopped that are to stop at a request.
    ///
    /// # Errors
    /// Which of them has not.
    pub fn wait_stopped(&self, deadline: Instant) -> Result<()> {
        for name in self.stopping.take() {
            let served = self.served(&name)?;
            ensure!(served.wait_stopped(deadline), "the disk `{name}` has got {} requests only", served.requests());
            served.stop_before(u64::MAX);
        }
        Ok(())
    }

    /// The power is off: what the disks have not written to their media is lost or not, by the seed.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn cut(&self, seed: &mut Seed) -> Result<()> {
        self.means.iter().filter_map(|(_, served)| served.as_ref()).try_for_each(|served| served.cut(seed))
    }
}

fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "gz")
}

/// Copies a file, and decompresses it if it is compressed.
fn copy(content: &Path, file: &Path) -> Result<()> {
    let context = || format!("copying {}", content.display());
    if !is_compressed(content) {
        return std::fs::copy(content, file).map(drop).with_context(context);
    }
    let unpacked = File::create(file).with_context(context)?;
    let mut gzip = Command::new(tool::find(&["gzip"], "gzip")?);
    tool::run(gzip.arg("-dc").arg(content).stdout(unpacked)).with_context(context)
}

/// Makes the disks in `out` as they are before the first boot.
///
/// # Errors
/// A file cannot be read or written.
pub fn create(disks: &[DiskSettings], folder: &Path, out: &Path) -> Result<Made> {
    let mut made = Made::default();
    for disk in disks {
        let file = out.join(format!("{}.img", disk.name));
        if file.exists() {
            std::fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        }
        match (&disk.file, disk.size) {
            (Some(content), size) => {
                copy(&folder.join(content), &file)?;
                if let Some(Size(bytes)) = size {
                    let held = file.metadata().with_context(|| file.display().to_string())?.len();
                    let name = &disk.name;
                    ensure!(held <= bytes, "the disk `{name}`: its file has {held} bytes, more than its size");
                    let opened = File::options().write(true).open(&file);
                    opened
                        .and_then(|file| file.set_len(bytes))
                        .with_context(|| format!("making {}", file.display()))?;
                }
            }
            (None, size) => drop(create_blank(&file, size.unwrap_or_default())?),
        }
        let served = disk.served.then(|| Served::start(&file)).transpose()?;
        made.disks.push(Disk {
            file,
            served: served.as_ref().map(Served::socket),
            bus: disk.bus,
            drive: disk.drive.clone(),
            device: disk.device.clone(),
        });
        made.means.push((disk.name.clone(), served));
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<DiskSettings>> {
        #[derive(Deserialize)]
        struct Disks {
            disk: Vec<DiskSettings>,
        }
        Ok(toml::from_str::<Disks>(text)?.disk)
    }

    #[test]
    fn disks_are_made_anew_and_from_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("first.bin"), b"capOS").unwrap();
        let disks = read(
            "[[disk]]\nname = \"a\"\nbus = \"virtio\"\nsize = \"8M\"\n\
             [[disk]]\nname = \"b\"\nbus = \"sata\"\nsize = \"1M\"\nfile = \"first.bin\"\n",
        )
        .unwrap();
        check(&disks, folder.path()).unwrap();
        let out = tempfile::tempdir().unwrap();
        std::fs::write(out.path().join("a.img"), b"of an earlier run").unwrap();
        let made = create(&disks, folder.path(), out.path()).unwrap().disks;
        assert_eq!((made[0].bus, made[1].bus), (Bus::Virtio, Bus::Sata));
        let blank = std::fs::read(&made[0].file).unwrap();
        assert!(blank.len() == 8 << 20 && blank.iter().all(|byte| *byte == 0));
        let filled = std::fs::read(&made[1].file).unwrap();
        assert!(filled.len() == 1 << 20 && filled.starts_with(b"capOS\0"));
        // A compressed file is decompressed.
        tool::run(Command::new("gzip").arg(folder.path().join("first.bin"))).unwrap();
        let compressed =
            |size| read(&format!("[[disk]]\nname = \"c\"\nbus = \"sata\"\n{size}file = \"first.bin.gz\"\n"));
        let disks = compressed("size = \"1M\"\n").unwrap();
        check(&disks, folder.path()).unwrap();
        let made = create(&disks, folder.path(), out.path()).unwrap().disks;
        assert!(std::fs::read(&made[0].file).unwrap() == filled);
        std::fs::write(folder.path().join("first.bin"), vec![1; 2 << 20]).unwrap();
        tool::run(Command::new("gzip").arg("--force").arg(folder.path().join("first.bin"))).unwrap();
        let cut = create(&disks, folder.path(), out.path()).map(drop).unwrap_err();
        assert!(cut.to_string().contains("more than its size"), "{cut}");
        let error = check(&compressed("").unwrap(), folder.path()).unwrap_err();
        assert!(error.to_string().contains("needs a `size`"), "{error}");
    }

    #[test]
    fn mistakes_name_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("odd.bin"), b"capOS").unwrap();
        for (text, part) in [
            ("name = \"a\"\nbus = \"virtio\"", "needs a `size`"),
            ("name = \"../a\"\nbus = \"virtio\"\nsize = \"1M\"", "letters, digits"),
            ("name = \"a\"\nbus = \"virtio\"\nfile = \"none\"", "none"),
            ("name = \"a\"\nbus = \"virtio\"\nfile = \"odd.bin\"", "no multiple"),
            ("name = \"a\"\nbus = \"scsi\"\nsize = \"1M\"", "scsi"),
            ("name = \"a\"\nbus = \"sata\"\nsize = \"1X\"", "1X"),
        ] {
            let error = read(&format!("[[disk]]\n{text}\n")).and_then(|disks| check(&disks, folder.path()));
            let error = format!("{:#}", error.unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
        let twice = "[[disk]]\nname = \"a\"\nbus = \"sata\"\nsize = \"1M\"\n".repeat(2);
        let error = read(&twice).and_then(|disks| check(&disks, folder.path())).unwrap_err();
        assert!(error.to_string().contains("two disks `a`"));
    }
}
