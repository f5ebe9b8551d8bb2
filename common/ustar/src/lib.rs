//! POSIX ustar archives, for writers that have no file system under them and readers that trust no header.
//!
//! An archive is, for each file, one header block, the content, and zeros up to the next block; two zero
//! blocks end it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

mod reader;

pub use reader::{ArchiveError, Entry, Name, entries, find};

/// Bytes of a block.
pub const BLOCK: usize = 512;
/// The end of an archive.
pub const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Why a file does not fit into an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UstarError {
    /// The path cannot be cut into a prefix of at most 155 and a name of at most 100 bytes.
    NameTooLong,
    /// 8 GiB or more.
    TooLarge,
}

impl core::fmt::Display for UstarError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NameTooLong => "the path is too long for a ustar archive",
            Self::TooLarge => "the file is too large for a ustar archive",
        })
    }
}

impl core::error::Error for UstarError {}

/// Zeros that follow a content of this length, in bytes.
#[must_use]
pub const fn padding(bytes: usize) -> usize {
    bytes.wrapping_neg() & 511
}

fn put(block: &mut [u8; BLOCK], at: usize, bytes: &[u8]) {
    for (place, byte) in block.iter_mut().skip(at).zip(bytes) {
        *place = *byte;
    }
}

fn octal(block: &mut [u8; BLOCK], at: usize, digits: usize, value: u64) {
    let mut left = value;
    for place in block.iter_mut().skip(at).take(digits).rev() {
        *place = b'0' | (left & 7).to_le_bytes()[0];
        left >>= 3;
    }
}

/// The header of a regular file.
///
/// # Errors
/// [`UstarError`].
pub fn file_header(path: &str, bytes: u64) -> Result<[u8; BLOCK], UstarError> {
    if bytes >= 1 << 33 {
        return Err(UstarError::TooLarge);
    }
    let (prefix, name) = if path.len() <= 100 {
        ("", path)
    } else {
        path.char_indices()
            .filter(|(at, letter)| *letter == '/' && *at <= 155)
            .filter_map(|(at, _)| Some((path.get(..at)?, path.get(at.checked_add(1)?..)?)))
            .find(|(_, name)| name.len() <= 100 && !name.is_empty())
            .ok_or(UstarError::NameTooLong)?
    };
    let mut block = [0; BLOCK];
    put(&mut block, 0, name.as_bytes());
    octal(&mut block, 100, 7, 0o644);
    octal(&mut block, 108, 7, 0);
    octal(&mut block, 116, 7, 0);
    octal(&mut block, 124, 11, bytes);
    octal(&mut block, 136, 11, 0);
    put(&mut block, 148, b"        ");
    put(&mut block, 156, b"0");
    put(&mut block, 257, b"ustar\x0000");
    put(&mut block, 345, prefix.as_bytes());
    let sum = block.iter().fold(0_u64, |sum, byte| sum.saturating_add(u64::from(*byte)));
    octal(&mut block, 148, 6, sum);
    put(&mut block, 154, b"\0 ");
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn tar_reads_what_is_written() {
        let long = format!("home/{}/{}", "d".repeat(90), "n".repeat(60));
        let mut archive = Vec::new();
        for (path, content) in [("audit.jsonl", "{}\n"), (long.as_str(), "x"), ("empty", "")] {
            archive.extend(file_header(path, content.len() as u64).unwrap());
            archive.extend(content.as_bytes());
            archive.extend(vec![0; padding(content.len())]);
        }
        archive.extend(END);
        let path = std::env::temp_dir().join(format!("capos-ustar-{}.tar", std::process::id()));
        std::fs::write(&path, &archive).unwrap();
        let listed = Command::new("tar").arg("-tvf").arg(&path).output().unwrap();
        std::fs::remove_file(&path).unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.status.success(), "{text}");
        assert!(text.contains("audit.jsonl") && text.contains(&long) && text.contains(" 3 "), "{text}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(file_header(&"x".repeat(101), 0), Err(UstarError::NameTooLong));
        assert_eq!(file_header("x", 1 << 33), Err(UstarError::TooLarge));
        assert_eq!(padding(0), 0);
        assert_eq!(padding(1), 511);
        assert_eq!(padding(512), 0);
    }
}
