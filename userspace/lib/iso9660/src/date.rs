//! The two forms of dates on a volume, as seconds since 1970. An impossible date counts as unknown
//! (0) and is no error.

/// The 7-byte form of directory records and short time stamps.
pub(crate) fn short(date: [u8; 7]) -> i64 {
    let [year, month, day, hour, minute, second, zone] = date;
    seconds(i64::from(year).saturating_add(1900), [month, day, hour, minute, second], zone)
}

/// The 17-byte form: 16 digits and the zone.
pub(crate) fn long(date: [u8; 17]) -> i64 {
    let number = |from: usize, to: usize| {
        date.get(from..to).unwrap_or(&[]).iter().try_fold(0i64, |value, digit| {
            let digit = (*digit as char).to_digit(10)?;
            value.checked_mul(10)?.checked_add(i64::from(digit))
        })
    };
    let [year, month, day, hour, minute, second] =
        [number(0, 4), number(4, 6), number(6, 8), number(8, 10), number(10, 12), number(12, 14)];
    let part = |value: Option<i64>| value.and_then(|v| u8::try_from(v).ok()).unwrap_or(u8::MAX);
    let [.., zone] = date;
    seconds(year.unwrap_or(0), [part(month), part(day), part(hour), part(minute), part(second)], zone)
}

/// `zone` counts quarters of an hour east of Greenwich, as a signed byte.
#[allow(clippy::arithmetic_side_effects)] // Each operand was checked to be small.
fn seconds(year: i64, [month, day, hour, minute, second]: [u8; 5], zone: u8) -> i64 {
    let sensible = (1900..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    let zone = i64::from(zone.cast_signed());
    if !sensible || !(-48..=52).contains(&zone) {
        return 0;
    }
    // Days since 1970-01-01 with years that begin in March, so that leap days come last.
    let (month, day) = (i64::from(month), i64::from(day));
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    let clock = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    days * 86_400 + clock - zone * 900
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        assert_eq!(short([70, 1, 1, 0, 0, 0, 0]), 0);
        // 2024-02-29 12:34:56 UTC, and the same moment told an hour east.
        assert_eq!(short([124, 2, 29, 12, 34, 56, 0]), 1_709_210_096);
        assert_eq!(short([124, 2, 29, 13, 34, 56, 4]), 1_709_210_096);
        assert_eq!(long(*b"2024022912345600\0"), 1_709_210_096);
        assert_eq!(long(*b"2000030100000000\0"), 951_868_800);
        assert_eq!(short([0, 1, 1, 0, 0, 0, 0]), -2_208_988_800);
    }

    #[test]
    fn senseless_dates_are_unknown() {
        assert_eq!(short([124, 13, 1, 0, 0, 0, 0]), 0);
        assert_eq!(short([0; 7]), 0);
        assert_eq!(short([255; 7]), 0);
        assert_eq!(long([255; 17]), 0);
        assert_eq!(long([b'0'; 17]), 0);
    }
}
