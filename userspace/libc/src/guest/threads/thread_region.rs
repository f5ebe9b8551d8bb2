//! The mappings in which threads have their stack, their storage and their block.
//!
//! Making one costs the kernel a cleared frame for each page of it, so those of threads that have ended serve the next
//! ones. They are few, and are freed before the process is refused memory.

use capos_ring::unmap;
use capos_schema::kernel::AddressSpaceClient;

use crate::guest::errno::Result;
use crate::guest::threads::lock::Mutex;
use crate::guest::threads::thread_block;
use crate::guest::{grants, memory_map};

/// How many are kept at most, and how many bytes of them.
const MOST: usize = 8;
const MOST_BYTES: u64 = 8 << 20;

/// A range of addresses.
#[derive(Clone, Copy)]
struct Region {
    start: u64,
    bytes: u64,
    /// Whether it has memory. Only the addresses remain of one without.
    mapped: bool,
}

/// Regions of threads that have ended. Nothing is allocated while this is locked: an allocation that fails locks it.
static KEPT: Mutex<[Option<Region>; MOST]> = Mutex::new([None; MOST]);

/// Takes one out that is as described.
fn take_out(which: impl Fn(&Region) -> bool) -> Option<Region> {
    KEPT.lock().iter_mut().find(|place| place.as_ref().is_some_and(&which))?.take()
}

/// A region of `bytes` bytes, in whole pages. It may contain another thread's leftovers.
pub fn take(bytes: u64) -> Result<u64> {
    while let Some(given_up) = take_out(|region| !region.mapped) {
        memory_map::give(given_up.start, given_up.bytes);
    }
    match take_out(|region| region.mapped && region.bytes == bytes) {
        Some(region) => Ok(region.start),
        None => memory_map::map_new(bytes),
    }
}

/// Takes the region of a thread that has ended: for the next one, or to unmap it.
pub fn give(start: u64, bytes: u64) {
    {
        let mut kept = KEPT.lock();
        let held = kept.iter().flatten().filter(|region| region.mapped).map(|region| region.bytes).sum::<u64>();
        if held.saturating_add(bytes) <= MOST_BYTES
            && let Some(place) = kept.iter_mut().find(|place| place.is_none())
        {
            *place = Some(Region { start, bytes, mapped: true });
            return;
        }
    }
    // Memory that cannot be unmapped stays until the process ends.
    let _ = memory_map::unmap(start, bytes);
}

/// Gives the memory of all that are kept back to the process's account, without allocating. Whether there was any.
pub fn give_up() -> bool {
    let Some(space) = grants::id::<AddressSpaceClient>("space") else { return false };
    let (ring, mut any) = (thread_block::ring(), false);
    for region in KEPT.lock().iter_mut().flatten().filter(|region| region.mapped) {
        if unmap(&ring, space, region.start, region.bytes) {
            region.mapped = false;
            any = true;
        }
    }
    any
}
