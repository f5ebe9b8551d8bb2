//! One PCI function, as its driver holds it: configuration, memory windows, interrupts.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use core::cell::RefCell;

use capos_devices::{Place, Window, WritableRegisters};
use capos_rt::memory::{Access, PAGE, map};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{InterruptClient, InterruptControllerClient, MmioClient};
use capos_schema::system::{PciFunctionBarResults, PciFunctionConfigResults, PciFunctionServer};

use crate::pci::Bus;

/// Command register: decode memory, master the bus, no legacy interrupt.
const COMMAND: u8 = 4;
const MEMORY: u32 = 1 << 1;
const MASTER: u32 = 1 << 2;
const NO_LINE: u32 = 1 << 10;
/// Identifier of the MSI capability.
const MSI: u8 = 0x05;
/// MSI control: enabled; with how many messages; with an address of 64 bits.
const MSI_ENABLE: u32 = 1 << 16;
const MSI_MESSAGES: u32 = 7 << 20;
const MSI_WIDE: u32 = 1 << 23;
/// Identifier of the MSI-X capability.
const MSIX: u8 = 0x11;
/// MSI-X control: enabled, all masked.
const MSIX_ENABLE: u32 = 1 << 31;
const MSIX_MASK: u32 = 1 << 30;
/// Bytes of an MSI-X table entry.
const ENTRY: u64 = 16;

/// A function of the bus.
#[derive(Debug)]
pub struct Function {
    bus: Rc<Bus>,
    place: Place,
    mmio: MmioClient,
    interrupts: InterruptControllerClient,
    /// Interrupts that were made, by vector: a driver that is restarted gets the same again.
    made: RefCell<BTreeMap<u16, InterruptClient>>,
}

impl Function {
    /// The function at this place.
    pub fn new(bus: Rc<Bus>, place: Place, mmio: MmioClient, interrupts: InterruptControllerClient) -> Self {
        Self { bus, place, mmio, interrupts, made: RefCell::default() }
    }

    /// Keeps the device from reaching memory, since its driver is gone.
    ///
    /// # Errors
    /// The bus is gone.
    pub async fn silence(&self) -> Result<(), CallError> {
        let _turn = self.bus.turn().await;
        let command = self.bus.read(self.place, COMMAND).await? & 0xffff;
        self.bus.write(self.place, COMMAND, command & !MASTER).await
    }

    /// Where a memory window is, and its size in bytes.
    fn window(&self, index: u8) -> Result<(u64, u64), CallError> {
        let place = self.place;
        let error = match self.bus.window(place, index) {
            Some(Window::Memory { address, bytes }) => return Ok((address, bytes)),
            Some(Window::Ports) => format!("window {index} of PCI function {place} has ports, not memory"),
            Some(Window::Absent) => format!("PCI function {place} has no window {index}"),
            None => format!("PCI function {place} has windows 0 to 5, not {index}"),
        };
        Err(CallError::invalid_argument(error))
    }

    /// A window as memory, in whole pages.
    async fn memory(&self, address: u64, bytes: u64) -> Result<MmioClient, CallError> {
        if !address.is_multiple_of(PAGE) {
            return Err(CallError::failed(format!("a window of PCI function {} does not begin at a page", self.place)));
        }
        self.mmio.narrow(address, bytes.next_multiple_of(PAGE)).await
    }

    /// Offset of a capability in the configuration space.
    async fn capability(&self, wanted: u8) -> Result<Option<u8>, CallError> {
        let [status, ..] = (self.bus.read(self.place, COMMAND).await? >> 16).to_le_bytes();
        if status & 0x10 == 0 {
            return Ok(None);
        }
        let [mut at, ..] = self.bus.read(self.place, 0x34).await?.to_le_bytes();
        // A list longer than the space has loops.
        for _ in 0..64 {
            if at < 0x40 {
                return Ok(None);
            }
            let [id, next, ..] = self.bus.read(self.place, at).await?.to_le_bytes();
            if id == wanted {
                return Ok(Some(at & 0xfc));
            }
            at = next;
        }
        Ok(None)
    }

