//! Calendar arithmetic for the battery-backed clock.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

/// The registers of the clock as read, with its status register B.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Seconds, minutes, hours, day of month, month, year within the century, in the clock's own encoding.
    pub fields: [u8; 6],
    /// Status register B: bit 1 is 24-hour mode, bit 2 binary instead of BCD.
    pub status_b: u8,
}

impl Reading {
    /// Seconds since 1970-01-01T00:00:00Z, taking the clock as UTC and the century as the 21st.
    /// `None` when a field is out of range (no clock, or a dead battery).
    pub fn unix_seconds(&self) -> Option<i64> {
        let [second, minute, raw_hour, day, month, year] = self.fields;
        let decode = |raw: u8| -> Option<i64> {
            if self.status_b & 4 != 0 {
                return Some(i64::from(raw));
            }
            let (tens, ones) = (raw >> 4, raw & 15);
            (tens < 10 && ones < 10).then(|| i64::from(tens).saturating_mul(10).saturating_add(i64::from(ones)))
        };
        let mut hour = decode(raw_hour & 0x7f)?;
        if self.status_b & 2 == 0 {
            // Twelve-hour mode: 12 stands for 0, the top bit for the afternoon.
            hour = hour.checked_rem(12)?.saturating_add(if raw_hour & 0x80 != 0 { 12 } else { 0 });
        }
        let (second, minute) = (decode(second)?, decode(minute)?);
        let (day, month, year) = (decode(day)?, decode(month)?, decode(year)?);
        let valid = second < 60 && minute < 60 && hour < 24;
        if !(valid && (1..=31).contains(&day) && (1..=12).contains(&month) && year < 100) {
            return None;
        }
        let days = days_since_epoch(year.saturating_add(2000), month, day)?;
        let minutes = days.checked_mul(24)?.checked_add(hour)?.checked_mul(60)?.checked_add(minute)?;
        minutes.checked_mul(60)?.checked_add(second)
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, by counting years from March so that leap days come
/// last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    let from_march = month.checked_add(9)?.checked_rem(12)?;
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let month_days = from_march.checked_mul(153)?.checked_add(2)?.checked_div(5)?;
    let leap_days = year.checked_div(4)?.checked_sub(year.checked_div(100)?)?.checked_add(year.checked_div(400)?)?;
    let total = year.checked_mul(365)?.checked_add(leap_days)?.checked_add(month_days)?.checked_add(day)?;
    // 719469 is what this count gives for 1970-01-01.
    total.checked_sub(719_469)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(fields: [u8; 6]) -> Option<i64> {
        Reading { fields, status_b: 6 }.unix_seconds()
    }

    #[test]
    fn known_dates() {
        assert_eq!(days_since_epoch(1970, 1, 1), Some(0));
        assert_eq!(binary([0, 0, 0, 1, 1, 0]), Some(946_684_800));
        assert_eq!(binary([59, 59, 23, 29, 2, 24]), Some(1_709_251_199));
        assert_eq!(binary([0, 0, 0, 1, 3, 24]), Some(1_709_251_200));
    }

    #[test]
    fn bcd_and_twelve_hours() {
        let noon = Reading { fields: [0, 0, 0x12 | 0x80, 0x15, 0x11, 0x26], status_b: 0 };
        let midnight = Reading { fields: [0, 0, 0x12, 0x15, 0x11, 0x26], status_b: 0 };
        assert_eq!(noon.unix_seconds().unwrap() - midnight.unix_seconds().unwrap(), 12 * 3600);
    }

    #[test]
    fn a_dead_clock_is_no_date() {
        assert_eq!(binary([0xff; 6]), None);
        assert_eq!(Reading { fields: [0; 6], status_b: 2 }.unix_seconds(), None);
    }
}
