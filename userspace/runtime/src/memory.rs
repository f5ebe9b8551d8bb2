//! Memory objects, and where they are mapped.

use alloc::vec::Vec;
use core::ops::Deref;

use capos_abi::Rights;
pub use capos_ring::PAGE;
use capos_schema::cap::{AsCap, CallError, Cap};
use capos_schema::kernel::{AddressSpaceAccess, AddressSpaceClient, MemoryObjectClient, ResourceAccountClient};

use crate::call::wait_for;
#[cfg(all(capos_guest, feature = "std"))]
use crate::on_std::{give_addresses, take_addresses};
use crate::runtime;

/// The permitted accesses through a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
    /// Read and execute.
    ReadExecute,
}

impl Access {
    /// As the schema has it.
    #[must_use]
    pub fn to_schema(self) -> AddressSpaceAccess {
        AddressSpaceAccess { read: true, write: self == Self::ReadWrite, execute: self == Self::ReadExecute }
    }

    /// The rights that a capability needs for it.
    #[must_use]
    pub fn rights(self) -> Rights {
        match self {
            Self::Read => Rights::READ,
            Self::ReadWrite => Rights::READ.union(Rights::WRITE),
            Self::ReadExecute => Rights::READ.union(Rights::EXECUTE),
        }
    }
}

/// A mapping; it ends when this is dropped. The bytes may change at any time, by another process or
/// by a device, so they are copied in and out and never borrowed.
#[derive(Debug)]
pub struct Mapping {
    address: u64,
    length: u64,
    access: Access,
    space: AddressSpaceClient,
    /// Revoking it ends the mapping; kept so that it is not released before.
    memory: Cap,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if wait_for(self.space.unmap(self.address, self.length)).is_ok() {
            give_addresses(self.address, self.length);
        }
    }
}

#[cfg(not(all(capos_guest, feature = "std")))]
fn take_addresses(length: u64) -> Option<u64> {
    runtime::with(|rt| rt.facts.borrow_mut().addresses.take(length)).flatten()
}

#[cfg(not(all(capos_guest, feature = "std")))]
fn give_addresses(start: u64, length: u64) {
    runtime::with(|rt| rt.facts.borrow_mut().addresses.give(start, length));
}

fn space() -> Result<AddressSpaceClient, CallError> {
    runtime::with(|rt| rt.facts.borrow().space.clone())
        .flatten()
        .ok_or_else(|| CallError::failed("this process was given no `space` and cannot map memory"))
}

/// The process's account.
///
/// # Errors
/// It was given none.
pub fn account() -> Result<ResourceAccountClient, CallError> {
    runtime::with(|rt| rt.facts.borrow().account.clone())
        .flatten()
        .ok_or_else(|| CallError::failed("this process was given no `account` and cannot pay for memory"))
}

/// Zeroed memory of this many bytes, rounded up to whole pages, paid for by the process.
///
/// # Errors
/// The account does not cover it, or the machine has none left.
pub fn create(bytes: u64) -> Result<MemoryObjectClient, CallError> {
    wait_for(account()?.create_memory(bytes))
}

/// Maps `length` bytes (whole pages) of a MemoryObject, Mmio or DmaRegion from `offset` on.
///
/// # Errors
/// The capability does not allow it, the range is outside, or page tables cannot be paid for.
pub fn map(memory: &impl AsCap, offset: u64, length: u64, access: Access) -> Result<Mapping, CallError> {
    let space = space()?;
    let length = length.checked_next_multiple_of(PAGE).filter(|length| *length > 0).ok_or_else(|| {
        CallError::invalid_argument("a mapping needs at least one byte and fewer than the address space has")
    })?;
    let address = take_addresses(length)
        .ok_or_else(|| CallError::failed("the process has no free range of addresses of this length"))?;
    match wait_for(space.map(memory.as_cap(), address, offset, length, &access.to_schema())) {
        Ok(()) => Ok(Mapping { address, length, access, space, memory: memory.as_cap().clone() }),
        Err(error) => {
            give_addresses(address, length);
            Err(error)
        }
    }
}

/// Maps the whole of a memory object.
///
/// # Errors
/// As [`map`].
pub fn map_all(memory: &MemoryObjectClient, access: Access) -> Result<Mapping, CallError> {
    let info = wait_for(memory.info())?;
    map(memory, 0, info.bytes, access)
}

