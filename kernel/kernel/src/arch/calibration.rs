//! Measuring the time-stamp counter and the APIC timer against a clock of known frequency.

use super::port::{Width, input, read_byte, write_byte};
use super::{apic, cpu};
use crate::arch::time;

/// Frequency of the ACPI power management timer and of the 8254.
const POWER_TIMER_HERTZ: u64 = 3_579_545;
const PIT_HERTZ: u64 = 1_193_182;
/// The measurement takes a two-hundredth of a second.
const WINDOW_PARTS: u64 = 200;

/// Frequencies in ticks per second.
#[derive(Clone, Copy, Debug)]
pub struct Frequencies {
    pub tsc: u64,
    pub apic_counter: u64,
    /// What was measured against.
    pub reference: &'static str,
}

/// A clock of known frequency.
#[derive(Clone, Copy)]
enum Reference {
    /// ACPI's timer at a port, with this many counting bits.
    PowerTimer { port: u16, mask: u64 },
    /// Channel 2 of the 8254.
    Pit,
}

impl Reference {
    fn hertz(self) -> u64 {
        match self {
            Reference::PowerTimer { .. } => POWER_TIMER_HERTZ,
            Reference::Pit => PIT_HERTZ,
        }
    }

    /// Ticks between two readings, in the order in which they were taken.
    fn between(self, first: u64, second: u64) -> u64 {
        match self {
            Reference::PowerTimer { mask, .. } => second.wrapping_sub(first) & mask,
            // It counts down.
            Reference::Pit => first.wrapping_sub(second) & 0xffff,
        }
    }

    fn start(self) {
        if let Reference::Pit = self {
            // Gate on, speaker off; channel 2, both bytes, count down from the largest value.
            write_byte(0x61, read_byte(0x61) & !2 | 1);
            write_byte(0x43, 0xb4);
            write_byte(0x42, 0xff);
            write_byte(0x42, 0xff);
        }
    }

    fn read(self) -> u64 {
        match self {
            Reference::PowerTimer { port, mask } => u64::from(input(port, Width::Four)) & mask,
            Reference::Pit => {
                write_byte(0x43, 0x80);
                let low = read_byte(0x42);
                u64::from(low) | u64::from(read_byte(0x42)) << 8
            }
        }
    }
}

/// The counters at one moment.
#[derive(Clone, Copy)]
struct Sample {
    tsc: u64,
    counted: u32,
    reference: u64,
}

/// Measures. `timer_port` is ACPI's timer, 0 where there is none; `wide` says that it has 32 bits.
/// `None` where no reference counts.
pub fn measure(timer_port: u16, wide: bool) -> Option<Frequencies> {
    let pit = (Reference::Pit, "the 8254");
    let mask = if wide { 0xffff_ffff } else { 0xff_ffff };
    let power = (Reference::PowerTimer { port: timer_port, mask }, "the ACPI timer");
    let candidates = if timer_port == 0 { [pit, pit] } else { [power, pit] };
    candidates.into_iter().find_map(|(reference, name)| {
        let (tsc, apic_counter) = measure_against(reference)?;
        Some(Frequencies { tsc: announced(tsc).unwrap_or(tsc), apic_counter, reference: name })
    })
}

fn measure_against(reference: Reference) -> Option<(u64, u64)> {
    reference.start();
    apic::start_counter();
    let first = sample(reference);
    let window = reference.hertz() / WINDOW_PARTS;
    // A reference that stands still would be waited for in vain.
    let mut patience = 50_000_000u32;
    while reference.between(first.reference, reference.read()) < window {
        patience = patience.checked_sub(1)?;
    }
    let second = sample(reference);
    let passed = reference.between(first.reference, second.reference);
    let frequency = |ticks: u64| capos_machine::clock::frequency(ticks, passed, reference.hertz());
    Some((
        frequency(second.tsc.wrapping_sub(first.tsc))?,
        frequency(u64::from(second.counted.wrapping_sub(first.counted)))?,
    ))
}

/// Reads all counters, as close together as some tries achieve: something else may have run
/// between two readings.
fn sample(reference: Reference) -> Sample {
    let mut best: Option<(u64, Sample)> = None;
    for _ in 0..8 {
        let before = time::tsc();
        let counted = apic::counted();
        let value = reference.read();
        let after = time::tsc();
        let took = after.wrapping_sub(before);
        if best.is_none_or(|(least, _)| took < least) {
            best = Some((took, Sample { tsc: before.wrapping_add(took / 2), counted, reference: value }));
        }
    }
    best.map_or(Sample { tsc: 0, counted: 0, reference: 0 }, |(_, sample)| sample)
}

/// The counter's frequency as the processor announces it, where it does and the measurement agrees
/// to one part in a hundred.
fn announced(measured: u64) -> Option<u64> {
    let leaf = cpu::cpuid(0x15, 0);
    let (denominator, numerator, crystal) = (u64::from(leaf.eax), u64::from(leaf.ebx), u64::from(leaf.ecx));
    let hertz = crystal.checked_mul(numerator)?.checked_div(denominator)?;
    (hertz != 0 && hertz.abs_diff(measured) < measured / 100).then_some(hertz)
}
