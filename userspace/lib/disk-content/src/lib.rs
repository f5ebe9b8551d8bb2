//! What a disk holds, by its blocks alone: neither its port nor its place among others counts.
//!
//! [`sample`] names the places of a disk that are to be read, and [`classify`] judges what was read there. The order of
//! the checks matters, since some media are several things at once: a boot medium has a partition table, an ISO 9660
//! volume and a FAT volume within. A data disk is recognised first, so that nothing else in its blocks hides it.
//!
//! A disk is [`Content::Blank`] only if every sampled byte is zero. The samples do not cover the whole disk, so a service
//! that is about to write a blank disk for the first time still has to ask.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

extern crate alloc;

mod fat;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

pub use fat::Fat;

/// The first eight bytes of a data disk.
pub const DATA_DISK: [u8; 8] = *b"CAPOSVOL";
/// Places of its version and its UUID.
const VERSION: Range<usize> = 8..12;
const UUID: Range<usize> = 16..32;

/// Bytes at the beginning of the disk that are looked at: up to the second descriptor of an ISO 9660 volume.
const HEAD: u64 = 68 << 10;
/// Bytes at its end: the copy of a GPT, and of most headers.
const TAIL: u64 = 4 << 10;
/// Bytes of each place between, and the number of these places.
const SPOT: u64 = 4 << 10;
const SPOTS: u64 = 64;

/// The first descriptor of an ISO 9660 volume (ECMA-119, section 8), and its parts.
const ISO_DESCRIPTOR: usize = 16 * 2048;
const ISO_MAGIC: &[u8] = b"\x01CD001\x01";
const ISO_LABEL: Range<usize> = 40..72;
/// The signature at the end of a boot sector.
const BOOT_SIGNATURE: [u8; 2] = [0x55, 0xaa];
const SIGNATURE_AT: Range<usize> = 510..512;
/// The table of four partitions in a boot sector, and the type of the one that stands for a GPT.
const PARTITIONS: Range<usize> = 446..510;
const PARTITION: usize = 16;
const PROTECTIVE: u8 = 0xee;
/// The head of a GPT, at the second block.
const GPT_MAGIC: &[u8] = b"EFI PART";
/// Sizes of blocks that are looked for it, in bytes.
const BLOCKS: [usize; 4] = [512, 1024, 2048, 4096];

/// The UUID of a data disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// A partition table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// The one of UEFI.
    Gpt,
    /// The one of a boot sector, with this many partitions.
    Mbr(usize),
}

/// What a disk holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A data disk of capOS: the version of its format, which may be newer than this system, and its UUID.
    DataDisk { version: u32, uuid: Uuid },
    /// An ISO 9660 volume with its name.
    Iso9660 { label: String },
    /// A FAT volume.
    Fat(Fat),
    /// A partition table.
    Partitions(Table),
    /// Zeros in every sampled place.
    Blank,
    /// Something else.
    Unknown,
}

impl Content {
    /// The content as text: a volume's name and kind. Names are printable, however they were written.
    #[must_use]
    pub fn details(&self) -> String {
        match self {
            Self::DataDisk { version, .. } => format!("format {version}"),
            Self::Iso9660 { label } => label.clone(),
            Self::Fat(fat) => fat.to_string(),
            Self::Partitions(Table::Gpt) => "GPT".into(),
            Self::Partitions(Table::Mbr(1)) => "MBR with 1 partition".into(),
            Self::Partitions(Table::Mbr(number)) => format!("MBR with {number} partitions"),
            Self::Blank | Self::Unknown => String::new(),
        }
    }
}

/// The places of a disk of this many bytes that have to be read, in order: each is whole blocks of 4,096 bytes, or ends
/// with the disk. The first is the beginning.
#[must_use]
pub fn sample(bytes: u64) -> Vec<Range<u64>> {
    let head = bytes.min(HEAD);
    let mut places = Vec::new();
    if head > 0 {
        places.push(0..head);
    }
    let aligned = |at: u64| at.saturating_sub(at % SPOT);
    let last = aligned(bytes.saturating_sub(TAIL));
    let mut end = head;
    for number in 1..SPOTS {
        let start = aligned((bytes / SPOTS).saturating_mul(number));
        if start >= end && start < last {
            end = start.saturating_add(SPOT);
            places.push(start..end);
        }
    }
    if last.max(end) < bytes {
        places.push(last.max(end)..bytes);
    }
    places
}

/// Judges a disk. `head` is what was read at the first place of [`sample`], and `others` is what was read elsewhere.
#[must_use]
pub fn classify<'a>(head: &[u8], others: impl IntoIterator<Item = &'a [u8]>) -> Content {
    if let Some((version, uuid)) = data_disk(head) {
        return Content::DataDisk { version, uuid };
    }
    if let Some(label) = iso9660(head) {
        return Content::Iso9660 { label };
    }
    if let Some(fat) = fat::parse(head) {
        return Content::Fat(fat);
    }
    if let Some(table) = partitions(head) {
        return Content::Partitions(table);
    }
    let zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    if zero(head) && others.into_iter().all(zero) { Content::Blank } else { Content::Unknown }
}

fn data_disk(head: &[u8]) -> Option<(u32, Uuid)> {
    let rest = head.strip_prefix(&DATA_DISK)?;
    let at = |place: Range<usize>| {
        let from = |at: usize| at.checked_sub(DATA_DISK.len());
        rest.get(from(place.start)?..from(place.end)?)
    };
    let version = u32::from_le_bytes(*at(VERSION)?.first_chunk()?);
    Some((version, Uuid(*at(UUID)?.first_chunk()?)))
}

fn iso9660(head: &[u8]) -> Option<String> {
    let descriptor = head.get(ISO_DESCRIPTOR..)?;
    descriptor.starts_with(ISO_MAGIC).then_some(())?;
    Some(printable(descriptor.get(ISO_LABEL)?))
}

fn partitions(head: &[u8]) -> Option<Table> {
    if BLOCKS.iter().any(|block| head.get(*block..).is_some_and(|second| second.starts_with(GPT_MAGIC))) {
        return Some(Table::Gpt);
    }
    if head.get(SIGNATURE_AT)? != BOOT_SIGNATURE {
        return None;
    }
    let mut number = 0_usize;
    for entry in head.get(PARTITIONS)?.chunks_exact(PARTITION) {
        let [status, _, _, _, kind, _, _, _, s0, s1, s2, s3, c0, c1, c2, c3] = *entry else { return None };
        let (start, count) = (u32::from_le_bytes([s0, s1, s2, s3]), u32::from_le_bytes([c0, c1, c2, c3]));
        match kind {
            0 => {}
            // The table that it protects is damaged, or lies at blocks of another size.
            PROTECTIVE => return Some(Table::Gpt),
            _ if status & 0x7f == 0 && start > 0 && count > 0 => number = number.saturating_add(1),
            _ => return None,
        }
    }
    (number > 0).then_some(Table::Mbr(number))
}

/// A name as it may be shown: printable ASCII, and `?` for everything else.
fn printable(bytes: &[u8]) -> String {
    let letter = |byte: &u8| if matches!(byte, 0x20..0x7f) { char::from(*byte) } else { '?' };
    let text: String = bytes.iter().map(letter).collect();
    text.trim_end_matches([' ', '?']).to_string()
}
