//! An ISO 9660 image in memory, to be damaged at places that are found by name.

use std::path::Path;

use anyhow::{Context, Result, ensure};

const SECTOR: usize = 2048;

/// An image's bytes.
pub struct Disc {
    bytes: Vec<u8>,
}

impl Disc {
    /// Where the primary volume descriptor begins.
    pub const DESCRIPTOR: usize = 16 * SECTOR;
    /// Where the root directory's record is in it.
    pub const ROOT_RECORD: usize = Self::DESCRIPTOR + 156;

    /// Reads an image.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Self { bytes })
    }

    /// Writes it.
    pub fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, &self.bytes).with_context(|| format!("writing {}", path.display()))
    }

    fn byte(&self, at: usize) -> Result<usize> {
        self.bytes.get(at).copied().map(usize::from).context("the image is shorter than it says")
    }

    fn number(&self, at: usize) -> Result<usize> {
        let found = self.bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
        Ok(u32::from_le_bytes(found.context("the image is shorter than it says")?).try_into()?)
    }

    /// Overwrites bytes.
    pub fn put(&mut self, at: usize, new: &[u8]) -> Result<()> {
        let place = self.bytes.get_mut(at..).and_then(|rest| rest.get_mut(..new.len()));
        place.context("the image is shorter than it says")?.copy_from_slice(new);
        Ok(())
    }

    /// Gives a byte a value that it did not have.
    pub fn change(&mut self, at: usize, value: u8) -> Result<()> {
        ensure!(self.byte(at)? != usize::from(value), "byte {at} of the image is {value} already");
        self.put(at, &[value])
    }

    /// Takes the last bytes away.
    pub fn cut(&mut self, bytes: usize) -> Result<()> {
        self.bytes.truncate(self.bytes.len().checked_sub(bytes).context("the image is shorter than that")?);
        Ok(())
    }

    /// Overwrites the first occurrence of `old` with `new`, which has the same length.
    pub fn replace(&mut self, old: &[u8], new: &[u8]) -> Result<()> {
        self.replace_from(0, old, new)
    }

    /// The same from this place on.
    pub fn replace_from(&mut self, from: usize, old: &[u8], new: &[u8]) -> Result<()> {
        ensure!(old.len() == new.len(), "the texts are not of one length");
        let rest = self.bytes.get(from..).unwrap_or(&[]);
        let found = rest.windows(old.len()).position(|part| part == old);
        let at = found.with_context(|| format!("the image holds no `{}`", old.escape_ascii()))?;
        self.put(from + at, new)
    }

    /// Where the record with this path of ISO 9660's own names begins, from the root on.
    pub fn record(&self, path: &[&str]) -> Result<usize> {
        let mut record = Self::ROOT_RECORD;
        for name in path {
            let (mut at, bytes) = (self.number(record + 2)? * SECTOR, self.number(record + 10)?);
            let end = at + bytes;
            record = loop {
                ensure!(at < end, "the image has no `{name}` in `{}`", path.join("/"));
                let length = self.byte(at)?;
                if length == 0 {
                    at = (at + 1).next_multiple_of(SECTOR);
                } else if self.bytes.get(at + 33..at + 33 + self.byte(at + 32)?) == Some(name.as_bytes()) {
                    break at;
                } else {
                    at += length;
                }
            };
        }
        Ok(record)
    }

    /// Where the content of the file with that path begins.
    pub fn content(&self, path: &[&str]) -> Result<usize> {
        Ok(self.number(self.record(path)? + 2)? * SECTOR)
    }

    /// Where the system use area of that record begins, which holds its Rock Ridge entries.
    pub fn system_use(&self, path: &[&str]) -> Result<usize> {
        let record = self.record(path)?;
        Ok((record + 33 + self.byte(record + 32)?).next_multiple_of(2))
    }
}
