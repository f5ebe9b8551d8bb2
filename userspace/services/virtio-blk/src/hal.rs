//! What `virtio-drivers` asks of the platform: where the windows of the device are mapped here.
//!
//! The library is used for the transport alone. Queues and requests are this driver's own, so it is given no memory.

use alloc::vec::Vec;
use core::ptr::NonNull;
use spin::Mutex;
use virtio_drivers::{BufferDirection, Hal, PhysAddr};

/// A window of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First address in this process.
    pub address: usize,
    /// First address on the bus.
    pub bus: u64,
    /// Length in bytes.
    pub bytes: usize,
}

static WINDOWS: Mutex<Vec<Window>> = Mutex::new(Vec::new());

/// Tells where a window of the device is mapped.
pub fn add_window(window: Window) {
    WINDOWS.lock().push(window);
}

/// The platform of this process.
pub struct Platform;

// SAFETY: no memory is given out; windows come from `add_window`, mapped for the life of the process.
unsafe impl Hal for Platform {
    fn dma_alloc(_pages: usize, _direction: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        // Bus address 0 tells the library that there is none.
        (0, NonNull::dangling())
    }

    unsafe fn dma_dealloc(_bus: PhysAddr, _pointer: NonNull<u8>, _pages: usize) -> i32 {
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

    unsafe fn share(_buffer: NonNull<[u8]>, _direction: BufferDirection) -> PhysAddr {
        0
    }

    unsafe fn unshare(_bus: PhysAddr, _buffer: NonNull<[u8]>, _direction: BufferDirection) {}
}
