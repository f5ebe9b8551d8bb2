//! The table that says where PCI configuration space is mapped.

use super::{HEADER, Table, u8_at, u16_at, u64_at};

/// Configuration space of some buses of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigSpace {
    /// Physical address of bus 0, even if the first bus is another.
    pub base: u64,
    pub segment: u16,
    pub first_bus: u8,
    pub last_bus: u8,
}

/// The first segment's configuration space.
#[must_use]
pub fn first_segment(bytes: &[u8]) -> Option<ConfigSpace> {
    let table = Table::new(bytes, b"MCFG")?;
    let entries = table.bytes().get(HEADER.checked_add(8)?..)?;
    entries
        .chunks_exact(16)
        .filter_map(|entry| {
            Some(ConfigSpace {
                base: u64_at(entry, 0)?,
                segment: u16_at(entry, 8)?,
                first_bus: u8_at(entry, 10)?,
                last_bus: u8_at(entry, 11)?,
            })
        })
        .find(|space| space.segment == 0 && space.base != 0 && space.first_bus <= space.last_bus)
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    #[test]
    fn finds_segment_zero() {
        let mut body = vec![0; 8];
        body.extend_from_slice(&[0, 0, 0, 0xc0, 0, 0, 0, 0, 1, 0, 0, 0xff, 0, 0, 0, 0]);
        body.extend_from_slice(&[0, 0, 0, 0xb0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0, 0]);
        let space = first_segment(&build::table(b"MCFG", 1, &body)).unwrap();
        assert_eq!(space, ConfigSpace { base: 0xb000_0000, segment: 0, first_bus: 0, last_bus: 255 });
        assert_eq!(first_segment(&build::table(b"MCFG", 1, &body[..24])), None);
        assert_eq!(first_segment(&build::table(b"MCFG", 1, &[])), None);
    }
}
