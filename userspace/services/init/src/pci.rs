//! The PCI bus, through configuration ports 0xCF8 and 0xCFC.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_async_lock::{AsyncMutex, AsyncMutexGuard};
use capos_devices::{Found, MAX_FUNCTIONS, Place, Registers, Window, WritableRegisters};
use capos_rt::{Context, Error, log};
use capos_schema::cap::CallError;
use capos_schema::kernel::IoPortsClient;

/// Port of the register address, and port of the register.
const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;

/// The bus and the devices found on it.
#[derive(Debug)]
pub struct Bus {
    ports: IoPortsClient,
    found: Vec<Found>,
    /// The memory windows of the functions that have a driver.
    windows: BTreeMap<Place, [Window; 6]>,
    turn: Rc<AsyncMutex>,
}

impl Bus {
    /// Looks for all functions, below every root.
    ///
    /// # Errors
    /// The ports are not available.
    pub async fn scan(ports: &IoPortsClient) -> Result<Self, Error> {
        let ports = ports.narrow(ADDRESS, 8).await.context("the ports of the PCI bus")?;
        let mut bus = Self { ports, found: Vec::new(), windows: BTreeMap::new(), turn: Rc::default() };
        let scan = capos_devices::scan(&bus).await?;
        if scan.left_out > 0 {
            log::warning!(
                "this machine has more than {MAX_FUNCTIONS} PCI functions; the last {} of them are left out",
                scan.left_out
            );
        }
        bus.found = scan.found;
        Ok(bus)
    }

    /// Finds the memory windows of these functions. It is done once, before the first driver starts: a function does not
    /// answer meanwhile, and an emulator may lose what another processor writes to other devices while the map changes.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn measure(&mut self, places: impl IntoIterator<Item = Place>) -> Result<(), CallError> {
        for place in places {
            let windows = capos_devices::windows(self, place).await?;
            self.windows.insert(place, windows);
        }
        Ok(())
    }

    /// A memory window of a function.
    #[must_use]
    pub fn window(&self, place: Place, index: u8) -> Option<Window> {
        self.windows.get(&place)?.get(usize::from(index)).copied()
    }

    /// Waits until no other operation uses the bus. Each operation holds the turn from its first register to its last: a register is
    /// selected by one port and accessed by another, and a changed one is read before.
    pub async fn turn(&self) -> AsyncMutexGuard {
        self.turn.lock().await
    }

    /// Its functions.
    #[must_use]
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// The devices on the bus, as text.
    #[must_use]
    pub fn describe(&self) -> String {
        let all: Vec<String> = self.found.iter().map(|found| format!("{found}")).collect();
        if all.is_empty() { "nothing".into() } else { all.join(", ") }
    }

    fn register(place: Place, offset: u8) -> u32 {
        0x8000_0000 | (place.address() << 8) | u32::from(offset & 0xfc)
    }

    /// Reads a register; `offset` is a multiple of 4.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn read(&self, place: Place, offset: u8) -> Result<u32, CallError> {
        let values = self.read_all(&[place], offset).await?;
        values.first().copied().ok_or_else(|| CallError::failed("the kernel read no register"))
    }

    /// Reads all registers of a function.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn read_space(&self, place: Place) -> Result<Vec<u32>, CallError> {
        let registers: Vec<u32> = (0..=252_u8).step_by(4).map(|offset| Self::register(place, offset)).collect();
        self.ports.read_indexed(ADDRESS, DATA, &registers).await
    }
}

impl WritableRegisters for Bus {
    async fn write(&self, place: Place, offset: u8, value: u32) -> Result<(), CallError> {
        let (selected, written) = capos_rt::join(
            self.ports.write(ADDRESS, 4, Self::register(place, offset)),
            self.ports.write(DATA, 4, value),
        )
        .await;
        selected?;
        written
    }
}

impl Registers for Bus {
    type Error = CallError;

    async fn read_all(&self, places: &[Place], offset: u8) -> Result<Vec<u32>, CallError> {
        let registers: Vec<u32> = places.iter().map(|place| Self::register(*place, offset)).collect();
        self.ports.read_indexed(ADDRESS, DATA, &registers).await
    }
}
