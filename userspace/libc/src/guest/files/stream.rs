//! Standard input and output as the launcher gives them: a terminal, another program, or a buffer of the launcher.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;
use core::task::Context;

use capos_abi::Status;
use capos_ring::Asked;
use capos_schema::cap::{Begun, CallError, Cap, CapTransport, Client, Message, ReadResult};
use capos_schema::system::{StandardClient, StandardInputClient};

use crate::guest::errno::{Errno, Result};
use crate::guest::grants::{self, wait};
use crate::guest::handle::Handle;

/// Bytes of one call's data.
const MAX_TRANSFER: usize = 32 << 10;
/// Room in an answer for everything but the data.
const ANSWER_ROOM: u32 = 512;

/// Columns and rows of a terminal.
pub type Size = (u16, u16);

/// The error of a stream whose server is gone: for the program the other side is gone.
fn gone(error: CallError) -> Errno {
    if error.is_disconnected() { Errno(libc::EPIPE) } else { Errno::from(error) }
}

/// Remembers a call in place of making it.
#[derive(Default)]
struct Recorder(Rc<RefCell<Option<(u64, u16, Message)>>>);

impl CapTransport for Recorder {
    fn begin(
        &self,
        (interface, method): (u64, u16),
        params: Message,
        _: u32,
        _: &mut Context<'_>,
        _: ReadResult<'_>,
    ) -> Begun {
        *self.0.borrow_mut() = Some((interface, method, params));
        Begun::Ended(Err(CallError::Transport(Status::Cancelled)))
    }

    fn id(&self) -> u64 {
        0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The call that a client makes of a capability, not made.
fn asked<C: Client>(cap: u64, call: impl FnOnce(C)) -> Option<Asked> {
    let recorded = Rc::default();
    call(C::from_cap(Cap::new(Recorder(Rc::clone(&recorded)))));
    let (interface, method, message) = recorded.take()?;
    Some(Asked { cap, interface, method, message })
}

/// Standard input. Without a grant `in` it is at its end.
#[derive(Debug)]
pub struct Input {
    id: Option<u64>,
}

impl Input {
    pub fn granted() -> Self {
        Self { id: grants::id::<StandardInputClient>("in") }
    }

    fn client(&self, data: usize) -> Option<StandardInputClient> {
        let data = u32::try_from(data).unwrap_or(u32::MAX);
        self.id.map(|id| Handle::granted(id).client_within(data.saturating_add(ANSWER_ROOM)))
    }

    /// Reads the available bytes, at least one; nothing at the end.
    pub fn read(&self, buffer: &mut [u8], blocks: bool) -> Result<usize> {
        let most = buffer.len().min(MAX_TRANSFER);
        let Some(client) = self.client(most).filter(|_| most > 0) else { return Ok(0) };
        let answer = match wait(client.read(u32::try_from(most).unwrap_or(0), blocks)) {
            Ok(answer) => answer,
            Err(error) if error.is_disconnected() => return Ok(0),
            Err(error) => return Err(Errno::from(error)),
        };
        if answer.data.is_empty() && !answer.end {
            return Err(Errno(libc::EAGAIN));
        }
        // More than was asked for is not for this buffer.
        let count = answer.data.len().min(most);
        for (to, from) in buffer.iter_mut().zip(answer.data.iter().take(count)) {
            *to = *from;
        }
        Ok(count)
    }

    /// Bytes that can be read at once.
    pub fn available(&self) -> usize {
        let ready = self.client(0).and_then(|client| wait(client.ready(false)).ok());
        ready.map_or(0, |ready| usize::try_from(ready.bytes).unwrap_or(usize::MAX))
    }

    pub fn events(&self) -> i16 {
        let Some(client) = self.client(0) else { return libc::POLLIN };
        match wait(client.ready(false)) {
            Ok(ready) if ready.end && ready.bytes == 0 => libc::POLLIN | libc::POLLHUP,
            Ok(ready) => {
                if ready.ready {
                    libc::POLLIN
                } else {
                    0
                }
            }
            Err(_) => libc::POLLIN | libc::POLLHUP,
        }
    }

    /// To learn when it can be read.
    pub fn asked(&self) -> Option<Asked> {
        asked::<StandardInputClient>(self.id?, |client| drop(wait(client.ready(true))))
    }

    /// The terminal's size, if it is one.
    pub fn terminal(&self) -> Option<Size> {
        let screen = wait(self.client(0)?.screen()).ok().filter(|screen| screen.terminal)?;
        Some((screen.columns, screen.rows))
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Some(client) = self.client(0) {
            // One that is gone is closed.
            drop(wait(client.close()));
        }
    }
}

/// The launcher's grant to write to.
#[derive(Debug)]
pub struct Output {
    id: u64,
    /// Whether nothing else of the process writes there: then it can be closed.
    alone: bool,
}

impl Output {
    /// The grant of a name; the other, if there is only one for both streams.
    pub fn granted(name: &str, other: &str) -> Option<Self> {
        let second = grants::id::<StandardClient>(other);
        match grants::id::<StandardClient>(name) {
            Some(id) => Some(Self { id, alone: second.is_some() }),
            None => second.map(|id| Self { id, alone: false }),
        }
    }

    fn client(&self) -> StandardClient {
        Handle::granted(self.id).client_within(ANSWER_ROOM)
    }

    /// Writes all, or as much as there is room for if it may not block. `EPIPE` once no process reads from it any more.
    pub fn write(&self, bytes: &[u8], blocks: bool) -> Result<usize> {
        let mut done = 0_usize;
        for piece in bytes.chunks(MAX_TRANSFER) {
            let answer = wait(self.client().write_bytes(piece, blocks)).map_err(gone);
            let (written, open) = match answer {
                Ok(answer) => (usize::try_from(answer.written).unwrap_or(usize::MAX).min(piece.len()), answer.open),
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            };
            done = done.saturating_add(written);
            if written < piece.len() {
                return match (done, open) {
                    (0, true) => Err(Errno(libc::EAGAIN)),
                    (0, false) => Err(Errno(libc::EPIPE)),
                    _ => Ok(done),
                };
            }
        }
        Ok(done)
    }

    pub fn events(&self) -> i16 {
        match wait(self.client().ready(false)) {
            Ok(ready) if ready.open => {
                if ready.ready {
                    libc::POLLOUT
                } else {
                    0
                }
            }
            _ => libc::POLLOUT | libc::POLLERR,
        }
    }

    /// To learn when it can be written.
    pub fn asked(&self) -> Option<Asked> {
        asked::<StandardClient>(self.id, |client| drop(wait(client.ready(true))))
    }

    /// The terminal's size, if it is one.
    pub fn terminal(&self) -> Option<Size> {
        let screen = wait(self.client().screen()).ok().filter(|screen| screen.terminal)?;
        Some((screen.columns, screen.rows))
    }

    /// Says that nothing more is written, if nothing else of the process writes there.
    pub fn close(&self) {
        if self.alone {
            // One that is gone is closed.
            drop(wait(self.client().close()));
        }
    }
}

/// Waits for any of these calls, for a word of memory, or for a time.
pub fn wait_for_any(word: (u64, u32), calls: Vec<Asked>, deadline: u64) {
    crate::guest::threads::thread_block::ring().wait_for_any(word, calls, deadline);
}
