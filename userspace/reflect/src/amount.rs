//! Amounts in units of a fitting size.

use alloc::format;
use alloc::string::String;

use capos_plural::count;

/// Bytes, in KiB, MiB, GiB or TiB from 1 KiB on, with one decimal below 100 of them.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units = [("TiB", 40_u32), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{} {unit}", decimal(bytes, 1_u64.checked_shl(*shift).unwrap_or(1))),
        None => format!("{}", count(bytes, "byte")),
    }
}

/// A time span in nanoseconds: one unit below a minute, two above.
#[must_use]
pub fn duration(nanoseconds: u64) -> String {
    let small = [("s", 1_000_000_000_u64), ("ms", 1_000_000), ("µs", 1_000)];
    let seconds = nanoseconds / 1_000_000_000;
    if seconds < 60 {
        return match small.iter().find(|(_, of)| nanoseconds >= *of) {
            Some((unit, of)) => format!("{} {unit}", decimal(nanoseconds, *of)),
            None => format!("{nanoseconds} ns"),
        };
    }
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours) {
        (0, 0) => format!("{minutes} min {} s", seconds % 60),
        (0, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// How often the unit fits, with one decimal if that is less than 100 and not whole. It never rounds up.
fn decimal(amount: u64, unit: u64) -> String {
    let whole = amount.checked_div(unit).unwrap_or(0);
    let rest = amount.checked_rem(unit).unwrap_or(0);
    let tenth = rest.saturating_mul(10).checked_div(unit).unwrap_or(0);
    if whole >= 100 || tenth == 0 { format!("{whole}") } else { format!("{whole}.{tenth}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_have_a_unit_of_a_fitting_size() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (2886, "2.8 KiB"),
            (304 * 4096, "1.1 MiB"),
            (512 << 20, "512 MiB"),
            (3 << 39, "1.5 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        let second = 1_000_000_000;
        for (span, text) in [
            (999, "999 ns"),
            (1_500, "1.5 µs"),
            (12_000_000, "12 ms"),
            (12_340_000_000, "12.3 s"),
            (185 * second, "3 min 5 s"),
            (7_500 * second, "2 h 5 min"),
            (100 * 3600 * second, "4 d 4 h"),
        ] {
            assert_eq!(duration(span), text);
        }
    }

    proptest! {
        /// Every amount has a text, which is short.
        #[test]
        fn no_amount_is_long(amount: u64) {
            prop_assert!(size(amount).len() <= 16);
            prop_assert!(duration(amount).len() <= 16);
        }
    }
}
