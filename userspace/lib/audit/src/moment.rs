//! The text of records' times, and parsing a person's text for a time. All are UTC.

use alloc::format;
use alloc::string::{String, ToString};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

fn moment(nanoseconds: u64) -> DateTime {
    let stamp = Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or_default();
    TimeZone::UTC.to_datetime(stamp)
}

/// The date of a time in nanoseconds since 1970, as `2026-11-21`.
#[must_use]
pub fn date(nanoseconds: u64) -> String {
    moment(nanoseconds).date().to_string()
}

/// Its time of day to the second, as `09:05:00`.
#[must_use]
pub fn clock(nanoseconds: u64) -> String {
    let time = moment(nanoseconds).time();
    format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
}

/// A time in nanoseconds since 1970 as a person reads it whose clock is this many minutes ahead of UTC: `2026-11-21 09:05:00 UTC`,
/// or `2026-11-21 10:05:00 +01:00`.
#[must_use]
pub fn local(nanoseconds: u64, minutes: i16) -> String {
    let shifted = shifted(nanoseconds, minutes);
    let zone = if minutes == 0 { "UTC".to_string() } else { offset_text(minutes) };
    format!("{} {} {zone}", date(shifted), clock(shifted))
}

/// A time whose date and time of day are those at an offset.
#[must_use]
pub fn shifted(nanoseconds: u64, minutes: i16) -> u64 {
    nanoseconds.saturating_add_signed(i64::from(minutes).saturating_mul(60_000_000_000))
}

/// An offset from UTC as text: `+01:00`.
#[must_use]
pub fn offset_text(minutes: i16) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    let (hours, minutes) = (minutes.unsigned_abs() / 60, minutes.unsigned_abs() % 60);
    format!("{sign}{hours:02}:{minutes:02}")
}

/// An offset from UTC in minutes, of a text such as `+01:00`, `-03:30` or `UTC`.
///
/// # Errors
/// The permitted forms, if the text is none of these.
pub fn offset(text: &str) -> Result<i16, String> {
    let wrong = || format!("{text:?} is no offset from UTC; write +HH:MM or -HH:MM, from -12:00 to +14:00, or UTC");
    if matches!(text, "UTC" | "Z") {
        return Ok(0);
    }
    let (sign, digits) = match text.split_at_checked(1) {
        Some(("+", digits)) => (1_i16, digits),
        Some(("-", digits)) => (-1, digits),
        _ => return Err(wrong()),
    };
    let (hours, minutes) = digits.split_once(':').ok_or_else(wrong)?;
    let number = |digits: &str| {
        let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_two { digits.parse::<i16>().map_err(|_| wrong()) } else { Err(wrong()) }
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let offset = hours.saturating_mul(60).saturating_add(minutes).saturating_mul(sign);
    if minutes < 60 && (-720..=840).contains(&offset) { Ok(offset) } else { Err(wrong()) }
}

/// The moment that a person sets a clock to, in milliseconds since 1970. The text is a date and a time of day at this offset, as
/// `2026-11-21 09:05` with or without seconds. With `Z` at its end it is in UTC.
///
/// # Errors
/// The permitted forms, if the text is none of these.
pub fn at(text: &str, minutes: i16) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no date and time; write 2026-11-21 09:05, or with seconds 2026-11-21 09:05:30");
    let (plain, minutes) = match text.trim().strip_suffix(['Z', 'z']) {
        Some(plain) => (plain.trim_end(), 0),
        None => (text.trim(), minutes),
    };
    let is_whole = plain.contains(':') && plain.bytes().all(|byte| byte.is_ascii_digit() || b" T:-".contains(&byte));
    let point: DateTime = plain.parse().ok().filter(|_| is_whole).ok_or_else(wrong)?;
    let stamp = TimeZone::UTC.to_timestamp(point).map_err(|_| wrong())?;
    let milliseconds = stamp.as_millisecond().saturating_sub(i64::from(minutes).saturating_mul(60_000));
    u64::try_from(milliseconds).map_err(|_| wrong())
}

