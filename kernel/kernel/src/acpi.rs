//! Finding the firmware's tables and taking from them what the kernel needs.

use alloc::vec::Vec;

use capos_machine::acpi::fadt::Fadt;
use capos_machine::acpi::{self, HEADER, mcfg, root, sleep};

use crate::memory::kernel_space;

/// Tables beyond this size are no tables.
const LARGEST: usize = 16 << 20;
/// As are root tables with more entries.
const MOST_TABLES: usize = 256;

/// How to power the machine off: write `value` to `port`. Machines whose control register has a
/// second half exist on paper only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerOff {
    /// 0 where the firmware does not say.
    pub port: u16,
    pub value: u16,
    /// Port and value that turn ACPI mode on, where it is off; port 0 where that is not needed.
    pub enable_port: u16,
    pub enable_value: u8,
}

/// What the tables say.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The interrupt controllers' table.
    pub madt: Option<&'static [u8]>,
    pub fadt: Fadt,
    pub power_off: PowerOff,
    /// Memory-mapped PCI configuration space of the first segment.
    pub pci_config: Option<mcfg::ConfigSpace>,
}

/// Sleep enable in the power management control register; the sleep type lies above bit 10.
const SLEEP_ENABLE: u16 = 1 << 13;

/// Reads the tables that the root pointer at physical address `pointer` leads to.
pub fn read(pointer: u64) -> Tables {
    let mut tables = Tables::default();
    let Some(pointer) = bytes(pointer, root::POINTER).and_then(root::pointer) else { return tables };
    let Some(list) = table(pointer.address) else { return tables };
    let Some(entries) = root::entries(list, pointer.wide) else { return tables };
    let mut code: Vec<&'static [u8]> = Vec::new();
    for table in entries.take(MOST_TABLES).filter_map(table) {
        match table.first_chunk::<4>() {
            Some(b"APIC") => tables.madt = tables.madt.or(Some(table)),
            Some(b"FACP") => tables.fadt = Fadt::new(table).unwrap_or_default(),
            Some(b"MCFG") => tables.pci_config = tables.pci_config.or_else(|| mcfg::first_segment(table)),
            Some(b"SSDT") => code.push(table),
            _ => {}
        }
    }
    if tables.fadt.dsdt != 0
        && let Some(main) = self::table(tables.fadt.dsdt)
    {
        code.insert(0, main);
    }
    if tables.fadt.control != 0
        && let Some(kind) = code.iter().find_map(|table| sleep::find(table.get(HEADER..)?))
    {
        tables.power_off = PowerOff {
            port: tables.fadt.control,
            value: u16::from(kind) << 10 | SLEEP_ENABLE,
            enable_port: tables.fadt.smi_command,
            enable_value: tables.fadt.acpi_enable,
        };
    }
    tables
}

/// The table at a physical address, as long as its header says. Its checksum is judged by who
/// reads it.
fn table(physical: u64) -> Option<&'static [u8]> {
    let length = acpi::length(bytes(physical, HEADER)?)?;
    (HEADER..=LARGEST).contains(&length).then(|| bytes(physical, length)).flatten()
}

/// Bytes that the firmware left in memory.
fn bytes(physical: u64, length: usize) -> Option<&'static [u8]> {
    // Beyond what any x86-64 processor addresses, or wrapping around.
    if physical == 0 || physical.checked_add(length as u64)? > 1 << 52 {
        return None;
    }
    let start = kernel_space::map_firmware(physical, length as u64).ok()?;
    // SAFETY: the range was just mapped, for reading. The firmware does not change its tables
    // after handing the machine over, and nothing of the kernel lies in memory that it keeps.
    Some(unsafe { core::slice::from_raw_parts(start, length) })
}
