//! The date in the battery-backed clock (MC146818 registers).

/// The clock's registers, raw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    pub second: u8,
    pub minute: u8,
    pub hour: u8,
    pub day: u8,
    pub month: u8,
    pub year: u8,
    /// Century register, 0 if the machine has none.
    pub century: u8,
    /// Status register B: bit 2 binary, bit 1 24 hours.
    pub status_b: u8,
}

/// Seconds since 1970-01-01T00:00:00Z, or `None` if the registers hold no date.
#[must_use]
pub fn unix_seconds(registers: Registers) -> Option<u64> {
    let binary = registers.status_b & 4 != 0;
    let number = |raw: u8| if binary { Some(raw) } else { from_bcd(raw) };
    let second = number(registers.second)?;
    let minute = number(registers.minute)?;
    let hour = if registers.status_b & 2 != 0 {
        number(registers.hour)?
    } else {
        let twelve = number(registers.hour & 0x7f)?;
        let afternoon = if registers.hour & 0x80 != 0 { 12 } else { 0 };
        (twelve % 12).checked_add(afternoon)?
    };
    let (day, month) = (number(registers.day)?, number(registers.month)?);
    let century = match number(registers.century) {
        Some(century @ 19..=30) => u64::from(century),
        _ => 20,
    };
    let year = century.checked_mul(100)?.checked_add(u64::from(number(registers.year)?))?;
    if second > 59 || minute > 59 || hour > 23 || !(1..=12).contains(&month) || year < 1970 {
        return None;
    }
    if day == 0 || u64::from(day) > days_in_month(year, month) {
        return None;
    }
    let mut days = 0u64;
    for earlier in 1970..year {
        days = days.checked_add(if is_leap(earlier) { 366 } else { 365 })?;
    }
    for earlier in 1..month {
        days = days.checked_add(days_in_month(year, earlier))?;
    }
    days = days.checked_add(u64::from(day).checked_sub(1)?)?;
    let time = u64::from(hour)
        .checked_mul(3600)?
        .checked_add(u64::from(minute).checked_mul(60)?)?
        .checked_add(u64::from(second))?;
    days.checked_mul(86_400)?.checked_add(time)
}

fn from_bcd(raw: u8) -> Option<u8> {
    let (high, low) = (raw >> 4, raw & 15);
    if high > 9 || low > 9 { None } else { high.checked_mul(10)?.checked_add(low) }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u64, month: u8) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCD: Registers = Registers {
        second: 0x56,
        minute: 0x34,
        hour: 0x12,
        day: 0x29,
        month: 0x02,
        year: 0x24,
        century: 0x20,
        status_b: 2,
    };

    #[test]
    fn reads_bcd_and_binary() {
        assert_eq!(unix_seconds(BCD), Some(1_709_210_096));
        let binary =
            Registers { second: 56, minute: 34, hour: 12, day: 29, month: 2, year: 24, century: 20, status_b: 6 };
        assert_eq!(unix_seconds(binary), Some(1_709_210_096));
        assert_eq!(unix_seconds(Registers { century: 0, ..BCD }), Some(1_709_210_096));
    }

    #[test]
    fn twelve_hour_clocks() {
        let noon = Registers { hour: 0x92, status_b: 0, ..BCD };
        assert_eq!(unix_seconds(noon), Some(1_709_210_096));
        let midnight = Registers { hour: 0x12, status_b: 0, ..BCD };
        assert_eq!(unix_seconds(midnight), Some(1_709_210_096 - 12 * 3600));
    }

    #[test]
    fn refuses_what_is_no_date() {
        assert_eq!(unix_seconds(Registers { month: 0x13, ..BCD }), None);
        assert_eq!(unix_seconds(Registers { day: 0x30, ..BCD }), None);
        assert_eq!(unix_seconds(Registers { second: 0xff, ..BCD }), None);
        assert_eq!(unix_seconds(Registers { year: 0x23, ..BCD }), None, "2023 had no 29 February");
    }
}
