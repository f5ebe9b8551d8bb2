//! Turning counter ticks into nanoseconds and back without division.

/// Nanoseconds per second.
const SECOND: u128 = 1_000_000_000;

/// The two factors between a counter of fixed frequency and nanoseconds, as 32.32 fixed point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    to_nanoseconds: u64,
    to_ticks: u64,
}

impl Scale {
    /// For a counter of `hertz` ticks per second. None below 1 kHz and above 1 THz, if the fixed
    /// point would lose its meaning.
    #[must_use]
    pub fn new(hertz: u64) -> Option<Self> {
        if !(1_000..=1_000_000_000_000).contains(&hertz) {
            return None;
        }
        let hertz = u128::from(hertz);
        let to_nanoseconds = SECOND.checked_shl(32)?.checked_div(hertz)?;
        let to_ticks = hertz.checked_shl(32)?.checked_div(SECOND)?;
        Some(Self { to_nanoseconds: to_nanoseconds.try_into().ok()?, to_ticks: to_ticks.try_into().ok()? })
    }

    /// Nanoseconds that `ticks` last, saturating.
    #[must_use]
    pub fn nanoseconds(self, ticks: u64) -> u64 {
        scale(ticks, self.to_nanoseconds)
    }

    /// Ticks that `nanoseconds` last, saturating.
    #[must_use]
    pub fn ticks(self, nanoseconds: u64) -> u64 {
        scale(nanoseconds, self.to_ticks)
    }
}

fn scale(value: u64, factor: u64) -> u64 {
    let product = u128::from(value).saturating_mul(u128::from(factor)) >> 32;
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// Ticks per second of a counter that advanced by `ticks` while a reference of `reference_hertz`
/// advanced by `reference_ticks`.
#[must_use]
pub fn frequency(ticks: u64, reference_ticks: u64, reference_hertz: u64) -> Option<u64> {
    let product = u128::from(ticks).checked_mul(u128::from(reference_hertz))?;
    u64::try_from(product.checked_div(u128::from(reference_ticks))?).ok().filter(|hertz| *hertz != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_a_second() {
        for hertz in [1_000_000, 24_000_000, 1_000_000_000, 2_592_001_337, 5_000_000_000] {
            let scale = Scale::new(hertz).unwrap();
            assert!(scale.nanoseconds(hertz).abs_diff(1_000_000_000) <= 2, "{hertz}");
            assert!(scale.ticks(1_000_000_000).abs_diff(hertz) <= 2, "{hertz}");
        }
    }

    #[test]
    fn years_do_not_overflow() {
        let scale = Scale::new(3_000_000_000).unwrap();
        let year = 365 * 24 * 3600 * 3_000_000_000;
        assert_eq!(scale.nanoseconds(year) / 1_000_000_000 / 3600 / 24, 364);
        assert_eq!(Scale::new(1_000).unwrap().nanoseconds(u64::MAX), u64::MAX);
    }

    #[test]
    fn absurd_counters_are_refused() {
        assert_eq!(Scale::new(0), None);
        assert_eq!(Scale::new(u64::MAX), None);
        assert_eq!(frequency(10, 0, 1000), None);
        assert_eq!(frequency(0, 5, 1000), None);
        assert_eq!(frequency(10_000_000, 35_795, 3_579_545), Some(1_000_012_571));
    }
}
