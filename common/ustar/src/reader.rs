//! Reading an archive whose every header is doubted.

use core::fmt;

use crate::BLOCK;

/// Longest name of a file that is read; longer ones take a prefix, which is refused.
const NAME: usize = 100;
/// The checksum's place, which counts as spaces in the sum.
const CHECKSUM: core::ops::Range<usize> = 148..156;

/// A file of an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    name: Name,
    /// Where its content begins in the archive.
    pub offset: u64,
    /// Bytes of its content.
    pub bytes: u64,
}

impl Entry {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.text()
    }
}

/// A file's name, kept apart from the header that it was read from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME],
    length: u8,
}

impl Name {
    fn new(field: &[u8]) -> Option<Self> {
        core::str::from_utf8(field).ok().filter(|name| !name.is_empty())?;
        let mut bytes = [0; NAME];
        bytes.get_mut(..field.len())?.copy_from_slice(field);
        Some(Self { bytes, length: u8::try_from(field.len()).ok()? })
    }

    fn text(&self) -> &str {
        self.bytes
            .get(..usize::from(self.length))
            .and_then(|bytes| core::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text(), f)
    }
}

/// An error in an archive. Places are bytes from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchiveError {
    /// No bytes at all.
    Empty,
    /// It ends within the header at this place.
    CutInHeader(u64),
    /// It ends here, where a header or the mark of the end should follow.
    NoEnd(u64),
    /// It ends within a file.
    CutInFile {
        /// The file.
        name: Name,
        /// Bytes that it should have.
        bytes: u64,
        /// Bytes of it that are there.
        present: u64,
    },
    /// The header at this place does not say that it is one.
    NoHeader(u64),
    /// The header at this place was changed.
    Checksum(u64),
    /// The header at this place has no size that is a number.
    Size(u64),
    /// The header at this place has no name that can be read.
    BadName(u64),
    /// The header at this place does not describe a regular file.
    NoFile(u64),
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::CutInHeader(at) => write!(f, "it is cut short: it ends within the header at byte {at}"),
            Self::NoEnd(at) => write!(f, "it is cut short: it ends at byte {at} without the mark of its end"),
            Self::CutInFile { name, bytes, present } => {
                write!(f, "it is cut short: of the {bytes} bytes of `{}` only {present} are there", name.text())
            }
            Self::NoHeader(at) => write!(f, "byte {at} does not begin a header of a ustar archive"),
            Self::Checksum(at) => write!(f, "the header at byte {at} does not have the checksum that it says"),
            Self::Size(at) => write!(f, "the header at byte {at} has a file size that is no octal number"),
            Self::BadName(at) => {
                write!(f, "the header at byte {at} has no file name of 1 to {NAME} bytes of UTF-8")
            }
            Self::NoFile(at) => write!(f, "the header at byte {at} describes something that is no regular file"),
        }
    }
}

impl core::error::Error for ArchiveError {}

/// A field's bytes up to the first zero.
fn field(block: &[u8; BLOCK], from: usize, length: usize) -> &[u8] {
    let raw = block.get(from..from.saturating_add(length)).unwrap_or_default();
    raw.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A number: octal digits, with spaces around them at most.
fn number(block: &[u8; BLOCK], from: usize, length: usize) -> Option<u64> {
    let digits = field(block, from, length).trim_ascii();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = char::from(*digit).to_digit(8)?;
        value.checked_mul(8)?.checked_add(u64::from(digit))
    })
}

/// The name and the size in the header at `at`; `None` for the end of the archive.
fn header(block: &[u8; BLOCK], at: u64) -> Result<Option<(Name, u64)>, ArchiveError> {
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    if field(block, 257, 5) != b"ustar" {
        return Err(ArchiveError::NoHeader(at));
    }
    let sum = block.iter().enumerate().fold(0_u64, |sum, (place, byte)| {
        sum.saturating_add(if CHECKSUM.contains(&place) { u64::from(b' ') } else { u64::from(*byte) })
    });
    if number(block, CHECKSUM.start, CHECKSUM.len()) != Some(sum) {
        return Err(ArchiveError::Checksum(at));
    }
    if !matches!(block.get(156), Some(b'0' | 0)) {
        return Err(ArchiveError::NoFile(at));
    }
    let no_prefix = Some(()).filter(|()| field(block, 345, 155).is_empty());
    let name = no_prefix.and_then(|()| Name::new(field(block, 0, NAME))).ok_or(ArchiveError::BadName(at))?;
    let size = number(block, 124, 12).ok_or(ArchiveError::Size(at))?;
    Ok(Some((name, size)))
}

/// Passes the files of an archive of `length` bytes to `each`, in their order, reading its blocks with `read`. A file
/// that is not complete is not reported.
///
/// # Errors
/// The fault of the archive, or the error of `read` or `each`.
pub fn entries<E: From<ArchiveError>>(
    length: u64,
    mut read: impl FnMut(u64, &mut [u8; BLOCK]) -> Result<(), E>,
    mut each: impl FnMut(Entry) -> Result<(), E>,
) -> Result<(), E> {
    const STEP: u64 = BLOCK as u64;
    if length == 0 {
        return Err(ArchiveError::Empty.into());
    }
    let mut block = [0; BLOCK];
    let mut at = 0_u64;
    loop {
        let left = length.saturating_sub(at);
        if left == 0 {
            return Err(ArchiveError::NoEnd(length).into());
        }
        if left < STEP {
            return Err(ArchiveError::CutInHeader(at).into());
        }
        read(at, &mut block)?;
        let Some((name, bytes)) = header(&block, at)? else { return Ok(()) };
        let present = left.saturating_sub(STEP);
        if bytes > present {
            return Err(ArchiveError::CutInFile { name, bytes, present }.into());
        }
        let offset = at.saturating_add(STEP);
        each(Entry { name, offset, bytes })?;
        // The last file's padding may be missing: its content is whole.
        at = offset.saturating_add(bytes).checked_next_multiple_of(STEP).unwrap_or(length);
    }
}

/// Where the file with this name is in an archive that is read to its end, so that all its headers are known to be
/// whole.
///
/// # Errors
/// What is wrong with the archive.
pub fn find<'a>(archive: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, ArchiveError> {
    let mut found = None;
    let part = |from: u64, bytes: u64| {
        let from = usize::try_from(from).ok()?;
        archive.get(from..from.checked_add(usize::try_from(bytes).ok()?)?)
    };
    let read = |at, block: &mut [u8; BLOCK]| {
        let bytes = part(at, BLOCK as u64).ok_or(ArchiveError::CutInHeader(at))?;
        block.copy_from_slice(bytes);
        Ok(())
    };
    entries(archive.len() as u64, read, |entry| {
        if found.is_none() && entry.name() == name {
            found = part(entry.offset, entry.bytes);
        }
        Ok::<(), ArchiveError>(())
    })?;
    Ok(found)
}
