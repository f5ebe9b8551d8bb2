//! `mmap` and its kin: memory of the process's own, and files to read.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};

use capos_ring::{Addresses, PAGE};
use capos_schema::cap::{AsCap, CallError};
use capos_schema::kernel::{AddressSpaceAccess, AddressSpaceClient, ResourceAccountClient};

use crate::guest::errno::{self, Errno, Result, answer};
use crate::guest::files::description::Object;
use crate::guest::files::descriptor;
use crate::guest::grants::{cap, wait};
use crate::guest::threads::lock::Mutex;
use crate::guest::threads::{thread, thread_region};

static ADDRESSES: Mutex<Addresses> = Mutex::new(Addresses::new());

/// Mappings that cannot be written, each from an address to the one after it. All others can.
static READ_ONLY: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Whether a part of this range cannot be written.
fn is_read_only(start: u64, end: u64) -> bool {
    READ_ONLY.lock().iter().any(|&(first, last)| first < end && start < last)
}

/// A range is no longer mapped.
fn forget_read_only(start: u64, end: u64) {
    let mut ranges = READ_ONLY.lock();
    if ranges.iter().any(|&(first, last)| first < end && start < last) {
        let rest = |&(first, last): &(u64, u64)| [(first, last.min(start)), (first.max(end), last)];
        *ranges = ranges.iter().flat_map(rest).filter(|(first, last)| first < last).collect();
    }
}

/// Takes a range of addresses, in whole pages, with an unused page on both sides.
pub fn take(length: u64) -> Result<u64> {
    ADDRESSES.lock().take(length).ok_or(Errno(libc::ENOMEM))
}

/// Gives a range back, or a part of one.
pub fn give(start: u64, length: u64) {
    ADDRESSES.lock().give(start, length);
}

/// New zeroed memory at a fresh address. `length` in whole pages.
pub fn map_new(length: u64) -> Result<u64> {
    match try_map_new(length) {
        // The memory of ended threads is freed before memory is refused.
        Err(Errno(libc::ENOMEM)) => {
            thread::reap();
            if thread_region::give_up() { try_map_new(length) } else { Err(Errno(libc::ENOMEM)) }
        }
        other => other,
    }
}

fn try_map_new(length: u64) -> Result<u64> {
    let account: ResourceAccountClient = cap("account").ok_or(Errno(libc::ENOMEM))?;
    let space: AddressSpaceClient = cap("space").ok_or(Errno(libc::ENOMEM))?;
    // A caller that asks for memory gets `ENOMEM` if the account's share is used up, or if no account has that much.
    let refused = |error: CallError| match Errno::from(error) {
        Errno(libc::EAGAIN | libc::EINVAL) => Errno(libc::ENOMEM),
        other => other,
    };
    let memory = wait(account.create_memory(length)).map_err(refused)?;
    let start = take(length)?;
    let access = AddressSpaceAccess { read: true, write: true, execute: false };
    // The mapping keeps the memory.
    if let Err(error) = wait(space.map(memory.as_cap(), start, 0, length, &access)) {
        give(start, length);
        return Err(refused(error));
    }
    Ok(start)
}

/// Ends a mapping, or a part of it.
pub fn unmap(start: u64, length: u64) -> Result<()> {
    let space: AddressSpaceClient = cap("space").ok_or(Errno(libc::EINVAL))?;
    wait(space.unmap(start, length))?;
    forget_read_only(start, start.saturating_add(length));
    give(start, length);
    Ok(())
}

