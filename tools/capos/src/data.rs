//! The disks of `capos run`: sparse files that keep what the system writes to them.
//!
//! The host creates the data disk as zeros and never formats it. A new stick gets a FAT volume.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Deserializer};

/// Bytes of a sector, of which a size is a multiple.
const SECTOR: u64 = 512;
/// The smallest data disk, in bytes: below it a volume and its store have no room.
const LEAST: u64 = 1 << 20;
/// The largest, which file systems of the host can hold.
const MOST: u64 = 8 << 40;

/// The size of a disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl Default for Size {
    fn default() -> Self {
        Self(8 << 30)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shift = match text.as_bytes().last() {
            Some(b'K') => 10,
            Some(b'M') => 20,
            Some(b'G') => 30,
            Some(b'T') => 40,
            _ => 0,
        };
        let number = text.strip_suffix(['K', 'M', 'G', 'T']).unwrap_or(text);
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = number.parse::<u64>().ok().filter(|_| digits).and_then(|number| number.checked_mul(1 << shift));
        match bytes {
            Some(bytes) if (LEAST..=MOST).contains(&bytes) && bytes.is_multiple_of(SECTOR) => Ok(Self(bytes)),
            _ => Err(format!("`{text}` is no size of a disk: 1M to 8T, in bytes or with K, M, G or T, as in 8G")),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What `DATA` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// No data disk.
    None,
    /// The disk in this file.
    File(PathBuf),
}

impl FromStr for Choice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "none" { Self::None } else { Self::File(text.into()) })
    }
}

/// A disk that no other run uses. The lock ends with this value.
#[derive(Debug)]
pub struct DataDisk {
    /// Its path, absolute.
    pub file: PathBuf,
    /// Bytes of it.
    pub bytes: u64,
    /// Whether it was created now.
    pub created: bool,
    _locked: File,
}

impl DataDisk {
    /// The disk in `file`, created with `size` if there is none.
    ///
    /// # Errors
    /// The file cannot be a disk, or another run uses it.
    pub fn open(file: &Path, size: Option<Size>) -> Result<Self> {
        let file = std::path::absolute(file).with_context(|| file.display().to_string())?;
        has_folder(&file)?;
        let created = !file.exists();
        let opened = if created {
            create_blank(&file, size.unwrap_or_default())?
        } else {
            ensure!(file.is_file(), "{}: it is no regular file", file.display());
            let opened = OpenOptions::new().read(true).write(true).open(&file);
            opened.with_context(|| format!("opening the disk {}", file.display()))?
        };
        match opened.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "the disk {} is in use by another run; end that run, or give this one another file: DATA=FILE, DATA=none, STICK=FILE",
                file.display()
            ),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking the disk {}", file.display()));
            }
        }
        let bytes = opened.metadata()?.len();
        ensure!(
            bytes >= LEAST && bytes.is_multiple_of(SECTOR),
            "the disk {} has {bytes} bytes; a disk has at least 1 MiB, in whole sectors of {SECTOR} bytes",
            file.display()
        );
        if let Some(Size(wanted)) = size {
            ensure!(
                wanted == bytes,
                "the data disk {} has {bytes} bytes already; DATA_SIZE is for a new one. Leave it out, or name another file with DATA",
                file.display()
            );
        }
        Ok(Self { file, bytes, created, _locked: opened })
    }
}

/// A mistyped path is no reason to make folders: only that of everything built is made.
fn has_folder(file: &Path) -> Result<()> {
    let Some(folder) = file.parent() else { return Ok(()) };
    ensure!(
        folder.is_dir(),
        "the disk {}: there is no folder {}; make it first, or give another path",
        file.display(),
        folder.display()
    );
    Ok(())
}

/// The volume on a new stick: its label, and its size in sectors (256 MiB).
const STICK: (&str, &str) = ("STICK", "524288");