    /// Lets a vector send this message: by MSI-X, or by MSI if the device has no other.
    async fn program(&self, vector: u16, address: u64, data: u32) -> Result<(), CallError> {
        if let Some(at) = self.capability(MSIX).await? {
            return self.program_table(at, vector, address, data).await;
        }
        let at = self.capability(MSI).await?.ok_or_else(|| {
            CallError::failed(format!("PCI function {} has no message-signalled interrupts (MSI-X, MSI)", self.place))
        })?;
        if vector != 0 {
            return Err(CallError::invalid_argument(format!(
                "PCI function {} has interrupt vector 0 only",
                self.place
            )));
        }
        let [low, high] = halves(address);
        // Off while it is changed, and with one message.
        let control = self.bus.read(self.place, at).await? & !(MSI_ENABLE | MSI_MESSAGES);
        self.bus.write(self.place, at, control).await?;
        self.bus.write(self.place, at.saturating_add(4), low).await?;
        let mut rest = at.saturating_add(8);
        if control & MSI_WIDE != 0 {
            self.bus.write(self.place, rest, high).await?;
            rest = rest.saturating_add(4);
        } else if high != 0 {
            return Err(CallError::failed(format!(
                "PCI function {} reaches only the first 4 GiB of memory",
                self.place
            )));
        }
        let beside = self.bus.read(self.place, rest).await? & 0xffff_0000;
        self.bus.write(self.place, rest, beside | (data & 0xffff)).await?;
        let command = self.bus.read(self.place, COMMAND).await? & 0xffff;
        self.bus.write(self.place, COMMAND, command | NO_LINE).await?;
        self.bus.write(self.place, at, control | MSI_ENABLE).await
    }

    /// Writes a vector's entry of the MSI-X table, and switches MSI-X on.
    async fn program_table(&self, at: u8, vector: u16, address: u64, data: u32) -> Result<(), CallError> {
        let control = self.bus.read(self.place, at).await?;
        let last = (control >> 16) & 0x7ff;
        if u32::from(vector) > last {
            return Err(CallError::invalid_argument(format!(
                "PCI function {} has interrupt vectors 0 to {last}",
                self.place
            )));
        }
        let table = self.bus.read(self.place, at.saturating_add(4)).await?;
        let [bar, ..] = (table & 7).to_le_bytes();
        let (start, bytes) = self.window(bar)?;
        let offset = u64::from(table & !7).saturating_add(u64::from(vector).saturating_mul(ENTRY));
        if offset.saturating_add(ENTRY) > bytes {
            return Err(CallError::failed(format!(
                "the interrupt table of PCI function {} is outside its window",
                self.place
            )));
        }
        let command = self.bus.read(self.place, COMMAND).await? & 0xffff;
        self.bus.write(self.place, COMMAND, command | MEMORY | NO_LINE).await?;
        self.bus.write(self.place, at, control | MSIX_ENABLE | MSIX_MASK).await?;
        let page = offset & !(PAGE.wrapping_sub(1));
        let mapping = map(&self.memory(start, bytes).await?, page, PAGE, Access::ReadWrite)?;
        let inside = offset.wrapping_sub(page);
        let [low, high] = halves(address);
        for (word, value) in (0_u64..).zip([low, high, data, 0]) {
            mapping.write_word(inside.saturating_add(word.saturating_mul(4)), value)?;
        }
        self.bus.write(self.place, at, (control | MSIX_ENABLE) & !MSIX_MASK).await
    }
}

/// The lower and the upper half of an address.
fn halves(address: u64) -> [u32; 2] {
    [u32::try_from(address & 0xffff_ffff).unwrap_or(0), u32::try_from(address >> 32).unwrap_or(0)]
}

impl PciFunctionServer for Function {
    async fn config(&self, _cx: &CallContext) -> Result<PciFunctionConfigResults, CallError> {
        let _turn = self.bus.turn().await;
        let registers = self.bus.read_space(self.place).await?;
        let bytes = registers.into_iter().flat_map(u32::to_le_bytes).collect();
        Ok(PciFunctionConfigResults { bytes, address: self.place.address() })
    }

    async fn bar(&self, _cx: &CallContext, index: u8) -> Result<PciFunctionBarResults, CallError> {
        let (address, bytes) = self.window(index)?;
        Ok(PciFunctionBarResults { mmio: self.memory(address, bytes).await?, bytes })
    }

    async fn enable(&self, _cx: &CallContext) -> Result<(), CallError> {
        let _turn = self.bus.turn().await;
        let command = self.bus.read(self.place, COMMAND).await? & 0xffff;
        self.bus.write(self.place, COMMAND, command | MEMORY | MASTER | NO_LINE).await
    }

    async fn interrupt(&self, _cx: &CallContext, vector: u16) -> Result<InterruptClient, CallError> {
        // Of two calls for one vector, the second finds what the first made.
        let _turn = self.bus.turn().await;
        if let Some(interrupt) = self.made.borrow().get(&vector) {
            return Ok(interrupt.clone());
        }
        let message = self.interrupts.message().await?;
        self.program(vector, message.address, message.data).await?;
        self.made.borrow_mut().insert(vector, message.interrupt.clone());
        Ok(message.interrupt)
    }
}
