//! The serial port of the export channel: output only, polled.

use capos_rt::{Error, yield_now};
use capos_schema::kernel::IoPortsClient;

const DATA: u16 = 0;
const INTERRUPT_ENABLE: u16 = 1;
const FIFO_CONTROL: u16 = 2;
const LINE_CONTROL: u16 = 3;
const LINE_STATUS: u16 = 5;
const SCRATCH: u16 = 7;
/// Line status: the transmit FIFO is empty.
const TRANSMIT_EMPTY: u32 = 0x20;
/// Bytes that the FIFO takes.
const FIFO: usize = 16;

/// The port.
pub struct Wire {
    ports: IoPortsClient,
    first: u16,
}

impl Wire {
    /// The port, set up; `None` if the machine has none.
    ///
    /// # Errors
    /// The capability does not cover it.
    pub async fn open(ports: IoPortsClient) -> Result<Option<Self>, Error> {
        let range = ports.info().await?;
        if range.count < 8 {
            return Err(Error::new("the grant `ports` must hold the 8 ports of a serial port"));
        }
        let wire = Self { ports, first: range.first };
        // An existing port keeps the value written to its scratch register.
        wire.set(SCRATCH, 0x5a).await?;
        if wire.get(SCRATCH).await? != 0x5a {
            return Ok(None);
        }
        wire.set(INTERRUPT_ENABLE, 0).await?;
        wire.set(LINE_CONTROL, 0x03).await?;
        wire.set(FIFO_CONTROL, 0xc7).await?;
        Ok(Some(wire))
    }

    async fn set(&self, register: u16, value: u32) -> Result<(), Error> {
        Ok(self.ports.write(self.first.saturating_add(register), 1, value).await?)
    }

    async fn get(&self, register: u16) -> Result<u32, Error> {
        Ok(self.ports.read(self.first.saturating_add(register), 1).await?)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        for piece in bytes.chunks(FIFO) {
            while self.get(LINE_STATUS).await? & TRANSMIT_EMPTY == 0 {
                yield_now().await;
            }
            self.ports.write_bytes(self.first.saturating_add(DATA), piece).await?;
        }
        Ok(())
    }
}
