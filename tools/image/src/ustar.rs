//! The part of the ustar archive format that this project uses: regular files with names up to 255 bytes.
//!
//! Both directions are here: the boot package is written by [`Writer`], the export stream of a guest is read by
//! [`entries`]. A header written here depends on nothing but name, size and mode, so equal inputs give equal bytes.

use std::io::{self, Write};

use anyhow::{Context, Result, bail, ensure};

/// Size of a header and granularity of everything in the archive, in bytes.
pub const BLOCK: usize = 512;

const NAME: std::ops::Range<usize> = 0..100;
const MODE: std::ops::Range<usize> = 100..108;
const UID: std::ops::Range<usize> = 108..116;
const GID: std::ops::Range<usize> = 116..124;
const SIZE: std::ops::Range<usize> = 124..136;
const MTIME: std::ops::Range<usize> = 136..148;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const TYPE: usize = 156;
const MAGIC: std::ops::Range<usize> = 257..265;
const PREFIX: std::ops::Range<usize> = 345..500;

/// Writes an archive entry by entry.
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Starts an archive on `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Appends one regular file. `name` is relative, at most 255 bytes, split where ustar allows it.
    pub fn file(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let header = header(name, content.len() as u64)?;
        self.out.write_all(&header)?;
        self.out.write_all(content)?;
        let padding = content.len().next_multiple_of(BLOCK) - content.len();
        self.out.write_all(&vec![0; padding])?;
        Ok(())
    }

    /// Writes the two zero blocks that end an archive and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn put(block: &mut [u8; BLOCK], at: std::ops::Range<usize>, bytes: &[u8]) -> Result<()> {
    let field = block.get_mut(at).context("field outside of the header")?;
    let field = field.get_mut(..bytes.len()).context("value is longer than its field")?;
    field.copy_from_slice(bytes);
    Ok(())
}

fn header(name: &str, size: u64) -> Result<[u8; BLOCK]> {
    let (prefix, last) = split_name(name)?;
    ensure!(size < 1 << 33, "`{name}`: {size} bytes do not fit the 11 octal digits of a ustar size");
    let mut block = [0; BLOCK];
    put(&mut block, NAME, last.as_bytes())?;
    put(&mut block, MODE, b"0000644\0")?;
    put(&mut block, UID, b"0000000\0")?;
    put(&mut block, GID, b"0000000\0")?;
    put(&mut block, SIZE, format!("{size:011o}\0").as_bytes())?;
    put(&mut block, MTIME, b"00000000000\0")?;
    put(&mut block, TYPE..TYPE + 1, b"0")?;
    put(&mut block, MAGIC, b"ustar\x0000")?;
    put(&mut block, PREFIX, prefix.as_bytes())?;
    let sum = checksum(&block);
    put(&mut block, CHECKSUM, format!("{sum:06o}\0 ").as_bytes())?;
    Ok(block)
}

/// Sum of all header bytes with the checksum field read as spaces.
fn checksum(block: &[u8; BLOCK]) -> u32 {
    block.iter().enumerate().map(|(at, &byte)| if CHECKSUM.contains(&at) { 0x20 } else { u32::from(byte) }).sum()
}

fn split_name(name: &str) -> Result<(&str, &str)> {
    check_name(name)?;
    if name.len() <= NAME.len() {
        return Ok(("", name));
    }
    let split = name
        .match_indices('/')
        .map(|(at, _)| at)
        .find(|&at| at <= PREFIX.len() && name.len() - at - 1 <= NAME.len())
        .with_context(|| format!("`{name}`: the name does not fit ustar's 155 + 100 bytes"))?;
    let (prefix, rest) = name.split_at(split);
    Ok((prefix, rest.strip_prefix('/').unwrap_or(rest)))
}

/// Refuses names that would leave the folder the archive is unpacked in.
fn check_name(name: &str) -> Result<()> {
    ensure!(!name.is_empty(), "an archive entry has an empty name");
    ensure!(!name.contains('\0'), "`{}`: the name holds a zero byte", name.escape_default());
    let bad = |part: &str| part.is_empty() || part == "." || part == "..";
    ensure!(
        !name.split('/').any(bad),
        "`{name}`: names in an archive are relative and hold no empty, `.` or `..` part"
    );
    Ok(())
}

/// One regular file of an archive.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Relative path, checked to stay below the folder it is unpacked in.
    pub name: String,
    /// The file's bytes.
    pub content: &'a [u8],
}

/// The result of reading: the files, and whether two zero blocks ended the archive.
#[derive(Debug)]
pub struct Archive<'a> {
    /// The regular files in the order of the archive.
    pub files: Vec<Entry<'a>>,
    /// False when the bytes stop before the end mark: the writer died or is still at work.
    pub complete: bool,
}

/// Reads an archive. Bytes after the end mark are ignored; a file whose bytes are not all there is left out and
/// makes the archive incomplete. Anything else that is not ustar is an error naming its offset.
pub fn entries(bytes: &[u8]) -> Result<Archive<'_>> {
    let mut files = Vec::new();
    let mut rest = bytes;
    loop {
        let offset = bytes.len() - rest.len();
        let Some((block, after)) = rest.split_first_chunk::<BLOCK>() else {
            return Ok(Archive { files, complete: false });
        };
        if block.iter().all(|&byte| byte == 0) {
            let complete = after.get(..BLOCK).is_some_and(|second| second.iter().all(|&byte| byte == 0));
            return Ok(Archive { files, complete });
        }
        let head = parse_header(block).with_context(|| format!("archive header at byte {offset}"))?;
        let size = usize::try_from(head.size).context("entry larger than this host's memory")?;
        let padded = size.checked_next_multiple_of(BLOCK).context("entry larger than this host's memory")?;
        let Some(next) = after.get(padded..) else {
            return Ok(Archive { files, complete: false });
        };
        if head.regular {
            let content = after.get(..size).context("entry is cut off")?;
            files.push(Entry { name: head.name, content });
        }
        rest = next;
    }
}

struct Header {
    name: String,
    size: u64,
    regular: bool,
}

fn parse_header(block: &[u8; BLOCK]) -> Result<Header> {
    ensure!(block.get(257..262) == Some(b"ustar".as_slice()), "no ustar magic");
    let stated = octal(field(block, CHECKSUM))?;
    let sum = checksum(block);
    ensure!(stated == u64::from(sum), "checksum {stated:#o}, the header sums to {sum:#o}");
    let text = |at| -> Result<String> {
        let bytes = field(block, at);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        Ok(std::str::from_utf8(bytes.get(..end).unwrap_or(bytes)).context("name is not UTF-8")?.to_owned())
    };
    let (prefix, last) = (text(PREFIX)?, text(NAME)?);
    let kind = block.get(TYPE).copied().unwrap_or(0);
    let name = if prefix.is_empty() { last } else { format!("{prefix}/{last}") };
    let regular = match kind {
        b'0' | 0 => true,
        b'5' => false,
        other => bail!("`{name}`: entry type {:?}, only files and folders are expected", char::from(other)),
    };
    check_name(name.trim_end_matches('/'))?;
    Ok(Header { name, size: octal(field(block, SIZE))?, regular })
}

fn field(block: &[u8; BLOCK], at: std::ops::Range<usize>) -> &[u8] {
    block.get(at).unwrap_or(&[])
}

fn octal(field: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(field).context("number is not text")?;
    let text = text.trim_matches(|c| c == '\0' || c == ' ');
    if text.is_empty() {
        return Ok(0);
    }
    u64::from_str_radix(text, 8).with_context(|| format!("`{text}` is no octal number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        writer.file("init", b"code").unwrap();
        writer.file("deep/er/file", &[7; 513]).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let bytes = sample();
        let archive = entries(&bytes).unwrap();
        assert!(archive.complete);
        assert_eq!(archive.files.len(), 2);
        assert_eq!(archive.files[0], Entry { name: "init".into(), content: b"code" });
        assert_eq!(archive.files[1].name, "deep/er/file");
        assert_eq!(archive.files[1].content, &[7; 513]);
    }

    #[test]
    fn the_system_tar_agrees() {
        let folder = tempfile::tempdir().unwrap();
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(90));
        let mut writer = Writer::new(Vec::new());
        writer.file(&long, b"far").unwrap();
        let path = folder.path().join("x.tar");
        std::fs::write(&path, writer.finish().unwrap()).unwrap();
        let listed = std::process::Command::new("tar").arg("-tf").arg(&path).output().unwrap();
        assert!(listed.status.success());
        assert_eq!(String::from_utf8(listed.stdout).unwrap().trim(), long);
    }

    #[test]
    fn a_cut_archive_is_incomplete_and_keeps_its_whole_files() {
        let bytes = sample();
        let archive = entries(&bytes[..bytes.len() - BLOCK]).unwrap();
        assert!(!archive.complete);
        let archive = entries(&bytes[..3 * BLOCK + 10]).unwrap();
        assert!(!archive.complete);
        assert_eq!(archive.files.len(), 1);
    }

    #[test]
    fn a_flipped_header_byte_is_refused() {
        let mut bytes = sample();
        bytes[0] ^= 1;
        assert!(format!("{:#}", entries(&bytes).unwrap_err()).contains("checksum"));
    }

    #[test]
    fn names_that_climb_out_are_refused() {
        let mut writer = Writer::new(Vec::new());
        for name in ["../x", "/x", "a//b", "a/./b", ""] {
            assert!(writer.file(name, b"").is_err(), "{name}");
        }
        let mut bytes = sample();
        bytes[..4].copy_from_slice(b"../x");
        let mut block: [u8; BLOCK] = bytes[..BLOCK].try_into().unwrap();
        block[NAME].fill(0);
        block[..4].copy_from_slice(b"../x");
        let sum = checksum(&block);
        block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes[..BLOCK].copy_from_slice(&block);
        assert!(entries(&bytes).is_err());
    }
}
