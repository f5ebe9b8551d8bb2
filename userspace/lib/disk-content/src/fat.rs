//! FAT volumes, by the parameters in their first sector.

use alloc::string::String;
use core::fmt;

use crate::{BOOT_SIGNATURE, SIGNATURE_AT, printable};

/// The number of clusters from which on a volume is FAT16, and FAT32. The number alone decides.
const FAT16_FROM: u32 = 4_085;
const FAT32_FROM: u32 = 65_525;
/// Bytes of an entry of a folder.
const ENTRY: u32 = 32;

/// A FAT volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fat {
    /// 12, 16 or 32.
    pub bits: u8,
    /// Its name, printable; empty if it has none.
    pub label: String,
}

impl fmt::Display for Fat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.label.is_empty() { "" } else { " " };
        write!(f, "FAT{}{space}{}", self.bits, self.label)
    }
}

/// Reads the parameters; none where they are not those of a volume.
pub fn parse(head: &[u8]) -> Option<Fat> {
    if head.get(SIGNATURE_AT)? != BOOT_SIGNATURE {
        return None;
    }
    let byte = |at: usize| head.get(at).copied();
    let half = |at: usize| Some(u16::from_le_bytes(*head.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*head.get(at..)?.first_chunk()?));
    // A jump to the code behind the parameters.
    if !matches!((byte(0)?, byte(2)?), (0xeb, 0x90) | (0xe9, _)) {
        return None;
    }
    let (sector, cluster) = (u32::from(half(11)?), u32::from(byte(13)?));
    let (reserved, tables, entries) = (u32::from(half(14)?), u32::from(byte(16)?), u32::from(half(17)?));
    let plausible = sector.is_power_of_two()
        && (512..=4096).contains(&sector)
        && cluster.is_power_of_two()
        && reserved > 0
        && matches!(tables, 1 | 2)
        && matches!(byte(21)?, 0xf0 | 0xf8..);
    if !plausible {
        return None;
    }
    let either = |short: u16, long: u32| if short == 0 { long } else { u32::from(short) };
    let sectors = either(half(19)?, word(32)?);
    let table = either(half(22)?, word(36)?);
    if table == 0 {
        return None;
    }
    let root = entries.checked_mul(ENTRY)?.div_ceil(sector);
    let before = tables.checked_mul(table)?.checked_add(reserved)?.checked_add(root)?;
    let clusters = sectors.checked_sub(before)?.checked_div(cluster)?;
    if clusters == 0 {
        return None;
    }
    let bits = match clusters {
        FAT32_FROM.. => 32,
        FAT16_FROM.. => 16,
        _ => 12,
    };
    // A mark says that a name follows; it lies after the longer parameters of FAT32.
    let (mark, name) = if bits == 32 { (66, 71..82) } else { (38, 43..54) };
    let label = if byte(mark)? == 0x29 { printable(head.get(name)?) } else { String::new() };
    Some(Fat { bits, label: if label == "NO NAME" { String::new() } else { label } })
}
