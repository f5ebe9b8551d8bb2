//! The I/O APICs: device lines to vectors.

use alloc::vec::Vec;

use capos_machine::acpi::madt::{Entry, Madt, Wiring};
use spin::Mutex;

/// Index of the register that tells the number of inputs, and of the first input's entry.
const VERSION: u32 = 1;
const ENTRIES: u32 = 0x10;

const MASKED: u32 = 1 << 16;
const LEVEL: u32 = 1 << 15;
const LOW: u32 = 1 << 13;

/// ISA interrupts.
const ISA: u8 = 16;

/// One I/O APIC.
struct IoApic {
    registers: u64,
    /// Global number of its first input, and how many it has.
    first: u32,
    inputs: u32,
}

struct Wires {
    chips: Vec<IoApic>,
    /// Where ISA interrupts arrive that are not wired straight.
    overrides: Vec<(u8, Route)>,
}

static WIRES: Mutex<Wires> = Mutex::new(Wires { chips: Vec::new(), overrides: Vec::new() });

/// An input and how it is wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Global number of the input.
    pub input: u32,
    pub wiring: Wiring,
}

/// Index of the lower half of the entry of a chip's own input, of which it has 256 at most.
fn lower_half(own: u32) -> u32 {
    ENTRIES.saturating_add(own.saturating_mul(2))
}

impl IoApic {
    fn read(&self, index: u32) -> u32 {
        // SAFETY: `initialize` was given the registers, mapped uncached: index at 0, data at 0x10.
        unsafe {
            (self.registers as *mut u32).write_volatile(index);
            ((self.registers.wrapping_add(0x10)) as *const u32).read_volatile()
        }
    }

    fn write(&self, index: u32, value: u32) {
        // SAFETY: as in `read`; an entry makes the chip send interrupts, never touch memory.
        unsafe {
            (self.registers as *mut u32).write_volatile(index);
            ((self.registers.wrapping_add(0x10)) as *mut u32).write_volatile(value);
        }
    }

    /// Index of the lower half of an input's entry, where the chip has the input.
    fn entry(&self, input: u32) -> Option<u32> {
        let own = input.checked_sub(self.first).filter(|own| *own < self.inputs)?;
        Some(lower_half(own))
    }
}

/// Takes the chips and the wiring from the firmware's table and masks all inputs. Gives the number
/// of inputs.
///
/// # Errors
/// That of `map`.
///
/// # Safety
/// `map` must map registers at a physical address, with the given length, uncached and for good.
pub unsafe fn initialize<E>(madt: &Madt<'_>, map: impl Fn(u64, u64) -> Result<*mut u8, E>) -> Result<u32, E> {
    let mut wires = WIRES.lock();
    let mut total: u32 = 0;
    for entry in madt.entries() {
        match entry {
            Entry::IoApic { address, first, .. } => {
                let registers = map(address, 0x20)? as u64;
                let mut chip = IoApic { registers, first, inputs: 0 };
                chip.inputs = (chip.read(VERSION) >> 16 & 0xff).saturating_add(1);
                for own in 0..chip.inputs {
                    chip.write(lower_half(own), MASKED);
                }
                total = total.saturating_add(chip.inputs);
                wires.chips.push(chip);
            }
            Entry::Override { irq, input, wiring } => wires.overrides.push((irq, Route { input, wiring })),
            Entry::Processor { .. } | Entry::LocalAddress { .. } => {}
        }
    }
    Ok(total)
}

/// Where interrupt `irq` arrives: ISA interrupts as the firmware's table says, the others straight
/// and wired as PCI does.
pub fn route(irq: u8) -> Option<Route> {
    let wires = WIRES.lock();
    let moved = wires.overrides.iter().find(|(source, _)| *source == irq).map(|(_, route)| *route);
    let route =
        moved.unwrap_or(Route { input: u32::from(irq), wiring: if irq < ISA { Wiring::ISA } else { Wiring::PCI } });
    // An input that the table gave to another ISA interrupt has no device of its own (the cascade,
    // for example).
    let taken = moved.is_none() && wires.overrides.iter().any(|(_, other)| other.input == route.input);
    let exists = wires.chips.iter().any(|chip| chip.entry(route.input).is_some());
    (exists && !taken).then_some(route)
}

/// Connects an input to a vector of the processor with APIC identifier `destination`, masked.
/// False where the input does not exist or cannot reach that processor.
pub fn connect(route: Route, vector: u8, destination: u32) -> bool {
    let Ok(destination) = u8::try_from(destination) else { return false };
    let wires = WIRES.lock();
    let Some((chip, entry)) = find(&wires, route.input) else { return false };
    let low = if route.wiring.low { LOW } else { 0 };
    let level = if route.wiring.level { LEVEL } else { 0 };
    chip.write(entry.saturating_add(1), u32::from(destination) << 24);
    chip.write(entry, MASKED | level | low | u32::from(vector));
    true
}

/// Masks or unmasks an input.
pub fn set_mask(input: u32, masked: bool) {
    let wires = WIRES.lock();
    if let Some((chip, entry)) = find(&wires, input) {
        let old = chip.read(entry);
        chip.write(entry, if masked { old | MASKED } else { old & !MASKED });
    }
}

/// Whether an input is masked; one that does not exist is.
#[cfg(feature = "tests")]
pub fn is_masked(input: u32) -> bool {
    let wires = WIRES.lock();
    find(&wires, input).is_none_or(|(chip, entry)| chip.read(entry) & MASKED != 0)
}

fn find(wires: &Wires, input: u32) -> Option<(&IoApic, u32)> {
    wires.chips.iter().find_map(|chip| Some((chip, chip.entry(input)?)))
}
