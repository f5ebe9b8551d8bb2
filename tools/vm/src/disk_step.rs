//! The step `disk` of a script: a disk fails, or somebody who has it in hand changes it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::served::Mood;

/// Bytes of a block, in which places on a disk are counted.
const BLOCK: u64 = 4096;

/// What happens to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskStep {
    /// It behaves so from now on. Only of a disk that the runner serves.
    Mood(Mood),
    /// It stops before it does the request of this number from now on, and the next power cut waits for that. Only of a disk
    /// that the runner serves.
    Stop(u64),
    /// The lowest bit of the byte at this offset is inverted.
    Flip(u64),
    /// Two blocks change their places.
    Swap(u64, u64),
    /// What lies behind this number of bytes is cut off.
    Cut(u64),
    /// Its content is kept under a name, for [`Self::Restore`].
    Save(String),
    /// This many blocks from the first on are what they were when it was kept under this name.
    Restore(String, u64, u64),
    /// A blank disk of the same size is in its place.
    Blank,
    /// Its content must be what it was when it was kept under this name.
    Same(String),
    /// Its content becomes that of another disk.
    Copy(String),
}

/// Reads what follows `disk NAME`.
///
/// # Errors
/// What is wrong with it.
pub fn parse(words: &[&str]) -> Result<DiskStep> {
    let number = |text: &str| -> Result<u64> {
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        parsed.with_context(|| format!("`{text}` is no number"))
    };
    let plain = |name: &str| -> Result<String> {
        ensure!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-'), "`{name}` is no name");
        Ok(name.to_owned())
    };
    Ok(match words {
        ["well"] => DiskStep::Mood(Mood::Well),
        ["reads-fail"] => DiskStep::Mood(Mood::ReadsFail),
        ["unreadable", offset] => DiskStep::Mood(Mood::Unreadable(number(offset)?)),
        ["writes-fail"] => DiskStep::Mood(Mood::WritesFail),
        ["flushes-fail"] => DiskStep::Mood(Mood::FlushesFail),
        ["silent"] => DiskStep::Mood(Mood::Silent),
        ["late", milliseconds] => DiskStep::Mood(Mood::Late(Duration::from_millis(number(milliseconds)?))),
        ["stops", requests] => DiskStep::Stop(number(requests)?),
        ["flip", offset] => DiskStep::Flip(number(offset)?),
        ["swap", one, other] => DiskStep::Swap(number(one)?, number(other)?),
        ["cut", bytes] => DiskStep::Cut(number(bytes)?),
        ["save", name] => DiskStep::Save(plain(name)?),
        ["restore", name, first, count] => DiskStep::Restore(plain(name)?, number(first)?, number(count)?),
        ["same", name] => DiskStep::Same(plain(name)?),
        ["blank"] => DiskStep::Blank,
        ["copy", other] => DiskStep::Copy(plain(other)?),
        _ => bail!(
            "after the disk's name comes well, reads-fail, unreadable OFFSET, writes-fail, flushes-fail, silent, late MILLISECONDS, \
             stops REQUESTS, flip OFFSET, swap BLOCK BLOCK, cut BYTES, save NAME, restore NAME BLOCK COUNT, same NAME, blank, \
             or copy DISK"
        ),
    })
}

fn read(file: &File, block: u64, count: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(count.saturating_mul(BLOCK))?];
    file.read_exact_at(&mut bytes, block.saturating_mul(BLOCK)).context("reading the disk")?;
    Ok(bytes)
}

impl DiskStep {
    /// Changes the content of the disk that this file holds, while no machine uses it.
    ///
    /// # Errors
    /// The place lies beyond the disk, nothing was kept, or the file cannot be changed.
    pub fn change(&self, path: &Path) -> Result<()> {
        let saved = |name: &str| path.with_extension(format!("{name}.saved"));
        let open = |path: &Path| {
            let file = File::options().read(true).write(true).open(path);
            file.with_context(|| format!("opening {}", path.display()))
        };
        let file = open(path)?;
        match self {
            Self::Mood(_) | Self::Stop(_) => {}
            Self::Same(name) => {
                let kept = std::fs::read(saved(name)).context("nothing was kept under this name")?;
                let blocks = |bytes: &[u8]| bytes.chunks(BLOCK as usize).map(<[u8]>::to_vec).collect::<Vec<_>>();
                let (kept, now) = (blocks(&kept), blocks(&std::fs::read(path)?));
                let changed = kept.iter().zip(&now).filter(|(one, other)| one != other).count();
                let changed = changed + kept.len().abs_diff(now.len());
                ensure!(changed == 0, "{changed} of its blocks have changed");
            }
            Self::Flip(offset) => {
                let mut byte = [0];
                file.read_exact_at(&mut byte, *offset).context("reading the disk")?;
                file.write_all_at(&byte.map(|byte| byte ^ 1), *offset)?;
            }
            Self::Swap(one, other) => {
                let (first, second) = (read(&file, *one, 1)?, read(&file, *other, 1)?);
                ensure!(first != second, "the blocks {one} and {other} are equal");
                file.write_all_at(&second, one.saturating_mul(BLOCK))?;
                file.write_all_at(&first, other.saturating_mul(BLOCK))?;
            }
            Self::Cut(bytes) => {
                ensure!(*bytes < file.metadata()?.len(), "the disk has no more than {bytes} bytes");
                file.set_len(*bytes)?;
            }
            Self::Save(name) => drop(std::fs::copy(path, saved(name))?),
            Self::Restore(name, first, count) => {
                let kept = read(&open(&saved(name)).context("nothing was kept under this name")?, *first, *count)?;
                file.set_len(file.metadata()?.len().max(first.saturating_add(*count).saturating_mul(BLOCK)))?;
                ensure!(kept != read(&file, *first, *count)?, "these blocks are what they were");
                file.write_all_at(&kept, first.saturating_mul(BLOCK))?;
            }
            Self::Blank => {
                let bytes = file.metadata()?.len();
                file.set_len(0)?;
                file.set_len(bytes)?;
            }
            Self::Copy(other) => drop(std::fs::copy(path.with_file_name(format!("{other}.img")), path)?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_changed_as_the_step_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.img");
        let content: Vec<u8> = (1..=4_u8).flat_map(|block| [block * 2; 4096]).collect();
        std::fs::write(&path, &content).unwrap();
        let change = |step: &str| parse(&step.split(' ').collect::<Vec<_>>()).and_then(|step| step.change(&path));
        let firsts = || std::fs::read(&path).unwrap().chunks(4096).map(|block| block[0]).collect::<Vec<_>>();
        change("save old").unwrap();
        change("same old").unwrap();
        change("flip 0x1000").unwrap();
        assert_eq!(firsts(), [2, 5, 6, 8]);
        change("swap 0 3").unwrap();
        assert_eq!(firsts(), [8, 5, 6, 2]);
        change("restore old 1 2").unwrap();
        assert_eq!(firsts(), [8, 4, 6, 2]);
        change("cut 8192").unwrap();
        assert_eq!(firsts(), [8, 4]);
        for (wrong, part) in [
            ("flip 9000", "reading"),
            ("cut 8192", "no more"),
            ("swap 0 0", "equal"),
            ("same old", "3 of its blocks"),
            ("burn", "well"),
        ] {
            let error = format!("{:#}", change(wrong).unwrap_err());
            assert!(error.contains(part), "{wrong}: {error}");
        }
        change("blank").unwrap();
        assert_eq!(firsts(), [0, 0]);
    }
}
