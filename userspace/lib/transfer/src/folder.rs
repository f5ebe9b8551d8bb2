//! What the entries of a FAT volume say about the place of a folder.
//!
//! The second entry of a folder, `..`, names the folder that it lies in. If that is compared with the folder in which it was
//! found, no folder is found in two others, in itself, or in one below it. So the folders of a volume are a tree, whatever
//! an attacker wrote.

use hadris_fat::FatKind;

/// Bytes of an entry.
pub const ENTRY: usize = 32;
/// The name of the second entry of each folder but the first.
const ABOVE: &[u8; 11] = b"..         ";
/// The bit of the attributes that marks a folder, and where the attributes are.
const FOLDER: u8 = 0x10;
const ATTRIBUTES: usize = 11;

/// The first cluster of the folder that an entry names; none if the entry is not that of a folder. 0 is the top of the volume.
pub fn cluster(entry: &[u8; ENTRY], kind: FatKind) -> Option<u32> {
    let half = |at: usize| entry.get(at..)?.first_chunk().map(|bytes| u32::from(u16::from_le_bytes(*bytes)));
    if entry.get(ATTRIBUTES)? & FOLDER == 0 {
        return None;
    }
    let (high, low) = (half(20)?, half(26)?);
    // Elsewhere the upper half means something else, and of FAT32's the highest four bits do.
    Some(if kind == FatKind::Fat32 { (high & 0x0fff) << 16 | low } else { low })
}

/// The first cluster of the folder above, of a folder's second entry; none if that is another entry.
pub fn above(second: &[u8; ENTRY], kind: FatKind) -> Option<u32> {
    second.starts_with(ABOVE).then(|| cluster(second, kind))?
}
