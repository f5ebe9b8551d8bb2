//! The PCI bus: which functions there are, and one capability for each driver's own.
//!
//! Configuration space is reached through ports 0xCF8 and 0xCFC, which only this process holds: a driver
//! gets a [`PciFunctionServer`] for its device and can reach no other.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use capos_rt::memory::{self, Access};
use capos_rt::{Context, Error, log};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{InterruptClient, InterruptControllerClient, IoPortsClient, MmioClient};
use capos_schema::system::{PciFunctionBarResults, PciFunctionConfigResults, PciFunctionServer};
use core::cell::Cell;

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;
/// Bytes of a function's configuration space.
const CONFIGURATION: u16 = 256;
const COMMAND: u16 = 0x04;
const HEADER_TYPE: u16 = 0x0e;
const FIRST_BAR: u16 = 0x10;
const CAPABILITIES: u16 = 0x34;
/// Command: decode memory, master the bus, no line interrupt.
const MEMORY: u32 = 1 << 1;
const MASTER: u32 = 1 << 2;
const NO_LINE: u32 = 1 << 10;
/// Capability: MSI-X.
const MSI_X: u32 = 0x11;
/// MSI-X message control: enabled.
const MSI_X_ENABLE: u32 = 1 << 31;
/// Bytes of an MSI-X table entry.
const TABLE_ENTRY: u64 = 16;
const PAGE: u64 = 4096;

/// Bus, device and function numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    bus: u8,
    device: u8,
    function: u8,
}

impl Place {
    fn address(self, register: u16) -> u32 {
        0x8000_0000
            | (u32::from(self.bus) << 16)
            | (u32::from(self.device & 31) << 11)
            | (u32::from(self.function & 7) << 8)
            | u32::from(register & 0xfc)
    }
}

impl core::fmt::Display for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x}:{:02x}.{}", self.bus, self.device, self.function)
    }
}

/// A function that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Where.
    pub place: Place,
    /// Who made it.
    pub vendor: u16,
    /// What it is, by its maker's count.
    pub device: u16,
    /// What it is, by the standard's: class and subclass.
    pub class: u16,
}

impl core::fmt::Display for Found {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {:04x}:{:04x} (class {:04x})", self.place, self.vendor, self.device, self.class)
    }
}

/// The bus, as the process that manages it holds it.
pub struct Bus {
    ports: IoPortsClient,
    mmio: MmioClient,
    interrupts: InterruptControllerClient,
    /// The address port holds one address for all: a read is two port accesses that belong together.
    busy: Cell<bool>,
}

impl Bus {
    /// The bus behind the configuration ports.
    pub fn new(ports: IoPortsClient, mmio: MmioClient, interrupts: InterruptControllerClient) -> Rc<Self> {
        Rc::new(Self { ports, mmio, interrupts, busy: Cell::new(false) })
    }

    async fn lock(&self) -> Locked<'_> {
        while self.busy.replace(true) {
            capos_rt::yield_now().await;
        }
        Locked(self)
    }

    async fn read(&self, place: Place, register: u16) -> Result<u32, CallError> {
        let _locked = self.lock().await;
        self.ports.write(ADDRESS, 4, place.address(register)).await?;
        self.ports.read(DATA, 4).await
    }

    async fn write(&self, place: Place, register: u16, value: u32) -> Result<(), CallError> {
        let _locked = self.lock().await;
        self.ports.write(ADDRESS, 4, place.address(register)).await?;
        self.ports.write(DATA, 4, value).await
    }

    /// Every function of every bus that answers.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn enumerate(&self) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        let mut buses = alloc::vec![0_u8];
        let mut seen = alloc::collections::BTreeSet::new();
        while let Some(bus) = buses.pop() {
            if !seen.insert(bus) {
                continue;
            }
            for device in 0..32 {
                let mut functions = 1;
                let mut function = 0;
                while function < functions {
                    let place = Place { bus, device, function };
                    function = function.saturating_add(1);
                    let id = self.read(place, 0).await.context("reading the PCI configuration space")?;
                    let [v0, v1, d0, d1] = id.to_le_bytes();
                    let vendor = u16::from_le_bytes([v0, v1]);
                    if vendor == 0xffff {
                        continue;
                    }
                    let [_, _, subclass, class] = self.read(place, 8).await?.to_le_bytes();
                    let [_, _, header, _] = self.read(place, HEADER_TYPE & 0xfc).await?.to_le_bytes();
                    if header & 0x80 != 0 {
                        functions = 8;
                    }
                    if header & 0x7f == 1 {
                        // A bridge: the bus behind it.
                        let [_, secondary, _, _] = self.read(place, 0x18).await?.to_le_bytes();
                        buses.push(secondary);
                    }
                    let device = u16::from_le_bytes([d0, d1]);
                    found.push(Found { place, vendor, device, class: u16::from_le_bytes([subclass, class]) });
                }
            }
        }
        Ok(found)
    }

    /// One function, for its driver.
    #[must_use]
    pub fn function(self: &Rc<Self>, found: Found) -> Rc<Function> {
        Rc::new(Function { bus: self.clone(), place: found.place })
    }
}

/// Holds the bus until it is dropped.
struct Locked<'a>(&'a Bus);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
    }
}

/// A memory window of a function.
struct Window {
    address: u64,
    bytes: u64,
}

/// One function, served to its driver.
pub struct Function {
    bus: Rc<Bus>,
    place: Place,
}

