//! Disks of a scenario, which keep what the guest writes from one boot of the scenario to the next.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use capos_vm::qemu::{Bus, Disk};
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
    /// Its first bytes at the first boot, by the file's path from the scenario's folder; left out: zeros.
    pub file: Option<PathBuf>,
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
                let bytes = file.metadata().with_context(|| format!("the disk `{name}`: {}", file.display()))?.len();
                let size = size.map_or(bytes, |size| size.0);
                ensure!(bytes <= size, "the disk `{name}`: {} has {bytes} bytes, more than its size", file.display());
                ensure!(size > 0 && size % 512 == 0, "the disk `{name}` has {size} bytes, no multiple of 512");
            }
        }
    }
    Ok(())
}

/// Makes the disks in `out` as they are before the first boot.
///
/// # Errors
/// A file cannot be read or written.
pub fn create(disks: &[DiskSettings], folder: &Path, out: &Path) -> Result<Vec<Disk>> {
    let mut made = Vec::new();
    for disk in disks {
        let file = out.join(format!("{}.img", disk.name));
        if file.exists() {
            std::fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        }
        match (&disk.file, disk.size) {
            (Some(content), size) => {
                let content = folder.join(content);
                std::fs::copy(&content, &file).with_context(|| format!("copying {}", content.display()))?;
                if let Some(Size(bytes)) = size {
                    let opened = File::options().write(true).open(&file);
                    opened
                        .and_then(|file| file.set_len(bytes))
                        .with_context(|| format!("making {}", file.display()))?;
                }
            }
            (None, size) => drop(create_blank(&file, size.unwrap_or_default())?),
        }
        made.push(Disk { file, bus: disk.bus, drive: disk.drive.clone(), device: disk.device.clone() });
    }
    Ok(made)
}

/// Copies a disk; the machine is off.
///
/// # Errors
/// There is no such disk, or it cannot be copied.
pub fn keep(disks: &[Disk], name: &str) -> Result<()> {
    let file = image(disks, name)?;
    std::fs::copy(file, kept(file)).with_context(|| format!("copying {}", file.display())).map(drop)
}

/// Replaces a disk by its copy; the machine is off.
///
/// # Errors
/// There is no such disk, it was not copied, or it cannot be written.
pub fn put_back(disks: &[Disk], name: &str) -> Result<()> {
    let file = image(disks, name)?;
    let copy = kept(file);
    std::fs::copy(&copy, file).with_context(|| format!("copying {}; `keep-disk` makes it", copy.display())).map(drop)
}

fn kept(file: &Path) -> PathBuf {
    file.with_extension("kept.img")
}

fn image<'a>(disks: &'a [Disk], name: &str) -> Result<&'a Path> {
    let found = disks.iter().find(|disk| disk.file.file_stem().is_some_and(|stem| stem == name));
    found.map(|disk| disk.file.as_path()).with_context(|| format!("there is no disk `{name}`"))
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
        let made = create(&disks, folder.path(), out.path()).unwrap();
        assert_eq!((made[0].bus, made[1].bus), (Bus::Virtio, Bus::Sata));
        let blank = std::fs::read(&made[0].file).unwrap();
        assert!(blank.len() == 8 << 20 && blank.iter().all(|byte| *byte == 0));
        let filled = std::fs::read(&made[1].file).unwrap();
        assert!(filled.len() == 1 << 20 && filled.starts_with(b"capOS\0"));
    }

    #[test]
    fn a_disk_that_is_put_back_is_as_it_was_kept() {
        let out = tempfile::tempdir().unwrap();
        let disks =
            create(&read("[[disk]]\nname = \"a\"\nbus = \"sata\"\nsize = \"1M\"\n").unwrap(), out.path(), out.path());
        let disks = disks.unwrap();
        assert!(put_back(&disks, "a").unwrap_err().to_string().contains("`keep-disk`"));
        keep(&disks, "a").unwrap();
        let before = std::fs::read(&disks[0].file).unwrap();
        std::fs::write(&disks[0].file, b"later").unwrap();
        put_back(&disks, "a").unwrap();
        assert!(std::fs::read(&disks[0].file).unwrap() == before);
        assert!(keep(&disks, "b").unwrap_err().to_string().contains("no disk `b`"));
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
