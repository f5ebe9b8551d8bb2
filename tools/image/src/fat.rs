//! A FAT12 file system holding one UEFI program, which is what firmware wants to find on a boot medium.
//!
//! Written here rather than with mtools, so that equal programs give equal bytes.

use anyhow::{Context, Result, ensure};

const SECTOR: usize = 512;
/// Sectors per cluster: 4 KiB clusters let FAT12 hold 16 MiB.
const CLUSTER_SECTORS: usize = 8;
const CLUSTER: usize = SECTOR * CLUSTER_SECTORS;
const ROOT_ENTRIES: usize = 16;
const MEDIA: u8 = 0xf8;
/// The largest number of clusters that makes a file system FAT12.
const MOST_CLUSTERS: usize = 4084;
const FOLDER: u8 = 0x10;
const ARCHIVE: u8 = 0x20;
/// 1980-01-01, the first day that FAT can represent.
const DATE: u16 = 0x21;

/// An image with `program` as `/EFI/BOOT/BOOTX64.EFI`.
pub fn efi_image(program: &[u8]) -> Result<Vec<u8>> {
    let program_clusters = program.len().div_ceil(CLUSTER);
    let clusters = 2 + program_clusters;
    ensure!(program_clusters > 0, "the UEFI program is empty");
    ensure!(clusters <= MOST_CLUSTERS, "the UEFI program is larger than the 16 MiB of its file system");
    let fat_sectors = ((clusters + 2) * 3).div_ceil(2).div_ceil(SECTOR);
    let sectors = 1 + 2 * fat_sectors + 1 + clusters * CLUSTER_SECTORS;
    let sectors = u16::try_from(sectors).context("the UEFI file system is too large")?;

    let mut image = boot_sector(sectors, u16::try_from(fat_sectors)?);
    let mut fat = Fat::new(fat_sectors);
    // Clusters 2 and 3 are the two folders, the program follows.
    fat.chain(2, 1);
    fat.chain(3, 1);
    fat.chain(4, program_clusters);
    image.extend_from_slice(&fat.bytes);
    image.extend_from_slice(&fat.bytes);

    let mut root = entry(b"EFI        ", FOLDER, 2, 0).to_vec();
    root.resize(ROOT_ENTRIES * 32, 0);
    image.extend_from_slice(&root);
    let size = u32::try_from(program.len())?;
    for (own, parent, child) in
        [(2, 0, entry(b"BOOT       ", FOLDER, 3, 0)), (3, 2, entry(b"BOOTX64 EFI", ARCHIVE, 4, size))]
    {
        let mut folder = entry(b".          ", FOLDER, own, 0).to_vec();
        folder.extend_from_slice(&entry(b"..         ", FOLDER, parent, 0));
        folder.extend_from_slice(&child);
        folder.resize(CLUSTER, 0);
        image.extend_from_slice(&folder);
    }
    image.extend_from_slice(program);
    image.resize(usize::from(sectors) * SECTOR, 0);
    Ok(image)
}

fn boot_sector(sectors: u16, fat_sectors: u16) -> Vec<u8> {
    let mut bytes = vec![0xeb, 0x3c, 0x90];
    bytes.extend_from_slice(b"MSWIN4.1");
    bytes.extend_from_slice(&(SECTOR as u16).to_le_bytes());
    bytes.push(CLUSTER_SECTORS as u8);
    bytes.extend_from_slice(&1u16.to_le_bytes()); // reserved sectors
    bytes.push(2); // allocation tables
    bytes.extend_from_slice(&(ROOT_ENTRIES as u16).to_le_bytes());
    bytes.extend_from_slice(&sectors.to_le_bytes());
    bytes.push(MEDIA);
    bytes.extend_from_slice(&fat_sectors.to_le_bytes());
    bytes.extend_from_slice(&32u16.to_le_bytes()); // sectors of a track
    bytes.extend_from_slice(&2u16.to_le_bytes()); // heads
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[0x80, 0, 0x29]);
    bytes.extend_from_slice(b"CAP5"); // serial number
    bytes.extend_from_slice(b"CAPOS EFI  ");
    bytes.extend_from_slice(b"FAT12   ");
    bytes.resize(SECTOR - 2, 0);
    bytes.extend_from_slice(&[0x55, 0xaa]);
    bytes
}

/// A directory entry; all of its dates are the same.
fn entry(name: &[u8; 11], kind: u8, cluster: u16, size: u32) -> [u8; 32] {
    let mut bytes = [0; 32];
    let date = DATE.to_le_bytes();
    let fields: [(usize, &[u8]); 7] = [
        (0, name),
        (11, &[kind]),
        (16, &date),
        (18, &date),
        (24, &date),
        (26, &cluster.to_le_bytes()),
        (28, &size.to_le_bytes()),
    ];
    for (at, field) in fields {
        for (to, from) in bytes.iter_mut().skip(at).zip(field) {
            *to = *from;
        }
    }
    bytes
}

/// A table of 12-bit entries.
struct Fat {
    bytes: Vec<u8>,
}

impl Fat {
    fn new(sectors: usize) -> Self {
        let mut fat = Self { bytes: vec![0; sectors * SECTOR] };
        fat.set(0, 0xf00 | u16::from(MEDIA));
        fat.set(1, 0xfff);
        fat
    }

    /// Makes `count` clusters from `first` one file.
    fn chain(&mut self, first: usize, count: usize) {
        for cluster in first..first + count {
            let next = if cluster + 1 == first + count { 0xfff } else { (cluster + 1) as u16 };
            self.set(cluster, next);
        }
    }

    fn set(&mut self, cluster: usize, value: u16) {
        let [low, high] = if cluster.is_multiple_of(2) { value } else { value << 4 }.to_le_bytes();
        for (offset, part) in [low, high].into_iter().enumerate() {
            if let Some(byte) = self.bytes.get_mut(cluster * 3 / 2 + offset) {
                *byte |= part;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_fat_finds_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("efi.img");
        let program: Vec<u8> = (0..300_001u32).map(|n| ((n * 7) >> 3) as u8).collect();
        std::fs::write(&path, efi_image(&program).unwrap()).unwrap();
        let run = std::process::Command::new("mtype").arg("-i").arg(&path).arg("::/EFI/BOOT/BOOTX64.EFI").output();
        let output = run.expect("mtools is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == program, "the program reads back different");
    }

    #[test]
    fn a_program_too_large_or_empty_is_refused() {
        assert!(efi_image(&[]).is_err());
        assert!(efi_image(&vec![0; 17 << 20]).is_err());
    }
}
