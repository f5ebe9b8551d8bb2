//! Finding the I/O interrupt controllers in the ACPI tables, so that their inputs can be masked.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use crate::bytes::{array, u8_at, u32_at, u64_at};

/// Physical memory, as far as it may be read.
pub trait Physical {
    /// `length` bytes at a physical address; `None` if there is nothing to read.
    fn read(&self, address: u64, length: usize) -> Option<&[u8]>;
}

/// Calls `found` with the physical address of every I/O APIC that the tables under `rsdp` name.
pub fn io_apics(memory: &impl Physical, rsdp: &[u8], mut found: impl FnMut(u64)) {
    const HEADER: usize = 36;
    const IO_APIC: u8 = 1;
    let extended = u8_at(rsdp, 15).is_some_and(|revision| revision >= 2);
    let (root, width) = match (extended, u64_at(rsdp, 24)) {
        (true, Some(address)) if address != 0 => (Some(address), 8),
        _ => (u32_at(rsdp, 16).map(u64::from), 4),
    };
    let Some(root) = root.and_then(|address| table(memory, address)) else { return };
    for pointer in root.get(HEADER..).unwrap_or(&[]).chunks_exact(width) {
        let address = u64_at(pointer, 0).or_else(|| u32_at(pointer, 0).map(u64::from)).unwrap_or(0);
        let Some(table) = table(memory, address) else { continue };
        if array(table, 0) != Some(*b"APIC") {
            continue;
        }
        // Eight bytes follow the header: the local APIC's address and flags.
        let mut rest = table.get(HEADER.saturating_add(8)..).unwrap_or(&[]);
        while let Some(length) = u8_at(rest, 1).map(usize::from).filter(|&length| length >= 2) {
            if u8_at(rest, 0) == Some(IO_APIC)
                && let Some(address) = u32_at(rest, 4)
            {
                found(u64::from(address));
            }
            rest = rest.get(length..).unwrap_or(&[]);
        }
    }
}

fn table(memory: &impl Physical, address: u64) -> Option<&[u8]> {
    const LARGEST: usize = 1 << 20;
    let length = usize::try_from(u32_at(memory.read(address, 8)?, 4)?).ok()?;
    memory.read(address, length).filter(|_| (36..=LARGEST).contains(&length))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ram(Vec<u8>);

    impl Physical for Ram {
        fn read(&self, address: u64, length: usize) -> Option<&[u8]> {
            let start = usize::try_from(address).ok().filter(|&start| start != 0)?;
            self.0.get(start..start.checked_add(length)?)
        }
    }

    fn put_table(ram: &mut [u8], at: usize, name: &[u8; 4], body: &[u8]) {
        ram[at..at + 4].copy_from_slice(name);
        ram[at + 4..at + 8].copy_from_slice(&(36 + body.len() as u32).to_le_bytes());
        ram[at + 36..at + 36 + body.len()].copy_from_slice(body);
    }

    fn found(ram: &Ram, rsdp: &[u8]) -> Vec<u64> {
        let mut list = Vec::new();
        io_apics(ram, rsdp, |address| list.push(address));
        list
    }

    #[test]
    fn both_root_tables_lead_to_the_controllers() {
        let mut ram = vec![0; 4096];
        let mut body = vec![0; 8];
        body.extend([0, 8, 0, 0, 1, 0, 0, 0]);
        body.extend([1, 12, 2, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
        body.extend([1, 12, 3, 0, 0, 0, 0xc1, 0xfe, 24, 0, 0, 0]);
        put_table(&mut ram, 0x300, b"APIC", &body);
        put_table(&mut ram, 0x400, b"FACP", &[0; 8]);
        put_table(&mut ram, 0x100, b"RSDT", &[0x400u32.to_le_bytes(), 0x300u32.to_le_bytes()].concat());
        put_table(&mut ram, 0x200, b"XSDT", &[0x400u64.to_le_bytes(), 0x300u64.to_le_bytes()].concat());
        let mut rsdp = vec![0; 36];
        rsdp[16..20].copy_from_slice(&0x100u32.to_le_bytes());
        assert_eq!(found(&Ram(ram.clone()), &rsdp[..20]), [0xfec0_0000, 0xfec1_0000]);
        rsdp[15] = 2;
        rsdp[24..32].copy_from_slice(&0x200u64.to_le_bytes());
        assert_eq!(found(&Ram(ram), &rsdp), [0xfec0_0000, 0xfec1_0000]);
    }

    #[test]
    fn nonsense_ends_the_walk() {
        let mut ram = vec![0xff; 1024];
        put_table(&mut ram, 0x100, b"RSDT", &0x200u32.to_le_bytes());
        put_table(&mut ram, 0x200, b"APIC", &[0; 20]);
        let mut rsdp = [0; 20];
        rsdp[16..20].copy_from_slice(&0x100u32.to_le_bytes());
        assert_eq!(found(&Ram(ram), &rsdp), [0; 0]);
        assert_eq!(found(&Ram(vec![0; 16]), &rsdp), [0; 0]);
        assert_eq!(found(&Ram(vec![]), &[]), [0; 0]);
    }
}
