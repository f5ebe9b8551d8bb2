//! Finding the firmware's tables and taking from them what the kernel needs.

use alloc::vec::Vec;

use capos_machine::acpi::fadt::Fadt;
use capos_machine::acpi::{self, HEADER, mcfg, root, sleep};

use crate::arch::exit::PowerOff;
use crate::memory::kernel_space::{self, SpaceError};

/// Tables beyond this size are no tables.
const LARGEST: usize = 16 << 20;
/// As are root tables with more entries.
const MOST_TABLES: usize = 256;

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
///
/// # Errors
/// [`SpaceError::NoMemory`]: what cannot be looked at is not taken for missing.
pub fn read(pointer: u64) -> Result<Tables, SpaceError> {
    let mut tables = Tables::default();
    let Some(pointer) = bytes(pointer, root::POINTER)?.and_then(root::pointer) else { return Ok(tables) };
    let Some(list) = table(pointer.address)? else { return Ok(tables) };
    let Some(entries) = root::entries(list, pointer.wide) else { return Ok(tables) };
    let mut code: Vec<&'static [u8]> = Vec::new();
    for address in entries.take(MOST_TABLES) {
        let Some(table) = table(address)? else { continue };
        match table.first_chunk::<4>() {
            Some(b"APIC") => tables.madt = tables.madt.or(Some(table)),
            Some(b"FACP") => tables.fadt = Fadt::new(table).unwrap_or_default(),
            Some(b"MCFG") => tables.pci_config = tables.pci_config.or_else(|| mcfg::first_segment(table)),
            Some(b"SSDT") => code.push(table),
            _ => {}
        }
    }
    if tables.fadt.dsdt != 0
        && let Some(main) = table(tables.fadt.dsdt)?
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
    Ok(tables)
}

/// The table at a physical address, as long as its header says. Its checksum is judged by who
/// reads it.
fn table(physical: u64) -> Result<Option<&'static [u8]>, SpaceError> {
    match bytes(physical, HEADER)?.and_then(acpi::length) {
        Some(length) if (HEADER..=LARGEST).contains(&length) => bytes(physical, length),
        _ => Ok(None),
    }
}

/// Bytes that the firmware left in memory.
fn bytes(physical: u64, length: usize) -> Result<Option<&'static [u8]>, SpaceError> {
    // Beyond what any x86-64 processor addresses, or wrapping around.
    if physical == 0 || physical.checked_add(length as u64).is_none_or(|end| end > 1 << 52) {
        return Ok(None);
    }
    let start = kernel_space::map_firmware(physical, length as u64)?;
    // SAFETY: the range was just mapped, for reading. The firmware does not change its tables
    // after handing the machine over, and nothing of the kernel lies in memory that it keeps.
    Ok(Some(unsafe { core::slice::from_raw_parts(start, length) }))
}