/// The time that a person means, in nanoseconds since 1970. It is a date; a date and a time of day as
/// `2026-11-21T09:05`, which are at an offset of this many minutes from UTC unless one follows; or a time before `now`, as `90m`, `2h`, `7d` or `1
/// week`.
///
/// # Errors
/// The permitted forms, if the text is none of these.
pub fn since(text: &str, now: u64, minutes: i16) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a time; write a date (2026-11-21, 2026-11-21T09:05) or an age (2h, 7d)");
    if text.trim_start().starts_with('-') {
        return Err(wrong());
    }
    // With an offset or `Z` first: a date and time without one would pass over it.
    let stamp = if let Ok(stamp) = text.parse::<Timestamp>() {
        stamp
    } else {
        let (point, minutes) = match text.parse::<DateTime>() {
            Ok(point) => (point, minutes),
            Err(_) => {
                let span: Span = text.parse().map_err(|_| wrong())?;
                (moment(now).checked_sub(span.abs()).map_err(|_| wrong())?, 0)
            }
        };
        // A time later than every stamp is later than every record.
        let stamp = TimeZone::UTC.to_timestamp(point).unwrap_or(Timestamp::MAX);
        stamp.checked_sub(Span::new().minutes(minutes)).unwrap_or(stamp)
    };
    // Before 1970 there is nothing, so everything is later than that.
    Ok(u64::try_from(stamp.as_nanosecond().max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T09:05:07.5Z.
    const NOW: u64 = 1_795_251_907_500_000_000;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn times_are_written() {
        assert_eq!((date(NOW), clock(NOW)), ("2026-11-21".into(), "09:05:07".into()));
        assert_eq!((date(0), clock(0)), ("1970-01-01".into(), "00:00:00".into()));
        assert_eq!(date(u64::MAX).len(), 10);
    }

    #[test]
    fn a_time_at_an_offset_is_written_and_read() {
        for (minutes, text) in [
            (0, "2026-11-21 09:05:07 UTC"),
            (60, "2026-11-21 10:05:07 +01:00"),
            (-210, "2026-11-21 05:35:07 -03:30"),
            (840, "2026-11-21 23:05:07 +14:00"),
            (-720, "2026-11-20 21:05:07 -12:00"),
        ] {
            assert_eq!(local(NOW, minutes), text);
            let (plain, zone) = text.rsplit_once(' ').unwrap();
            assert_eq!(at(plain, minutes), Ok(NOW / SECOND * 1000), "{text}");
            assert_eq!(offset(zone), Ok(minutes));
        }
        assert_eq!((offset_text(0), offset_text(-1)), ("+00:00".into(), "-00:01".into()));
        assert_eq!(at(" 2026-11-21 09:05:07Z ", 60), at("2026-11-21T09:05:07", 0));
        assert_eq!(at("2026-11-21 10:05", 60), at("2026-11-21 09:05:00", 0));
        for wrong in
            ["", "2026-11-21", "09:05", "2026-11-31 09:05", "1969-01-01 00:00", "tomorrow", "2026-11-21 09:05+01:00"]
        {
            assert!(at(wrong, 0).unwrap_err().contains("write 2026-11-21 09:05"), "{wrong}");
        }
        for wrong in ["", "1", "+1:00", "+01", "01:00", "+14:01", "-12:01", "+01:60", "+0a:00", "\u{e9}01:00"] {
            assert!(offset(wrong).unwrap_err().contains("write +HH:MM"), "{wrong}");
        }
    }

    /// Requirement E05.
    #[test]
    fn times_are_read() {
        let midnight = NOW - (9 * 3600 + 5 * 60 + 7) * SECOND - SECOND / 2;
        for (text, meant) in [
            ("2026-11-21", midnight),
            ("2026-11-21T09:05", midnight + (9 * 3600 + 5 * 60) * SECOND),
            ("2026-11-21T09:05Z", midnight + (9 * 3600 + 5 * 60) * SECOND),
            ("2026-11-21T09:05-08:00", midnight + (17 * 3600 + 5 * 60) * SECOND),
            ("2h", NOW - 2 * 3600 * SECOND),
            ("90m", NOW - 90 * 60 * SECOND),
            ("7d", NOW - 7 * 86_400 * SECOND),
            ("1 week", NOW - 7 * 86_400 * SECOND),
            ("1h ago", NOW - 3600 * SECOND),
            ("9999-12-31", u64::MAX),
            ("1900-01-01", 0),
            ("1000 years", 0),
        ] {
            assert_eq!(since(text, NOW, 0), Ok(meant), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "-",
            "-1h",
            "-009999-01-01",
            "2026-13-40",
            "9999999999999999999d",
            "20000 years",
            "\u{1b}[2J",
        ] {
            let why = since(text, NOW, 0).unwrap_err();
            assert!(why.contains("is not a time; write a date"), "{why}");
            assert!(!why.contains('\u{1b}'), "{why}");
        }
    }
}
