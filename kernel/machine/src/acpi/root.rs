//! The root pointer, and the root table that lists all others.

use super::{HEADER, Table, checksum, u32_at, u64_at};

/// Bytes of the root pointer's second revision; the first has 20.
pub const POINTER: usize = 36;

/// Where the root table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootPointer {
    /// Physical address of the table.
    pub address: u64,
    /// The table is an XSDT with 64-bit addresses; otherwise an RSDT with 32-bit ones.
    pub wide: bool,
}

/// Reads the root pointer from [`POINTER`] bytes (20 do for the first revision).
#[must_use]
pub fn pointer(bytes: &[u8]) -> Option<RootPointer> {
    let first = bytes.get(..20)?;
    if !first.starts_with(b"RSD PTR ") || checksum(first) != 0 {
        return None;
    }
    let narrow = u64::from(u32_at(bytes, 16)?);
    if bytes.get(15).copied()? >= 2 {
        let wide = u64_at(bytes, 24)?;
        if wide != 0 && checksum(bytes.get(..POINTER)?) == 0 {
            return Some(RootPointer { address: wide, wide: true });
        }
    }
    (narrow != 0).then_some(RootPointer { address: narrow, wide: false })
}

/// The physical addresses of the tables that a root table lists.
pub fn entries<'a>(bytes: &'a [u8], wide: bool) -> Option<impl Iterator<Item = u64> + 'a> {
    let table = Table::new(bytes, if wide { b"XSDT" } else { b"RSDT" })?;
    let size = if wide { 8 } else { 4 };
    let body = table.bytes().get(HEADER..)?;
    Some(
        body.chunks_exact(size)
            .filter_map(move |entry| if wide { u64_at(entry, 0) } else { u32_at(entry, 0).map(u64::from) })
            .filter(|address| *address != 0),
    )
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    fn bytes(revision: u8) -> Vec<u8> {
        let mut bytes = vec![0; POINTER];
        bytes[..8].copy_from_slice(b"RSD PTR ");
        bytes[15] = revision;
        bytes[16..20].copy_from_slice(&0x1000u32.to_le_bytes());
        bytes[24..32].copy_from_slice(&0x1_0000_2000u64.to_le_bytes());
        build::seal(&mut bytes[..20], 8);
        build::seal(&mut bytes, 32);
        bytes
    }

    #[test]
    fn both_revisions() {
        assert_eq!(pointer(&bytes(2)), Some(RootPointer { address: 0x1_0000_2000, wide: true }));
        assert_eq!(pointer(&bytes(0)[..20]), Some(RootPointer { address: 0x1000, wide: false }));
        let mut half = bytes(2);
        half[33] ^= 1;
        assert_eq!(pointer(&half), Some(RootPointer { address: 0x1000, wide: false }), "second part broken");
        let mut broken = bytes(2);
        broken[16] ^= 1;
        assert_eq!(pointer(&broken), None);
        assert_eq!(pointer(&[]), None);
    }

    #[test]
    fn lists_tables() {
        let mut body = Vec::new();
        for address in [0x10u64, 0, 0x30] {
            body.extend_from_slice(&address.to_le_bytes());
        }
        body.extend_from_slice(&[1, 2, 3]);
        let table = build::table(b"XSDT", 1, &body);
        assert_eq!(entries(&table, true).unwrap().collect::<Vec<_>>(), [0x10, 0x30]);
        assert!(entries(&table, false).is_none());
    }
}
