//! The port, served, and the wire behind it.

use alloc::rc::Rc;
use alloc::string::String;
use core::cell::RefCell;

use capos_async_lock::{Happenings, Waiters};
use capos_rt::Error;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::clients::{ClientPortNextResults, ClientPortServer};
use capos_uart::{FIFO, Uart};

use crate::desk::Desk;

/// The port.
#[derive(Default)]
pub struct Port {
    desk: RefCell<Desk>,
    /// Something has come, or there is something to send.
    moved: Waiters,
    /// Bytes have left.
    sent: Waiters,
}

impl ClientPortServer for Port {
    async fn next(&self, _cx: &CallContext) -> Result<ClientPortNextResults, CallError> {
        let (id, request) = self.moved.until(|| self.desk.borrow_mut().next()).await;
        Ok(ClientPortNextResults { id, request })
    }

    async fn send(&self, _cx: &CallContext, line: String) -> Result<(), CallError> {
        self.sent.until(|| self.desk.borrow_mut().send(&line).then_some(())).await;
        self.moved.wake();
        Ok(())
    }
}

/// The serial port, and what goes over it.
pub struct Wire {
    uart: Uart,
    port: Rc<Port>,
    /// The transmit FIFO was seen empty.
    room: Happenings,
}

impl Wire {
    /// A port that is set up.
    pub fn new(uart: Uart, port: Rc<Port>) -> Self {
        Self { uart, port, room: Happenings::default() }
    }

    /// Takes what the client sends, for ever.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn listen(&self) -> Result<(), Error> {
        loop {
            // What comes meanwhile raises no interrupt while the line is up, so the port is served until it is down.
            loop {
                let bytes = self.uart.receive().await?;
                if !bytes.is_empty() {
                    self.port.desk.borrow_mut().take(&bytes);
                    self.port.moved.wake();
                    continue;
                }
                if self.uart.may_send().await? {
                    self.room.happen();
                }
                if self.uart.is_quiet().await? {
                    break;
                }
            }
            self.uart.acknowledge().await?;
            self.uart.interrupted().await?;
        }
    }

    /// Sends what is for the client, for ever.
    ///
    /// # Errors
    /// The port is gone.
    pub async fn talk(&self) -> Result<(), Error> {
        loop {
            let piece = {
                let desk = &self.port.desk;
                let look = || Some(desk.borrow_mut().out(FIFO)).filter(|piece| !piece.is_empty());
                self.port.moved.until(look).await
            };
            let before = self.room.count();
            if !self.uart.may_send().await? {
                self.uart.ask_for_room(true).await?;
                self.room.after(before).await;
                self.uart.ask_for_room(false).await?;
            }
            self.uart.send(&piece).await?;
            self.port.sent.wake();
        }
    }
}