impl Function {
    /// Where a window lies and how large it is; the function decodes nothing while it is measured.
    async fn window(&self, index: u8) -> Result<Window, CallError> {
        if index > 5 {
            return Err(CallError::invalid_argument("a function has base addresses 0 to 5"));
        }
        let register = FIRST_BAR.saturating_add(u16::from(index).saturating_mul(4));
        let low = self.bus.read(self.place, register).await?;
        let wide = low & 0b111 == 0b100;
        if low & 1 != 0 || (wide && index == 5) {
            return Err(CallError::invalid_argument(format!("base address {index} is not memory")));
        }
        let command = self.bus.read(self.place, COMMAND).await?;
        self.bus.write(self.place, COMMAND, command & !MEMORY).await?;
        self.bus.write(self.place, register, u32::MAX).await?;
        let mask_low = self.bus.read(self.place, register).await?;
        self.bus.write(self.place, register, low).await?;
        let (mut high, mut mask_high) = (0, u32::MAX);
        if wide {
            let upper = register.saturating_add(4);
            high = self.bus.read(self.place, upper).await?;
            self.bus.write(self.place, upper, u32::MAX).await?;
            mask_high = self.bus.read(self.place, upper).await?;
            self.bus.write(self.place, upper, high).await?;
        }
        self.bus.write(self.place, COMMAND, command).await?;
        let mask = (u64::from(mask_high) << 32) | u64::from(mask_low & !0xf);
        let address = (u64::from(high) << 32) | u64::from(low & !0xf);
        if mask_low & !0xf == 0 || address == 0 {
            return Err(CallError::invalid_argument(format!("base address {index} is not in use")));
        }
        Ok(Window { address, bytes: (!mask).wrapping_add(1) })
    }

    /// Offset of a capability in the configuration space, and its first word.
    async fn capability(&self, id: u32) -> Result<Option<(u16, u32)>, CallError> {
        let mut at = u16::from(self.bus.read(self.place, CAPABILITIES).await?.to_le_bytes()[0]) & 0xfc;
        // The space holds at most 48 capabilities; a longer list has a loop.
        for _ in 0..48 {
            if at < 0x40 {
                break;
            }
            let word = self.bus.read(self.place, at).await?;
            if word & 0xff == id {
                return Ok(Some((at, word)));
            }
            at = u16::from(word.to_le_bytes()[1]) & 0xfc;
        }
        Ok(None)
    }
}

impl PciFunctionServer for Function {
    async fn config(&self, _cx: &CallContext) -> Result<PciFunctionConfigResults, CallError> {
        let mut bytes = Vec::with_capacity(usize::from(CONFIGURATION));
        for register in (0..CONFIGURATION).step_by(4) {
            bytes.extend_from_slice(&self.bus.read(self.place, register).await?.to_le_bytes());
        }
        Ok(PciFunctionConfigResults { bytes, address: self.place.address(0) & 0x7fff_ffff })
    }

    async fn bar(&self, _cx: &CallContext, index: u8) -> Result<PciFunctionBarResults, CallError> {
        let window = self.window(index).await?;
        if window.address % PAGE != 0 || window.bytes % PAGE != 0 {
            return Err(CallError::failed(format!(
                "window {index} of {} is not on page borders and cannot be given to a driver alone",
                self.place
            )));
        }
        let mmio = self.bus.mmio.narrow(window.address, window.bytes).await?;
        Ok(PciFunctionBarResults { mmio, bytes: window.bytes })
    }

    async fn enable(&self, _cx: &CallContext) -> Result<(), CallError> {
        let command = self.bus.read(self.place, COMMAND).await?;
        // The status half is cleared by ones: write zeros there.
        let enabled = (command & 0xffff) | MEMORY | MASTER | NO_LINE;
        self.bus.write(self.place, COMMAND, enabled).await
    }

    async fn interrupt(&self, _cx: &CallContext, vector: u16) -> Result<InterruptClient, CallError> {
        let (at, control) = self
            .capability(MSI_X)
            .await?
            .ok_or_else(|| CallError::failed(format!("{} has no MSI-X interrupts", self.place)))?;
        let entries = ((control >> 16) & 0x7ff).saturating_add(1);
        if u32::from(vector) >= entries {
            return Err(CallError::invalid_argument(format!("{} has {entries} interrupt vectors", self.place)));
        }
        let table = self.bus.read(self.place, at.saturating_add(4)).await?;
        let window = self.window(u8::try_from(table & 7).unwrap_or(0)).await?;
        let offset = u64::from(table & !7).saturating_add(u64::from(vector).saturating_mul(TABLE_ENTRY));
        if offset.saturating_add(TABLE_ENTRY) > window.bytes {
            return Err(CallError::failed(format!("the interrupt table of {} lies outside its window", self.place)));
        }
        let made = self.bus.interrupts.message().await?;
        let page = window.address.saturating_add(offset) / PAGE * PAGE;
        let within = window.address.saturating_add(offset).saturating_sub(page);
        let registers = memory::map(&self.bus.mmio.narrow(page, PAGE).await?, 0, PAGE, Access::ReadWrite)?;
        let low = u32::try_from(made.address & 0xffff_ffff).unwrap_or(0);
        let high = u32::try_from(made.address >> 32).unwrap_or(0);
        // Address, data, then the mask bit cleared: device registers, each written as one word.
        for (index, value) in (0_u64..).zip([low, high, made.data, 0]) {
            registers.write_word(within.saturating_add(index.saturating_mul(4)), value)?;
        }
        self.bus.write(self.place, at, (control & 0xffff_0000 & !(1 << 30)) | MSI_X_ENABLE).await?;
        log::debug!("interrupt vector {vector} of {} is on", self.place);
        Ok(made.interrupt)
    }
}
