//! The state in which a process starts.
//!
//! The first thread starts with `rdi` = address of the launch record (read-only), `rsi` = its
//! length in bytes, `rdx` = address of the thread's ring region, and a 16-byte aligned stack. The
//! launch record is a Cap'n Proto `LaunchRecord` of `schema/kernel.capnp`: single segment, no
//! segment table, root pointer first.

/// Where programs are linked.
pub const PROGRAM_BASE: u64 = 0x40_0000;
/// End of user addresses (exclusive): the lower half without its last page.
pub const USER_END: u64 = 0x0000_7fff_ffff_f000;
/// First user address that may be mapped: the first 64 KiB stay empty so that null faults.
pub const USER_START: u64 = 0x1_0000;
/// Where a process's launch record is mapped.
pub const LAUNCH_RECORD: u64 = 0x0000_7fff_0000_0000;
/// Where the first thread's rings are mapped.
pub const FIRST_RING: u64 = 0x0000_7ffe_0000_0000;
/// Top of the first thread's stack (exclusive); the page below the stack stays unmapped.
pub const FIRST_STACK_TOP: u64 = 0x0000_7ffd_0000_0000;
/// The first thread's stack, in bytes, unless its spawner chooses otherwise.
pub const FIRST_STACK_BYTES: u64 = 256 * 1024;
/// Where the runtime's heap starts.
pub const HEAP_START: u64 = 0x0000_1000_0000_0000;
/// Where the runtime maps memory objects that the program asks for.
pub const MAP_START: u64 = 0x0000_2000_0000_0000;
/// Where the first thread's own area is mapped, in programs that have thread-local storage.
pub const FIRST_THREAD_AREA: u64 = 0x0000_7ffc_0000_0000;
/// Room after a thread pointer for the block that the language's runtime keeps there, in bytes. Its first word is its
/// own address.
pub const THREAD_BLOCK_BYTES: u64 = 4096;
/// Thread pointers are multiples of this at least.
pub const THREAD_BLOCK_ALIGN: u64 = 64;

/// A thread's own area, from its low end: thread-local storage, then the block that the thread pointer (FS base) names.
/// Offsets in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadArea {
    /// Where the initial image of thread-local storage goes.
    pub image: u64,
    /// The address in the thread pointer.
    pub pointer: u64,
    /// Length of the area.
    pub bytes: u64,
}

impl ThreadArea {
    /// The area for thread-local storage of this size and alignment (a power of two, at most a page), laid out as ELF
    /// has it on this processor. `None` if it is larger than memory can be.
    #[must_use]
    pub const fn new(storage: u64, align: u64) -> Option<Self> {
        if !align.is_power_of_two() || align > 4096 {
            return None;
        }
        let pointer_align = if align > THREAD_BLOCK_ALIGN { align } else { THREAD_BLOCK_ALIGN };
        let (Some(pointer), Some(below)) =
            (storage.checked_next_multiple_of(pointer_align), storage.checked_next_multiple_of(align))
        else {
            return None;
        };
        let Some(bytes) = pointer.checked_add(THREAD_BLOCK_BYTES) else { return None };
        Some(Self { image: pointer.saturating_sub(below), pointer, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_ends_at_the_thread_pointer() {
        let area = |storage, align| ThreadArea::new(storage, align).map(|area| (area.image, area.pointer, area.bytes));
        assert_eq!(area(0, 1), Some((0, 0, 4096)));
        assert_eq!(area(20, 8), Some((40, 64, 64 + 4096)));
        assert_eq!(area(130, 128), Some((0, 256, 256 + 4096)));
        assert_eq!(area(1, 3), None);
        assert_eq!(area(1, 8192), None);
        assert_eq!(area(u64::MAX, 8), None);
    }
}
