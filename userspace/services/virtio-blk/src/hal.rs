//! What `virtio-drivers` asks of the platform, answered from what this process holds.
//!
//! Two tables stand behind the stateless trait: windows of the device mapped here, and memory that
//! the device may reach. Both are filled before the library asks; nothing outside them is given out.

use alloc::vec::Vec;
use core::ptr::NonNull;
use spin::Mutex;
use virtio_drivers::{BufferDirection, Hal, PhysAddr};

/// A stretch of this process's memory that stands for bus addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// First address in this process.
    pub address: usize,
    /// First address on the bus.
    pub bus: u64,
    /// Length in bytes.
    pub bytes: usize,
}

static WINDOWS: Mutex<Vec<Stretch>> = Mutex::new(Vec::new());
static REACHABLE: Mutex<Vec<Stretch>> = Mutex::new(Vec::new());
/// Contiguous memory, allocated before the queue is made: the trait cannot wait for the kernel.
static POOL: Mutex<Vec<Stretch>> = Mutex::new(Vec::new());

/// Tells where a window of the device is mapped.
pub fn add_window(stretch: Stretch) {
    WINDOWS.lock().push(stretch);
}

/// Gives contiguous memory that the library may take for its queues.
pub fn add_pool(stretch: Stretch) {
    REACHABLE.lock().push(stretch);
    POOL.lock().push(stretch);
}

/// Lets the device reach memory.
pub fn add_reachable(stretch: Stretch) {
    REACHABLE.lock().push(stretch);
}

/// Takes back what lies in a range.
pub fn remove_reachable_range(address: usize, bytes: usize) {
    let end = address.saturating_add(bytes);
    REACHABLE.lock().retain(|stretch| stretch.address < address || stretch.address >= end);
}

fn translate(table: &[Stretch], address: usize, bytes: usize) -> Option<u64> {
    table.iter().find_map(|stretch| {
        let offset = address.checked_sub(stretch.address)?;
        let end = offset.checked_add(bytes)?;
        (end <= stretch.bytes).then(|| stretch.bus.wrapping_add(offset as u64))
    })
}

/// The platform of this process.
pub struct Platform;

const PAGE: usize = 4096;

// SAFETY: memory for queues comes from `add_pool`, whose caller maps zeroed contiguous memory that
// nothing else uses, each piece handed out once; windows come from `add_window`, mapped for the
// life of the process.
unsafe impl Hal for Platform {
    fn dma_alloc(pages: usize, _direction: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let bytes = pages.saturating_mul(PAGE);
        let mut pool = POOL.lock();
        for stretch in pool.iter_mut().filter(|stretch| stretch.bytes >= bytes) {
            let taken = *stretch;
            stretch.address = stretch.address.wrapping_add(bytes);
            stretch.bus = stretch.bus.wrapping_add(bytes as u64);
            stretch.bytes = stretch.bytes.saturating_sub(bytes);
            if let Some(pointer) = NonNull::new(core::ptr::with_exposed_provenance_mut(taken.address)) {
                return (taken.bus, pointer);
            }
        }
        // Bus address 0 tells the library that there is none.
        (0, NonNull::dangling())
    }

    unsafe fn dma_dealloc(_bus: PhysAddr, _pointer: NonNull<u8>, _pages: usize) -> i32 {
        // Queues live as long as the process.
        0
    }

    unsafe fn mmio_phys_to_virt(bus: PhysAddr, size: usize) -> NonNull<u8> {
        let windows = WINDOWS.lock();
        let found = windows.iter().find_map(|window| {
            let offset = usize::try_from(bus.checked_sub(window.bus)?).ok()?;
            (offset.checked_add(size)? <= window.bytes).then(|| window.address.wrapping_add(offset))
        });
        found
            .and_then(|address| NonNull::new(core::ptr::with_exposed_provenance_mut(address)))
            .unwrap_or(NonNull::dangling())
    }

    unsafe fn share(buffer: NonNull<[u8]>, _direction: BufferDirection) -> PhysAddr {
        // An address that is not in the table becomes bus address 0, which holds nothing of ours.
        translate(&REACHABLE.lock(), buffer.cast::<u8>().addr().get(), buffer.len()).unwrap_or(0)
    }

    unsafe fn unshare(_bus: PhysAddr, _buffer: NonNull<[u8]>, _direction: BufferDirection) {}
}
