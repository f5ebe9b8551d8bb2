//! Memory bookkeeping without memory: which regions an address space holds, which pages of a paged
//! object are present, and which cached page is evicted next. No unsafe, tested on the host.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

extern crate alloc;

mod block;
mod clock;
mod pages;
mod regions;

pub use block::{BLOCK_PAGES, Block};
pub use clock::{Clock, Slot};
pub use pages::{PageState, Pages};
pub use regions::{Cleared, Keyed, RangeError, Region, Regions};

pub use capos_abi::{LARGE_PAGE, PAGE};

/// How many pages hold `bytes` bytes.
#[must_use]
pub const fn pages_for(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE)
}

/// Whether an address or length is a multiple of [`PAGE`].
#[must_use]
pub const fn is_aligned(value: u64) -> bool {
    value.is_multiple_of(PAGE)
}
