//! DmaDomain and DmaRegion: memory that a device may reach.

use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::Status;
use capos_paging::PAGE;
use capos_schema::sync::Exception;

use crate::cpu::kernel_lock::Exclusive;
use crate::memory::frames::Frame;
use crate::object::account::Charge;
use crate::object::invocation::refused;
use crate::object::memory::MemoryObject;

/// Memory as a device sees it. Keeps the memory object, and with it the frames.
#[derive(Debug)]
pub struct DmaRegion {
    memory: Arc<MemoryObject>,
    offset: u64,
    bytes: u64,
    /// Physical address and length of each contiguous part.
    segments: Vec<(u64, u64)>,
    _object: Charge,
}

impl DmaRegion {
    /// Pins a part of a memory object, whole pages.
    ///
    /// # Errors
    /// The memory is paged; no memory.
    pub fn new(
        lock: &mut Exclusive,
        memory: Arc<MemoryObject>,
        offset: u64,
        bytes: u64,
        object: Charge,
    ) -> Result<Self, Exception> {
        // What a device writes is to be seen in this memory, and in no other.
        memory.pin(lock, offset / PAGE, bytes / PAGE).map_err(refused)?;
        let mut segments: Vec<(u64, u64)> = Vec::new();
        let (first, count) = (offset / PAGE, bytes / PAGE);
        let mut known: u64 = 0;
        memory.each_stable_frame(first, count, |frame| -> Result<(), Exception> {
            known = known.wrapping_add(1);
            let address = frame.address();
            match segments.last_mut() {
                Some((start, length)) if start.checked_add(*length) == Some(address) => {
                    *length = length.saturating_add(PAGE);
                }
                _ => {
                    segments.try_reserve(1).map_err(|_| refused(Status::OutOfMemory))?;
                    segments.push((address, PAGE));
                }
            }
            Ok(())
        })?;
        if known < count {
            return Err(Exception::failed("paged memory cannot be pinned"));
        }
        Ok(Self { memory, offset, bytes, segments, _object: object })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether what a device writes there does not matter any more: the pager that wanted it has
    /// answered.
    pub fn is_settled(&self) -> bool {
        self.memory.is_settled()
    }

    /// Physical address of a byte.
    pub fn physical(&self, offset: u64) -> Option<u64> {
        if offset >= self.bytes {
            return None;
        }
        self.memory.stable_frame(self.offset.checked_add(offset)? / PAGE).map(Frame::address)
    }

    /// Physical address and length of each contiguous part.
    pub fn segments(&self) -> &[(u64, u64)] {
        &self.segments
    }
}