/// Maps a file to read: the pages of its server, if it has such, shared by all processes that map it. Elsewhere a
/// mapping of the process's own is filled with the file's current content; one that is to show others' changes is
/// rejected.
fn map_file(length: u64, protection: c_int, flags: c_int, descriptor: c_int, offset: i64) -> Result<u64> {
    let open = descriptor::get(descriptor)?;
    let Object::File(file) = &open.object else { return Err(Errno(libc::ENODEV)) };
    open.may_read().map_err(|_| Errno(libc::EACCES))?;
    let offset = u64::try_from(offset).ok().filter(|offset| offset.is_multiple_of(PAGE)).ok_or(Errno(libc::EINVAL))?;
    let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let writable = protection & libc::PROT_WRITE != 0;
    if shared && writable {
        return Err(Errno(libc::ENODEV));
    }
    if let (false, Some(paged)) = (writable, file.memory()?) {
        // Only the file's part can be accessed.
        let has = paged.bytes.checked_next_multiple_of(PAGE).unwrap_or(0).saturating_sub(offset);
        let (start, mapped) = (take(length)?, length.min(has));
        let space: AddressSpaceClient = cap("space").ok_or(Errno(libc::ENOMEM))?;
        let access = AddressSpaceAccess { read: true, write: false, execute: false };
        if mapped > 0
            && let Err(error) = wait(space.map(paged.memory.as_cap(), start, offset, mapped, &access))
        {
            give(start, length);
            return Err(error.into());
        }
        READ_ONLY.lock().push((start, start.saturating_add(length)));
        return Ok(start);
    }
    if shared {
        return Err(Errno(libc::ENODEV));
    }
    let start = map_new(length)?;
    let (pointer, count) = (usize::try_from(start).unwrap_or(0), usize::try_from(length).unwrap_or(0));
    // SAFETY: the mapping was just made, and no other code knows its address.
    let bytes = unsafe { core::slice::from_raw_parts_mut(core::ptr::with_exposed_provenance_mut(pointer), count) };
    let filled = file.status().and_then(|status| {
        let has = status.bytes.saturating_sub(offset).min(length);
        // Zeros instead of the file's content would be wrong data.
        if file.read(offset, bytes)? as u64 >= has { Ok(()) } else { Err(Errno(libc::EIO)) }
    });
    if let Err(error) = filled {
        unmap(start, length)?;
        return Err(error);
    }
    Ok(start)
}

/// Nothing that a program maps can be run: code comes from its file alone.
fn not_to_run(protection: c_int) -> Result<()> {
    if protection & libc::PROT_EXEC == 0 { Ok(()) } else { Err(Errno(libc::EACCES)) }
}

fn map(length: usize, protection: c_int, flags: c_int, descriptor: c_int, offset: i64) -> Result<u64> {
    let length = u64::try_from(length).ok().filter(|length| *length > 0).ok_or(Errno(libc::EINVAL))?;
    let length = length.checked_next_multiple_of(PAGE).ok_or(Errno(libc::ENOMEM))?;
    if flags & libc::MAP_FIXED != 0 {
        return Err(Errno(libc::ENOSYS));
    }
    not_to_run(protection)?;
    if flags & libc::MAP_ANONYMOUS == 0 {
        return map_file(length, protection, flags, descriptor, offset);
    }
    map_new(length)
}

#[unsafe(no_mangle)]
extern "C" fn mmap64(
    _address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    match map(length, protection, flags, descriptor, offset) {
        Ok(start) => core::ptr::with_exposed_provenance_mut(usize::try_from(start).unwrap_or(0)),
        Err(error) => {
            errno::set(error);
            libc::MAP_FAILED
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    let pages = u64::try_from(length).ok().and_then(|length| length.checked_next_multiple_of(PAGE));
    answer(pages.ok_or(Errno(libc::EINVAL)).and_then(|pages| unmap(address.addr() as u64, pages)).map(|()| 0))
}

/// The permissions of a mapping stay: asking for just those succeeds, anything else fails. Guard pages of stacks are
/// ranges that were never mapped.
#[unsafe(no_mangle)]
extern "C" fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int {
    let start = address.addr() as u64;
    let writable = !is_read_only(start, start.saturating_add(length as u64));
    let same = protection != libc::PROT_NONE && writable == (protection & libc::PROT_WRITE != 0);
    answer(not_to_run(protection).and(if same { Ok(0) } else { Err(Errno(libc::ENOSYS)) }))
}
