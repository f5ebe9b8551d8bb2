//! What a process finds when it starts.
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
