//! The Multiple APIC Description Table: processors, I/O APICs, and how ISA interrupts are wired.

use super::{HEADER, Table, u8_at, u16_at, u32_at, u64_at};

/// How a line asks for service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// Active while low.
    pub low: bool,
    /// Level triggered.
    pub level: bool,
}

impl Wiring {
    /// The ISA bus: rising edges.
    pub const ISA: Self = Self { low: false, level: false };
    /// PCI: low levels.
    pub const PCI: Self = Self { low: true, level: true };

    /// From the flags word of the table; "as the bus" means ISA there.
    fn from_flags(flags: u16) -> Self {
        Self { low: flags & 3 == 3, level: flags >> 2 & 3 == 3 }
    }
}

/// One entry, of the kinds that the kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A processor that can be used.
    Processor { apic_id: u32 },
    /// An I/O APIC whose inputs begin at global number `first`.
    IoApic { id: u8, address: u64, first: u32 },
    /// ISA interrupt `irq` arrives at global input `input`.
    Override { irq: u8, input: u32, wiring: Wiring },
    /// The local APICs are at this address instead of the header's.
    LocalAddress { address: u64 },
}

/// The table.
#[derive(Clone, Copy, Debug)]
pub struct Madt<'a> {
    table: Table<'a>,
}

impl<'a> Madt<'a> {
    /// Checks the table.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let table = Table::new(bytes, b"APIC")?;
        (table.bytes().len() >= ENTRIES).then_some(Self { table })
    }

    /// Physical address of the local APIC's registers.
    #[must_use]
    pub fn local_address(&self) -> u64 {
        let moved = self.entries().find_map(|entry| match entry {
            Entry::LocalAddress { address } => Some(address),
            _ => None,
        });
        moved.or_else(|| u32_at(self.table.bytes(), HEADER).map(u64::from)).unwrap_or(0)
    }

    /// The entries, in order. Ends at an entry with an impossible length.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + 'a {
        let mut rest = self.table.bytes().get(ENTRIES..).unwrap_or(&[]);
        core::iter::from_fn(move || {
            let length = usize::from(*rest.get(1)?);
            let (entry, after) = rest.split_at_checked(length).filter(|_| length >= 2)?;
            rest = after;
            Some(read(entry))
        })
        .flatten()
    }
}

/// Where the entries begin: after the local APIC's address and the flags.
const ENTRIES: usize = HEADER + 8;

fn read(entry: &[u8]) -> Option<Entry> {
    match u8_at(entry, 0)? {
        0 => {
            let usable = u32_at(entry, 4)? & 1 == 1;
            usable.then_some(Entry::Processor { apic_id: u32::from(u8_at(entry, 3)?) })
        }
        1 => Some(Entry::IoApic {
            id: u8_at(entry, 2)?,
            address: u64::from(u32_at(entry, 4)?),
            first: u32_at(entry, 8)?,
        }),
        2 => Some(Entry::Override {
            irq: u8_at(entry, 3)?,
            input: u32_at(entry, 4)?,
            wiring: Wiring::from_flags(u16_at(entry, 8)?),
        }),
        5 => Some(Entry::LocalAddress { address: u64_at(entry, 4)? }),
        9 => {
            let usable = u32_at(entry, 8)? & 1 == 1;
            usable.then_some(Entry::Processor { apic_id: u32_at(entry, 4)? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    fn sample(extra: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&0xfee0_0000u32.to_le_bytes());
        body.extend_from_slice(&1u32.to_le_bytes());
        body.extend_from_slice(&[0, 8, 0, 0, 1, 0, 0, 0]);
        body.extend_from_slice(&[0, 8, 1, 7, 0, 0, 0, 0]);
        body.extend_from_slice(&[1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
        body.extend_from_slice(&[2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
        body.extend_from_slice(&[2, 10, 0, 9, 9, 0, 0, 0, 0x0d, 0]);
        body.extend_from_slice(&[4, 6, 0xff, 0, 0, 1]);
        body.extend_from_slice(extra);
        build::table(b"APIC", 3, &body)
    }

    #[test]
    fn the_table_of_a_pc() {
        let bytes = sample(&[]);
        let madt = Madt::new(&bytes).unwrap();
        assert_eq!(madt.local_address(), 0xfee0_0000);
        assert_eq!(
            madt.entries().collect::<Vec<_>>(),
            [
                Entry::Processor { apic_id: 0 },
                Entry::IoApic { id: 0, address: 0xfec0_0000, first: 0 },
                Entry::Override { irq: 0, input: 2, wiring: Wiring::ISA },
                Entry::Override { irq: 9, input: 9, wiring: Wiring { low: false, level: true } },
            ]
        );
    }

    #[test]
    fn wide_entries() {
        let mut extra = vec![9, 16, 0, 0, 0x23, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        extra.extend_from_slice(&[5, 12, 0, 0, 0, 0, 0, 0xfe, 1, 0, 0, 0]);
        let bytes = sample(&extra);
        let madt = Madt::new(&bytes).unwrap();
        assert!(madt.entries().any(|e| e == Entry::Processor { apic_id: 0x123 }));
        assert_eq!(madt.local_address(), 0x1_fe00_0000);
    }

    #[test]
    fn broken_lengths_end_the_list() {
        for extra in [&[2u8, 0][..], &[2, 1], &[2, 40, 0, 0], &[2], &[2, 4, 0, 1]] {
            let bytes = sample(extra);
            assert_eq!(Madt::new(&bytes).unwrap().entries().count(), 4, "{extra:?}");
        }
    }
}