/// The stick in `file`. If there is no such file, it is made, with an empty FAT32 volume.
///
/// # Errors
/// The file cannot be made or cannot be a disk, or another run uses it.
pub fn stick(file: &Path) -> Result<DataDisk> {
    let file = &std::path::absolute(file).with_context(|| file.display().to_string())?;
    let made = !file.exists();
    if made {
        has_folder(file)?;
        let (label, sectors) = STICK;
        let mut format = Command::new("mformat");
        format.args(["-C", "-T", sectors, "-F", "-v", label, "-i"]).arg(file).arg("::");
        let done = format.output().context("starting mformat, which makes a stick's volume: install mtools")?;
        ensure!(done.status.success(), "making the stick: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(DataDisk { created: made, ..DataDisk::open(file, None)? })
}

/// Makes a file of zeros that takes no room on the host until it is written. It is an error if the file exists.
///
/// # Errors
/// The file cannot be made.
pub fn create_blank(file: &Path, size: Size) -> Result<File> {
    let made = (|| {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let made = OpenOptions::new().read(true).write(true).create_new(true).open(file)?;
        made.set_len(size.0)?;
        Ok::<_, std::io::Error>(made)
    })();
    made.with_context(|| format!("making the disk {}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn sizes_are_read_or_refused() {
        for (text, bytes) in
            [("8G", 8 << 30), ("1M", 1 << 20), ("2048K", 2 << 20), ("1048576", 1 << 20), ("8T", 8 << 40)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in
            ["", "G", "0", "1K", "8GB", "-1G", "+8G", "1.5G", "9T", "1048577", "99999999999999999999G", "\u{661}G"]
        {
            let error = text.parse::<Size>().unwrap_err();
            assert!(error.contains("as in 8G"), "{text}: {error}");
        }
    }

    #[test]
    fn a_disk_is_made_once_and_used_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/data.img");
        let error = format!("{:#}", DataDisk::open(&file, None).unwrap_err());
        assert!(error.contains("there is no folder") && !folder.path().join("deep").exists(), "{error}");
        assert!(stick(&file).is_err() && !folder.path().join("deep").exists());
        std::fs::create_dir(folder.path().join("deep")).unwrap();
        let disk = DataDisk::open(&file, Some(Size(4 << 20))).unwrap();
        assert!(disk.created && disk.bytes == 4 << 20);
        let error = format!("{:#}", DataDisk::open(&file, None).unwrap_err());
        assert!(error.contains("in use by another run") && error.contains("DATA=none"), "{error}");
        drop(disk);
        std::fs::write(&file, vec![7; 2 << 20]).unwrap();
        let error = format!("{:#}", DataDisk::open(&file, Some(Size(4 << 20))).unwrap_err());
        assert!(error.contains("already"), "{error}");
        let disk = DataDisk::open(&file, None).unwrap();
        assert!(!disk.created && disk.bytes == 2 << 20);
        drop(disk);
        assert!(std::fs::read(&file).unwrap().iter().all(|byte| *byte == 7), "the host writes nothing");
    }

    #[test]
    fn a_stick_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stick.img");
        let made = stick(&file).unwrap();
        assert!(made.created && made.bytes == 256 << 20);
        let error = format!("{:#}", stick(&file).unwrap_err());
        assert!(error.contains("in use by another run") && error.contains("STICK=FILE"), "{error}");
        drop(made);
        let status =
            Command::new("mcopy").arg("-i").arg(&file).arg("-").arg("::/kept.txt").stdin(Stdio::null()).status();
        assert!(status.unwrap().success());
        let found = stick(&file).unwrap();
        assert!(!found.created);
        let listed = Command::new("mdir").arg("-b").arg("-i").arg(&file).arg("::").output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("kept.txt"));
    }

    #[test]
    fn what_is_no_disk_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(DataDisk::open(folder.path(), None).is_err());
        let file = folder.path().join("notes.txt");
        std::fs::write(&file, b"mine").unwrap();
        let error = format!("{:#}", DataDisk::open(&file, None).unwrap_err());
        assert!(error.contains("at least 1 MiB"), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    }

    #[test]
    fn none_is_a_word_and_anything_else_a_file() {
        assert_eq!("none".parse(), Ok(Choice::None));
        assert_eq!("./none".parse(), Ok(Choice::File("./none".into())));
    }
}