impl Mapping {
    /// The first address.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The first byte. The caller must justify accesses through it.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(usize::try_from(self.address).unwrap_or(0))
    }

    /// Length in bytes, whole pages.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Never: a mapping has at least one page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The capability that it was made through.
    #[must_use]
    pub fn memory(&self) -> &Cap {
        &self.memory
    }

    fn at(&self, offset: u64, length: usize) -> Result<*mut u8, CallError> {
        let inside = u64::try_from(length)
            .ok()
            .and_then(|length| offset.checked_add(length))
            .is_some_and(|end| end <= self.length);
        let offset = usize::try_from(offset).ok().filter(|_| inside).ok_or_else(|| {
            CallError::invalid_argument(alloc::format!(
                "{length} bytes at {offset} are outside a mapping of {} bytes",
                self.length
            ))
        })?;
        Ok(self.pointer().wrapping_add(offset))
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// They are outside.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), CallError> {
        let from = self.at(offset, into.len())?;
        // SAFETY: the range is inside the mapping, which lives as long as `self` and is readable.
        // The memory is not a Rust object: raw copies of it are foreign accesses on both sides.
        unsafe { core::ptr::copy_nonoverlapping(from.cast_const(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Bytes from `offset` on, copied out.
    ///
    /// # Errors
    /// They are outside.
    pub fn read_vec(&self, offset: u64, length: usize) -> Result<Vec<u8>, CallError> {
        self.at(offset, length)?;
        let mut bytes = alloc::vec![0; length];
        self.read(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// They are outside, or the mapping is not writable.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), CallError> {
        if self.access != Access::ReadWrite {
            return Err(CallError::invalid_argument("the mapping is not writable"));
        }
        let to = self.at(offset, from.len())?;
        // SAFETY: the range is inside the mapping, which lives as long as `self` and is writable.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// Reads one 32-bit word in one access, as device registers want it. `offset` is a multiple of 4.
    ///
    /// # Errors
    /// It is outside or across words.
    pub fn read_word(&self, offset: u64) -> Result<u32, CallError> {
        let from = self.word(offset)?;
        // SAFETY: aligned and inside the mapping, which lives as long as `self` and is readable.
        Ok(unsafe { from.read_volatile() })
    }

    /// Writes one 32-bit word in one access, as device registers want it. `offset` is a multiple of 4.
    ///
    /// # Errors
    /// It is outside or across words, or the mapping is not writable.
    pub fn write_word(&self, offset: u64, value: u32) -> Result<(), CallError> {
        if self.access != Access::ReadWrite {
            return Err(CallError::invalid_argument("the mapping is not writable"));
        }
        let to = self.word(offset)?;
        // SAFETY: aligned and inside the mapping, which lives as long as `self` and is writable.
        unsafe { to.write_volatile(value) };
        Ok(())
    }

    fn word(&self, offset: u64) -> Result<*mut u32, CallError> {
        if !offset.is_multiple_of(4) {
            return Err(CallError::invalid_argument("a word must be at a multiple of 4"));
        }
        Ok(self.at(offset, 4)?.cast())
    }

    /// Fills a range with zeros.
    ///
    /// # Errors
    /// It is outside, or the mapping is not writable.
    pub fn clear(&self, offset: u64, length: usize) -> Result<(), CallError> {
        if self.access != Access::ReadWrite {
            return Err(CallError::invalid_argument("the mapping is not writable"));
        }
        let to = self.at(offset, length)?;
        // SAFETY: as in `write`.
        unsafe { core::ptr::write_bytes(to, 0, length) };
        Ok(())
    }
}

/// A file, or a part of one, mapped read-only: it can be borrowed as bytes.
///
/// Paged memory is never writable, so its bytes stay the same as long as its pager gives the same
/// content for the same page. A pager may break that promise for the processes that trust it, for
/// example when a disk changes under a file that is not verified.
#[derive(Debug)]
pub struct FileMapping {
    mapping: Mapping,
    /// Bytes of the file; the rest of the last page is zero.
    bytes: usize,
}

impl FileMapping {
    /// Maps the first `bytes` of a paged memory object.
    ///
    /// # Errors
    /// As [`map`]; the memory is not paged.
    pub fn new(memory: &MemoryObjectClient, bytes: u64) -> Result<Self, CallError> {
        let info = wait_for(memory.info())?;
        if !info.paged {
            return Err(CallError::invalid_argument("only memory with a pager is mapped as a file"));
        }
        let mapping = map(memory, 0, bytes, Access::Read)?;
        let bytes = usize::try_from(bytes.min(mapping.length)).unwrap_or(0);
        Ok(Self { mapping, bytes })
    }

    /// The mapping.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

impl Deref for FileMapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: readable for `bytes` as long as `self` lives; the memory is never writable (see
        // the type's description). A page that cannot be supplied ends the process.
        unsafe { core::slice::from_raw_parts(self.mapping.pointer(), self.bytes) }
    }
}
