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

/// The registers that hold this moment, in the form that status register B says; none of a year that the clock does not hold.
#[must_use]
pub fn registers_of(seconds: u64, status_b: u8) -> Option<Registers> {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970u64;
    while let Some(rest) = days.checked_sub(if is_leap(year) { 366 } else { 365 }) {
        (days, year) = (rest, year.checked_add(1).filter(|year| *year < 2100)?);
    }
    let mut month = 1u8;
    while let Some(rest) = days.checked_sub(days_in_month(year, month)) {
        (days, month) = (rest, month.checked_add(1)?);
    }
    let since_2000 = u8::try_from(year.checked_sub(2000)?).ok()?;
    let binary = status_b & 4 != 0;
    let raw = |number: u64| {
        let number = u8::try_from(number).ok()?;
        Some(if binary { number } else { ((number / 10) << 4) | (number % 10) })
    };
    let hour = time / 3600;
    let hour = if status_b & 2 != 0 {
        raw(hour)?
    } else {
        let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
        raw(twelve)? | if hour >= 12 { 0x80 } else { 0 }
    };
    Some(Registers {
        second: raw(time % 60)?,
        minute: raw(time / 60 % 60)?,
        hour,
        day: raw(days.checked_add(1)?)?,
        month: raw(month.into())?,
        year: raw(since_2000.into())?,
        century: raw(20)?,
        status_b,
    })
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
    fn what_is_written_is_read() {
        let start =
            unix_seconds(Registers { second: 0, minute: 0, hour: 0, day: 1, month: 1, year: 0, ..BCD }).unwrap();
        for status_b in [0, 2, 4, 6] {
            for day in 0..36_525 {
                let seconds = start + day * 86_400 + day * 7919 % 86_400;
                let registers = registers_of(seconds, status_b).unwrap();
                assert_eq!(unix_seconds(registers), Some(seconds), "{registers:?}");
            }
            for hour in 0..24 {
                assert_eq!(
                    unix_seconds(registers_of(start + hour * 3600, status_b).unwrap()),
                    Some(start + hour * 3600)
                );
            }
            assert_eq!(registers_of(start - 1, status_b), None);
            assert_eq!(registers_of(start + 36_525 * 86_400, status_b), None);
            assert_eq!(registers_of(u64::MAX, status_b), None);
        }
        assert_eq!(registers_of(1_709_210_096, 2), Some(BCD));
    }

    #[test]
    fn refuses_what_is_no_date() {
        assert_eq!(unix_seconds(Registers { month: 0x13, ..BCD }), None);
        assert_eq!(unix_seconds(Registers { day: 0x30, ..BCD }), None);
        assert_eq!(unix_seconds(Registers { second: 0xff, ..BCD }), None);
        assert_eq!(unix_seconds(Registers { year: 0x23, ..BCD }), None, "2023 had no 29 February");
    }
}
