//! A 16550 serial port, interrupt driven both ways.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

extern crate alloc;

use alloc::vec::Vec;
use capos_rt::{Context, Error};
use capos_schema::kernel::{InterruptClient, IoPortsClient, NotificationClient};

/// Registers, as offsets from the first port.
const DATA: u16 = 0;
const INTERRUPT_ENABLE: u16 = 1;
/// Read.
const INTERRUPT_IDENTIFICATION: u16 = 2;
/// Written.
const FIFO_CONTROL: u16 = 2;
const LINE_CONTROL: u16 = 3;
const MODEM_CONTROL: u16 = 4;
const LINE_STATUS: u16 = 5;
/// Holds a byte for its driver, and means nothing to the port. It is 0 when the machine starts.
const SCRATCH: u16 = 7;

/// Ports of a serial port.
const COUNT: u32 = 8;
const NOT_ENOUGH: &str = "the grant `ports` must hold the 8 ports of a serial port";
/// In the scratch register: somebody looks whether it keeps it.
const PROBE: u32 = 0x5a;
/// Interrupt identification: none is pending.
const NONE_PENDING: u32 = 0x01;
/// Line status: a byte has come.
const RECEIVED: u8 = 0x01;
/// Line status: the transmit FIFO is empty.
const TRANSMIT_EMPTY: u32 = 0x20;
/// Line status: the last byte has left the machine.
const TRANSMITTER_IDLE: u32 = 0x40;
/// In the scratch register: an earlier life of this service has used the port.
const USED: u32 = 0xa5;
/// Interrupt enable: a byte has come.
const ENABLE_RECEIVED: u32 = 0x01;
/// Interrupt enable: the transmit FIFO is empty.
const ENABLE_TRANSMIT: u32 = 0x02;
/// Bytes that the transmit FIFO takes.
pub const FIFO: usize = 16;
/// Bytes taken in one go.
const MOST: u16 = 256;

/// The port.
pub struct Uart {
    ports: IoPortsClient,
    interrupt: InterruptClient,
    notification: NotificationClient,
    first: u16,
    was_used: bool,
}

impl Uart {
    /// Whether the machine has such a port: one keeps what is written to its scratch register. It has to hold 8 ports.
    ///
    /// # Errors
    /// The capability does not cover a serial port.
    pub async fn is_there(ports: &IoPortsClient) -> Result<bool, Error> {
        let range = ports.info().await?;
        if range.count < COUNT {
            return Err(Error::new(NOT_ENOUGH));
        }
        let scratch = range.first.saturating_add(SCRATCH);
        ports.write(scratch, 1, PROBE).await?;
        Ok(ports.read(scratch, 1).await? == PROBE)
    }

    /// Sets the port up: 115,200 baud, 8N1, FIFOs, interrupts.
    ///
    /// # Errors
    /// The capabilities do not cover a serial port.
    pub async fn start(
        ports: IoPortsClient,
        interrupt: InterruptClient,
        notification: NotificationClient,
    ) -> Result<Self, Error> {
        let range = ports.info().await?;
        if range.count < COUNT {
            return Err(Error::new(NOT_ENOUGH));
        }
        let mut uart = Self { ports, interrupt, notification, first: range.first, was_used: false };
        uart.was_used = uart.get(SCRATCH).await? == USED;
        uart.set(SCRATCH, USED).await?;
        // A port that holds nothing for its driver tells nothing either.
        uart.was_used |= uart.get(SCRATCH).await? != USED;
        uart.set(INTERRUPT_ENABLE, 0).await?;
        // Divisor 1: 115,200 baud.
        uart.set(LINE_CONTROL, 0x80).await?;
        uart.set(DATA, 1).await?;
        uart.set(INTERRUPT_ENABLE, 0).await?;
        uart.set(LINE_CONTROL, 0x03).await?;
        uart.set(FIFO_CONTROL, 0xc7).await?;
        // Ready, request, and the line that lets interrupts out.
        uart.set(MODEM_CONTROL, 0x0b).await?;
        uart.interrupt.bind(&uart.notification, 1).await.context("binding the serial port's interrupt")?;
        uart.set(INTERRUPT_ENABLE, ENABLE_RECEIVED).await?;
        Ok(uart)
    }

    /// A port that is set up.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn on(ports: IoPortsClient, interrupt: InterruptClient, notification: NotificationClient) -> Self {
        Self { ports, interrupt, notification, first: 0, was_used: false }
    }

    fn port(&self, register: u16) -> u16 {
        self.first.saturating_add(register)
    }

    async fn set(&self, register: u16, value: u32) -> Result<(), Error> {
        Ok(self.ports.write(self.port(register), 1, value).await?)
    }

    async fn get(&self, register: u16) -> Result<u32, Error> {
        Ok(self.ports.read(self.port(register), 1).await?)
    }

    /// Whether an earlier life of this service may have used the port since the machine started.
    pub fn was_used(&self) -> bool {
        self.was_used
    }

    /// Waits for the next interrupt.
    ///
    /// # Errors
    /// The interrupt is gone.
    pub async fn interrupted(&self) -> Result<(), Error> {
        capos_rt::wait(&self.notification).await?;
        Ok(())
    }

    /// Lets the next interrupt come.
    ///
    /// # Errors
    /// The interrupt is gone.
    pub async fn acknowledge(&self) -> Result<(), Error> {
        Ok(self.interrupt.acknowledge().await?)
    }

    /// Whether the port asks for nothing. Its line is down then, and goes up when it next does: an interrupt comes for
    /// that edge alone, none for a second cause while the line is up.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn is_quiet(&self) -> Result<bool, Error> {
        Ok(self.get(INTERRUPT_IDENTIFICATION).await? & NONE_PENDING != 0)
    }

    /// The bytes that have come, empty where there are none.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn receive(&self) -> Result<Vec<u8>, Error> {
        Ok(self.ports.drain(self.port(LINE_STATUS), RECEIVED, self.port(DATA), MOST).await?)
    }

    /// Whether the transmit FIFO is empty.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn may_send(&self) -> Result<bool, Error> {
        Ok(self.get(LINE_STATUS).await? & TRANSMIT_EMPTY != 0)
    }

    /// Whether all that was sent has left the machine. No interrupt tells of that.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn is_idle(&self) -> Result<bool, Error> {
        Ok(self.get(LINE_STATUS).await? & TRANSMITTER_IDLE != 0)
    }

    /// Hands over at most [`FIFO`] bytes; the FIFO must be empty.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.ports.write_bytes(self.port(DATA), bytes).await?)
    }

    /// Asks for an interrupt when the FIFO is empty, or no more.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn ask_for_room(&self, ask: bool) -> Result<(), Error> {
        self.set(INTERRUPT_ENABLE, if ask { ENABLE_RECEIVED | ENABLE_TRANSMIT } else { ENABLE_RECEIVED }).await
    }
}
