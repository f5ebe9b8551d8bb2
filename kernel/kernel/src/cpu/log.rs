//! The kernel's log: a ring of 256 KiB in memory, COM2, and COM1 until somebody claims that.
//!
//! Positions count bytes since the start and never wrap.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;

use crate::arch::serial::{self, Port};

/// Bytes that the ring keeps.
pub const CAPACITY: usize = 256 << 10;
/// The same, as positions are counted.
const LENGTH: u64 = CAPACITY as u64;
/// Longest line that [`log!`](crate::log!) makes; longer ones are cut.
const LINE: usize = 1024;

struct Log {
    ring: [u8; CAPACITY],
    /// Bytes ever written.
    end: u64,
    /// COM1 belongs to a process.
    com1_claimed: bool,
}

static LOG: Mutex<Log> = Mutex::new(Log { ring: [0; CAPACITY], end: 0, com1_claimed: false });

/// Something was written since [`take_news`] was asked last.
static NEWS: AtomicBool = AtomicBool::new(false);

/// Whether something was written since [`take_news`] was asked last.
#[inline(always)]
pub fn has_news() -> bool {
    NEWS.load(Ordering::Relaxed)
}

/// Somebody looks at what was written until now.
pub fn take_news() {
    NEWS.store(false, Ordering::Relaxed);
}

/// What [`read_from`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Position of the first byte given: the one asked for, or the oldest that is left.
    pub start: u64,
    /// Bytes given.
    pub length: usize,
}

/// Writes a line to the log, as `format!` would make it; the line end is added.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => { $crate::cpu::log::line(core::format_args!($($argument)*)) };
}

/// Appends bytes to the log as they are.
pub fn write(bytes: &[u8]) {
    let mut log = LOG.lock();
    for byte in bytes {
        let at = (log.end % LENGTH) as usize;
        if let Some(slot) = log.ring.get_mut(at) {
            *slot = *byte;
        }
        log.end = log.end.saturating_add(1);
    }
    NEWS.store(true, Ordering::Relaxed);
    serial::write(Port::Com2, bytes);
    if !log.com1_claimed {
        serial::write(Port::Com1, bytes);
    }
}

/// Copies what the log holds from `position` on into `into`. Where the ring has overwritten it,
/// reading begins at the oldest byte left; where nothing is there yet, nothing is copied.
pub fn read_from(position: u64, into: &mut [u8]) -> Read {
    let log = LOG.lock();
    let oldest = log.end.saturating_sub(LENGTH);
    let start = position.clamp(oldest, log.end);
    let mut length: usize = 0;
    for (byte, at) in into.iter_mut().zip(start..log.end) {
        *byte = log.ring.get((at % LENGTH) as usize).copied().unwrap_or(0);
        length = length.saturating_add(1);
    }
    Read { start, length }
}

/// Position after the last byte.
pub fn end() -> u64 {
    LOG.lock().end
}

/// From now on the log leaves COM1 alone.
pub fn claim_com1() {
    LOG.lock().com1_claimed = true;
}

/// Writes one line. Called by [`log!`](crate::log!).
pub fn line(arguments: fmt::Arguments<'_>) {
    // The line is made before the lock is taken: what formats itself may log.
    let mut line = Line { bytes: [0; LINE], length: 0 };
    let fits = line.write_fmt(arguments).is_ok();
    let end: &[u8] = if fits { b"\n" } else { b"...\n" };
    if let Some(text) = line.bytes.get(..line.length) {
        write(text);
    }
    write(end);
}

struct Line {
    bytes: [u8; LINE],
    length: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            *self.bytes.get_mut(self.length).ok_or(fmt::Error)? = byte;
            self.length = self.length.saturating_add(1);
        }
        Ok(())
    }
}
