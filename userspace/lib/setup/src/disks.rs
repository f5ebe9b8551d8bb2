//! What a disk holds, as text.

use alloc::format;
use alloc::string::String;

use capos_schema::storage::DiskContent;

/// What a disk holds.
#[must_use]
pub fn content(content: DiskContent) -> &'static str {
    match content {
        DiskContent::Unreadable => "cannot be read",
        DiskContent::BootMedium => "the boot medium",
        DiskContent::DataDisk => "data disk",
        DiskContent::Iso9660 => "ISO 9660 volume",
        DiskContent::Fat => "FAT volume",
        DiskContent::PartitionTable => "partition table",
        DiskContent::Blank => "blank",
        DiskContent::Unknown => "unknown content",
    }
}

/// A size in the largest unit in which it is at least ten, or in KiB.
#[must_use]
pub fn size(bytes: u64) -> String {
    let unit = [("GiB", 30), ("MiB", 20)].into_iter().find(|(_, shift)| bytes >> shift >= 10);
    let (name, shift) = unit.unwrap_or(("KiB", 10));
    format!("{} {name}", bytes >> shift)
}
