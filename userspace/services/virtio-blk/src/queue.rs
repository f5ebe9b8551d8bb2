//! The queue of requests, of whatever length was agreed on: the library has a type for each.

use alloc::boxed::Box;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::{Error, Result};

use crate::hal::Platform;
use crate::transport::MessageTransport;

/// A queue.
pub trait Queue {
    /// Adds a request's buffers; its token comes back from [`Queue::answered`].
    ///
    /// # Safety
    /// The buffers must stay valid and untouched until [`Queue::take`] returns for the token.
    unsafe fn add<'a>(&mut self, inputs: &'a [&'a [u8]], outputs: &'a mut [&'a mut [u8]]) -> Result<u16>;

    /// The token of a request that was answered.
    fn answered(&self) -> Option<u16>;

    /// Takes a request that was answered out of the queue.
    ///
    /// # Safety
    /// The buffers must be those that were added under the token.
    unsafe fn take<'a>(&mut self, token: u16, inputs: &'a [&'a [u8]], outputs: &'a mut [&'a mut [u8]]) -> Result<u32>;

    /// Descriptors that are free.
    fn free(&self) -> usize;

    /// Whether the device wants to be told of what was added.
    fn wants_notice(&self) -> bool;
}

impl<const SIZE: usize> Queue for VirtQueue<Platform, SIZE> {
    unsafe fn add<'a>(&mut self, inputs: &'a [&'a [u8]], outputs: &'a mut [&'a mut [u8]]) -> Result<u16> {
        // SAFETY: the caller keeps the buffers.
        unsafe { Self::add(self, inputs, outputs) }
    }

    fn answered(&self) -> Option<u16> {
        self.peek_used()
    }

    unsafe fn take<'a>(&mut self, token: u16, inputs: &'a [&'a [u8]], outputs: &'a mut [&'a mut [u8]]) -> Result<u32> {
        // SAFETY: the caller passes the buffers of the token.
        unsafe { self.pop_used(token, inputs, outputs) }
    }

    fn free(&self) -> usize {
        self.available_desc()
    }

    fn wants_notice(&self) -> bool {
        self.should_notify()
    }
}

/// Makes the device's queue of this number, with this many descriptors.
///
/// # Errors
/// The device has no such queue, or there is no memory for it.
pub fn make(transport: &mut MessageTransport, number: u16, descriptors: u16) -> Result<Box<dyn Queue>> {
    fn of<const SIZE: usize>(transport: &mut MessageTransport, number: u16) -> Result<Box<dyn Queue>> {
        Ok(Box::new(VirtQueue::<Platform, SIZE>::new(transport, number, false, false)?))
    }
    match descriptors {
        4 => of::<4>(transport, number),
        8 => of::<8>(transport, number),
        16 => of::<16>(transport, number),
        32 => of::<32>(transport, number),
        64 => of::<64>(transport, number),
        128 => of::<128>(transport, number),
        _ => Err(Error::InvalidParam),
    }
}
