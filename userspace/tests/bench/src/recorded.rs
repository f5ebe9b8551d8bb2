//! Calls of kernel objects whose parameters a generated client has laid out once, to be made any number of times by
//! entries that cost nothing more.

use alloc::rc::Rc;
use core::any::Any;
use core::cell::RefCell;

use capos_abi::{RawEntry, Rights};
use capos_rt::{Context, Error};
use capos_schema::cap::{Begun, CallError, Cap, CapTransport, Client, Message, ReadResult};

use crate::entries::{self, CAPS};

/// Keeps a client's messages, and answers nothing.
#[derive(Default)]
struct Recorder(Rc<RefCell<Option<(u64, u16, Message)>>>);

impl CapTransport for Recorder {
    fn begin(
        &self,
        (interface, method): (u64, u16),
        params: Message,
        _: u32,
        _: &mut core::task::Context<'_>,
        _: ReadResult<'_>,
    ) -> Begun {
        *self.0.borrow_mut() = Some((interface, method, params));
        Begun::Ended(Err(CallError::failed("recorded")))
    }

    fn id(&self) -> u64 {
        0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A call with its parameters, in a page of its own.
pub struct Recorded {
    method: (u64, u16),
    params: u32,
    sent: u8,
    memory: u64,
}

impl Recorded {
    /// Records the one call that `call` makes; its error is the recorder's own.
    ///
    /// # Errors
    /// It makes none.
    pub async fn of<C: Client>(call: impl AsyncFnOnce(C) -> Result<(), CallError>) -> Result<Self, Error> {
        let recorder = Recorder::default();
        let said = Rc::clone(&recorder.0);
        // The recorder answers no call.
        let _ = call(C::from_cap(Cap::new(recorder))).await;
        let (interface, method, message) = said.take().context("a call to record was not made")?;
        let memory = entries::page();
        let (words, _) = message.bytes().as_chunks::<8>();
        for (at, word) in (0..).step_by(8).zip(words) {
            entries::write(memory + at, u64::from_le_bytes(*word));
        }
        let recorded = Self {
            method: (interface, method),
            params: u32::try_from(message.bytes().len()).unwrap_or(0),
            sent: u8::try_from(message.caps.len()).unwrap_or(0),
            memory,
        };
        if let Some(argument) = message.caps.first() {
            recorded.send(argument.cap.id());
        }
        Ok(recorded)
    }

    /// The capability that it sends from now on, in place of the recorded one.
    pub fn send(&self, cap: u64) {
        entries::write(self.memory + CAPS, cap);
        entries::write(self.memory + CAPS + 8, u64::from(Rights::ALL.0));
    }

    /// The entry that calls `cap`. A call sends a capability or receives one, never both.
    pub fn entry(&self, cap: u64) -> RawEntry {
        let accepted = u8::from(self.sent == 0);
        entries::call(cap, self.method, self.params, self.memory, (self.sent, accepted))
    }

    /// The capability that the last call received.
    pub fn received(&self) -> u64 {
        entries::read(self.memory + CAPS)
    }
}
