//! The higher-half direct map: physical address `p` lies at virtual address `offset + p`.
//!
//! Until the kernel's own page tables are active the loader's map is used, which has the same
//! offset; afterwards only RAM and the device ranges that [`super::kernel_space`] was asked for are
//! there.

use core::sync::atomic::{AtomicU64, Ordering};

static OFFSET: AtomicU64 = AtomicU64::new(0);

/// Notes the loader's offset. Called once, before anything else here.
pub fn set_offset(offset: u64) {
    OFFSET.store(offset, Ordering::Relaxed);
}

/// The distance between a physical address and its virtual one.
pub fn offset() -> u64 {
    OFFSET.load(Ordering::Relaxed)
}

/// Where physical address `physical` lies in the kernel's address space.
pub fn virtual_address(physical: u64) -> u64 {
    offset().wrapping_add(physical)
}

/// A pointer to physical memory. It may be used where the range is mapped: RAM always, device
/// ranges after `kernel_space::map_device`.
pub fn pointer<T>(physical: u64) -> *mut T {
    virtual_address(physical) as *mut T
}

/// The physical address behind a pointer into the direct map.
pub fn physical<T>(pointer: *const T) -> u64 {
    (pointer as u64).wrapping_sub(offset())
}
