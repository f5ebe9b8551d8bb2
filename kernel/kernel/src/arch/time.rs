//! Time: nanoseconds since the start from the time-stamp counter, the wall clock, and this
//! processor's one-shot timer.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering};

use capos_machine::clock::Scale;
use spin::Once;

use crate::arch::{apic, clock};

struct Clock {
    scale: Scale,
    hertz: u64,
    /// Counter value at the kernel's first instruction.
    start: u64,
}

static CLOCK: Once<Clock> = Once::new();
/// Milliseconds since 1970 at time 0; 0 where the machine has no clock.
static WALL_START: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds since the kernel's first instruction; 0 until the clock runs.
pub fn now() -> u64 {
    at(tsc())
}

/// The same where the time-stamp counter was `count`.
pub fn at(count: u64) -> u64 {
    lasting(count.wrapping_sub(start_tsc()))
}

/// Nanoseconds that so many ticks of the time-stamp counter last; 0 until the clock runs.
pub fn lasting(ticks: u64) -> u64 {
    CLOCK.get().map_or(0, |clock| clock.scale.nanoseconds(ticks))
}

/// Raises the timer interrupt on this processor when `deadline` (as [`now`] counts) has passed, at
/// once where it has. Replaces what was armed before. It can come early where the deadline is
/// farther away than the timer can count: look at the time and arm again.
pub fn arm(deadline: u64) {
    if let Some(clock) = CLOCK.get() {
        apic::arm(clock.start.saturating_add(clock.scale.ticks(deadline)), deadline.saturating_sub(now()));
    }
}

/// Takes back what was armed on this processor.
pub fn disarm() {
    apic::disarm();
}

/// Milliseconds since 1970-01-01T00:00:00Z by the machine's clock; since the start where it has none.
pub fn wall_clock_ms() -> u64 {
    WALL_START.load(Ordering::Relaxed).saturating_add(now() / 1_000_000)
}

/// Sets the wall clock, and the machine's own to whole seconds. False if that does not hold the time.
pub fn set_wall_clock(milliseconds: u64) -> bool {
    let set = clock::write(milliseconds / 1000);
    if set {
        WALL_START.store(milliseconds.saturating_sub(now() / 1_000_000), Ordering::Relaxed);
    }
    set
}

/// Ticks per second of the time-stamp counter; 0 until it is known.
pub fn tsc_hertz() -> u64 {
    CLOCK.get().map_or(0, |clock| clock.hertz)
}

/// The time-stamp counter.
#[inline(always)]
pub fn tsc() -> u64 {
    // SAFETY: reading the counter has no effect, and `cpu::detect` made sure that it is there.
    unsafe { _rdtsc() }
}

/// Counter value at the kernel's first instruction.
pub fn start_tsc() -> u64 {
    CLOCK.get().map_or(0, |clock| clock.start)
}

/// Starts the clock: counter frequency, its value at the kernel's entry, and the wall clock's
/// seconds, if any. False where the frequency makes no sense.
pub fn initialize(hertz: u64, start: u64, wall_seconds: Option<u64>) -> bool {
    let Some(scale) = Scale::new(hertz) else { return false };
    CLOCK.call_once(|| Clock { scale, hertz, start });
    if let Some(seconds) = wall_seconds {
        WALL_START.store(seconds.saturating_mul(1000).saturating_sub(now() / 1_000_000), Ordering::Relaxed);
    }
    true
}
