//! Times as a person reads them.

use alloc::string::String;
use core::sync::atomic::{AtomicI16, Ordering};

/// A time in nanoseconds since 1970 as a text.
pub fn date_of(nanoseconds: u64) -> String {
    capos_audit::local(nanoseconds, offset())
}

/// Minutes by which the time of the person at this terminal is ahead of UTC, as the setting `session.utc_offset` says.
static OFFSET: AtomicI16 = AtomicI16::new(0);

/// Times are shown and read at this offset from now on.
pub fn set_offset(minutes: i16) {
    OFFSET.store(minutes, Ordering::Relaxed);
}

/// The offset at which times are shown and read.
pub fn offset() -> i16 {
    OFFSET.load(Ordering::Relaxed)
}
